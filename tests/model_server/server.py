"""A model server on loopback that speaks three vendors' HTTP APIs strictly.

It rejects what the real services reject, and replies from a script. For tests, and for development
without an API key::

    python -m tests.model_server --script script.json

An agent is identified by the first line of its system prompt. A request for which the script has no
line left, and lines that are unused at the end, are errors.
"""

import argparse
import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from runpy import run_path
from typing import Any

import anyio
import h11
from anyio.abc import SocketAttribute, SocketStream
from msgspec import Struct, field
from msgspec.structs import replace

from orchestrator.engine.common_contract import ANSWER, describe_answer
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.types import Json, Response, Text, Usage
from orchestrator.errors import InputError
from tests.model_server import chat_api, messages_api, responses_api
from tests.model_server.api_validation import Rejected, parse_body
from tests.model_server.batch_apis import BatchApis
from tests.model_server.chat_api import ChatApi
from tests.model_server.messages_api import MessagesApi
from tests.model_server.responses_api import ResponsesApi
from tests.model_server.server_script import (
    Refuse,
    Reshaped,
    ServerReply,
    Signer,
    Slow,
    parse_line,
    smallest_report,
)
from tests.scripted_model import ScriptError

KEY = "test-key"
PORT = 8377

Api = MessagesApi | ResponsesApi | ChatApi

MAX_BODY = 64_000_000


class HttpRequest(Struct, frozen=True):
    """A received request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class HttpReply(Struct, frozen=True):
    """A reply to send.

    Attributes:
        parts: the body, in the chunks in which it is sent.
        cut: closes the connection after this many bytes of the body; None sends all of it.
        pause: seconds to wait after each chunk.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[bytes, ...] = ()
    cut: int | None = None
    pause: float = 0.0


Handler = Callable[[HttpRequest], Awaitable[HttpReply]]


@asynccontextmanager
async def serve_http(handle: Handler, host: str, port: int) -> AsyncIterator[int]:
    """Serve while the context is open.

    Args:
        port: 0 for any free port.
    """
    listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    async with listener, task_group() as group:
        group.start_soon(partial(listener.serve, partial(_serve_connection, handle)))
        yield listener.extra(SocketAttribute.local_port)
        group.cancel_scope.cancel()


async def _serve_connection(handle: Handler, stream: SocketStream) -> None:
    connection = h11.Connection(h11.SERVER)
    async with stream:
        try:
            while True:
                request = await _receive_request(connection, stream)
                if request is None:
                    return
                await _send_reply(connection, stream, await handle(request))
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    return
                connection.start_next_cycle()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, h11.ProtocolError):
            return  # the client has closed the connection


async def _receive_request(connection: h11.Connection, stream: SocketStream) -> HttpRequest | None:
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            try:
                connection.receive_data(await stream.receive())
            except anyio.EndOfStream:
                connection.receive_data(b"")
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MAX_BODY:
                return None
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
            path = head.target.decode("latin-1")
            return HttpRequest(head.method.decode(), path, headers, bytes(body))
        else:
            return None


async def _send_reply(connection: h11.Connection, stream: SocketStream, reply: HttpReply) -> None:
    body = b"".join(reply.parts)
    headers = dict(reply.headers)
    if len(reply.parts) == 1:
        headers["content-length"] = str(len(body))
    else:
        headers["transfer-encoding"] = "chunked"
    head = h11.Response(status_code=reply.status, headers=list(headers.items()))
    pending = connection.send(head) or b""
    left = len(body) if reply.cut is None else reply.cut
    for part in reply.parts:
        sent = part[:left]
        left -= len(sent)
        # Together with the head: two small packets cost a client 40 ms of delayed ACK.
        await stream.send(pending + (connection.send(h11.Data(data=sent)) or b""))
        pending = b""
        if reply.pause:
            await anyio.sleep(reply.pause)
    end = connection.send(h11.EndOfMessage()) if reply.cut is None else b""
    if pending or end:
        await stream.send(pending + (end or b""))


class ReceivedRequest(Struct, frozen=True):
    """A received request, with the status of its reply and the usage that was counted for it."""

    agent: str
    path: str
    headers: Mapping[str, str]
    body: dict[str, Json]
    status: int
    usage: Usage | None = None


BYTES_PER_TOKEN = 4


class Counted(Struct, frozen=True):
    """Input tokens: all of them, those read from a cache, and those written to it."""

    input: int
    read: int = 0
    written: int = 0


def count_by_length(path: str, body: dict[str, Json]) -> Counted:
    """Count the input tokens of a request to a path; nothing is cached."""
    return Counted(len(json.dumps(body)) // BYTES_PER_TOKEN)


ReplySource = Callable[[str, dict[str, Json], Mapping[str, Json] | None], Awaitable[ServerReply]]
"""Gives the reply to an agent's request, by the request's body and the schema of the report."""


class ModelServer:
    """A scripted model server; ``start_server`` makes it listen.

    Args:
        script: agent → its lines; None: each agent returns the smallest valid report.
        key: the only accepted API key.
        chat: makes the API of Chat Completions for the key.
        reply: gives the replies, instead of a script.
        count: counts the input tokens of a request.

    Attributes:
        url: base URL, without the API's path.
        batches: the batches of requests, and plans for the next ones.
    """

    def __init__(
        self,
        script: Mapping[str, Sequence[ServerReply]] | None = None,
        *,
        key: str = KEY,
        chat: Callable[[str], ChatApi] = ChatApi,
        reply: ReplySource | None = None,
        count: Callable[[str, dict[str, Json]], Counted] = count_by_length,
    ) -> None:
        seals = Signer()
        self._script = None if script is None else {name: [*own] for name, own in script.items()}
        self._reply_source = reply
        self._apis: dict[str, Api] = {
            messages_api.PATH: MessagesApi(key, seals),
            responses_api.PATH: ResponsesApi(key, seals),
            chat_api.PATH: chat(key),
        }
        self.batches = BatchApis(key, self._answer_item)
        self._count_input = count
        self._counted: dict[int, Usage] = {}
        self.url = ""
        self.requests: list[ReceivedRequest] = []
        self.rejected: list[str] = []

    def finish(self) -> None:
        """Check that the script is used up and no request was invalid.

        Raises:
            ScriptError: with the unused lines, or the first invalid request.
        """
        if self.rejected:
            raise ScriptError(f"a request was rejected: {self.rejected[0]}")
        if unused := {agent: len(own) for agent, own in (self._script or {}).items() if own}:
            raise ScriptError(f"unused lines in the script: {unused}")

    async def handle(self, request: HttpRequest) -> HttpReply:
        """Answer one request."""
        path = request.path.partition("?")[0]
        if self.batches.serves(path):
            return await self._handle_batch(request)
        api = self._apis.get(path)
        if api is None or request.method != "POST":
            return _json_reply(
                404, {"error": {"message": f"no route {request.method} {request.path}"}}
            )
        return await self._handle_single(path, request)

    async def _handle_single(self, path: str, request: HttpRequest) -> HttpReply:
        api, agent, body = self._apis[path], "", dict[str, Json]()
        try:
            body = parse_body(request.headers, request.body)
            api.check(request.headers, body)
            agent = api.agent(body)
            line = await self._next_line(api, agent, body)
            reply = await self._reply(path, agent, line, body)
        except (Rejected, ScriptError) as error:
            self.rejected.append(str(error))
            status = error.status if isinstance(error, Rejected) else 400
            reply = _json_reply(status, api.error(status, str(error)))
        self.requests.append(
            ReceivedRequest(
                agent, path, request.headers, body, reply.status, self._counted.pop(id(body), None)
            )
        )
        return reply

    async def _handle_batch(self, request: HttpRequest) -> HttpReply:
        given = request.method, request.path, request.headers, request.body
        try:
            reply = await self.batches.handle(*given)
        except Rejected as error:
            if error.status != 404:
                self.rejected.append(str(error))
            return _json_reply(error.status, {"error": {"message": str(error), "type": "e"}})
        if reply.lines is not None:
            return HttpReply(200, {"content-type": "application/x-jsonl"}, (reply.lines,))
        answer = _json_reply(reply.status, reply.document, reply.headers)
        return replace(answer, cut=0) if reply.lost else answer

    async def _answer_item(
        self, path: str, headers: Mapping[str, str], body: dict[str, Json]
    ) -> tuple[int, Json]:
        """The reply to an item of a batch."""
        own = {**headers, "content-type": "application/json"}
        single = HttpRequest("POST", path, own, json.dumps(body).encode())
        reply = await self._handle_single(path, single)
        return reply.status, json.loads(b"".join(reply.parts))

    async def _next_line(self, api: Api, agent: str, body: dict[str, Json]) -> ServerReply:
        schema = own_contract(api.schema(body), body)
        if self._reply_source is not None:
            return await self._reply_source(agent, body, schema)
        if self._script is None:
            return smallest_report(schema)
        if not (lines := self._script.get(agent)):
            raise ScriptError(f"the script has no line left for {agent}")
        return lines.pop(0)

    async def _reply(
        self, path: str, agent: str, line: ServerReply, body: dict[str, Json]
    ) -> HttpReply:
        api = self._apis[path]
        match line:
            case Slow(seconds, delayed):
                await anyio.sleep(seconds)
                return await self._reply(path, agent, delayed, body)
            case Refuse(status, message, headers):
                return _json_reply(status, api.error(status, message), headers)
            case Reshaped(inner, change):
                reply: HttpReply = change(await self._reply(path, agent, inner, body))
                return reply
            case Response():
                response = line
            case _:
                response = line(body)
        response = enforce_answer(response, api.schema(body), body)
        usage, written = response.usage, 0
        if usage == Usage():
            usage, written = self._count(path, response, body)
        document = api.document(response, usage, len(self.requests) + 1, body, written)
        if body.get("stream"):
            return _stream_reply(api.events(document, body))
        return _json_reply(200, document)

    def _count(self, path: str, response: Response, body: dict[str, Json]) -> tuple[Usage, int]:
        """Count tokens by length; those that are written to the cache besides."""
        counted = self._count_input(path, body)
        text = "".join(repr(block) for block in response.blocks)
        used = Usage(counted.input, len(text) // BYTES_PER_TOKEN + 1, counted.read)
        self._counted[id(body)] = used
        return used, counted.written


@asynccontextmanager
async def start_server(server: ModelServer, *, port: int = 0) -> AsyncIterator[ModelServer]:
    """Let a server listen while the context is open; ``server.url`` is its address."""
    async with serve_http(server.handle, "127.0.0.1", port) as chosen:
        server.url = f"http://127.0.0.1:{chosen}"
        yield server


def _json_reply(status: int, document: Json, headers: Mapping[str, str] | None = None) -> HttpReply:
    data = json.dumps(document).encode()
    return HttpReply(status, {"content-type": "application/json", **(headers or {})}, (data,))


def _stream_reply(events: Iterator[tuple[str, Json]]) -> HttpReply:
    parts = []
    for name, data in events:
        named = f"event: {name}\n" if name else ""
        text = data if isinstance(data, str) else json.dumps(data)
        parts.append(f"{named}data: {text}\n\n".encode())
    return HttpReply(200, {"content-type": "text/event-stream"}, tuple(parts))


# --- the command ----------------------------------------------------------------------------------


def read_script(text: str) -> dict[str, list[ServerReply]]:
    """Parse a script from JSON: agent → lines.

    A line is a string (the answer's text), ``{"report": {...}}``,
    ``{"calls": [{"name": ..., "arguments": {...}}]}`` or ``{"status": 429, "headers": {...}}``;
    with ``"delay"``, seconds, beside any of the last three.

    Raises:
        InputError: it is not such a script.
    """
    try:
        return {
            agent: [parse_line(line, f"{agent}-{at}") for at, line in enumerate(lines)]
            for agent, lines in json.loads(text).items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"invalid script: {type(error).__name__}: {error}") from None


async def serve_until_signal(server: ModelServer, port: int) -> None:
    """Print the address and serve; ends with SIGINT or SIGTERM."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with start_server(server, port=port):
            print(f"listening on {server.url}, the key is {KEY}", flush=True)  # noqa: T201
            async for _ in signals:
                return


BY_HAND = Path(__file__).parents[2] / "bench" / "play_the_model.py"


def replies_by_hand(folder: Path) -> Any:
    """Replies that a person writes to files of a folder."""
    return run_path(str(BY_HAND))["HandWrittenReplies"](folder)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until interrupted; exit code 1 when lines are unused or a request was invalid."""
    parser = argparse.ArgumentParser(prog="python -m tests.model_server")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument(
        "--script",
        type=Path,
        metavar="FILE",
        help="JSON: agent to lines; without it, each agent returns the smallest valid report",
    )
    parser.add_argument("--by-hand", type=Path, metavar="DIR", help=f"as {BY_HAND.name} does")
    args = parser.parse_args(argv)
    try:
        script = read_script(args.script.read_text("utf-8")) if args.script else None
        reply = replies_by_hand(args.by_hand) if args.by_hand else None
        server = ModelServer(script, reply=reply)
        anyio.run(serve_until_signal, server, args.port)
        server.finish()
    except (OSError, InputError, ScriptError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


_KIND = re.compile(re.escape(describe_answer("KIND").partition(":")[0]).replace("KIND", r"(\w+)"))


def own_contract(
    schema: Mapping[str, Json] | None, body: Mapping[str, Json]
) -> Mapping[str, Json] | None:
    """The contract of the agent that asks, where the schema of its request offers several."""
    options = _options(schema)
    return options[_kind(body)] if options else schema


def enforce_answer(
    response: Response, schema: Mapping[str, Json] | None, body: Mapping[str, Json]
) -> Response:
    """A reply whose report, where it is a JSON object, is wrapped as the schema demands."""
    texts = [block for block in response.blocks if isinstance(block, Text)]
    if not _options(schema) or len(texts) != 1:
        return response
    try:
        report = json.loads(texts[0].text)
    except ValueError:
        return response
    if not isinstance(report, dict) or ANSWER in report:
        return response
    wrapped = Text(json.dumps({ANSWER: {_kind(body): report}}))
    blocks = tuple(wrapped if block is texts[0] else block for block in response.blocks)
    return replace(response, blocks=blocks)


def _options(schema: Mapping[str, Json] | None) -> dict[str, Mapping[str, Json]]:
    """The contracts that a schema offers, by name."""
    answer = (schema or {}).get("properties", {}).get(ANSWER, {})
    return {
        name: contract
        for option in answer.get("anyOf", ())
        for name, contract in option["properties"].items()
    }


def _kind(body: Mapping[str, Json]) -> str:
    """The kind of answer that the agent is told to give; the last such line counts."""
    said = json.dumps(body.get("messages") or body.get("input"))
    return str(_KIND.findall(said)[-1])
