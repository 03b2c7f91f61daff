"""A model that says what it was told to, and fails on anything else.

It is product code: other people's flows are tested with it. An agent without a line left, or a line
left unsaid at the end, is an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import anyio

from orchestrator.engine.ports import MayRetry, always_retry
from orchestrator.engine.types import Json, Request, Response, Text, ToolCall, Usage
from orchestrator.errors import ModelError, ScriptError

Line = Response | ModelError | Callable[[Request], Response]
"""What an agent says next: an answer, a failure, or a function of the request."""

_ids = itertools.count(1)


def says(text: str, *, usage: Usage = Usage()) -> Response:
    """A final answer."""
    return Response((Text(text),), "end", usage)


def calls(*wanted: tuple[str, Mapping[str, Json]], usage: Usage = Usage()) -> Response:
    """A turn that calls tools: ``calls(("search", {"pattern": "x"}))``."""
    blocks = tuple(ToolCall(f"call{next(_ids)}", name, args) for name, args in wanted)
    return Response(blocks, "tool_use", usage)


class ScriptedModel:
    """A model with a script per agent.

    Args:
        script: agent → its lines, in order.
        latency: seconds that each answer takes.
        worst: what ``worst_case`` says of any request.
    """

    name = "scripted"

    def __init__(
        self,
        script: Mapping[str, Sequence[Line]],
        *,
        latency: float = 0.0,
        worst: Usage = Usage(),
    ) -> None:
        self._script = {agent: list(lines) for agent, lines in script.items()}
        self._latency, self._worst = latency, worst
        self.requests: list[Request] = []
        self._unexpected: list[str] = []

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        """Say the agent's next line.

        Raises:
            ScriptError: the agent has no line left.
        """
        self.requests.append(request)
        if self._latency:
            await anyio.sleep(self._latency)
        lines = self._script.get(request.agent)
        if not lines:
            self._unexpected.append(
                f"{request.agent} was asked for a line its script does not have; "
                f"the last message was {request.messages[-1]!r:.300}"
            )
            raise ScriptError(self._unexpected[-1])
        line = lines.pop(0)
        if isinstance(line, ModelError):
            raise line
        return line(request) if callable(line) else line

    def worst_case(self, request: Request) -> Usage:
        """The same for every request."""
        return self._worst

    def finish(self) -> None:
        """Fail when something was left unsaid, or was asked that the script does not have.

        The flow under test may have taken an unexpected call for a model that failed, so that is
        said again here.

        Raises:
            ScriptError: names the agents and how many lines each has left.
        """
        if self._unexpected:
            raise ScriptError(self._unexpected[0])
        left = {agent: len(lines) for agent, lines in self._script.items() if lines}
        if left:
            raise ScriptError(f"lines left unsaid: {left}")
