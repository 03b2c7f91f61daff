"""Queries of a program's run that do not change it: tools, budget, observed decisions."""

from collections.abc import Coroutine
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any

from orchestrator.engine.types import Bounds, Level, ToolSpec
from orchestrator.errors import InputError
from orchestrator.library.agent_execution import RunParts, observed_rulings
from orchestrator.library.agents import Agent
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

    def level(self, name: str) -> Level:
        """What a tool can do to the world.

        Raises:
            NotRegistered: there is no tool of that name.
        """
        return self._executor.registry.get(name).spec.level

    def actions(self) -> list[ToolSpec]:
        """The registered actions, in order."""
        return list(self._executor.registry.specs().values())

    def filter_by_tag(self, *tags: str) -> list[ToolSpec]:
        """The registered tools that carry one of the tags, in order."""
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
