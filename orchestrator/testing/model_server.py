"""A model server on loopback that speaks three vendors' HTTP APIs strictly.

It refuses what the real services refuse, and says what its script tells it to. For tests, and for
developing without a key::

    python -m orchestrator.testing.model_server --script script.json

An agent's lines are found by its name, which is the first line of its system prompt. A request
without a line left, and a line left unsaid at the end, are errors.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import anyio
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.types import Json, Response, Text, ToolCall, Usage
from orchestrator.errors import InputError, ScriptError
from orchestrator.testing import chat_api, messages_api, responses_api
from orchestrator.testing.api_rules import Refused, read_object
from orchestrator.testing.chat_api import ChatApi
from orchestrator.testing.http_server import HttpReply, HttpRequest, listening
from orchestrator.testing.messages_api import MessagesApi
from orchestrator.testing.responses_api import ResponsesApi
from orchestrator.testing.server_script import (
    Cut,
    Garble,
    Line,
    Raw,
    Refuse,
    Script,
    Seals,
    Slow,
    Trickle,
)

KEY = "test-key"
BYTES_PER_TOKEN = 4


class Api(Protocol):
    """One vendor's words."""

    def check(self, headers: Mapping[str, str], body: dict[str, Json]) -> None:
        """Refuse what the service refuses."""

    def agent(self, body: dict[str, Json]) -> str:
        """Who asks."""

    def schema(self, body: dict[str, Json]) -> Mapping[str, Json] | None:
        """The report's schema."""

    def prompt(self, body: dict[str, Json]) -> tuple[str, bool]:
        """What is read, in its order, and whether it is cached."""

    def document(
        self, line: Response, usage: Usage, number: int, body: dict[str, Json]
    ) -> dict[str, Json]:
        """An answer to a request."""

    def events(
        self, document: dict[str, Json], body: dict[str, Json]
    ) -> Iterator[tuple[str, Json]]:
        """An answer to a request as a stream."""

    def error(self, status: int, message: str) -> dict[str, Json]:
        """An error."""


class Seen(Struct, frozen=True):
    """A request that came in; ``status`` is what it was answered with."""

    agent: str
    path: str
    headers: Mapping[str, str]
    body: dict[str, Json]
    status: int


class Server:
    """The server; enter ``running`` to have it listen.

    Args:
        script: agent → its lines; None: each agent gives the smallest report of its contract.
        key: the one key that is accepted.
        lacks: what its Chat Completions cannot do, see ``ChatApi``.

    Attributes:
        url: where it listens, without the API's path.
        seen: every request.
        refused: why requests were refused by a rule, not by the script.
    """

    def __init__(
        self,
        script: Mapping[str, Sequence[Line]] | None = None,
        *,
        key: str = KEY,
        lacks: frozenset[str] = frozenset(),
    ) -> None:
        seals = Seals()
        self._script = Script(script)
        self._apis: dict[str, Api] = {
            messages_api.PATH: MessagesApi(key, seals),
            responses_api.PATH: ResponsesApi(key, seals),
            chat_api.PATH: ChatApi(key, lacks),
        }
        self._prompts: dict[tuple[str, str], str] = {}
        self.url = ""
        self.seen: list[Seen] = []
        self.refused: list[str] = []

    def finish(self) -> None:
        """Fail when a line was left unsaid, or a request broke a rule.

        Raises:
            ScriptError: with the lines, or the first broken rule.
        """
        if self.refused:
            raise ScriptError(f"a request was refused: {self.refused[0]}")
        self._script.finish()

    async def handle(self, request: HttpRequest) -> HttpReply:
        """Answer one request."""
        api = self._apis.get(request.path.partition("?")[0])
        if api is None or request.method != "POST":
            return _json(404, {"error": {"message": f"no route {request.method} {request.path}"}})
        agent, body = "", dict[str, Json]()
        try:
            body = read_object(request.headers, request.body)
            api.check(request.headers, body)
            agent = api.agent(body)
            line = self._script.next(agent, api.schema(body))
            reply = await self._reply(api, agent, line, body)
        except (Refused, ScriptError) as fault:
            self.refused.append(str(fault))
            status = fault.status if isinstance(fault, Refused) else 400
            reply = _json(status, api.error(status, str(fault)))
        self.seen.append(Seen(agent, request.path, request.headers, body, reply.status))
        return reply

    async def _reply(self, api: Api, agent: str, line: Line, body: dict[str, Json]) -> HttpReply:
        match line:
            case Slow(seconds, later):
                await anyio.sleep(seconds)
                return await self._reply(api, agent, later, body)
            case Refuse(status, message, headers):
                return _json(status, api.error(status, message), headers)
            case Raw(data, kind):
                return HttpReply(200, {"content-type": kind}, (data,))
            case Trickle(size, seconds, whole):
                reply = await self._reply(api, agent, whole, body)
                return replace(reply, parts=_pieces(b"".join(reply.parts), size), pause=seconds)
            case Cut(after, whole):
                reply = await self._reply(api, agent, whole, body)
                return replace(reply, cut=after)
            case Garble(every, whole):
                reply = await self._reply(api, agent, whole, body)
                return replace(reply, parts=tuple(_garbled(p, every) for p in reply.parts))
            case Response():
                said = line
            case _:
                said = line(body)
        usage = said.usage if said.usage != Usage() else self._count(api, agent, said, body)
        document = api.document(said, usage, len(self.seen) + 1, body)
        return _stream(api.events(document, body)) if body.get("stream") else _json(200, document)

    def _count(self, api: Api, agent: str, said: Response, body: dict[str, Json]) -> Usage:
        """Tokens by length; what the agent's last prompt began with as well comes from a cache."""
        prompt, cached = api.prompt(body)
        place = (agent, str(body["model"]))
        before = self._prompts.get(place, "") if cached else ""
        same = _common(before, prompt)
        self._prompts[place] = prompt
        words = "".join(repr(block) for block in said.blocks)
        per = BYTES_PER_TOKEN
        return Usage(len(prompt) // per, len(words) // per + 1, same // per)


@asynccontextmanager
async def running(
    server: Server, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Server]:
    """Have a server listen until the block is left; ``server.url`` says where."""
    async with listening(server.handle, host, port) as chosen:
        server.url = f"http://{host}:{chosen}"
        yield server


def _json(status: int, document: Json, headers: Mapping[str, str] | None = None) -> HttpReply:
    data = json.dumps(document).encode()
    return HttpReply(status, {"content-type": "application/json", **(headers or {})}, (data,))


def _stream(events: Iterator[tuple[str, Json]]) -> HttpReply:
    parts = []
    for name, data in events:
        named = f"event: {name}\n" if name else ""
        text = data if isinstance(data, str) else json.dumps(data)
        parts.append(f"{named}data: {text}\n\n".encode())
    return HttpReply(200, {"content-type": "text/event-stream"}, tuple(parts))


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _pieces(data: bytes, size: int) -> tuple[bytes, ...]:
    return tuple(data[at : at + size] for at in range(0, len(data), size))


def _garbled(data: bytes, every: int) -> bytes:
    return bytes(0xC0 if at % every == every - 1 else byte for at, byte in enumerate(data))


# --- the command ----------------------------------------------------------------------------------


def read_script(text: str) -> dict[str, list[Line]]:
    """A script from JSON: agent → lines.

    A line is a string (said as it is), ``{"report": {...}}``,
    ``{"calls": [{"name": ..., "arguments": {...}}]}`` or ``{"status": 429, "headers": {...}}``;
    with ``"delay"``, seconds, beside any of the last three.

    Raises:
        InputError: it is not that.
    """
    try:
        return {
            agent: [_line(line, f"{agent}-{at}") for at, line in enumerate(lines)]
            for agent, lines in json.loads(text).items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise InputError(f"the script cannot be used: {type(fault).__name__}: {fault}") from None


def _line(line: Any, name: str) -> Line:
    if isinstance(line, str):
        return Response((Text(line),), "end")
    made: Line
    if "calls" in line:
        made = Response(
            tuple(
                ToolCall(f"call-{name}-{at}", call["name"], call.get("arguments", {}))
                for at, call in enumerate(line["calls"])
            ),
            "tool_use",
        )
    elif "report" in line:
        made = Response((Text(json.dumps(line["report"])),), "end")
    else:
        made = Refuse(int(line["status"]), headers=line.get("headers", {}))
    return Slow(float(line["delay"]), made) if "delay" in line else made


async def _serve(server: Server, port: int) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with running(server, port=port):
            print(f"listening on {server.url}, the key is {KEY}", flush=True)  # noqa: T201
            async for _ in signals:
                return


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until interrupted; exit 1 when a line was left unsaid or a request broke a rule."""
    parser = argparse.ArgumentParser(prog="python -m orchestrator.testing.model_server")
    parser.add_argument("--port", type=int, default=8377)
    parser.add_argument(
        "--script",
        type=Path,
        metavar="FILE",
        help="JSON: agent to lines; without it each agent gives the smallest valid report",
    )
    args = parser.parse_args(argv)
    try:
        script = read_script(args.script.read_text("utf-8")) if args.script else None
        server = Server(script)
        anyio.run(_serve, server, args.port)
        server.finish()
    except (OSError, InputError, ScriptError) as fault:
        print(fault, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
