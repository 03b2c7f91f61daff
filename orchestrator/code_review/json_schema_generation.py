"""JSON Schemas of our data classes, in the subset that providers and other readers support."""

import inspect
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct


def schema_of(model: type[Struct]) -> dict[str, Any]:
    """A class's JSON Schema (draft 2020-12), with nested classes in ``$defs``."""
    parts: dict[str, Any] = msgspec.json.schema(model)["$defs"]
    for part in parts.values():
        _completed(part)
    return {**parts.pop(model.__name__), "$defs": parts}


def published_schema(model: type[Struct], urn: str, descriptions: Path) -> dict[str, Any]:
    """A JSON Schema that is published: it allows unknown fields, which a later version may add.

    Args:
        descriptions: a YAML file with the meaning of fields, by class and name.
    """
    import yaml  # noqa: PLC0415 - only the published schemas need it

    schema = schema_of(model)
    parts = {**schema["$defs"], model.__name__: schema}
    for part in parts.values():
        part.pop("additionalProperties", None)
    for name, fields in yaml.safe_load(descriptions.read_bytes()).items():
        for field, text in fields.items():
            parts[name]["properties"][field]["description"] = text
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": urn, **schema}


def inlined(model: type[Struct]) -> dict[str, Any]:
    """A class's JSON Schema without ``$ref``, as all providers accept it."""
    return inline_references(schema_of(model))


def inline_references(schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON Schema with each local ``$ref`` replaced by what it refers to, and without titles."""
    parts = schema.get("$defs", {})
    open_parts: list[str] = []

    def resolve(node: Any) -> Any:
        if isinstance(node, dict) and "$ref" in node:
            name = node["$ref"].rsplit("/", 1)[1]
            if name in open_parts:
                raise ValueError(f"{name} refers to itself; a report's schema must be finite")
            open_parts.append(name)
            resolved = resolve(parts[name])
            open_parts.pop()
            return resolved
        if isinstance(node, dict):
            # Every class is labeled; a label is a string, a property named "title" is a map.
            return {
                key: resolve(value)
                for key, value in node.items()
                if key != "$defs" and (key != "title" or not isinstance(value, str))
            }
        return [resolve(item) for item in node] if isinstance(node, list) else node

    return dict(resolve(schema))


def _completed(node: Any) -> None:
    """Add the type of enumerations, which some providers require, and trim descriptions."""
    if isinstance(node, list):
        for item in node:
            _completed(item)
    if not isinstance(node, dict):
        return
    if isinstance(options := node.get("enum"), list):
        node["type"] = "integer" if isinstance(options[0], int) else "string"
    if isinstance(node.get("description"), str):
        node["description"] = inspect.cleandoc(node["description"])
    for value in node.values():
        _completed(value)
