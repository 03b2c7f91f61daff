"""A model that replies from a script, for tests of flows and agents."""

import itertools
from collections.abc import Callable, Mapping, Sequence

import anyio

from orchestrator.engine.ports import MayRetry, always_retry
from orchestrator.engine.types import Json, Request, Response, Text, ToolCall, Usage
from orchestrator.errors import ModelError

ScriptedReply = Response | ModelError | Callable[[Request], Response]
"""The next reply to an agent: a response, an error, or a function of the request."""

_ids = itertools.count(1)


class ScriptError(ModelError):
    """A scripted model got a call that its script does not have, or too few calls."""


def text_reply(text: str, *, usage: Usage = Usage()) -> Response:
    """Return a final answer."""
    return Response((Text(text),), "end", usage)


def tool_call_reply(*requested: tuple[str, Mapping[str, Json]], usage: Usage = Usage()) -> Response:
    """Return a turn that calls tools: ``tool_call_reply(("search", {"pattern": "x"}))``."""
    blocks = tuple(ToolCall(f"call{next(_ids)}", name, args) for name, args in requested)
    return Response(blocks, "tool_use", usage)


class ScriptedModel:
    """A model with a script per agent.

    Args:
        script: agent → its lines, in order.
        latency: seconds that each reply takes.
        worst: what ``worst_case`` returns for any request.
    """

    name = "scripted"

    def __init__(
        self,
        script: Mapping[str, Sequence[ScriptedReply]],
        *,
        latency: float = 0.0,
        worst: Usage = Usage(),
    ) -> None:
        self._script = {agent: list(lines) for agent, lines in script.items()}
        self._latency, self._worst = latency, worst
        self.requests: list[Request] = []
        self._unexpected: list[str] = []

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        """Return the agent's next line.

        Raises:
            ScriptError: the agent has no line left.
        """
        self.requests.append(request)
        if self._latency:
            await anyio.sleep(self._latency)
        lines = self._script.get(request.agent)
        if not lines:
            self._unexpected.append(
                f"the script has no line left for {request.agent}; "
                f"the last message of the request is {request.messages[-1]!r:.300}"
            )
            raise ScriptError(self._unexpected[-1])
        line = lines.pop(0)
        if isinstance(line, ModelError):
            raise line
        return line(request) if callable(line) else line

    def worst_case(self, request: Request) -> Usage:
        """Return the same usage for every request."""
        return self._worst

    def finish(self) -> None:
        """Check that the script is used up and no request was unexpected.

        The flow under test may have handled an unexpected request as a failed model call, so that
        error is raised again here.

        Raises:
            ScriptError: names the agents and the number of their unused lines.
        """
        if self._unexpected:
            raise ScriptError(self._unexpected[0])
        unused = {agent: len(lines) for agent, lines in self._script.items() if lines}
        if unused:
            raise ScriptError(f"unused lines in the script: {unused}")
