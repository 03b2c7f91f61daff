"""Open the tools of MCP servers for a review, or inspect them, so that a person can accept them.

A server is a program with the user's rights, and the base commit may not be the user's. So three
conditions must hold: base names the server and each of its tools, a person accepted their
descriptions (the pin), and the user allows the server in ``DIFFCOURT_MCP``.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
from anyio.abc import Process
from msgspec import Struct, to_builtins

from orchestrator.app.configuration_consent import MCP_SERVERS, allowed_servers
from orchestrator.app.policy_sources import read_layers_on_disk
from orchestrator.catalog.catalog import MCP, TOOLS, Catalog
from orchestrator.catalog.data_file_layers import Layer, read_merged
from orchestrator.catalog.mcp_servers import McpFile, ServerEntry, tool_name
from orchestrator.catalog.playbook_steps import iter_tool_names
from orchestrator.catalog.settings import ReviewSettings, ToolOverride, ToolsConfig
from orchestrator.code_review.agents.participants import participants
from orchestrator.code_review.analyzers.program_execution import OWN_DIRECTORIES
from orchestrator.code_review.policy_loading import Policy
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import Tool
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.types import Json, Level
from orchestrator.errors import InputError, SandboxError
from orchestrator.mcp_client.server_config import (
    Connect,
    Grant,
    McpServer,
    ReportEnd,
    ServerError,
    tool_pin,
)
from orchestrator.optional_dependencies import install_command
from orchestrator.program_search import find_program
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.kernel_calls import kill_process_group
from orchestrator.sandbox.run_program import start_unconfined

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from orchestrator.mcp_client.connection import Connection

NETWORK = "network"
"""Tag of a tool that reaches beyond this machine (see ``sensitive`` in ``config/tools.yaml``)."""


@asynccontextmanager
async def open_tools(
    policy: Policy, journal: Journal, *, repo: Path | None, environment: Mapping[str, str]
) -> AsyncIterator[Sequence[Tool]]:
    """Open the tools that this review's agents could call; other servers are not started.

    The list of tools is recorded: a resumed run has the same tools without asking the server
    again, and connects only when one of them is called.
    """
    catalog = policy.catalog
    usable = _usable_tools(catalog, policy.settings)
    servers = [
        make_server(name, entry, catalog.tool_policy, repo=repo, environment=environment)
        for name, entry in catalog.mcp.servers.items()
        if usable & {tool_name(name, tool) for tool in entry.tools}
    ]
    if not servers:
        yield ()
        return
    headers = [name for entry in catalog.mcp.servers.values() for name in entry.headers.values()]
    # Word by word: a header's value is often "Bearer" and the secret.
    journal.redact.add(word for name in headers for word in environment.get(name, "").split())
    try:
        # Optional, and its import takes over a second.
        from orchestrator.mcp_client.connection import Connection  # noqa: PLC0415
    except ImportError:
        names = ", ".join(server.name for server in servers)
        raise InputError(
            f"this review uses tools of MCP servers ({names}); run: {install_command('mcp')}"
        ) from None
    async with task_group() as group:
        links = [Connection(server, group) for server in servers]
        try:
            yield await _offered(links, journal)
        finally:
            group.cancel_scope.cancel()


async def _offered(links: Sequence[Connection], journal: Journal) -> list[Tool]:
    from orchestrator.mcp_client.server_tools import list_offers, make_tools  # noqa: PLC0415

    offers: dict[str, Mapping[str, Json]] = {}

    async def ask(link: Connection) -> None:
        server = link.server
        request = {"server": server.name, "pins": {g.name: g.pin for g in server.grants}}

        async def perform() -> EffectResult:
            return EffectResult(await list_offers(link))

        offers[server.name] = await journal.effect(
            Key("intake", subject=f"mcp/{server.name}"), request, perform
        )

    async with task_group() as group:
        for link in links:
            group.start_soon(ask, link)
    return [tool for link in links for tool in make_tools(link, offers[link.server.name])]


def _usable_tools(catalog: Catalog, settings: ReviewSettings) -> frozenset[str]:
    """The tools that an agent of this review could call; offline, those in its playbooks."""
    agents = participants(catalog, settings)
    if settings.has_model:
        return frozenset(tool for agent in agents for tool in agent.tools)
    skills = (skill for agent in agents for skill in agent.skills)
    return frozenset(name for skill in skills for name in iter_tool_names(skill.text))


def make_server(
    name: str,
    entry: ServerEntry,
    policy: ToolsConfig,
    *,
    repo: Path | None,
    environment: Mapping[str, str],
) -> McpServer:
    """The configuration of a server for its adapter; limits, tags and permissions are ours."""
    refused = f"it is not allowed to start here; to allow it, set {MCP_SERVERS}={name}"
    more = frozenset() if entry.is_local else frozenset({NETWORK})
    grants = tuple(
        Grant(
            name=(ours := tool_name(name, remote)),
            remote=remote,
            level=Level[tool.level.upper()],
            timeout=(limits := policy.tools.get(ours, ToolOverride())).timeout or tool.timeout,
            max_output=limits.max_output or tool.max_output,
            tags=frozenset(tool.tags) | more,
            pin=tool.pin or "",
        )
        for remote, tool in entry.tools.items()
    )
    connect = make_connector(entry, repo or Path(), environment)
    return McpServer(
        name, connect, grants, entry.start, "" if name in allowed_servers(environment) else refused
    )


REPO = "{repo}"
"""Placeholder in a server's command for the directory of the repository under review."""

GRACE = 0.5
"""Seconds for a server to exit after its input is closed."""


def make_connector(entry: ServerEntry, repo: Path, environment: Mapping[str, str]) -> Connect:
    """A function that connects to a server; nothing is imported or started before."""

    def connect(tell: ReportEnd) -> AbstractAsyncContextManager[TransportStreams]:
        # Either takes over a second to import.
        if entry.url is not None:
            from orchestrator.mcp_client.transports import over_http  # noqa: PLC0415

            headers = {name: _value(value, environment) for name, value in entry.headers.items()}
            return over_http(entry.url, headers, tell)
        from orchestrator.mcp_client.transports import over_stdio  # noqa: PLC0415

        return over_stdio(partial(_launch, entry, repo, environment), tell)

    return connect


@asynccontextmanager
async def _launch(
    entry: ServerEntry, repo: Path, environment: Mapping[str, str]
) -> AsyncIterator[Process]:
    """The server's process, in an empty directory and its own process group; stopped at exit."""
    argv = _argv(entry.command, repo, environment)
    env = {name: _value(name, environment) for name in entry.env}
    with tempfile.TemporaryDirectory(
        dir=scratch_directory.server_directory(), ignore_cleanup_errors=True
    ) as directory:
        process = await start_unconfined(argv, cwd=Path(directory), env=env)
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                assert process.stdin is not None
                await process.stdin.aclose()
                with anyio.move_on_after(GRACE):
                    await process.wait()
                kill_process_group(process.pid)
                await process.aclose()


def _value(name: str, environment: Mapping[str, str]) -> str:
    value = environment.get(name)
    if value is None:
        raise SandboxError(f"the environment variable {name} is not set")
    return value


def _argv(command: Sequence[str], repo: Path, environment: Mapping[str, str]) -> list[str]:
    """The command with the absolute path of its program."""
    path = os.pathsep.join((*OWN_DIRECTORIES, environment.get("PATH", os.defpath)))
    program = command[0]
    found = find_program(program, path) if os.sep not in program else program
    if found is None:
        raise SandboxError(f"{program} is not installed")
    if not os.path.isabs(found):
        raise SandboxError(f"{program} must be a name or an absolute path")
    root = repo.absolute()
    argv = [found, *command[1:]]
    for word in argv:
        if os.path.isabs(word) and _can_be_changed(Path(word), root):
            raise SandboxError(f"{word} is in the repository, where the change could alter it")
    return [str(root) if word == REPO else word for word in argv]


def _can_be_changed(path: Path, repo: Path) -> bool:
    """Whether the change could alter a file: one in the repository, outside our installation."""
    place = Path(os.path.normpath(path))
    ours = Path(sys.prefix)  # may lie in the repository; a repository below it is none of ours
    if place.is_relative_to(ours) and not repo.is_relative_to(ours):
        return False
    return place.is_relative_to(repo) or place.resolve().is_relative_to(repo.resolve())


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
