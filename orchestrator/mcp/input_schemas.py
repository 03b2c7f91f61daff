"""A server's input schema as one that we hold calls against, or the reason why it cannot be one.

The root is always closed, and so is every object inside that names its properties and does not say
whether others are welcome. Closing only narrows: what passes ours passes the server's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.types import Json
from orchestrator.mcp.server_config import ServerFault

BYTES_AT_MOST = 64_000
DEPTH_AT_MOST = 32

_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COMBINED = ("allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef", "patternProperties")
_ONE = ("items", "additionalProperties", "contains", "not")
_LIST = ("anyOf", "oneOf", "prefixItems")
_MAP = ("properties", "$defs", "definitions")
_MERGED = ("allOf", "if", "then", "else", "dependentSchemas")


def closed(schema: Json) -> dict[str, Json]:
    """The schema, closed.

    Raises:
        ServerFault: no provider would take it, or it is no JSON Schema.
    """
    try:
        size = len(canonical(schema))
    except (ValueError, TypeError, RecursionError):
        raise ServerFault("its schema is not plain JSON") from None
    if size > BYTES_AT_MOST:
        raise ServerFault(f"its schema is larger than {BYTES_AT_MOST} bytes")
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise ServerFault("its schema is not one of an object")
    combined = next((key for key in _COMBINED if key in schema), None)
    if combined:
        raise ServerFault(f"its schema has {combined} at the root, which providers do not take")
    made: dict[str, Json] = {
        "properties": {},
        **_closed(schema, 0),
        "additionalProperties": False,
    }
    _compiles(made)
    return made


def _closed(node: Json, depth: int) -> Any:
    if isinstance(node, bool):
        return node
    if not isinstance(node, Mapping):
        raise ServerFault("its schema is no valid JSON Schema")
    if depth > DEPTH_AT_MOST:
        raise ServerFault(f"its schema is nested deeper than {DEPTH_AT_MOST}")
    for name in ("$ref", "$dynamicRef"):
        if name in node and not str(node[name]).startswith("#"):
            raise ServerFault("its schema refers to another document, which is not fetched")
    merged = next((key for key in _MERGED if key in node), None)
    if merged:
        raise ServerFault(f"its schema has {merged}, which cannot be closed")
    made = dict(node)
    for key, below in _below(node):
        made[key] = _each(below, depth + 1)
    if _is_open(made):
        made["additionalProperties"] = False
    return made


def _below(node: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """The keywords of a node that hold schemas."""
    for key in (*_ONE, *_LIST, *_MAP):
        if key in node:
            yield key, (key, node[key])


def _each(entry: tuple[str, Json], depth: int) -> Json:
    key, value = entry
    if key in _LIST and isinstance(value, list):
        return [_closed(item, depth) for item in value]
    if key in _MAP and isinstance(value, Mapping):
        if key == "properties":
            odd = next((name for name in value if not _PROPERTY.fullmatch(str(name))), None)
            if odd is not None:
                raise ServerFault(f"it has a parameter named {odd!r:.80}, which providers refuse")
        return {name: _closed(item, depth) for name, item in value.items()}
    return _closed(value, depth)


def _is_open(node: Mapping[str, Json]) -> bool:
    """Whether a node names properties and is silent about others."""
    return "properties" in node and not (
        {"additionalProperties", "unevaluatedProperties", "patternProperties"} & node.keys()
    )


def _compiles(schema: Mapping[str, Json]) -> None:
    try:
        # Offline, else a reference would be fetched: from the network, or from our own disk.
        jsonschema_rs.validator_for(dict(schema), offline=True)
    except Exception as fault:
        first = (str(fault).splitlines() or [""])[0]
        raise ServerFault(f"its schema is no valid JSON Schema: {first:.200}") from None
