"""What a test server says: lines per agent, and ways to go wrong."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.types import Json, Opaque, Response, Text
from orchestrator.errors import ScriptError


class Refuse(Struct, frozen=True):
    """An error status: ``Refuse(429, headers={"retry-after": "1"})``."""

    status: int
    message: str = "refused by the script"
    headers: Mapping[str, str] = field(default_factory=dict)


class Raw(Struct, frozen=True):
    """These very bytes with status 200, whatever they are."""

    body: bytes
    kind: str = "application/json"


class Slow(Struct, frozen=True):
    """A line that comes after some seconds."""

    seconds: float
    line: Line


class Trickle(Struct, frozen=True):
    """A line whose body comes in pieces of so many bytes, with a pause after each."""

    size: int
    seconds: float
    line: Line


class Cut(Struct, frozen=True):
    """A line whose connection closes after so many bytes of its body."""

    after: int
    line: Line


class Garble(Struct, frozen=True):
    """A line whose body has every so-many-th byte overwritten; its length stays."""

    every: int
    line: Line


Line = (
    Response | Refuse | Raw | Slow | Trickle | Cut | Garble | Callable[[dict[str, Json]], Response]
)
"""What an agent is answered next. A function is given the request's body."""


def thinking(text: str) -> Opaque:
    """Reasoning in front of an answer; the server signs it, and takes it back only unmodified."""
    return Opaque("server", {"type": "thinking", "thinking": text})


class Script:
    """Lines per agent; without any, each agent gives the smallest report of its contract."""

    def __init__(self, lines: Mapping[str, Sequence[Line]] | None) -> None:
        self._lines = None if lines is None else {name: list(own) for name, own in lines.items()}

    def next(self, agent: str, schema: Mapping[str, Json] | None) -> Line:
        """An agent's next line.

        Raises:
            ScriptError: it has none left.
        """
        if self._lines is None:
            text = canonical(smallest(schema)).decode() if schema else "Nothing to report."
            return Response((Text(text),), "end")
        own = self._lines.get(agent)
        if not own:
            raise ScriptError(f"{agent} was asked for a line that its script does not have")
        return own.pop(0)

    def finish(self) -> None:
        """Fail when something was left unsaid.

        Raises:
            ScriptError: names the agents and how many lines each has left.
        """
        left = {agent: len(own) for agent, own in (self._lines or {}).items() if own}
        if left:
            raise ScriptError(f"lines left unsaid: {left}")


class Seals:
    """Signs what a client must hand back unmodified."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)

    def sign(self, value: Json) -> str:
        """The signature of a value."""
        return hmac.new(self._key, canonical(value), hashlib.sha256).hexdigest()


def smallest(schema: Mapping[str, Json]) -> Json:
    """The smallest value of a schema as contracts have them."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for union in ("anyOf", "oneOf"):
        if schema.get(union):
            return smallest(schema[union][-1])
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: smallest(properties[name]) for name in schema.get("required", ())}
    if kind == "array":
        return [smallest(schema["items"])] * schema.get("minItems", 0)
    plain: dict[str, Json] = {"string": "", "boolean": False, "null": None}
    return plain.get(str(kind), schema.get("minimum", 0))
