"""Inspect the configured MCP servers, so that a person can accept their tools."""

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import anyio
from msgspec import Struct, to_builtins

from orchestrator.app.configuration_consent import MCP_SERVERS, allowed_servers
from orchestrator.app.mcp.open_server_tools import make_server
from orchestrator.app.policy_sources import read_layers_on_disk
from orchestrator.catalog.catalog import MCP, TOOLS
from orchestrator.catalog.data_file_layers import Layer, read_merged
from orchestrator.catalog.mcp_servers import McpFile, ServerEntry, tool_name
from orchestrator.catalog.settings import ToolsConfig
from orchestrator.engine.task_groups import task_group
from orchestrator.errors import InputError
from orchestrator.mcp_client.server_config import Grant, McpServer, ServerError, tool_pin
from orchestrator.optional_dependencies import install_command

State = Literal["accepted", "new", "changed", "not offered", "unusable"]


class InspectedTool(Struct, frozen=True):
    """A tool as the server describes it now.

    Attributes:
        declared: description and parameters, lines of untrusted text.
    """

    name: str
    level: str
    state: State
    declared: str = ""
    why: str = ""


class ServerInspection(Struct, frozen=True):
    """The result of inspecting a server.

    Attributes:
        besides: names of the server's tools that are not in the configuration.
        document: the content of ``.diffcourt/config/mcp.yaml`` that accepts these tools.
    """

    tools: list[InspectedTool]
    besides: list[str]
    document: Mapping[str, Any]


def list_servers(repo: Path | None) -> dict[str, list[tuple[str, str]]]:
    """The servers, and their tools, in the configuration of the work tree; none is started.

    Raises:
        ConfigError: an error in ``config/mcp.yaml``.
    """
    servers, tools, startable = list[tuple[str, str]](), [], allowed_servers(os.environ)
    for name, entry in _file(read_layers_on_disk(repo)).servers.items():
        where = entry.url or shlex.join(entry.command)
        servers.append((name, where + " (not allowed to start here)" * (name not in startable)))
        for remote, tool in entry.tools.items():
            pinned = "pinned" if tool.pin else "no pin yet"
            tools.append((tool_name(name, remote), f"{tool.level}, {pinned}"))
    return {"servers": servers, "tools": tools} if servers else {}


def inspect_server(repo: Path | None, name: str) -> ServerInspection:
    """Start one server, which the user names, and inspect its tools.

    Raises:
        InputError: there is no such server, or the extra is not installed.
        ServerError: it cannot be used; says why.
    """
    layers = read_layers_on_disk(repo)
    servers = _file(layers).servers
    if name not in servers:
        known = ", ".join(servers) or "none"
        raise InputError(f"there is no server {name!r} in config/mcp.yaml; known: {known}")
    policy, entry = read_merged(layers, TOOLS, ToolsConfig), servers[name]
    environment = {**os.environ, MCP_SERVERS: name}
    server = make_server(name, entry, policy, repo=repo, environment=environment)
    return anyio.run(_inspect, server, entry)


def _file(layers: list[Layer]) -> McpFile:
    return read_merged(layers, MCP, McpFile)


async def _inspect(server: McpServer, entry: ServerEntry) -> ServerInspection:
    try:
        from orchestrator.mcp_client.connection import Connection  # noqa: PLC0415  (over a second, and an extra)
    except ImportError:
        raise InputError(
            f"the MCP library is not installed; run: {install_command('mcp')}"
        ) from None
    async with task_group() as group:
        try:
            listed = await Connection(server, group).tools()
        finally:
            group.cancel_scope.cancel()
    seen = [_inspect_tool(server, grant, listed) for grant in server.grants]
    usable = {tool.name for tool in seen if tool.state in {"accepted", "new", "changed"}}
    tools = {
        remote: {**to_builtins(tool), "pin": tool_pin(listed[remote])}
        for remote, tool in entry.tools.items()
        if tool_name(server.name, remote) in usable
    }
    besides = sorted(listed.keys() - entry.tools.keys())
    return ServerInspection(seen, besides, {"servers": {server.name: {"tools": tools}}})


def _inspect_tool(server: McpServer, grant: Grant, listed: Mapping[str, Any]) -> InspectedTool:
    from orchestrator.mcp_client.server_tools import close_schema  # noqa: PLC0415

    level, tool = grant.level.name.lower(), listed.get(grant.remote)
    if tool is None:
        return InspectedTool(grant.name, level, "not offered")
    try:
        schema = close_schema(tool.input_schema)
    except ServerError as error:
        return InspectedTool(grant.name, level, "unusable", tool.description or "", str(error))
    state: State = "new" if not grant.pin else "changed"
    if tool_pin(tool) == grant.pin:
        state = "accepted"
    declared = f"{tool.description or ''}\nparameters: {json.dumps(schema['properties'])}"
    return InspectedTool(grant.name, level, state, declared)
