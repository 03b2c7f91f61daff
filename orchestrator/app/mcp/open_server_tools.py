"""Open the tools of MCP servers for a review, if the servers may start.

A server is a program with the user's rights, and the base commit may not be the user's. So three
conditions must hold: base names the server and each of its tools, a person accepted their
descriptions (the pin), and the user allows the server in ``DIFFCOURT_MCP``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.app.configuration_consent import MCP_SERVERS, allowed_servers
from orchestrator.app.mcp.server_launch import make_connector
from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.mcp_servers import ServerEntry, tool_name
from orchestrator.catalog.playbook_steps import iter_tool_names
from orchestrator.catalog.settings import ReviewSettings, ToolOverride, ToolsConfig
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.code_review.agents.judging import participants
from orchestrator.code_review.policy_loading import Policy
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import Tool
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.types import AgentSpec, Json, Level
from orchestrator.errors import InputError
from orchestrator.mcp_client.server_config import Grant, McpServer
from orchestrator.optional_dependencies import install_command

if TYPE_CHECKING:
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
    offline = settings.provider == OFFLINE
    return frozenset(
        tool
        for agent in participants(catalog, settings)
        for tool in (_in_playbooks(agent) if offline else agent.tools)
    )


def _in_playbooks(agent: AgentSpec) -> Iterable[str]:
    return (name for skill in agent.skills for name in iter_tool_names(skill.text))


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
            timeout=_tool_override(policy, ours).timeout or tool.timeout,
            max_output=_tool_override(policy, ours).max_output or tool.max_output,
            tags=frozenset(tool.tags) | more,
            pin=tool.pin or "",
        )
        for remote, tool in entry.tools.items()
    )
    connect = make_connector(entry, repo or Path(), environment)
    return McpServer(
        name, connect, grants, entry.start, "" if name in allowed_servers(environment) else refused
    )


def _tool_override(policy: ToolsConfig, tool: str) -> ToolOverride:
    """The settings of one tool in the tool policy."""
    return policy.tools.get(tool, ToolOverride())
