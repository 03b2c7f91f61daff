"""Servers that are reached by HTTP on loopback: one of the library's own, and ones that are none."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from orchestrator.engine.untrusted_text import unframe
from tests.mcp.mcp_kit import SAY, bench, pin


def at(url: str, tool: str = "say", accepted: str = "", **more: object) -> dict[str, object]:
    tools = {tool: {"pin": accepted or pin(SAY), "timeout": 5}}
    return {"url": url, "start": 5, "tools": tools, **more}


@pytest.fixture(scope="module")
def library() -> Iterator[str]:
    """A server made with the official library, served by uvicorn in a thread."""
    import uvicorn
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("kit", log_level="CRITICAL")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def fail() -> str:
        """Never works."""
        raise RuntimeError("no luck")

    config = uvicorn.Config(
        server.streamable_http_app(), port=0, log_level="critical", lifespan="on"
    )
    serving = uvicorn.Server(config)
    thread = threading.Thread(target=serving.run, daemon=True)
    thread.start()
    while not serving.started:
        time.sleep(0.01)
    port = serving.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/mcp"
    serving.should_exit = True
    thread.join(5)


class Hostile(BaseHTTPRequestHandler):
    """Answers by path; keeps what it was sent."""

    seen: ClassVar[list[tuple[str, str, str]]] = []
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        message = json.loads(body)
        self.seen.append((self.path, message.get("method", ""), self.headers.get("x-key", "")))
        getattr(self, f"at_{self.path.strip('/')}")(message)

    def do_GET(self) -> None:
        self.answer(405, b"")

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def as_json(self, number: object, result: object) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
        self.answer(200, body, content_type="application/json")

    def at_denied(self, message: dict[str, Any]) -> None:
        self.answer(401, b"")

    def at_garbage(self, message: dict[str, Any]) -> None:
        self.answer(200, b"<html>", content_type="application/json")

    def at_elsewhere(self, message: dict[str, Any]) -> None:
        self.answer(307, b"", location="http://127.0.0.2:9/mcp")

    def at_announced(self, message: dict[str, Any]) -> None:
        self.plain(message, text="x" * (8 << 20))

    def at_chunked(self, message: dict[str, Any]) -> None:
        if message["method"] != "tools/call":
            self.plain(message, text="")
            return
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        chunk = b"%x\r\n%b\r\n" % (1 << 20, b" " * (1 << 20))
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(chunk)

    def at_plain(self, message: dict[str, Any]) -> None:
        self.plain(message, text="fine")

    def plain(self, message: dict[str, Any], text: str) -> None:
        number, method = message.get("id"), message["method"]
        if method == "initialize":
            info = {"name": "hostile", "version": "1"}
            version = message["params"]["protocolVersion"]
            capabilities: dict[str, object] = {"tools": {}}
            result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
            self.as_json(number, result)
        elif method == "tools/list":
            self.as_json(number, {"tools": [SAY]})
        elif method == "tools/call":
            self.as_json(number, {"content": [{"type": "text", "text": text}]})
        elif number is None:
            self.answer(202, b"")
        else:
            body = {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}}
            self.answer(200, json.dumps(body).encode(), content_type="application/json")

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            super().handle()

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


async def test_a_server_of_the_official_library_over_http(library: str) -> None:
    async with bench(at(library, "add"), name="web") as it:
        assert "differs from what was accepted" in await it.unavailable("web__add")
        pins = await it.pins()
    async with bench(at(library, "add", pins["add"]), name="web") as it:
        result = await it.call("web__add", a=2, b=3)
        wrong = await it.call("web__add", a="two", b=3)
        more = await it.call("web__add", a=2, b=3, c=4)
    assert json.loads(unframe(result.content, "n0nce"))["text"] == "5"
    assert wrong.code == more.code == "invalid_arguments"
    async with bench(at(library, "fail", pins["fail"]), name="web") as it:
        failed = await it.call("web__fail")
    assert (failed.ok, failed.code) == (False, "failed")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("denied", "it answered 401; see its headers in config/mcp.yaml"),
        ("garbage", "cannot be used"),
        ("elsewhere", "cannot be used"),
    ],
)
async def test_a_server_with_invalid_replies_is_unavailable_in_one_line(
    hostile: str, path: str, expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with bench(at(f"{hostile}/{path}"), name="web") as it:
        told = await it.unavailable("web__say")
    assert expected in told
    assert "\n" not in told
    assert capfd.readouterr() == ("", "")


async def test_a_missing_server_is_unavailable() -> None:
    async with bench(at("http://127.0.0.1:9/mcp"), name="web") as it:
        assert "it cannot be reached: ConnectError" in await it.unavailable("web__say")


# httpx2 leaves its generators to the collector when a body is not read to its end; trio says so.
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
@pytest.mark.parametrize("path", ["announced", "chunked"])
async def test_an_endless_answer_is_aborted(hostile: str, path: str) -> None:
    async with bench(at(f"{hostile}/{path}"), name="web") as it:
        result = await it.call("web__say")
    assert not result.ok
    assert "it sent more than 4 MB" in result.content


async def test_a_header_takes_its_value_from_the_environment(hostile: str) -> None:
    Hostile.seen.clear()
    config = at(f"{hostile}/plain", headers={"X-Key": "DOCS_KEY"})
    async with bench(config, name="web", environment={"DOCS_KEY": "s3cret"}) as it:
        result = await it.call("web__say")
    assert result.ok
    assert {key for _, _, key in Hostile.seen} == {"s3cret"}
    async with bench(config, name="web") as it:
        assert "DOCS_KEY is not set" in await it.unavailable("web__say")
