"""Queries of a program's run that do not change it: tools, budget, observed decisions."""

from collections.abc import Coroutine, Iterable, Mapping
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, Literal

from orchestrator.engine.text_guards import Place
from orchestrator.engine.types import AgentSpec, Bounds, Json, ToolCall, ToolSpec
from orchestrator.errors import InputError, NotRegistered
from orchestrator.library.agent_execution import RunParts, observed_rulings
from orchestrator.library.agents import Agent
from orchestrator.providers.tool_formats import ToolFormat, describe_tools
from orchestrator.sandbox.file_rollback import Restored


class RunQueries:
    """The read-only part of ``Harness``."""

    def __init__(self, parts: RunParts) -> None:
        self.journal = parts.journal
        self._parts = parts
        self._executor, self._account = parts.executor, parts.account
        self._rollbacks: list[Coroutine[Any, Any, dict[str, Restored]]] = []

    def observed(self) -> list[str]:
        """Calls that would have been refused without observe-only: call, guard, reason."""
        return observed_rulings(self.journal)

    def left(self) -> Bounds:
        """What is left of the run's budget; ``inf`` without a limit."""
        account = self._account
        names = [name for name in Bounds.__struct_fields__ if name not in {"seconds", "iterations"}]
        left = {name: account.left(name) for name in names}
        left["seconds"] = account.seconds_left()
        return Bounds(**{name: max(amount, 0.0) for name, amount in left.items()})

    def get(self, name: str) -> ToolSpec:
        """What is known of a tool: description, schema, level, tags and limits.

        Raises:
            NotRegistered: there is no tool of that name.
        """
        return self._executor.registry.get(name).spec

    def is_allowed(self, name: str, agent: Agent | str = "agent") -> bool:
        """Whether an agent may call a registered tool here, an irreversible one with approval.

        Args:
            agent: an agent, or the name that ``execute`` is given.
        """
        try:
            return self._refusal(name, agent) is None
        except NotRegistered:
            return False

    def asks_person(
        self, name: str, arguments: Mapping[str, Json], *, agent: str = "agent"
    ) -> bool:
        """Whether this call would wait for a person, unless one has approved it."""
        return self._executor.asks_person(self._spec(agent), ToolCall("", name, arguments))

    def actions(self) -> list[ToolSpec]:
        """The registered actions, in order."""
        return list(self._executor.registry.specs().values())

    def filter_by_tag(self, *tags: str) -> list[ToolSpec]:
        """The registered tools that carry all of the tags, in order."""
        return list(self._executor.registry.filter_by_tag(*tags))

    def tools_for_task(self, agent: Agent) -> list[ToolSpec]:
        """The tools that an agent's model is shown: at most 19 of its registered tools.

        Those tagged ``navigation`` come first, then those that share a tag with ``agent.tags``.
        """
        executor = self._executor
        return list(executor.registry.tools_for_task(agent.spec(""), executor.policy))

    def _require_awaited(self) -> None:
        for work in self._rollbacks:
            if getcoroutinestate(work) == CORO_CREATED:
                work.close()
                raise InputError("rollback was called without await, so it restored nothing")

    def describe_tools(
        self, form: ToolFormat, tools: Iterable[ToolSpec] | None = None
    ) -> list[dict[str, Json]]:
        """Tools as an API takes them: name, description and schema of the arguments.

        Args:
            form: ``anthropic`` (Messages), ``openai`` (Responses), ``openai-chat`` (Chat
                Completions) or ``mcp``.
            tools: by default all registered ones.

        Raises:
            InputError: there is no such format.
        """
        return describe_tools(self.actions() if tools is None else tools, form)

    def _refusal(self, name: str, agent: Agent | str) -> str | None:
        """Why an agent may not call a tool; None if it may."""
        tool, policy = self.get(name), self._executor.policy
        return policy.refusal(self._spec(agent) if isinstance(agent, str) else agent.spec(""), tool)

    def _pass_guards(self, text: str, place: Place | Literal["assistant"], agent: str) -> str:
        """A text without the run's secrets, as the text guards let it pass.

        Raises:
            GuardRefused: one blocks it.
        """
        text = self.journal.redact(text)
        return text if place == "assistant" else self._parts.texts.passed(text, place, agent)

    def _spec(self, agent: str) -> AgentSpec:
        """An agent of a program or framework that may call all registered tools."""
        return AgentSpec(agent, "", "", tuple(self._executor.registry.specs()))
