"""The connection to one server in one run: opened when first needed, closed with the run."""

import logging
import math
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
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
from opentelemetry import context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic import TypeAdapter

from orchestrator import __version__
from orchestrator.engine.trace_context import current_traceparent
from orchestrator.engine.types import Json
from orchestrator.errors import DiffcourtError
from orchestrator.mcp_client.server_config import Grant, McpServer, ServerError, mismatch

MAX_PAGES = 20
QUOTED_CHARACTERS = 300
"""Characters of a server's own error message that are passed on."""

T = TypeVar("T")

_RESULT: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(
    CallToolResult | InputRequiredResult
)

# What the library logs quotes what servers send, and unhandled logs end on a person's screen.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Connection:
    """A server and its connection; safe to use from several tasks.

    We announce no client capability, so the library refuses what a server may request: a model's
    answer (sampling), a person's (elicitation), our directories (roots).

    Args:
        group: the task group of the connection; when it is cancelled, the server is ended.
    """

    def __init__(self, server: McpServer, group: TaskGroup) -> None:
        self.server = server
        self._group, self._lock = group, anyio.Lock()
        self._session: ClientSession | None = None
        self._tools: Mapping[str, Tool] | None = None
        self._end_reason = ""

    async def tools(self) -> Mapping[str, Tool]:
        """The server's current tools, by its names."""
        async with self._lock:
            session = await self._connect()
            if self._tools is None:
                with anyio.move_on_after(self.server.start):
                    self._tools = await self._send(_list(session))
            if self._tools is None:
                raise self._error(f"it did not list its tools within {self.server.start:g} s")
            return self._tools

    async def call(self, grant: Grant, arguments: Mapping[str, Json]) -> CallToolResult:
        """Have the server run one of its tools, if it is still the tool that was accepted.

        Raises:
            ServerError: it was not run, or did not return a usable result.
        """
        # Listed at each connection, and again once the server has announced a change.
        listed = await self.tools()
        if changed := mismatch(self.server.name, grant, listed.get(grant.remote)):
            raise ServerError(changed)
        assert self._session is not None
        params = CallToolRequestParams(name=grant.remote, arguments=dict(arguments))
        # Not the library's call_tool: that would run a server's output schema, regular expressions
        # included, in our process; we treat the result as text in any case.
        with _traced():
            result = await self._send(
                self._session.send_request(CallToolRequest(params=params), _RESULT)
            )
        if isinstance(result, InputRequiredResult):
            raise ServerError(f"{self.server.name} requested input, which is not supported here")
        return result

    async def _connect(self) -> ClientSession:
        if self.server.refused:
            raise ServerError(self.server.refused)
        if self._end_reason:
            raise self._error(self._end_reason)
        if self._session is None:
            try:
                self._session = await self._group.start(self._run_client)
            except Exception as error:
                self._end_reason = self._end_reason or _one_line(error)
                raise self._error(self._end_reason) from None
        assert self._session is not None
        return self._session

    async def _run_client(self, *, task_status: TaskStatus[ClientSession]) -> None:
        """Keep the client open: it must be closed by the task that opened it."""
        opened = False
        with anyio.move_on_after(self.server.start) as timeout:
            try:
                async with Client(
                    self.server.connect(self._report_end),
                    client_info=Implementation(name="diffcourt", version=__version__),
                    message_handler=self._handle_message,
                    cache=None,
                ) as client:
                    timeout.deadline, opened = math.inf, True
                    task_status.started(client.session)
                    await anyio.sleep_forever()
            except* Exception as errors:  # the rest of such a group is our own cancellation
                self._report_end(_one_line(errors))
        if timeout.cancelled_caught:
            self._report_end(f"it did not respond within {self.server.start:g} s")
        if not opened:
            raise ServerError(self._end_reason)

    async def _handle_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._tools = None

    def _report_end(self, why: str) -> None:
        """Record why the connection ended; only the first reason counts."""
        self._end_reason = self._end_reason or why

    def _error(self, why: str) -> ServerError:
        return ServerError(f"the MCP server {self.server.name} cannot be used: {why}")

    async def _send(self, request: Awaitable[T]) -> T:
        try:
            return await request
        except MCPError as error:
            if self._end_reason:
                raise self._error(self._end_reason) from None
            raise ServerError(
                f"{self.server.name} answered with an error: {_one_line(error)}"
            ) from None
        except ServerError:
            raise
        except Exception as error:
            raise self._error(self._end_reason or _one_line(error)) from None


@contextmanager
def _traced() -> Iterator[None]:
    """Let the library tell the server, in ``_meta``, which span of which trace calls it."""
    found = TraceContextTextMapPropagator().extract({"traceparent": current_traceparent()})
    token = context.attach(found)
    try:
        yield
    finally:
        context.detach(token)


async def _list(session: ClientSession) -> Mapping[str, Tool]:
    found: dict[str, Tool] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        for tool in page.tools:
            if tool.name in found:
                raise ServerError(f"it has two tools named {tool.name!r:.80}")
            found[tool.name] = tool
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise ServerError(f"its list of tools has more than {MAX_PAGES} pages")


def _one_line(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return _one_line(error.exceptions[0])
    if isinstance(error, MCPError):
        return f"{error.error.message!s:.{QUOTED_CHARACTERS}}".replace("\n", " ")
    if isinstance(error, DiffcourtError):
        return str(error)
    if isinstance(error, ValueError):
        return "its response is not valid in the protocol"
    return f"{type(error).__name__}: {error!s:.{QUOTED_CHARACTERS}}".replace("\n", " ")
