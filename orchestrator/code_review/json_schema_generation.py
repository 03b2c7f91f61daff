"""JSON Schemas of our data classes, in the subset that providers and other readers support."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from diffchecks.data_files import parse_yaml

Descriptions = Mapping[str, Mapping[str, str]]
"""Class → field → what it means."""
NO_DESCRIPTIONS: Descriptions = {}


def schema_of(model: type[Struct], descriptions: Descriptions = NO_DESCRIPTIONS) -> dict[str, Any]:
    """A class's JSON Schema (draft 2020-12), with nested classes in ``$defs``."""
    parts: dict[str, Any] = msgspec.json.schema(model)["$defs"]
    for name, part in parts.items():
        _completed(part)
        for field, text in descriptions.get(name, {}).items():
            part["properties"][field]["description"] = text
    return {**parts.pop(model.__name__), "$defs": parts}


def published_schema(model: type[Struct], urn: str, descriptions: Path) -> dict[str, Any]:
    """A JSON Schema that is published: it allows unknown fields, which a later version may add.

    Args:
        descriptions: a YAML file with the meaning of fields, by class and name.
    """
    schema = schema_of(model, parse_yaml(descriptions.read_bytes()))
    for part in (schema, *schema["$defs"].values()):
        part.pop("additionalProperties", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": urn, **schema}


def inlined(model: type[Struct], descriptions: Descriptions = NO_DESCRIPTIONS) -> dict[str, Any]:
    """A class's JSON Schema without ``$ref``, as all providers accept it."""
    return inline_references(schema_of(model, descriptions))


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
