"""Webhooks over HTTP: recorded once, in time, or refused for what they are."""

import hashlib
import hmac
import json
import os
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import httpx2 as httpx
import pytest

pytest.importorskip("procrastinate")

import uvicorn

from orchestrator.service import http_server
from orchestrator.service.http_server import server_config
from orchestrator.service.settings import load_settings
from tests.plain_http import PLAIN
from tests.posting.forge_server import TOKEN, serving
from tests.posting.forgejo_server import ForgejoServer
from tests.service.service_kit import HEAD, SECRET, Service
from tests.stores.postgres_server import Server


@contextmanager
def _service(postgres: Server, folder: Path) -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as patch, serving(ForgejoServer()) as forge:
        made = Service(postgres.fresh(f"service_{os.urandom(4).hex()}"), folder, forge)
        patch.setenv("SERVICE_SECRET", SECRET)
        patch.setenv("SERVICE_DATABASE", made.address)
        yield made


@contextmanager
def served(service: Service) -> Iterator[str]:
    """The server in this process; its address. The environment has the service's secrets."""
    server = uvicorn.Server(server_config(load_settings(service.config), "127.0.0.1", 0))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    service.wait(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def service(postgres: Server, tmp_path: Path) -> Iterator[Service]:
    with _service(postgres, tmp_path) as made:
        yield made


@pytest.fixture
def url(service: Service) -> Iterator[str]:
    with served(service) as address:
        yield address


@pytest.fixture(scope="module")
def refusing(
    postgres: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, str]]:
    """A service that records nothing, and its address."""
    with _service(postgres, tmp_path_factory.mktemp("refusing")) as made, served(made) as address:
        yield made, address


def send(
    url: str,
    payload: Any,
    *,
    delivery: str = "d-1",
    secret: str = SECRET,
    path: str = "forge",
    signature: str | None = None,
) -> httpx.Response:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    if signature is None:
        signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "X-Forgejo-Event": "pull_request",
        "X-Forgejo-Delivery": delivery,
        "X-Forgejo-Signature": signature,
    }
    return httpx.post(
        f"{url}/webhooks/{path}", content=body, headers=headers, timeout=30, verify=PLAIN
    )


def test_a_push_is_recorded_with_its_job_and_its_repetition_is_not(
    service: Service, url: str
) -> None:
    assert [send(url, service.pull_request()).status_code for _ in range(3)] == [202] * 3
    assert send(url, service.pull_request("labeled"), delivery="d-2").text == "nothing to do\n"
    (row,) = service.rows("SELECT change, base, head, lines, pushes FROM service_changes")
    assert row == {
        "change": "forge:acme/shop#12", "base": service.base, "head": HEAD, "lines": 4, "pushes": 1
    }  # fmt: skip
    assert [job["args"] for job in service.jobs()] == [{"change": "forge:acme/shop#12"}]
    # Twenty more pushes wait as one job, for the newest head, and put it off: for a minute at most.
    (first,) = service.jobs()
    for number in range(20):
        send(
            url,
            service.pull_request("synchronized", head={"sha": f"{number:040x}"}),
            delivery=f"p-{number}",
        )
    (job,) = service.jobs()
    assert (
        first["scheduled_at"] < job["scheduled_at"] < first["scheduled_at"] + timedelta(minutes=1)
    )
    assert service.rows("SELECT head FROM service_changes") == [{"head": f"{19:040x}"}]
    assert httpx.get(f"{url}/readyz", verify=PLAIN).status_code == 200
    metrics = httpx.get(f"{url}/metrics", verify=PLAIN).text
    assert 'diffcourt_queue_jobs{queue="review",state="todo"} 1.0' in metrics
    assert "diffcourt_queue_superseded_total 0.0" in metrics
    assert 'diffcourt_webhooks_total{forge="forge",status="202"} 24.0' in metrics


def test_an_older_push_that_is_sent_again_under_another_id_changes_nothing(
    service: Service, url: str
) -> None:
    send(url, old := service.pull_request("synchronized", head={"sha": "1" * 40}))
    send(url, service.pull_request("synchronized"), delivery="d-2")
    before = service.rows("SELECT head, pushes FROM service_changes")
    answer = send(url, old, delivery="d-3")
    assert (answer.status_code, answer.text) == (202, "a delivery that was recorded before\n")
    assert service.rows("SELECT head, pushes FROM service_changes") == before
    assert before == [{"head": HEAD, "pushes": 2}]


def _based_on(**repository: str) -> dict[str, Any]:
    return {"base": {"sha": "b" * 40, "repo": {"full_name": "a/b", "clone_url": "x", **repository}}}


DEEP = b'{"ignored": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"


@pytest.mark.parametrize(
    ("given", "status", "says"),
    [
        ({"secret": "other"}, 401, "signature is wrong"),
        ({"signature": ""}, 401, "no signature"),
        ({"path": "nobody"}, 404, "no such forge"),
        ({"payload": b"{"}, 400, "not as documented"),
        ({"payload": DEEP}, 400, "nested deeper than"),
        ({"payload": {"action": "opened"}}, 400, "not as documented"),
        ({"changed": {"head": {"sha": "--upload-pack=x"}}}, 400, "head is malformed"),
        ({"changed": _based_on(full_name="../../etc")}, 400, "repository is malformed"),
        ({"changed": _based_on(clone_url="http://evil.example/a/b")}, 400, "clone address"),
        ({"payload": b" " * (26 << 20)}, 413, "larger than 25 MiB"),
    ],
)
def test_a_webhook_that_is_not_right_is_refused_and_leaves_nothing(
    refusing: tuple[Service, str], given: dict[str, Any], status: int, says: str
) -> None:
    service, url = refusing
    payload = service.pull_request(**given.get("changed", {}))
    others = {name: value for name, value in given.items() if name != "changed"}
    answer = send(url, **{"payload": payload, **others})
    assert answer.status_code == status
    assert says in answer.text
    assert answer.text.count("\n") == 1
    assert service.rows("SELECT 1 FROM service_deliveries") == []
    assert service.jobs() == []


LARGE = http_server.SMALL_BYTES * 2


def _connect(url: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=30)


def _begin(url: str, length: int, sent: int) -> socket.socket:
    """A webhook with a signature that nobody made, whose body is not all sent."""
    made = _connect(url)
    made.sendall(
        b"POST /webhooks/forge HTTP/1.1\r\nHost: x\r\nX-Forgejo-Signature: " + b"0" * 64
        + b"\r\nContent-Length: %d\r\n\r\n" % length + b" " * sent
    )  # fmt: skip
    return made


def _answer(connection: socket.socket) -> bytes:
    """What is answered until the server closes the connection."""
    with connection, suppress(ConnectionResetError):
        return b"".join(iter(partial(connection.recv, 1 << 16), b""))
    return b""


@pytest.mark.attack("large bodies held open before their signature is known")
def test_bodies_share_a_limit_that_keeps_no_usual_webhook_out(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "SHARED_BYTES", LARGE)
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 0.2)
    large = service.pull_request(ignored="x" * LARGE)
    with served(service) as url:
        # The second is refused once the first has arrived, whose sender waits.
        held = [_begin(url, 1 << 20, LARGE + 1000) for _ in range(2)]
        refused, _, _ = select.select(held, [], [], 30)
        (other,) = [each for each in held if each not in refused]
        assert [b"503" in _answer(each) for each in refused] == [True]
        assert send(url, large).text == "try again later\n"
        assert send(url, service.pull_request()).status_code == 202
        other.close()
        service.wait(lambda: send(url, large, delivery="d-2").status_code == 202)


@pytest.mark.attack("connections that never send a request")
def test_a_connection_that_sends_no_request_is_closed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 0.3)
    monkeypatch.setattr(http_server, "BODY_SECONDS", 0.3)
    with served(service) as url:
        silent, trickling, idle = (_connect(url) for _ in range(3))
        slow = _begin(url, 1000, 10)
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        with suppress(OSError):
            for byte in b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * 10_000:
                trickling.sendall(bytes([byte]))
                sleep(0.01)
        assert [_answer(each)[9:12] for each in (silent, idle, slow)] == [b"408", b"200", b"408"]
        assert _answer(trickling)[9:12] in {b"408", b""}


@pytest.mark.attack("connections that never send a request")
def test_connections_above_their_limit_are_refused_until_others_end(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 3)
    with served(service) as url:
        held = [_connect(url) for _ in range(3)]
        answer = _answer(_connect(url)).decode()
        assert answer.startswith("HTTP/1.1 503 ")
        assert answer.endswith("\r\n\r\ntoo many connections; try again later\n")
        for each in held:
            each.close()
        service.wait(lambda: b"200" in _answer(_get(url)))


def _get(url: str) -> socket.socket:
    made = _connect(url)
    made.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    return made


def test_without_a_database_the_forge_is_told_to_come_again(
    service: Service, url: str, postgres: Server
) -> None:
    postgres.stop()
    try:
        assert httpx.get(f"{url}/readyz", verify=PLAIN, timeout=30).status_code == 503
        answer = send(url, service.pull_request())
        assert (answer.status_code, answer.text) == (503, "try again later\n")
        assert httpx.get(f"{url}/healthz", verify=PLAIN).status_code == 200
    finally:
        postgres.start()
    service.wait(lambda: httpx.get(f"{url}/readyz", verify=PLAIN, timeout=30).status_code == 200)
    assert send(url, service.pull_request()).status_code == 202


def test_pushes_that_came_while_the_server_was_down_are_found_when_it_starts(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", TOKEN)
    service.push()  # known, and so is its repository
    assert isinstance(service.forge, ForgejoServer)
    known = service.pull_request(head={"sha": service.head})["pull_request"]
    later, earlier = "2999-01-01T00:00:00Z", "2020-01-01T00:00:00+01:00"
    service.forge.listed = [
        {**known, "created_at": earlier},
        {**known, "number": 13, "created_at": later},
        *({**known, "number": number, "created_at": earlier} for number in (14, 15, 16)),
    ]
    with served(service):
        service.wait(lambda: service.rows("SELECT 1 FROM service_repositories WHERE is_listed"))
    # Those that were there before the first webhook are known from now on, and not reviewed.
    listed = service.rows("SELECT number, pushes FROM service_changes ORDER BY number")
    assert listed == [{"number": number, "pushes": 1} for number in range(12, 17)]
    assert _to_review(service) == [12, 13]
    # A push to one of them that is missed is found, and so is a request that is new.
    service.forge.listed[:2] = [
        {**known, "number": 17, "created_at": later},
        {**known, "number": 14, "created_at": earlier, "head": {"sha": HEAD}},
    ]
    with served(service):
        service.wait(lambda: len(service.jobs()) == 4)
    assert _to_review(service) == [12, 13, 14, 17]


def test_requests_that_were_open_before_are_reviewed_where_the_configuration_says_so(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", TOKEN)
    service.configure("enqueuing: {already_open: true}")
    service.push()
    assert isinstance(service.forge, ForgejoServer)
    known = service.pull_request(head={"sha": service.head})["pull_request"]
    service.forge.listed = [{**known, "number": 13, "created_at": "2020-01-01T00:00:00Z"}]
    with served(service):
        service.wait(lambda: len(service.jobs()) == 2)
    assert _to_review(service) == [12, 13]


def _to_review(service: Service) -> list[int]:
    """The numbers of the requests that have a job."""
    return sorted(int(job["args"]["change"].rpartition("#")[2]) for job in service.jobs())
