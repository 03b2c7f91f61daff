"""The rogue server's configuration, its tools in the engine's executor, and what it did."""

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp_types import Tool
from msgspec import convert

from orchestrator.app.configuration_consent import MCP_SERVERS
from orchestrator.app.mcp.open_server_tools import make_server
from orchestrator.catalog.data_file_layers import read_merged, read_shipped_layer
from orchestrator.catalog.mcp_servers import ServerEntry
from orchestrator.catalog.settings import ToolsConfig
from orchestrator.engine.budget import Account
from orchestrator.engine.executor import Executor
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.ports import Rollback
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.tool_registry import Registry, ToolPolicy
from orchestrator.engine.types import AgentSpec, Bounds, Level, ToolCall, ToolResult
from orchestrator.mcp_client.connection import Connection
from orchestrator.mcp_client.server_config import McpServer, tool_pin
from orchestrator.mcp_client.server_tools import list_offers, make_tools
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.engine.engine_kit import open_memory_journal

ROGUE = Path(__file__).with_name("rogue.py")
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SAY: dict[str, Any] = {"name": "say", "description": "Says it again.", "inputSchema": SCHEMA}


def pin(tool: Mapping[str, object]) -> str:
    return tool_pin(Tool.model_validate(tool))


def rogue(folder: Path, mode: str, start: float = 10, **tool: object) -> dict[str, Any]:
    """What config/mcp.yaml says of the rogue."""
    return {
        "command": [sys.executable, "-S", str(ROGUE), str(folder), mode],
        "start": start,
        "tools": {"say": {"pin": pin(SAY), **tool}},
    }


def received(folder: Path) -> list[str]:
    """The methods that the rogue was asked for."""
    log = folder / "received"
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line).get("method", "an answer") for line in lines]


def server(
    config: Mapping[str, object],
    *,
    name: str = "rogue",
    repo: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> McpServer:
    """A server as the configuration names it."""
    entry = convert(config, ServerEntry)
    policy = read_merged([read_shipped_layer()], "config/tools.yaml", ToolsConfig)
    given = {MCP_SERVERS: name, "PATH": os.environ["PATH"], **(environment or {})}
    return make_server(name, entry, policy, repo=repo or Path("/nowhere"), environment=given)


class Bench:
    """One server's tools behind the executor, for one agent that has them all."""

    def __init__(self, executor: Executor, link: Connection) -> None:
        self.executor, self.link = executor, link
        names = tuple(executor.registry.specs())
        self.agent = AgentSpec("tester", "", "", names)
        self._calls = 0

    async def pins(self) -> dict[str, str]:
        """What a person would accept now."""
        return {name: tool_pin(tool) for name, tool in (await self.link.tools()).items()}

    async def unavailable(self, tool: str = "rogue__say") -> str:
        """What an agent is told of a tool that cannot be had."""
        found = self.executor.registry.get(tool)
        seen = await found.run({"text": "x"}, None)  # type: ignore[arg-type]
        assert not seen.ok
        return seen.content

    async def call(self, tool: str = "rogue__say", **arguments: object) -> ToolResult:
        self._calls += 1
        given = arguments or ({"text": "hello"} if tool.endswith("__say") else {})
        call = ToolCall(f"c{self._calls}", tool, given)
        key = f"1/tool{self._calls}/{tool}"
        return await self.executor.call(self.agent, call, key, Account("a test", Bounds()))


@asynccontextmanager
async def bench(
    config: Mapping[str, object],
    *,
    name: str = "rogue",
    repo: Path | None = None,
    environment: Mapping[str, str] | None = None,
    max_level: Level = Level.READ,
    rollback: Rollback | None = None,
    store: MemoryStore | None = None,
) -> AsyncIterator[Bench]:
    """Connect as a review does, with an environment that lets the server start."""
    named = server(config, name=name, repo=repo, environment=environment)
    async with task_group() as group, open_memory_journal(store) as journal:
        link = Connection(named, group)
        registry = Registry(make_tools(link, await list_offers(link)))
        yield Bench(
            Executor(
                registry,
                ToolPolicy(max_level=max_level),
                journal,
                rollback=rollback,
                nonce="n0nce",
                observer=ignore_event,
            ),
            link,
        )
        group.cancel_scope.cancel()


async def gone(pid: int) -> bool:
    """Whether a process has ended, or does within two seconds."""
    stat = anyio.Path(f"/proc/{pid}/stat")
    for _ in range(200):
        try:
            state = (await stat.read_text()).rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        await anyio.sleep(0.01)
    return False
