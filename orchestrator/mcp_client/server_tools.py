"""Tools of servers, as tools of the engine."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
from mcp_types import CallToolResult, ContentBlock
from mcp_types import Tool as RemoteTool

from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.field_types import shared_fields
from orchestrator.engine.ports import CallContext, Tool
from orchestrator.engine.types import Json, Observation, ToolSpec
from orchestrator.engine.untrusted_text import escape_markers
from orchestrator.foreign_json import map_strings
from orchestrator.mcp_client.connection import Connection
from orchestrator.mcp_client.server_config import Grant, ServerError, mismatch

MAX_BYTES = 64_000
MAX_DEPTH = 32

_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COMBINATORS = ("allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef", "patternProperties")
_SCHEMA_KEYS = ("items", "additionalProperties", "contains", "not")
_SCHEMA_LIST_KEYS = ("anyOf", "oneOf", "prefixItems")
_SCHEMA_MAP_KEYS = ("properties", "$defs", "definitions")
_UNSUPPORTED = ("allOf", "if", "then", "else", "dependentSchemas")


def close_schema(schema: Json) -> dict[str, Json]:
    """Close a server's input schema, so that calls can be validated against it.

    The root is always closed, and so is every object inside that names its properties and does not
    mention additional ones. Closing only narrows: what is valid for us is valid for the server.

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
    # It names properties and does not mention additional ones.
    if "properties" in closed and not (
        {"additionalProperties", "unevaluatedProperties", "patternProperties"} & closed.keys()
    ):
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


def _check_validity(schema: Mapping[str, Json]) -> None:
    try:
        # Offline, else a reference would be fetched: from the network, or from our own disk.
        jsonschema_rs.validator_for(dict(schema), offline=True)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise ServerError(f"its schema is not a valid JSON Schema: {first:.200}") from None


MAX_DESCRIPTION = 4000
"""Characters; longer descriptions are refused: cut ones would mean something else."""

NO_ARGUMENTS: Mapping[str, Json] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}


async def list_offers(connection: Connection) -> dict[str, Json]:
    """List the granted tools of a server as it describes them now.

    Returns:
        Our name of each tool → ``{description, schema}``, or ``{refused}`` with the reason. Plain
        data, so that the journal keeps it and a resumed run shows its model the same.
    """
    grants = connection.server.grants
    try:
        listed = await connection.tools()
    except ServerError as error:
        return {grant.name: {"refused": str(error)} for grant in grants}
    return {grant.name: _offer(connection.server.name, grant, listed) for grant in grants}


def _offer(server: str, grant: Grant, listed: Mapping[str, RemoteTool]) -> dict[str, Json]:
    try:
        tool = listed.get(grant.remote)
        if why := mismatch(server, grant, tool):
            return {"refused": why}
        assert tool is not None
        description = tool.description or ""
        if len(description) > MAX_DESCRIPTION:
            return {"refused": f"{grant.name} has a description of {len(description)} characters"}
        return {"description": description, "schema": close_schema(tool.input_schema)}
    except (ServerError, ValueError) as error:
        return {"refused": f"{grant.name} cannot be used: {error}"}


def make_tools(connection: Connection, offers: Mapping[str, Json]) -> Iterator[Tool]:
    """Make the tools that ``list_offers`` returned.

    A refused tool is included and returns the reason when it is called: an agent must not mistake
    its absence for a clean result.
    """
    for grant in connection.server.grants:
        entry = offers[grant.name]
        if "refused" in entry:
            spec = _spec(grant, "Not available in this run.", NO_ARGUMENTS)
            yield Unavailable(spec, entry["refused"])
        else:
            yield ServerTool(_spec(grant, entry["description"], entry["schema"]), grant, connection)


def _spec(grant: Grant, description: str, schema: Mapping[str, Json]) -> ToolSpec:
    # A model reads a server's text beside ours: nothing in it may look like one of our markers.
    return ToolSpec(
        **shared_fields(grant, ToolSpec),
        description=escape_markers(description),
        schema=map_strings(dict(schema), escape_markers),
    )


@dataclass
class ServerTool:
    """A tool that a server runs."""

    spec: ToolSpec
    grant: Grant
    connection: Connection

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Have the server run it; an error there is an observation."""
        try:
            result = await self.connection.call(self.grant, arguments)
        except ServerError as error:
            return Observation(envelope(self.spec.name, str(error), self.spec.max_output), ok=False)
        return observation(self.spec.name, result, self.spec.max_output)


@dataclass
class Unavailable:
    """A granted tool that cannot be used."""

    spec: ToolSpec
    why: str

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Return the reason as a failed observation."""
        return Observation(self.why, ok=False)


ENVELOPE_CHARACTERS = 200
"""Reserved for the envelope itself."""


def observation(tool: str, result: CallToolResult, max_characters: int) -> Observation:
    """The result for a model, at most ``max_characters`` long; ``ok`` unless marked as an error."""
    text = "\n".join(_texts(result))
    return Observation(envelope(tool, text, max_characters), ok=not result.is_error)


def envelope(tool: str, text: str, max_characters: int) -> str:
    """JSON with the tool's name, its text, and how many characters were cut.

    So a server cannot imitate the keys of a report, and the JSON is valid however long the text is.
    """
    # Lone surrogates would break the next request to a provider, which is UTF-8.
    clean = text.encode("utf-8", "replace").decode()
    most = max(max_characters - ENVELOPE_CHARACTERS, 0)
    kept = min(len(clean), most)
    while kept and len(json.dumps(clean[:kept], ensure_ascii=False)) > most:
        kept = kept * 3 // 4
    body: dict[str, str | int] = {"result_of": tool, "text": clean[:kept]}
    if kept < len(clean):
        body["characters_cut"] = len(clean) - kept
    return json.dumps(body, ensure_ascii=False)


def _texts(result: CallToolResult) -> Iterator[str]:
    for block in result.content:
        yield _text(block)
    if not result.content and result.structured_content is not None:
        yield json.dumps(result.structured_content, ensure_ascii=False)


def _text(block: ContentBlock) -> str:
    """The text of a content block; other kinds are named, never passed on."""
    if block.type == "text":
        return block.text
    if block.type == "resource":
        inside = getattr(block.resource, "text", None)
        return inside if inside is not None else f"[left out: the bytes of {block.resource.uri}]"
    if block.type == "resource_link":
        return f"[a link, not followed: {block.uri}]"
    return f"[left out: {block.type}]"
