"""JSON Schemas of our data classes, in the words that providers and other readers expect."""

import inspect
from typing import Any

import msgspec
from msgspec import Struct


def schema_of(model: type[Struct]) -> dict[str, Any]:
    """A class's JSON Schema (draft 2020-12); the classes that it holds stand in ``$defs``."""
    parts: dict[str, Any] = msgspec.json.schema(model)["$defs"]
    for part in parts.values():
        _completed(part)
    return {**parts.pop(model.__name__), "$defs": parts}


def inlined(model: type[Struct]) -> dict[str, Any]:
    """A class's JSON Schema without ``$ref``, as every provider takes it."""
    schema = schema_of(model)
    parts = schema.pop("$defs")

    def resolve(node: Any) -> Any:
        if isinstance(node, dict) and "$ref" in node:
            return resolve(parts[node["$ref"].rsplit("/", 1)[1]])
        if isinstance(node, dict):
            # Every class is labeled; a label is a string, a property named "title" is a map.
            return {
                key: resolve(value)
                for key, value in node.items()
                if key != "title" or not isinstance(value, str)
            }
        return [resolve(item) for item in node] if isinstance(node, list) else node

    return dict(resolve(schema))


def _completed(node: Any) -> None:
    """Say the type of listed words, which some providers ask for, and trim docstrings."""
    if isinstance(node, list):
        for item in node:
            _completed(item)
    if not isinstance(node, dict):
        return
    if isinstance(node.get("enum"), list):
        node["type"] = "string"
    if isinstance(node.get("description"), str):
        node["description"] = inspect.cleandoc(node["description"])
    for value in node.values():
        _completed(value)
