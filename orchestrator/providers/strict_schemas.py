"""A report's JSON Schema in the subset that strict structured output takes.

Objects are closed and all of their properties required: what may be left out may as well be said.
Keywords outside the subset go into the description, so that a model still reads them; the engine
holds the answer to the whole schema in any case.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from orchestrator.engine.types import Json

_PLAIN = frozenset({"type", "enum", "const"})
_DROPPED = frozenset({"title", "default", "$schema", "examples", "required", "properties", "items"})
_ANY = ("anyOf", "oneOf")
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})


class _Inexpressible(Exception):
    """The subset has no word for it."""


def strict(schema: Mapping[str, Json]) -> dict[str, Json] | None:
    """The schema in the strict subset, None when it cannot be said there.

    The root must be an object, and nothing may be open, recursive or of any type at all.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _strict(schema)
    except _Inexpressible:
        return None


def _strict(node: Json) -> dict[str, Json]:
    if not isinstance(node, Mapping) or "$ref" in node or "allOf" in node or "not" in node:
        raise _Inexpressible
    if isinstance(node.get("type"), list):
        rest = {key: value for key, value in node.items() if key != "type"}
        return {"anyOf": [_strict({**rest, "type": kind}) for kind in node["type"]]}
    made: dict[str, Any] = {key: node[key] for key in node if key in _PLAIN}
    union = next((key for key in _ANY if key in node), None)
    if union:
        made["anyOf"] = [_strict(option) for option in node[union]]
    elif not ({"enum", "const"} & made.keys()) and made.get("type") not in _TYPES:
        raise _Inexpressible
    if made.get("type") == "object":
        _close(node, made)
    if made.get("type") == "array":
        made["items"] = _strict(node.get("items"))
    _describe(node, made)
    return made


def _close(node: Mapping[str, Json], made: dict[str, Any]) -> None:
    if node.get("additionalProperties", True) is not False:
        raise _Inexpressible
    properties = node.get("properties", {})
    made["properties"] = {name: _strict(below) for name, below in properties.items()}
    made["required"] = list(properties)
    made["additionalProperties"] = False


def _describe(node: Mapping[str, Json], made: dict[str, Any]) -> None:
    known = made.keys() | _DROPPED | {*_ANY, "description"}
    rest = {key: value for key, value in node.items() if key not in known}
    words = [str(node["description"])] if node.get("description") else []
    words += [f"{key}: {json.dumps(value)}" for key, value in rest.items()]
    if words:
        made["description"] = "; ".join(words)
