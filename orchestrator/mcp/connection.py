"""One server in one run: connected when it is first needed, ended with the run."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Mapping
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp import Client, MCPError
from mcp.client.session import ClientSession, IncomingMessage
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    Tool,
    ToolListChangedNotification,
)
from pydantic import TypeAdapter

from orchestrator import __version__
from orchestrator.engine.types import Json
from orchestrator.errors import DiffcourtError
from orchestrator.mcp.server_config import Grant, Server, ServerFault
from orchestrator.mcp.tool_pins import mismatch

PAGES_AT_MOST = 20
QUOTED = 300
"""Characters of a server's own error message that are passed on."""

T = TypeVar("T")

_ANSWER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(
    CallToolResult | InputRequiredResult
)

# What the library logs quotes what servers send, and unhandled logs end on a person's screen.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Link:
    """A server and its connection; safe to use from several tasks.

    No capability of ours is announced, so the library refuses what a server may ask of us: a
    model's answer (sampling), a person's (elicitation), our folders (roots).

    Args:
        group: where the connection lives; when it is cancelled, the server is ended.
    """

    def __init__(self, server: Server, group: TaskGroup) -> None:
        self.server = server
        self._group, self._lock = group, anyio.Lock()
        self._session: ClientSession | None = None
        self._listed: Mapping[str, Tool] | None = None
        self._ended = ""

    async def tools(self) -> Mapping[str, Tool]:
        """What the server offers now, by its names.

        Raises:
            ServerFault: it cannot be used; says why.
        """
        async with self._lock:
            session = await self._connected()
            if self._listed is None:
                with anyio.move_on_after(self.server.start):
                    self._listed = await self._asked(_list(session))
            if self._listed is None:
                raise self._fault(f"it did not list its tools within {self.server.start:g} s")
            return self._listed

    async def call(self, grant: Grant, arguments: Mapping[str, Json]) -> CallToolResult:
        """Have the server run one of its tools, if it still is the tool that was accepted.

        Raises:
            ServerFault: it was not run, or gave no answer that can be used.
        """
        # Listed at each connection, and again once the server has announced a change.
        listed = await self.tools()
        if changed := mismatch(self.server.name, grant, listed.get(grant.remote)):
            raise ServerFault(changed)
        assert self._session is not None
        params = CallToolRequestParams(name=grant.remote, arguments=dict(arguments))
        # Not the library's call_tool: that would run a server's output schema, regular expressions
        # included, in our process; to us the answer is text in any case.
        answer = await self._asked(
            self._session.send_request(CallToolRequest(params=params), _ANSWER)
        )
        if isinstance(answer, InputRequiredResult):
            raise ServerFault(f"{self.server.name} asked for input, which it is not given here")
        return answer

    async def _connected(self) -> ClientSession:
        if self.server.refused:
            raise ServerFault(self.server.refused)
        if self._ended:
            raise self._fault(self._ended)
        if self._session is None:
            try:
                self._session = await self._group.start(self._hold)
            except Exception as fault:
                self._ended = self._ended or _words(fault)
                raise self._fault(self._ended) from None
        assert self._session is not None
        return self._session

    async def _hold(self, *, task_status: TaskStatus[ClientSession]) -> None:
        """Keep the connection open; it must be closed by the task that opened it."""
        opened = False
        with anyio.move_on_after(self.server.start) as patience:
            try:
                async with Client(
                    self.server.connect(self._tell),
                    client_info=Implementation(name="diffcourt", version=__version__),
                    message_handler=self._notice,
                    cache=None,
                ) as client:
                    patience.deadline, opened = math.inf, True
                    task_status.started(client.session)
                    await anyio.sleep_forever()
            except* Exception as faults:  # what is left of a group is our own cancellation
                self._tell(_words(faults))
        if patience.cancelled_caught:
            self._tell(f"it did not answer within {self.server.start:g} s")
        if not opened:
            raise ServerFault(self._ended)

    async def _notice(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._listed = None

    def _tell(self, why: str) -> None:
        """Learn why the connection ended; the first reason is the reason."""
        self._ended = self._ended or why

    def _fault(self, why: str) -> ServerFault:
        return ServerFault(f"the MCP server {self.server.name} cannot be used: {why}")

    async def _asked(self, request: Awaitable[T]) -> T:
        try:
            return await request
        except MCPError as fault:
            if self._ended:
                raise self._fault(self._ended) from None
            raise ServerFault(
                f"{self.server.name} answered with an error: {_words(fault)}"
            ) from None
        except ServerFault:
            raise
        except Exception as fault:
            raise self._fault(self._ended or _words(fault)) from None


async def _list(session: ClientSession) -> Mapping[str, Tool]:
    found: dict[str, Tool] = {}
    cursor: str | None = None
    for _ in range(PAGES_AT_MOST):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        for tool in page.tools:
            if tool.name in found:
                raise ServerFault(f"it has two tools named {tool.name!r:.80}")
            found[tool.name] = tool
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise ServerFault(f"its list of tools does not end within {PAGES_AT_MOST} pages")


def _words(fault: BaseException) -> str:
    """A fault in one line."""
    if isinstance(fault, BaseExceptionGroup):
        return _words(fault.exceptions[0])
    if isinstance(fault, MCPError):
        return f"{fault.error.message!s:.{QUOTED}}".replace("\n", " ")
    if isinstance(fault, DiffcourtError):
        return str(fault)
    if isinstance(fault, ValueError):
        return "its answer is none that the protocol has"
    return f"{type(fault).__name__}: {fault!s:.{QUOTED}}".replace("\n", " ")
