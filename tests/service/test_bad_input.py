"""What a forge, a database and an operator get wrong: one line each, and nothing is lost."""

import asyncio
import hashlib
import hmac
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any, Literal

import httpx2
import msgspec
import psycopg
import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("github")
pytest.importorskip("gitlab")

from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.cli.main import main
from orchestrator.errors import DiffcourtError, InputError, ReplayMismatch, RunDamaged
from orchestrator.posting.forge import Forge
from orchestrator.posting.forgejo import Forgejo
from orchestrator.posting.github import GitHub
from orchestrator.posting.gitlab import GitLab
from orchestrator.service import child_process, review_process
from orchestrator.service.changes import Push
from orchestrator.service.child_process import ReviewRequest
from orchestrator.service.database import prepare_database
from orchestrator.service.missed_pushes import KnownRepository, _read_page
from orchestrator.service.repository_cache import FetchFailed, RepositoryCache
from orchestrator.service.settings import ForgeSettings, Secret
from orchestrator.service.webhooks import checked_push, read_delivery
from tests.plain_http import PLAIN
from tests.posting.forge_server import TOKEN, serving
from tests.posting.forgejo_server import ForgejoServer
from tests.service.service_kit import SECRET, Service, children
from tests.service.test_installations import CHANGE
from tests.service.test_webhooks import send, served
from tests.stores.postgres_server import Server


@pytest.fixture
def service(postgres: Server, tmp_path: Path) -> Iterator[Service]:
    with serving(ForgejoServer()) as forge:
        yield Service(postgres.fresh(f"service_{os.urandom(4).hex()}"), tmp_path, forge)


@contextmanager
def gone(service: Service) -> Iterator[None]:
    """The forge does not have the repository meanwhile."""
    elsewhere = service.repo.path.with_name("elsewhere")
    service.repo.path.rename(elsewhere)
    yield
    elsewhere.rename(service.repo.path)


def change_row(service: Service) -> dict[str, Any]:
    (row,) = service.rows("SELECT * FROM service_changes")
    return row


def test_a_forge_that_is_away_is_asked_again_and_the_review_is_posted_once(
    service: Service,
) -> None:
    service.forge.refuse = {
        ("POST", "statuses"): [(500, {}, "oops")],
        ("GET", "pulls/12"): [(403, {"Retry-After": "1"}, "secondary rate limit")],
    }
    with service.worker():
        with gone(service):
            service.push()
            service.wait(lambda: change_row(service)["failures"] > 0)
        service.wait(service.is_posted)
    assert service.statuses() == ["failure"]
    assert len(service.forge.comments) == 1
    assert change_row(service)["crashes"] == 0
    lines = [line for line in service.log().splitlines() if "trying again in" in line]
    assert [any(part in line for line in lines) for part in ("git fetch failed", "500 oops")] == [
        True,
        True,
    ]
    assert "Traceback" not in service.log()


def test_a_repository_that_was_deleted_is_parked_and_a_newer_push_does_not_wait_for_its_retry(
    service: Service,
) -> None:
    with service.worker():
        with gone(service):
            change = service.push()
            service.rows("UPDATE service_changes SET failures = 6 RETURNING 1")
            service.wait(lambda: change_row(service)["failures"] == 7)
            # It would be tried again in minutes.
            service.wait(lambda: service.jobs()[0]["status"] == "todo")
        service.push()
        service.wait(service.is_posted)
        assert [job["status"] for job in service.jobs()] == ["cancelled", "succeeded"]
        with gone(service):
            service.rows("UPDATE service_changes SET head = %s RETURNING 1", "c" * 40)
            service.push(head="d" * 40)
            service.rows("UPDATE service_changes SET failures = 9 RETURNING 1")
            service.wait(lambda: service.jobs()[2]["status"] == "failed")
    assert change_row(service)["problem"].startswith("git fetch failed")
    assert change in service.log()


def test_branches_are_data_whatever_their_names_hold(service: Service, tmp_path: Path) -> None:
    name = "a;touch${IFS}x&&`id`|$(id)>'\"<!#%,=+@-é"
    service.repo.git("branch", name, "HEAD~1")
    service.repo.git("update-ref", "refs/merge-requests/12/head", service.head)
    body = json.dumps({
        "project": {"id": 1, "path_with_namespace": "acme/shop", "git_http_url": "https://lab/a.git"},
        "object_attributes": {"iid": 12, "action": "open", "last_commit": {"id": service.head},
                              "target_branch": name, "title": "a\0b"},
    }).encode()  # fmt: skip
    (tmp_path / "hook").write_text(SECRET)
    forge = ForgeSettings("gitlab", "https://lab", Secret(file=str(tmp_path / "hook")))
    headers = {"x-gitlab-token": SECRET, "x-gitlab-event": "Merge Request Hook"}
    push = read_delivery("lab", forge, {**headers, "x-gitlab-event-uuid": "1"}, body).push
    assert push is not None
    assert push.title == "a\N{REPLACEMENT CHARACTER}b"
    row = replace(
        CHANGE, clone_url=f"file://{service.repo.path}", run_base=push.base, run_head=push.head
    )
    cache = RepositoryCache(tmp_path / "cache")
    assert asyncio.run(cache.fetch(row, "gitlab", "")) == service.base
    assert not list(tmp_path.rglob("x"))
    for wrong in ("--upload-pack=id", "a..b", "a b", "a\nb", "+a:b", "a.lock", "../a"):
        changed = body.replace(json.dumps(name).encode(), json.dumps(wrong).encode())
        with pytest.raises(InputError, match="base is malformed"):
            read_delivery("lab", forge, {**headers, "x-gitlab-event-uuid": "2"}, changed)


class _Server(BaseHTTPRequestHandler):
    """Notes what it is sent, and sends on to ``to``."""

    seen: list[str]
    to: str

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self.seen.append(str(self.headers))
        self.send_response(301 if self.to else 200)
        if self.to:
            self.send_header("Location", self.to + self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET  # noqa: N815 - a name of the standard library


@contextmanager
def http_server(to: str = "") -> Iterator[tuple[int, list[str]]]:
    seen: list[str] = []
    handler = type("Bound", (_Server,), {"seen": seen, "to": to})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port, seen
        server.shutdown()
        thread.join()


def _posting(forge: Callable[..., Forge]) -> Callable[[str, Path], object]:
    return lambda url, _: forge(TOKEN, url, "acme/shop", 12).read_pull_request()


def _fetching(url: str, folder: Path) -> object:
    row = replace(CHANGE, clone_url=f"{url}/a.git", run_base="a" * 40, run_head="b" * 40)
    return asyncio.run(RepositoryCache(folder).fetch(row, "github", TOKEN))


@pytest.mark.attack("a forge's answer or webhook that sends its token elsewhere")
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize(
    "call",
    [_posting(GitHub), _posting(GitLab), _posting(Forgejo), _fetching],
    ids=["github", "gitlab", "forgejo", "git fetch"],
)
def test_a_redirect_to_another_host_or_port_does_not_get_the_token(
    call: Callable[[str, Path], object], host: str, tmp_path: Path
) -> None:
    with http_server() as (other, seen), http_server(f"http://{host}:{other}") as (port, asked):
        with pytest.raises(DiffcourtError) as error:
            call(f"http://127.0.0.1:{port}", tmp_path)
        assert any("authorization" in each.lower() or TOKEN in each for each in asked)
        assert seen == []
    assert "\n" not in str(error.value)
    assert TOKEN not in str(error.value)
    assert isinstance(error.value, FetchFailed) or "did not read" in str(error.value)


@contextmanager
def full(service: Service, table: str) -> Iterator[None]:
    """Writes to a table are answered as those to a full disk."""
    with psycopg.connect(service.address, autocommit=True) as db:
        db.execute(
            "CREATE OR REPLACE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'could not extend file: No space left' USING ERRCODE = '53100';"
            " END; $$"
        )
        db.execute(
            f"CREATE TRIGGER disk_full BEFORE INSERT ON {table} EXECUTE FUNCTION disk_full()".encode()
        )
        yield
        db.execute(f"DROP TRIGGER disk_full ON {table}".encode())


@contextmanager
def read_only(service: Service) -> Iterator[None]:
    """The whole database takes no writes, as after a failover to a replica."""
    with psycopg.connect(service.address, autocommit=True) as db:
        db.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        db.execute("SELECT pg_reload_conf()")
        try:
            service.wait(lambda: service.rows("SHOW transaction_read_only")[0] == {
                "transaction_read_only": "on"})  # fmt: skip
            yield
        finally:
            db.execute("ALTER SYSTEM RESET default_transaction_read_only")
            db.execute("SELECT pg_reload_conf()")
            service.wait(lambda: service.rows("SHOW transaction_read_only")[0] == {
                "transaction_read_only": "off"})  # fmt: skip


def test_a_database_that_takes_no_writes_loses_neither_webhooks_nor_reviews(
    service: Service,
) -> None:
    with service.server() as url, service.worker():
        for state in (full(service, "service_deliveries"), read_only(service)):
            with state:
                answer = send(url, service.pull_request())
                assert (answer.status_code, answer.text) == (503, "try again later\n")
                if service.rows("SHOW transaction_read_only") == [{"transaction_read_only": "on"}]:
                    assert httpx2.get(f"{url}/readyz", verify=PLAIN).status_code == 503
        with full(service, "diffcourt_journal"):
            service.push()
            service.wait(lambda: change_row(service)["failures"] > 0)
        service.wait(service.is_posted)
        # The same delivery, when the forge sends it again. Huge numbers and odd texts are stored.
        request = service.pull_request(additions=2**40, title="a\0b", head={"sha": service.head})
        assert send(url, request).status_code == 202
    log = service.log()
    assert f"INFO webhooks of forge: {url}/webhooks/forge\n" in log
    assert "INFO taking jobs, at most " in log
    lines = [line for line in log.splitlines() if ": 503," in line]
    assert len(lines) == 2
    assert all("the database cannot be used: " in line for line in lines)


def test_a_change_that_is_closed_is_not_reviewed_and_a_replayed_webhook_opens_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_DATABASE", service.address)
    monkeypatch.setenv("SERVICE_SECRET", SECRET)
    with served(service) as url:
        assert send(url, service.pull_request()).status_code == 202
        assert send(url, service.pull_request("closed"), delivery="d-2").status_code == 202
        assert send(url, service.pull_request()).text == "a delivery that was recorded before\n"
    assert [job["status"] for job in service.jobs()] == ["cancelled"]


def test_secrets_are_rotated_without_a_restart(service: Service, tmp_path: Path) -> None:
    hook, address = tmp_path / "hook", tmp_path / "address"
    hook.write_text("first\n")
    address.write_text(service.address)
    text = service.config.read_text().replace("env: SERVICE_SECRET", f"file: {hook}")
    service.config.write_text(text.replace("env: SERVICE_DATABASE", f"file: {address}"))
    with served(service) as url:
        assert send(url, service.pull_request(), secret="first").status_code == 202
        hook.write_text("second\n")
        assert send(url, service.pull_request(), delivery="d-2", secret="first").status_code == 401
        assert send(url, service.pull_request(), delivery="d-2", secret="second").status_code == 202
        hook.unlink()  # while it is replaced
        answer = send(url, service.pull_request(), delivery="d-3", secret="second")
        assert (answer.status_code, answer.text) == (503, "try again later\n")
        # A new address, such as a new password, is used from the next connection on.
        address.write_text(f"{service.address}&application_name=second")
        ours = "FROM pg_stat_activity WHERE application_name"
        service.rows(
            f"SELECT pg_terminate_backend(pid) {ours} <> 'second' AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
        service.wait(
            lambda: httpx2.get(f"{url}/readyz", verify=PLAIN, timeout=30).status_code == 200
        )
        service.wait(lambda: service.rows(f"SELECT 1 {ours} = 'second'"))


def test_two_reviews_see_no_token_and_are_handed_back_when_their_worker_is_asked_to_end(
    service: Service,
) -> None:
    service.repo.git("update-ref", "refs/pull/13/head", service.head)
    service.push()
    service.push(13)
    with service.worker("a") as a, service.journals_held():
        service.wait(lambda: len(children(a.pid)) == 2 and service.reviewing(a))
        for doing, name in product(children(a.pid), ("environ", "cmdline")):
            seen = Path(f"/proc/{doing}/{name}").read_bytes()
            assert TOKEN.encode() not in seen
            assert SECRET.encode() not in seen
        if os.geteuid():
            with pytest.raises(PermissionError):
                Path(f"/proc/{a.pid}/environ").read_bytes()
        a.terminate()
        assert a.wait(timeout=10) == 0
    assert [(job["status"], job["attempts"]) for job in service.jobs()] == [("todo", 1)] * 2
    with service.worker("b"):
        service.wait(lambda: [job["status"] for job in service.jobs()] == ["succeeded"] * 2)
    assert {row["crashes"] for row in service.rows("SELECT crashes FROM service_changes")} == {0}
    assert len(service.rows("SELECT run FROM diffcourt_runs")) == 2


def test_an_older_schema_is_brought_up_to_date_and_a_newer_is_refused(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SERVICE_DATABASE", service.address)
    with psycopg.connect(service.address) as db:
        db.execute("ALTER TABLE service_changes DROP COLUMN failures")
        db.execute("DELETE FROM service_migrations WHERE name LIKE '0003%'")
    prepare_database(service.address)
    assert service.rows("SELECT failures FROM service_changes") == []
    with psycopg.connect(service.address) as db:
        db.execute("INSERT INTO service_migrations VALUES ('9999_newer.sql', 'x')")
    for command in ("serve", "work"):
        assert main([command, "--config", str(service.config)]) == 3
        (line,) = capsys.readouterr().err.splitlines()
        assert "migrated by another version of diffcourt (9999_newer.sql)" in line


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("queue: {hartbeat: 10}", "hartbeat"),
        ("queue: {heartbeat: 30}", "queue.stalled (60) must be at least three heartbeats"),
        ("worker: {grace: 90}", "above worker.grace (90)"),
        ("enqueuing: {slots: 0}", "slots"),
        ("limits: {repository_daily_usd: -1}", "repository_daily_usd"),
        ("tenants: {}", "name the file of the secret"),
        ("cache: /tmp", "cache"),
    ],
)
def test_a_configuration_that_is_wrong_is_one_line(
    line: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "service.yaml"
    config.write_text(
        "database: {env: SERVICE_DATABASE}\nforges:\n  lab: {kind: gitlab, url: 'https://lab',"
        f" webhook_secret: {{env: HOOK}}}}\n{line}\n"
    )
    assert main(["work", "--config", str(config)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert str(config) in said
    assert says in said


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            ReplayMismatch("1/plan/model", {"tools": 1}, {"tools": 2}),
            "the recorded request at 1/plan/model",
        ),
        (RunDamaged("journal row 3 (intake) was altered"), "journal row 3 (intake) was altered"),
    ],
)
def test_a_run_of_another_version_or_a_damaged_one_is_parked_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, says: str
) -> None:
    def review(_: ReviewRequest) -> None:
        raise error

    request = ReviewRequest(worker=os.getppid(), repo="/repo", run_id="r-1", options={})
    monkeypatch.setattr(review_process, "review", review)
    monkeypatch.setattr(child_process, "die_with_parent", lambda: None)
    stdin = io.TextIOWrapper(io.BytesIO(msgspec.json.encode(request)))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert child_process.run_as_child(ReviewRequest, review_process.main) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"run r-1 cannot be resumed: {says}")


def test_signatures_are_of_the_raw_body(tmp_path: Path) -> None:
    (tmp_path / "hook").write_text(SECRET)
    forge = ForgeSettings("forgejo", "https://code", Secret(file=str(tmp_path / "hook")))
    body = b'{ "action": "opened" }'
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"x-forgejo-signature": signature, "x-forgejo-delivery": "1"}
    assert read_delivery("code", forge, headers, body).id == "1"
    with pytest.raises(InputError, match="signature is wrong"):
        read_delivery("code", forge, headers, body.replace(b" ", b""))


@pytest.mark.attack("a forge's answer or webhook that sends its token elsewhere")
@pytest.mark.parametrize(
    ("kind", "forge", "address", "right"),
    [
        ("github", "https://api.github.com", "https://github.com/a/b.git", True),
        ("github", "https://api.github.com", "https://github.com:443/a/b.git", True),
        ("github", "https://hub.example:8443/api/v3", "https://hub.example:8443/a/b.git", True),
        ("github", "https://hub.example:8443/api/v3", "https://hub.example/a/b.git", False),
        ("github", "https://api.github.com", "https://api.github.com/a/b.git", False),
        ("gitlab", "https://api.lab", "https://lab/a.git", False),
        ("gitlab", "http://lab", "http://lab:80/a.git", True),
        ("gitlab", "http://lab", "https://lab/a.git", False),
        ("gitlab", "https://lab", "http://lab/a.git", False),
        *(("gitlab", "https://lab", address, False) for address in (
            "https://lab:444/a.git", "https://lab:0/a.git", "https://lab:x/a.git", "ssh://lab/a",
            "https://me@lab/a.git", "https://me:word@lab/a.git", "https://@lab/a.git",
            "https://other@lab@evil/a.git", "https://lab.evil/a.git", "https://lab\\@evil/a.git",
            " https://lab/a.git", "https://lab/a.git --upload-pack=x", "https://lab\n/a.git",
            "https://[lab/a.git", "//lab/a.git", "", "ext::sh -c x https://lab/",
        )),
    ],
)  # fmt: skip
def test_a_clone_address_is_on_the_origin_of_the_forge(
    kind: Literal["github", "gitlab"], forge: str, address: str, right: bool
) -> None:
    settings = ForgeSettings(kind, forge, Secret(env="HOOK"))
    push = Push("f", "", "acme/shop", 1, address, "b" * 40, "a" * 40, "", "")
    if right:
        assert checked_push(settings, push) is push
        return
    with pytest.raises(InputError, match="clone address is malformed"):
        checked_push(settings, push)


def test_a_listed_merge_request_has_texts_that_the_database_takes() -> None:
    listed = [{"iid": 1, "sha": "a" * 40, "target_branch": "main", "title": f"a\0{'b' * 2000}"}]
    known = KnownRepository(**to_builtins(CHANGE), since=datetime.now(UTC), is_listed=False)
    lab = ForgeSettings("gitlab", "http://lab", Secret(env="HOOK"))
    ((push, _),) = _read_page(lab, known, json.dumps(listed).encode())
    assert push.title == f"a\N{REPLACEMENT CHARACTER}{'b' * 998}"
    assert (push.change, push.base) == ("hub:acme/shop#1", "refs/heads/main")
