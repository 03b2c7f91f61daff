"""Converts JSON Schemas to the subset that strict structured output accepts.

Objects are closed and all of their properties required. Keywords outside the subset go into the
description, so that a model still reads them; the engine validates the answer against the original
schema in any case.
"""

import json
from collections.abc import Mapping
from typing import Any

from orchestrator.engine.types import Json

_KEPT_KEYWORDS = frozenset({"type", "enum", "const"})
_DROPPED_KEYWORDS = frozenset(
    {"title", "default", "$schema", "examples", "required", "properties", "items"}
)
_UNION_KEYWORDS = ("anyOf", "oneOf")
_SCALAR_AND_CONTAINER_TYPES = frozenset(
    {"object", "array", "string", "number", "integer", "boolean", "null"}
)


class _Unsupported(Exception):
    """The schema cannot be expressed in the strict subset."""


def to_strict_schema(schema: Mapping[str, Json]) -> dict[str, Json] | None:
    """Convert a schema to the strict subset; None when it cannot be expressed there.

    The root must be an object, and nothing may be open, recursive or of any type at all.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _convert(schema)
    except _Unsupported:
        return None


def _convert(node: Json) -> dict[str, Json]:
    if not isinstance(node, Mapping) or "$ref" in node or "allOf" in node or "not" in node:
        raise _Unsupported
    if isinstance(node.get("type"), list):
        rest = {key: value for key, value in node.items() if key != "type"}
        return {"anyOf": [_convert({**rest, "type": kind}) for kind in node["type"]]}
    converted: dict[str, Any] = {key: node[key] for key in node if key in _KEPT_KEYWORDS}
    union = next((key for key in _UNION_KEYWORDS if key in node), None)
    if union:
        converted["anyOf"] = [_convert(option) for option in node[union]]
    elif (
        not ({"enum", "const"} & converted.keys())
        and converted.get("type") not in _SCALAR_AND_CONTAINER_TYPES
    ):
        raise _Unsupported
    if converted.get("type") == "object":
        _convert_object(node, converted)
    if converted.get("type") == "array":
        converted["items"] = _convert(node.get("items"))
    _describe_dropped_keywords(node, converted)
    return converted


def _convert_object(node: Mapping[str, Json], converted: dict[str, Any]) -> None:
    if node.get("additionalProperties", True) is not False:
        raise _Unsupported
    properties = node.get("properties", {})
    converted["properties"] = {name: _convert(below) for name, below in properties.items()}
    converted["required"] = list(properties)
    converted["additionalProperties"] = False


def _describe_dropped_keywords(node: Mapping[str, Json], converted: dict[str, Any]) -> None:
    known = converted.keys() | _DROPPED_KEYWORDS | {*_UNION_KEYWORDS, "description"}
    rest = {key: value for key, value in node.items() if key not in known}
    parts = [str(node["description"])] if node.get("description") else []
    parts += [f"{key}: {json.dumps(value)}" for key, value in rest.items()]
    if parts:
        converted["description"] = "; ".join(parts)
