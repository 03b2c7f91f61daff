"""The tool ``http_get``: listed hosts only, checked addresses only, bounded, and off by default."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

import pytest

from orchestrator.catalog.settings import HttpHosts
from orchestrator.code_review.tools.http_get import MAX_BYTES, HttpGet, _is_public
from orchestrator.engine.observer_events import Event
from orchestrator.engine.ports import CallContext
from orchestrator.errors import ConfigError, InputError
from tests.model_server.server import HttpReply, HttpRequest, serve_http
from tests.review.review_kit import change, review
from tests.scripted_model import ScriptedModel, text_reply, tool_call_reply
from tests.torture.own_secrets import alone

HOST = "127.0.0.1"


class Site:
    """A web site on loopback, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[HttpRequest] = []
        self.port = 0

    async def answer(self, request: HttpRequest) -> HttpReply:
        self.asked.append(request)
        match request.path.strip("/"):
            case "page?q=1":
                return HttpReply(headers={"content-type": "text/plain"}, parts=(b"hello",))
            case "there":
                return HttpReply(302, {"location": "/page?q=1"}, (b"",))
            case "away":
                return HttpReply(302, {"location": "http://example.invalid/"}, (b"",))
            case "around":
                return HttpReply(302, {"location": "/around"}, (b"",))
            case "zip":
                return HttpReply(headers={"content-encoding": "gzip"}, parts=(b"x",))
            case "long":
                return HttpReply(parts=(b"a" * 300_000, b"b" * 300_000))
        return HttpReply(404, parts=(b"no",))

    def url(self, path: str = "", host: str = HOST) -> str:
        return f"http://{host}:{self.port}/{path}"

    async def get(self, path: str, *, host: str = HOST, allowed: HttpHosts | None = None) -> str:
        origin = self.url(host=host).rstrip("/")
        tool = HttpGet(allowed or HttpHosts((origin,), (host,)))
        context = CallContext("k", "worker", 5.0)
        return (await tool.run({"url": self.url(path, host)}, context)).content


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    made = Site()
    async with serve_http(made.answer, HOST, 0) as made.port:
        yield made


async def test_a_page_of_a_listed_host_is_read_and_redirects_stay_there() -> None:
    async with site() as found:
        for path in ("page?q=1", "there"):
            text = await found.get(path)
            assert text == f"200 {found.url('page?q=1')} (text/plain)\n\nhello"
        assert {r.headers["host"] for r in found.asked} == {f"{HOST}:{found.port}"}
        assert "cookie" not in found.asked[0].headers
        assert (await found.get("nothing")).startswith("404 ")


async def test_a_long_page_is_cut() -> None:
    async with site() as found:
        text = await found.get("long")
    assert text.endswith(f"b\n[cut after {MAX_BYTES} bytes]")
    assert text.count("a") + text.count("b") < MAX_BYTES + 100


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("away", "http://example.invalid/ is not on the list of allowed hosts: http://127"),
        ("around", "redirects more than 5 times"),
        ("zip", "has a compressed response"),
    ],
)
async def test_a_redirect_to_a_forbidden_address_is_not_followed(path: str, message: str) -> None:
    async with site() as found:
        with pytest.raises(InputError, match=message):
            await found.get(path)


async def test_a_host_that_is_not_listed_gets_no_request() -> None:
    async with site() as found:
        port = found.port
        for hosts in (["docs.python.org"], [HOST], [f"https://{HOST}:{port}"], [f"http://{HOST}"]):
            with pytest.raises(InputError, match="is not on the list of allowed hosts"):
                await found.get("page?q=1", allowed=HttpHosts(tuple(hosts), (HOST,)))
        tool = HttpGet(HttpHosts((f"http://{HOST}:{port}",), (HOST,)))
        for url in (
            f"http://me:pw@{HOST}:{port}/",
            f"ftp://{HOST}:{port}/",
            f"http://x.{HOST}:{port}/",
        ):
            with pytest.raises(InputError):
                await tool.run({"url": url}, CallContext("k", "worker", 5.0))
        assert found.asked == []


async def test_a_name_with_a_loopback_address_is_refused_unless_it_is_listed_as_private() -> None:
    async with site() as found:
        origin = f"http://localhost:{found.port}"
        with pytest.raises(InputError, match="localhost has the address .* which is not public"):
            await found.get("page?q=1", host="localhost", allowed=HttpHosts((origin,)))
        assert found.asked == []


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "::1",
     "fe80::1", "fd00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not _is_public(ip_address(address))
    assert _is_public(ip_address("93.184.215.14"))
    assert _is_public(ip_address("2606:2800:21f:cb07:6820:80da:af6b:8b2c"))


AGENT = """---
name: generalist
description: Reviews alone.
tools: [http_get, links]
metadata: {contract: report}
---
Review.
"""


@pytest.mark.parametrize(("environment", "code"), [("local", "ok"), ("ci", "not_permitted")])
async def test_it_is_called_like_any_other_tool_and_is_off_in_ci(
    tmp_path: Path, environment: Literal["ci", "local"], code: str
) -> None:
    report = {"summary": "read", "findings": [], "checked": ["a.md"], "gaps": []}
    events: list[Event] = []
    async with site() as found:
        origin, agent = found.url().rstrip("/"), ".diffcourt/agents/generalist.md"
        base = {
            ".diffcourt/config/tools.yaml": f"http: {{hosts: ['{origin}'], private: ['{HOST}']}}\n",
            ".diffcourt/config/guards.yaml": "tool: {sensitive: {local: warn}}\n",
            agent: AGENT,
        }
        repo = change(tmp_path, base, {"a.md": "A guide.\n"})
        model = ScriptedModel({"generalist": [
            tool_call_reply(("http_get", {"url": found.url("page?q=1")})),
            text_reply(json.dumps(report)),
        ]})  # fmt: skip
        await review(repo, model, adjust=alone, environment=environment, observer=events.append)
        assert len(found.asked) == (code == "ok")
    ended = [e.detail for e in events if e.kind == "tool_finished" and e.tool == "http_get"]
    assert ended == [code]
    shown = str(model.requests[1].messages[-1])
    assert "<untrusted " in shown
    assert ("hello" in shown) == (code == "ok")


async def test_http_get_is_off_if_no_host_is_listed(tmp_path: Path) -> None:
    base = {".diffcourt/agents/generalist.md": AGENT}
    model = ScriptedModel(
        {
            "generalist": [
                tool_call_reply(("links", {})),
                text_reply('{"findings": [], "checked": []}'),
            ]
        }
    )
    await review(change(tmp_path, base, {"a.md": "A guide.\n"}), model, adjust=alone)
    assert "http_get" not in {tool.name for tool in model.requests[0].tools}


async def test_a_host_that_is_no_host_is_an_error(tmp_path: Path) -> None:
    config = {".diffcourt/config/tools.yaml": "http: {hosts: ['https://a.example/path']}\n"}
    with pytest.raises(ConfigError, match=r"tools.yaml:1: "):
        await review(change(tmp_path, config, {"a.md": "A guide.\n"}))
