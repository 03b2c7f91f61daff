"""Commands in comments and checks that are asked for again, without a workflow of the forge."""

import hashlib
import hmac
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("github")

from orchestrator.service.settings import ForgeSettings, Secret
from orchestrator.service.webhooks import Delivery, WrittenComment, read_delivery
from tests.posting.forge_server import serving
from tests.posting.github_server import GitHubServer
from tests.service.service_kit import Service
from tests.stores.postgres_server import Server


@pytest.fixture
def service(postgres: Server, tmp_path: Path) -> Iterator[Service]:
    with serving(GitHubServer()) as forge:
        made = Service(postgres.fresh(f"service_{os.urandom(4).hex()}"), tmp_path, forge)
        _write_without_pauses(made)
        yield made


def _write_without_pauses(service: Service) -> None:
    """Have the worker's children not wait between writes, as GitHub wants it: this one does not."""
    folder = service.folder / "python"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys, time\nsleep = time.sleep\ntime.sleep = lambda seconds: sleep(seconds / 50)\n"
    )
    (service.folder / "path").write_text(str(folder))
    with_path = f"{{provider: offline, env: {{PYTHONPATH: {{file: {service.folder / 'path'}}}}}}}"
    service.config.write_text(service.config.read_text().replace("{provider: offline}", with_path))


def test_who_may_write_dismisses_explains_pauses_and_reviews_again(service: Service) -> None:
    service.push()
    forge = service.forge
    assert isinstance(forge, GitHubServer)

    def answered(text: str) -> bool:
        return any(text in comment["body"] for comment in forge.comments)

    with service.worker():
        service.wait(service.is_posted)
        assert [check["conclusion"] for check in forge.checks] == ["failure"]
        (finding,) = service.rows(
            "SELECT convert_from(body, 'UTF8')::jsonb->'findings'->0->>'fingerprint' AS id"
            " FROM diffcourt_journal WHERE kind = 'note' AND key = 'verdict'"
        )
        service.comment(f"/diffcourt explain {finding['id']}", "alice")
        service.wait(lambda: answered("shell=True"))
        service.comment(f"/diffcourt dismiss {finding['id']} a fixed string", "alice")
        service.wait(lambda: forge.checks[-1]["conclusion"] == "neutral")
        # Somebody without permission is not heard, and gets no answer.
        before = len(forge.comments)
        service.comment("/diffcourt pause", "mallory")
        service.comment("/diffcourt pause", "bob")
        service.wait(lambda: answered("No further push is reviewed"))
        assert len(forge.comments) == before + 3
        service.wait(lambda: service.rows("SELECT 1 FROM service_changes WHERE is_paused"))
        service.push()
        assert len(service.jobs()) == 1
        service.comment("/diffcourt full", "bob")
        service.wait(lambda: len(service.jobs()) == 2)
        service.wait(lambda: service.jobs()[1]["status"] == "succeeded")
    assert len(service.rows("SELECT run FROM diffcourt_runs")) == 2
    assert service.rows("SELECT is_paused, is_full FROM service_changes") == [
        {"is_paused": False, "is_full": True}
    ]
    service.rows(
        "DELETE FROM service_changes RETURNING 1"
    )  # as one opened before the first webhook
    service.comment("/diffcourt review", "bob")
    with service.worker("b"):
        service.wait(lambda: "forge:acme/shop#12: no push of it is known" in service.log())


@pytest.mark.parametrize(
    ("event", "payload", "wanted"),
    [
        ("issue_comment", {"action": "created"}, {"comment": WrittenComment(
            "hub:acme/shop#12", 5, "/diffcourt review")}),
        ("issue_comment", {"action": "edited"}, {}),
        ("check_run", {"action": "rerequested"}, {"rerun": ("acme/shop", "a" * 40)}),
        ("check_run", {"action": "completed"}, {}),
        ("ping", {}, {}),
    ],
)  # fmt: skip
def test_comments_and_checks_are_read_from_githubs_events(
    event: str, payload: dict[str, Any], wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", "secret")
    forge = ForgeSettings("github", "https://api.github.com", Secret(env="HOOK"))
    document = {
        "comment": {"id": 5, "body": "/diffcourt review"},
        "issue": {"number": 12, "pull_request": {}},
        "check_run": {"name": "Diffcourt", "head_sha": "a" * 40},
        "repository": {"full_name": "acme/shop"},
        **payload,
    }
    body = json.dumps(document).encode()
    headers = {
        "x-github-event": event,
        "x-github-delivery": "1",
        "x-hub-signature-256": f"sha256={hmac.new(b'secret', body, hashlib.sha256).hexdigest()}",
    }
    assert read_delivery("hub", forge, headers, body) == Delivery("1", **wanted)
