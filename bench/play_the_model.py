"""A model server whose replies a person writes to files of a folder, beside the requests.

    python bench/play_the_model.py requests [--port 8377]

See docs/play-the-model.md.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from orchestrator.engine.types import Json, Response, Text, ToolCall
from orchestrator.errors import InputError
from tests.model_server.server import PORT, ModelServer, serve_until_signal
from tests.model_server.server_script import ServerReply, parse_line
from tests.scripted_model import ScriptError

POLL_SECONDS = 0.1

_CALL = re.compile(r"^CALL +(\S+) *", re.MULTILINE)
_NUMBER = re.compile(r"(\d+)-")
_LINE = frozenset({"calls", "report", "text", "status"})
"""What one of tells a line of a script from a report."""


class HandWrittenReplies:
    """Requests and their replies as files of one folder.

    Args:
        folder: made if it does not exist, for this user only; numbers continue after its highest.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        found = (_NUMBER.match(path.name) for path in folder.glob("*.request.json"))
        self._number = max((int(match[1]) for match in found if match), default=0)
        self._stems: dict[str, str] = {}
        self._seen: dict[str, list[_Request]] = {}

    async def __call__(
        self, agent: str, body: dict[str, Json], schema: Mapping[str, Json] | None
    ) -> ServerReply:
        """Write a request down, and wait for its reply.

        A request that is sent again, because the client gave up waiting, has the same files.
        """
        key = json.dumps([agent, body])
        if key not in self._stems:
            self._stems[key] = self._write(agent, body, schema)
        stem = self._stems[key]
        name = stem.partition("-")[0]
        size = -1
        while True:
            path = self._reply_path(stem)
            before, size = size, path.stat().st_size if path else -1
            # A file that is still being written is read once its size no longer changes.
            if path and size == before > 0:
                try:
                    reply = read_reply(path.read_text("utf-8"), path.suffix == ".json", name)
                except (InputError, UnicodeDecodeError) as error:
                    self._set_aside(path, stem, error)
                    size = -1
                else:
                    (self._folder / f"{stem}.problem.md").unlink(missing_ok=True)
                    return reply
            await anyio.sleep(POLL_SECONDS)

    def _reply_path(self, stem: str) -> Path | None:
        paths = (self._folder / f"{stem}.reply.{kind}" for kind in ("json", "md"))
        return next((path for path in paths if path.is_file()), None)

    def _write(self, agent: str, body: dict[str, Json], schema: Mapping[str, Json] | None) -> str:
        self._number += 1
        stem = f"{self._number:04}-{re.sub(r'[^A-Za-z0-9_-]', '_', agent)[:60]}"
        request = _Request(stem, body, schema)
        earlier = self._seen.setdefault(agent, [])
        (self._folder / f"{stem}.request.json").write_text(json.dumps(body, indent=1), "utf-8")
        text = request.describe(earlier)
        (self._folder / f"{stem}.request.md").write_text(text, "utf-8")
        earlier.append(request)
        print(f"{self._folder / stem}.request.md waits for its reply", flush=True)
        return stem

    def _set_aside(self, path: Path, stem: str, error: Exception) -> None:
        number = 1 + len(list(self._folder.glob(f"{stem}.unreadable-*")))
        kept = path.with_name(f"{stem}.unreadable-{number}{path.suffix}")
        path.rename(kept)
        text = f"{error}\n\nThe reply is kept in {kept.name}. Write {path.name} again.\n"
        (self._folder / f"{stem}.problem.md").write_text(text, "utf-8")
        print(f"{self._folder / stem}.problem.md: {error}", flush=True)


def read_reply(text: str, is_json: bool, name: str) -> ServerReply:
    """Parse a reply.

    Args:
        text: as JSON, a line of a script, or a report alone; otherwise text, and after it any
            number of ``CALL tool {arguments}``, each at the start of a line.
        name: part of the calls' ids.

    Raises:
        InputError: says what cannot be read, and where.
    """
    if is_json:
        try:
            line = json.loads(text)
            if isinstance(line, dict) and _LINE.isdisjoint(line):
                line = {"report": line}
            return parse_line(line, name)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"invalid reply: {type(error).__name__}: {error}") from None
    first = _CALL.search(text)
    text_part = text[: first.start() if first else None].strip()
    calls = tuple(_read_calls(text, name))
    if not text_part and not calls:
        raise InputError("the reply is empty: write text, or lines such as CALL search {...}")
    return Response(
        (*([Text(text_part)] if text_part else ()), *calls), "tool_use" if calls else "end"
    )


def _read_calls(text: str, name: str) -> Iterator[ToolCall]:
    at, number = 0, 0
    while match := _CALL.search(text, at):
        line = text.count("\n", 0, match.start()) + 1
        try:
            arguments, at = json.JSONDecoder().raw_decode(text, match.end())
        except ValueError as error:
            raise InputError(
                f"line {line}: the arguments of {match[1]} are not JSON: {error}"
            ) from None
        if not isinstance(arguments, dict):
            raise InputError(f"line {line}: the arguments of {match[1]} are not a JSON object")
        following = _CALL.search(text, at)
        between = text[at : following.start() if following else None].strip()
        if between:
            raise InputError(
                f"line {line}: text follows the call of {match[1]}: {between[:60]!r}; "
                "text stands before the first call"
            )
        yield ToolCall(f"call-{name}-{number}", match[1], arguments)
        number += 1


class _Request:
    """A request of any of the three APIs, in parts that a person can read."""

    def __init__(self, stem: str, body: dict[str, Json], schema: Mapping[str, Json] | None) -> None:
        self.stem = stem
        messages = [_describe(item) for item in body.get("messages") or body.get("input") or ()]
        system = body.get("system") or body.get("instructions")
        if system:
            self.system = _text(system)
        else:
            self.system, messages = messages[0], messages[1:]
        self.messages = messages
        self.tools = "\n".join(map(_describe_tool, body.get("tools", ())))
        self.contract = f"```json\n{json.dumps(schema, indent=1)}\n```" if schema else "Free text."
        settings = {
            "model": body.get("model"),
            "most tokens of the answer": body.get("max_tokens")
            or body.get("max_output_tokens")
            or body.get("max_completion_tokens"),
            "effort": body.get("output_config", {}).get("effort")
            or body.get("reasoning", {}).get("effort")
            or body.get("reasoning_effort"),
            "choice of tools": body.get("tool_choice"),
        }
        self.settings = [f"{name}: {value}" for name, value in settings.items() if value]

    def describe(self, earlier: Sequence["_Request"]) -> str:
        """Return the request as Markdown, without what an earlier one of the agent has shown."""
        parts = [f"# {self.stem}\n\n{', '.join(self.settings)}"]
        for title, name in (("System", "system"), ("Tools", "tools"), ("Contract", "contract")):
            own = getattr(self, name)
            known = next((request.stem for request in earlier if getattr(request, name) == own), "")
            parts.append(f"## {title}\n\n{f'As in {known}.' if known else own or 'None.'}")
        shared = [(_common(self.messages, request.messages), request.stem) for request in earlier]
        done, stem = max(shared, default=(0, ""))
        since = f", the first {done} as in {stem}" if done else ""
        parts.append(f"## Messages: {len(self.messages)}{since}")
        return "\n\n".join([*parts, *self.messages[done:]]) + "\n"


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))


def _describe_tool(tool: dict[str, Any]) -> str:
    tool = tool.get("function", tool)
    schema = json.dumps(tool.get("input_schema") or tool.get("parameters"))
    return f"- **{tool['name']}**: {tool.get('description', '')}\n  `{schema}`"


def _describe(item: dict[str, Any]) -> str:
    """One message, or one item of the Responses API, as text."""
    if item.get("type") in {"function_call", "function_call_output", "reasoning"}:
        return _describe_block(item)
    parts = [_text(item.get("content"))]
    parts += [
        _describe_block({"type": "function_call", "call_id": call["id"], **call["function"]})
        for call in item.get("tool_calls", ())
    ]
    of = f" of {item['tool_call_id']}" if "tool_call_id" in item else ""
    if item["role"] == "system" and "tool_call_id" not in item and len(parts) == 1:
        return parts[0]
    return f"### {item['role']}{of}\n\n" + "\n\n".join(part for part in parts if part)


def _text(content: Json) -> str:
    if not isinstance(content, list):
        return content or ""
    return "\n\n".join(map(_describe_block, content))


def _describe_block(block: dict[str, Any]) -> str:
    match block.get("type"):
        case "text" | "input_text" | "output_text":
            return str(block["text"])
        case "tool_use":
            return f"CALL {block['name']} {json.dumps(block['input'])}\n({block['id']})"
        case "function_call":
            return f"CALL {block['name']} {block['arguments']}\n({block['call_id']})"
        case "tool_result":
            failed = ", an error" if block.get("is_error") else ""
            return f"Result of {block['tool_use_id']}{failed}:\n\n{_text(block['content'])}"
        case "function_call_output":
            return f"Result of {block['call_id']}:\n\n{block['output']}"
    return json.dumps(block)


def main() -> int:
    """Serve until interrupted; exit code 1 when a request was invalid."""
    parser = argparse.ArgumentParser(description="answer in a model's place, through files")
    parser.add_argument("folder", type=Path, help="where requests and replies are")
    parser.add_argument("--port", type=int, default=PORT)
    args = parser.parse_args()
    try:
        server = ModelServer(reply=HandWrittenReplies(args.folder))
        anyio.run(serve_until_signal, server, args.port)
        server.finish()
    except (OSError, ScriptError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
