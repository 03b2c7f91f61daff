"""Rules that the three APIs share: shapes, keys, schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jsonschema_rs

from orchestrator.engine.tool_registry import validator
from orchestrator.engine.types import Json

NAME = "^[a-zA-Z0-9_-]{1,64}$"
_AGENT = re.compile(r"Agent: (\S+)")

STRICT_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const"}
    | {"description", "format", "$ref", "$defs"}
)


class Refused(Exception):
    """A request that the real service would refuse.

    Args:
        message: as the service would say it.
        status: 400 unless said otherwise.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


Shape = Callable[[Json], list[str]]


def shape(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The JSON Schema of a closed object."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def compiled(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> Shape:
    """A closed object's shape, ready to be held against values."""
    return validator(shape(required, optional))


def hold(value: Json, form: Shape, where: str) -> None:
    """Hold a value against a shape.

    Raises:
        Refused: the first fault, with its place.
    """
    faults = form(value)
    if faults:
        raise Refused(f"{where}: {faults[0]}")


def one_of(value: Json, forms: Mapping[str, Shape], where: str) -> str:
    """Hold a value against the shape that its ``type`` names; returns the type.

    Raises:
        Refused: no such type, or not its shape.
    """
    kind = str(value.get("type")) if isinstance(value, dict) else ""
    if kind not in forms:
        raise Refused(f"{where}: type {kind!r} is none of {', '.join(sorted(forms))}")
    hold(value, forms[kind], f"{where} ({kind})")
    return kind


def read_object(headers: Mapping[str, str], body: bytes) -> dict[str, Json]:
    """The body of a request.

    Raises:
        Refused: no JSON object, or not said to be one.
    """
    if not headers.get("content-type", "").startswith("application/json"):
        raise Refused("content-type must be application/json", 415)
    try:
        value = json.loads(body)
    except ValueError:
        raise Refused("the request body is not valid JSON") from None
    if not isinstance(value, dict):
        raise Refused("the request body is not an object")
    return value


def bearer(headers: Mapping[str, str], key: str, *, also: str = "") -> None:
    """Check the key.

    Args:
        also: another header that may carry it.

    Raises:
        Refused: status 401.
    """
    given = headers.get("authorization", "").removeprefix("Bearer ") or headers.get(also, "")
    if given != key:
        raise Refused("invalid x-api-key" if also else "Incorrect API key provided", 401)


def check_tools(names: Iterable[str], schemas: Iterable[Json]) -> None:
    """Check the offered tools.

    Raises:
        Refused: a name twice, or a schema that is none.
    """
    seen = list(names)
    for name in seen:
        if seen.count(name) > 1:
            raise Refused(f"tools: Tool names must be unique ({name})")
    for name, schema in zip(seen, schemas, strict=True):
        if not jsonschema_rs.meta.is_valid(schema) or schema.get("type") != "object":
            raise Refused(f"tools.{name}: input schema is not a valid JSON schema of an object")


def check_strict(schema: Json, where: str, *, all_required: bool) -> None:
    """Check a schema for strict structured output.

    Raises:
        Refused: a keyword that is not supported, an open object, no type.
    """
    if not isinstance(schema, dict) or not jsonschema_rs.meta.is_valid(schema):
        raise Refused(f"{where}: not a valid JSON schema")
    unknown = sorted(schema.keys() - STRICT_KEYWORDS)
    if unknown:
        raise Refused(f"{where}: {unknown[0]!r} is not permitted")
    if not schema.keys() & {"type", "anyOf", "enum", "const", "$ref"}:
        raise Refused(f"{where}: schema must have a 'type'")
    if schema.get("type") == "object":
        _check_closed(schema, where, all_required=all_required)
    if schema.get("type") == "array" and "items" not in schema:
        raise Refused(f"{where}: array schema missing items")
    for at, below in enumerate(schema.get("anyOf", [])):
        check_strict(below, f"{where}.anyOf.{at}", all_required=all_required)
    if "items" in schema:
        check_strict(schema["items"], f"{where}.items", all_required=all_required)


def _check_closed(schema: dict[str, Json], where: str, *, all_required: bool) -> None:
    properties = schema.get("properties", {})
    if schema.get("additionalProperties") is not False:
        raise Refused(f"{where}: 'additionalProperties' must be explicitly set to false")
    if all_required and set(schema.get("required", ())) != set(properties):
        raise Refused(f"{where}: 'required' must include every key in properties")
    for name, below in properties.items():
        check_strict(below, f"{where}.{name}", all_required=all_required)


def agent_in(system: str) -> str:
    """The agent's name: the first line of its system prompt says it.

    Raises:
        Refused: it does not.
    """
    found = _AGENT.match(system)
    if not found:
        raise Refused("the system prompt does not begin with a line 'Agent: NAME'")
    return found[1]
