"""The model of a coding agent, by a script: a server of its vendor's API on loopback.

It speaks the streams of Anthropic's Messages, OpenAI's Responses and Chat Completions, and Gemini,
and takes any request. What it says depends on the request alone: as many steps of the script are
done as the conversation has results of tools.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Json = Any
Step = tuple[str, Json]
"""A tool and its arguments, or ``say`` and a text."""

Script = Callable[[Sequence[str]], Step]
"""The results of tools so far → the next step."""


class Model:
    """What a host has sent, and what it is told.

    Attributes:
        requests: the bodies of requests with tools, the newest last.
        tools: the names of the tools of the newest of them.
        results: the text of each tool's result in it.
    """

    def __init__(self, script: Script) -> None:
        self.script, self.address = script, ""
        self.requests: list[Json] = []
        self.tools: list[str] = []
        self.results: list[str] = []

    def reply(self, path: str, body: Json) -> list[Json]:
        """The events of the stream that answers a request."""
        tools = [*_tools(body)]
        results = [one for one in _results(body) if not one.startswith("ready: ")]
        if not tools:  # such as a title for the session
            return _stream(path, body, "say", "A review", "")
        self.requests.append(body)
        self.tools, self.results = [name for name, _ in tools], results
        if "WaitForMcpServers" in self.tools:  # Claude Code has not started the server yet
            return _stream(path, body, "WaitForMcpServers", {}, "")
        step, given = self.script(results)
        if step == "say":
            return _stream(path, body, "say", given, "")
        found = next(
            (
                (name, space)
                for name, space in tools
                if name == step or (name.endswith(f"_{step}") and "diffcourt" in name + space)
            ),
            (step, ""),
        )
        return _stream(path, body, found[0], given, found[1])


def _tools(body: Json) -> Iterator[tuple[str, str]]:
    """Name and namespace of each tool of a request."""
    for tool in body.get("tools") or ():
        for one in tool.get("functionDeclarations") or tool.get("tools") or [tool]:
            space = tool.get("name", "") if "tools" in tool else ""
            yield one.get("name") or one.get("function", {}).get("name") or one["type"], space


def _results(body: Json) -> Iterator[str]:
    """The text of each tool's result in a request."""
    for message in body.get("messages") or body.get("contents") or body.get("input") or ():
        if message.get("role") == "tool":
            yield text_of(message["content"])
        elif message.get("type", "").endswith("_call_output"):
            yield text_of(message["output"])
        content = message.get("content") or message.get("parts")
        for part in content if isinstance(content, list) else ():
            if part.get("type") == "tool_result":
                yield text_of(part.get("content"))
            elif "functionResponse" in part:
                yield text_of(part["functionResponse"]["response"])


def text_of(content: Json) -> str:
    """The text of a result, in the forms of all vendors."""
    match content:
        case str():
            return content
        case list():
            return "\n".join(map(text_of, content))
        case {"text": str(text)} | {"output": str(text)}:
            return text
        case {"content": inner} | {"output": inner}:
            return text_of(inner)
    return json.dumps(content)


_numbers = itertools.count()


# fmt: off
def _stream(path: str, body: Json, name: str, given: Json, space: str) -> list[Json]:
    """A text, or a call of a tool, as the events of the API that a path belongs to."""
    call, arguments, said = f"call_{next(_numbers)}", json.dumps(given), name == "say"
    if "/messages" in path:
        block: Json = {"type": "text", "text": ""} if said else {"type": "tool_use", "id": call, "name": name, "input": {}}
        delta: Json = {"type": "text_delta", "text": given} if said else {"type": "input_json_delta", "partial_json": arguments}
        stop = {"stop_reason": "end_turn" if said else "tool_use", "stop_sequence": None}
        usage = {"input_tokens": 9, "output_tokens": 9}
        message = {"id": call, "type": "message", "role": "assistant", "content": [], "model": body["model"], "usage": usage}
        return [
            {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": usage},
            {"type": "message_stop"},
        ]
    if path.endswith("/responses"):
        item: Json = {"type": "message", "id": call, "role": "assistant", "content": [{"type": "output_text", "text": given, "annotations": []}]}
        if not said:
            item = {"type": "function_call", "id": f"f{call}", "call_id": call, "name": name, "arguments": arguments}
            item |= {"namespace": space} if space else {}
        usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
        whole = {"id": f"r{call}", "object": "response", "status": "completed", "output": [item], "usage": usage}
        return [
            {"type": "response.created", "response": {**whole, "output": [], "status": "in_progress"}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ]
    if path.endswith("/chat/completions"):
        called = {"index": 0, "id": call, "type": "function", "function": {"name": name, "arguments": arguments}}
        told: Json = {"role": "assistant", **({"content": given} if said else {"tool_calls": [called]})}
        common = {"id": call, "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        return [
            {**common, "choices": [{"index": 0, "delta": told, "finish_reason": None}]},
            {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop" if said else "tool_calls"}], "usage": usage},
        ]
    part = {"text": given} if said else {"functionCall": {"name": name, "args": given}}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18}
    return [{"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}]
# fmt: on


class _Handler(BaseHTTPRequestHandler):
    model: Model

    def do_GET(self) -> None:
        self._send("application/json", b'{"data": [], "models": []}')

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if "ount_tokens" in path or "countTokens" in path:
            return self._send("application/json", b'{"input_tokens": 9, "totalTokens": 9}')
        events = self.model.reply(path, body)
        if path.endswith(":generateContent"):
            return self._send("application/json", json.dumps(events[0]).encode())
        lines = [f"event: {one.get('type')}\n" * ("type" in one) + f"data: {json.dumps(one)}\n\n" for one in events]  # fmt: skip
        lines += ["data: [DONE]\n\n"] * path.endswith("/completions")
        return self._send("text/event-stream", "".join(lines).encode())

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(script: Script) -> Iterator[Model]:
    """A model at its ``address``."""
    model = Model(script)
    handler = type("Handler", (_Handler,), {"model": model})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        model.address = f"http://127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever, daemon=True).start()
        yield model
        server.shutdown()
