"""Scripts of a model server: lines per agent, including errors and broken replies."""

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.types import Json, Response, Text, ToolCall


class Refuse(Struct, frozen=True):
    """Replies with an error status: ``Refuse(429, headers={"retry-after": "1"})``."""

    status: int
    message: str = "refused by the script"
    headers: Mapping[str, str] = field(default_factory=dict)


class Slow(Struct, frozen=True):
    """Delays a line by some seconds."""

    seconds: float
    line: "ServerReply"


class Reshaped(Struct, frozen=True):
    """Changes the HTTP reply of a line before it is sent, such as to cut it off."""

    line: "ServerReply"
    change: Callable[[Any], Any]


ServerReply = Response | Refuse | Slow | Reshaped | Callable[[dict[str, Json]], Response]
"""The next reply to an agent. A function receives the request's body."""


def smallest_report(schema: Mapping[str, Json] | None) -> Response:
    """The smallest valid report under an output schema."""
    text = canonical(smallest_value(schema)).decode() if schema else "Nothing to report."
    return Response((Text(text),), "end")


def parse_line(line: Any, name: str) -> ServerReply:
    """Parse a line of a script from JSON; ``name`` is part of the ids of its calls."""
    if isinstance(line, str):
        return Response((Text(line),), "end")
    parsed: ServerReply
    if "calls" in line:
        parsed = Response(
            tuple(
                ToolCall(f"call-{name}-{at}", call["name"], call.get("arguments", {}))
                for at, call in enumerate(line["calls"])
            ),
            "tool_use",
        )
    elif "report" in line or "text" in line:
        text = line["text"] if "text" in line else json.dumps(line["report"])
        parsed = Response((Text(text),), line.get("stop", "end"))
    else:
        parsed = Refuse(int(line["status"]), headers=line.get("headers", {}))
    return Slow(float(line["delay"]), parsed) if "delay" in line else parsed


class Signer:
    """Signs values that a client must send back unmodified."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)

    def sign(self, value: Json) -> str:
        """Return the signature of a value."""
        return hmac.new(self._key, canonical(value), hashlib.sha256).hexdigest()


def smallest_value(schema: Mapping[str, Json]) -> Json:
    """Return the smallest valid value of an output schema."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for union in ("anyOf", "oneOf"):
        if schema.get(union):
            return smallest_value(schema[union][-1])
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: smallest_value(properties[name]) for name in schema.get("required", ())}
    if kind == "array":
        return [smallest_value(schema["items"])] * schema.get("minItems", 0)
    plain: dict[str, Json] = {"string": "", "boolean": False, "null": None}
    return plain.get(str(kind), schema.get("minimum", 0))
