"""What the three APIs share: validation of requests, and texts split for streams."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jsonschema_rs

from orchestrator.data_directories import read_table
from orchestrator.engine.tool_registry import validator
from orchestrator.engine.types import Json

_AGENT_LINE = re.compile(r"Agent: (\S+)")
_AGENT_LINES = re.compile(r"^Agent: (\S+)$", re.MULTILINE)

STRICT_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const"}
    | {"description", "format", "$ref", "$defs"}
)


class Rejected(Exception):
    """A request that the real service would refuse.

    Args:
        message: the error message of the service.
        status: HTTP status of the error.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


SchemaCheck = Callable[[Json], list[str]]


def load_schemas(api: str) -> dict[str, Any]:
    """What ``api_schemas.yaml`` says of an API: name → ``SchemaCheck``, or such a mapping."""
    forms = read_table(__file__, "api_schemas.yaml")[api]
    return {name: _compile(form) for name, form in forms.items()}


def _compile(form: dict[str, Any]) -> Any:
    if "closed" in form:
        return validator(_expand(form))
    return {name: _compile(below) for name, below in form.items()}


def _expand(schema: Any) -> Any:
    """A schema with its closed objects written out."""
    if isinstance(schema, list):
        return [_expand(below) for below in schema]
    if not isinstance(schema, dict):
        return schema
    if "closed" not in schema:
        return {key: _expand(below) for key, below in schema.items()}
    fields = schema["closed"]
    return {
        "type": "object",
        "properties": {name.removesuffix("?"): _expand(fields[name]) for name in fields},
        "required": [name for name in fields if not name.endswith("?")],
        "additionalProperties": False,
    }


def check_schema(value: Json, form: SchemaCheck, where: str) -> None:
    """Validate a value against a compiled schema.

    Raises:
        Rejected: with the first error and its place.
    """
    errors = form(value)
    if errors:
        raise Rejected(f"{where}: {errors[0]}")


def check_typed_object(value: Json, forms: Mapping[str, SchemaCheck], where: str) -> str:
    """Validate a value against the schema that its ``type`` selects; returns the type.

    Raises:
        Rejected: unknown type, or an invalid value of it.
    """
    kind = str(value.get("type")) if isinstance(value, dict) else ""
    if kind not in forms:
        raise Rejected(f"{where}: type {kind!r} is none of {', '.join(sorted(forms))}")
    check_schema(value, forms[kind], f"{where} ({kind})")
    return kind


def parse_body(headers: Mapping[str, str], body: bytes) -> dict[str, Json]:
    """Parse the body of a request.

    Raises:
        Rejected: it is not a JSON object, or its content type is not JSON.
    """
    if not headers.get("content-type", "").startswith("application/json"):
        raise Rejected("content-type must be application/json", 415)
    try:
        value = json.loads(body)
    except ValueError:
        raise Rejected("the request body is not valid JSON") from None
    if not isinstance(value, dict):
        raise Rejected("the request body is not an object")
    return value


def check_key(headers: Mapping[str, str], key: str, *, also: str = "") -> None:
    """Check the API key.

    Raises:
        Rejected: status 401.
    """
    given = headers.get("authorization", "").removeprefix("Bearer ") or headers.get(also, "")
    if given != key:
        raise Rejected("invalid x-api-key" if also else "Incorrect API key provided", 401)


def check_tools(names: Iterable[str], schemas: Iterable[Json]) -> None:
    """Check the names and input schemas of tools.

    Raises:
        Rejected: a duplicate name, or an invalid schema.
    """
    seen = list(names)
    for name in seen:
        if seen.count(name) > 1:
            raise Rejected(f"tools: Tool names must be unique ({name})")
    for name, schema in zip(seen, schemas, strict=True):
        if not jsonschema_rs.meta.is_valid(schema) or schema.get("type") != "object":
            raise Rejected(f"tools.{name}: input schema is not a valid JSON schema of an object")


def check_strict_schema(schema: Json, where: str, *, all_required: bool) -> None:
    """Check a schema for strict structured output.

    Raises:
        Rejected: an unsupported keyword, an open object, a missing type.
    """
    if not isinstance(schema, dict) or not jsonschema_rs.meta.is_valid(schema):
        raise Rejected(f"{where}: not a valid JSON schema")
    unknown = sorted(schema.keys() - STRICT_KEYWORDS)
    if unknown:
        raise Rejected(f"{where}: {unknown[0]!r} is not permitted")
    if not schema.keys() & {"type", "anyOf", "enum", "const", "$ref"}:
        raise Rejected(f"{where}: schema must have a 'type'")
    if schema.get("type") == "object":
        _check_closed_object(schema, where, all_required=all_required)
    if schema.get("type") == "array" and "items" not in schema:
        raise Rejected(f"{where}: array schema missing items")
    for at, below in enumerate(schema.get("anyOf", [])):
        check_strict_schema(below, f"{where}.anyOf.{at}", all_required=all_required)
    if "items" in schema:
        check_strict_schema(schema["items"], f"{where}.items", all_required=all_required)


def _check_closed_object(schema: dict[str, Json], where: str, *, all_required: bool) -> None:
    properties = schema.get("properties", {})
    if schema.get("additionalProperties") is not False:
        raise Rejected(f"{where}: 'additionalProperties' must be explicitly set to false")
    if all_required and set(schema.get("required", ())) != set(properties):
        raise Rejected(f"{where}: 'required' must include every key in properties")
    for name, below in properties.items():
        check_strict_schema(below, f"{where}.{name}", all_required=all_required)


def parse_agent_name(system: str, first_message: str) -> str:
    """Parse the agent's name from the line ``Agent: NAME``.

    It is the first line of the system prompt; where agents share that, it stands in the first
    message, behind what they share.

    Raises:
        Rejected: no line names an agent.
    """
    found = _AGENT_LINE.match(system)
    names = [found[1]] if found else _AGENT_LINES.findall(first_message)
    if not names:
        raise Rejected(
            "no line 'Agent: NAME' begins the system prompt or stands in the first message"
        )
    return str(names[-1])


def join_texts(content: Json) -> str:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def without_marks(value: Json, name: str) -> Json:
    """JSON without the member that marks a cache breakpoint."""
    if isinstance(value, dict):
        return {key: without_marks(below, name) for key, below in value.items() if key != name}
    return [without_marks(below, name) for below in value] if isinstance(value, list) else value


def split_in_half(text: str) -> tuple[str, str]:
    """Split a text in two."""
    at = len(text) // 2
    return text[:at], text[at:]
