"""Installations are apart: tokens, rows of the database, and money."""

import json
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("cryptography")

import psycopg
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from msgspec.structs import replace

from orchestrator.errors import InputError
from orchestrator.service.changes import StoredChange
from orchestrator.service.forge_tokens import READING, ForgeTokens, NoToken
from orchestrator.service.installations import Tenants
from orchestrator.service.job_queue import make_queue
from orchestrator.service.settings import ForgeSettings, Secret, load_settings
from orchestrator.service.worker import Worker
from tests.posting.forge_server import serving
from tests.posting.forgejo_server import ForgejoServer
from tests.service.service_kit import SECRET, Service
from tests.stores.postgres_server import Server

CHANGE = StoredChange(
    forge="hub", installation="7", repository="acme/shop", number=12,
    clone_url="", base="", head="", title="", description="", lines=None, run="", run_base="",
    run_head="", base_commit="", crashes=0, failures=0, is_paused=False, is_full=False, posted_head="", problem="",
)  # fmt: skip


@pytest.fixture
def service(postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with serving(ForgejoServer()) as forge:
        made = Service(postgres.fresh(f"service_{os.urandom(4).hex()}"), tmp_path, forge)
        monkeypatch.setenv("SERVICE_DATABASE", made.address)
        monkeypatch.setenv("SERVICE_SECRET", "key")
        yield made


class Limited:
    """A service that has reviewed a push, refused the next for its costs, and lets one wait."""

    def __init__(self, service: Service) -> None:
        self.service = service
        service.configure("tenants: {env: SERVICE_SECRET}")
        limits = "{repository_daily_usd: 0.5, repository_hourly: 2, installation_hourly: 5}"
        service.configure(f"limits: {limits}")
        service.push()
        with service.worker():
            service.wait(service.is_posted)
            self.spent = service.rows("SELECT usd, most_usd FROM service_spending")
            service.rows("UPDATE service_spending SET usd = 0.5 RETURNING 1")
            service.repo.write({"app.py": "print(1)\n"})
            service.repo.git("commit", "-qam", "Mend")
            newer = service.forge.head = service.repo.git("rev-parse", "HEAD")
            service.repo.git("update-ref", "refs/pull/12/head", newer)
            service.push(head=newer)
            service.wait(service.is_posted)
            service.repo.git("update-ref", "refs/pull/13/head", service.head)
            service.push(13)
            service.wait(lambda: service.jobs()[2]["attempts"] > 0)


@pytest.fixture(scope="module")
def limited(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Limited]:
    with serving(ForgejoServer()) as forge:
        address = postgres.fresh(f"service_{os.urandom(4).hex()}")
        yield Limited(Service(address, tmp_path_factory.mktemp("limited"), forge))


def test_an_installation_reads_its_own_rows_and_nobody_elses(
    limited: Limited, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = limited.service
    monkeypatch.setenv("SERVICE_DATABASE", service.address)
    monkeypatch.setenv("SERVICE_SECRET", SECRET)
    tenants = Tenants(load_settings(service.config))
    own, other = tenants.address("forge", "7"), tenants.address("forge", "8")
    with psycopg.connect(own) as db:
        assert db.execute("SELECT count(*) FROM diffcourt_runs").fetchone() == (1,)
        (schema,) = db.execute("SELECT current_schema()").fetchone() or ("",)
    service_schema = service.rows("SELECT current_schema() AS name")[0]["name"]
    for table in (f"{schema}.diffcourt_journal", f"{service_schema}.service_changes"):
        with psycopg.connect(other) as db, pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute(f"SELECT * FROM {table}".encode())
    # Nor can it become somebody else, or see that these exist beside its own.
    with psycopg.connect(other) as db, pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.execute(f"SET ROLE {schema}".encode())
    assert SECRET not in own


def test_a_used_up_daily_budget_is_what_the_check_says(limited: Limited) -> None:
    # An offline review costs nothing, so all that it reserved is given back.
    assert limited.spent == [{"usd": 0.0, "most_usd": 0.5}]
    (row,) = limited.service.rows("SELECT problem FROM service_changes WHERE number = 12")
    assert row["problem"].startswith("the daily budget of acme/shop is used up")
    assert limited.service.statuses() == ["failure", "error"]


def test_a_repository_that_had_its_share_of_the_hour_waits(limited: Limited) -> None:
    service = limited.service
    assert [job["status"] for job in service.jobs()] == ["succeeded", "failed", "todo"]
    (row,) = service.rows("SELECT run, problem FROM service_changes WHERE number = 13")
    assert row == {"run": "", "problem": ""}
    assert "acme/shop#13 waits: 2 reviews began this hour" in service.log()


def test_an_installations_own_key_takes_the_place_of_everybodys(service: Service) -> None:
    for name in ("all", "seven"):
        (service.folder / name).write_text(name)
    service.config.write_text(
        service.config.read_text().replace(
            "review: {provider: offline}",
            f"review: {{provider: offline, env: {{KEY: {{file: {service.folder / 'all'}}}}}}}\n"
            f'installations: {{"hub:7": {{env: {{KEY: {{file: {service.folder / "seven"}}}}}}}}}',
        )
    )
    settings = load_settings(service.config)
    settings.forges["hub"] = settings.forges["forge"]
    queue, jobs = make_queue(service.address)
    worker = Worker(settings, queue, jobs)
    assert worker._environment(CHANGE)["KEY"] == "seven"
    assert worker._environment(replace(CHANGE, installation="8"))["KEY"] == "all"


class _App(BaseHTTPRequestHandler):
    calls: list[dict[str, object]]
    status: int

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.calls.append({"path": self.path, "jwt": self.headers["Authorization"], **body})
        answer = json.dumps({"token": f"ghs_{len(self.calls)}"}).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def test_an_apps_token_is_for_one_repository_and_no_more_than_the_job_needs(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    (tmp_path / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    _App.calls, _App.status = [], 201
    server = ThreadingHTTPServer(("127.0.0.1", 0), _App)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        forge = ForgeSettings(
            kind="github",
            url=f"http://127.0.0.1:{server.server_port}",
            webhook_secret=Secret(env="HOOK"),
            app_id=42,
            private_key=Secret(file=str(tmp_path / "key.pem")),
        )
        tokens = ForgeTokens()
        assert [tokens.get(forge, CHANGE, READING) for _ in range(2)] == ["ghs_1"] * 2
        assert tokens.get(forge, replace(CHANGE, repository="acme/x"), READING) == "ghs_2"
        assert _App.calls[0]["path"] == "/app/installations/7/access_tokens"
        assert _App.calls[0]["repositories"] == ["shop"]
        assert _App.calls[0]["permissions"] == {"contents": "read"}
        _App.status = 500
        with pytest.raises(NoToken, match="gives no token now"):
            ForgeTokens().get(forge, CHANGE, READING)
        _App.status = 401
        with pytest.raises(InputError, match="check app_id, private_key"):
            ForgeTokens().get(forge, CHANGE, READING)
        with pytest.raises(InputError, match="names no installation"):
            ForgeTokens().get(forge, replace(CHANGE, installation=""), READING)
    finally:
        server.shutdown()
        server.server_close()
