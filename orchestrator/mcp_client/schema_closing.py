"""Close a server's input schema, so that calls can be validated against it, or say why not.

The root is always closed, and so is every object inside that names its properties and does not
mention additional ones. Closing only narrows: what is valid for us is valid for the server.
"""

import re
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.types import Json
from orchestrator.mcp_client.server_config import ServerError

MAX_BYTES = 64_000
MAX_DEPTH = 32

_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COMBINATORS = ("allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef", "patternProperties")
_SCHEMA_KEYS = ("items", "additionalProperties", "contains", "not")
_SCHEMA_LIST_KEYS = ("anyOf", "oneOf", "prefixItems")
_SCHEMA_MAP_KEYS = ("properties", "$defs", "definitions")
_UNSUPPORTED = ("allOf", "if", "then", "else", "dependentSchemas")


def close_schema(schema: Json) -> dict[str, Json]:
    """Close a schema.

    Raises:
        ServerError: providers do not accept it, or it is not a valid JSON Schema.
    """
    try:
        size = len(canonical(schema))
    except (ValueError, TypeError, RecursionError):
        raise ServerError("its schema is not plain JSON") from None
    if size > MAX_BYTES:
        raise ServerError(f"its schema is larger than {MAX_BYTES} bytes")
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise ServerError("its schema is not that of an object")
    combinator = next((key for key in _COMBINATORS if key in schema), None)
    if combinator:
        raise ServerError(f"its schema has {combinator} at the root, which providers do not accept")
    closed: dict[str, Json] = {"properties": {}, **_close(schema, 0), "additionalProperties": False}
    _check_validity(closed)
    return closed


def _close(node: Json, depth: int) -> Any:
    if isinstance(node, bool):
        return node
    if not isinstance(node, Mapping):
        raise ServerError("its schema is not a valid JSON Schema")
    if depth > MAX_DEPTH:
        raise ServerError(f"its schema is nested deeper than {MAX_DEPTH}")
    for name in ("$ref", "$dynamicRef"):
        if name in node and not str(node[name]).startswith("#"):
            raise ServerError("its schema refers to another document, which is not fetched")
    unsupported = next((key for key in _UNSUPPORTED if key in node), None)
    if unsupported:
        raise ServerError(f"its schema has {unsupported}, which cannot be closed")
    closed = {key: _close_keyword(key, value, depth + 1) for key, value in node.items()}
    if _is_open(closed):
        closed["additionalProperties"] = False
    return closed


def _close_keyword(key: str, value: Json, depth: int) -> Json:
    if key in _SCHEMA_LIST_KEYS and isinstance(value, list):
        return [_close(item, depth) for item in value]
    if key in _SCHEMA_MAP_KEYS and isinstance(value, Mapping):
        if key == "properties":
            odd = next((name for name in value if not _PROPERTY.fullmatch(str(name))), None)
            if odd is not None:
                raise ServerError(f"it has a parameter named {odd!r:.80}, which providers refuse")
        return {name: _close(item, depth) for name, item in value.items()}
    known = key in {*_SCHEMA_KEYS, *_SCHEMA_LIST_KEYS, *_SCHEMA_MAP_KEYS}
    return _close(value, depth) if known else value


def _is_open(node: Mapping[str, Json]) -> bool:
    """Whether a node names properties and does not mention additional ones."""
    return "properties" in node and not (
        {"additionalProperties", "unevaluatedProperties", "patternProperties"} & node.keys()
    )


def _check_validity(schema: Mapping[str, Json]) -> None:
    try:
        # Offline, else a reference would be fetched: from the network, or from our own disk.
        jsonschema_rs.validator_for(dict(schema), offline=True)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise ServerError(f"its schema is not a valid JSON Schema: {first:.200}") from None
