"""What a program can ask of its run without changing it: tools, budget, observed rulings."""

from orchestrator.engine.types import Bounds, Level, ToolSpec
from orchestrator.library.agent_execution import RunParts, observed_rulings
from orchestrator.library.agents import Agent


class RunQueries:
    """The reading half of ``Harness``."""

    def __init__(self, parts: RunParts) -> None:
        self.journal = parts.journal
        self._parts = parts
        self._executor, self._account = parts.executor, parts.account

    def observed(self) -> list[str]:
        """What an observe-only run did though it would have been refused: call, guard, reason."""
        return observed_rulings(self.journal)

    def left(self) -> Bounds:
        """What is left of the run's budget; ``inf`` where nothing bounds."""
        account = self._account
        names = [name for name in Bounds.__struct_fields__ if name not in {"seconds", "iterations"}]
        left = {name: account.left(name) for name in names}
        left["seconds"] = account.seconds_left()
        return Bounds(**{name: max(amount, 0.0) for name, amount in left.items()})

    def level(self, name: str) -> Level:
        """What a tool can do to the world.

        Raises:
            NotRegistered: there is none of that name.
        """
        return self._executor.registry.get(name).spec.level

    def actions(self) -> list[ToolSpec]:
        """What is registered, in order."""
        return list(self._executor.registry.specs().values())

    def filter_by_tag(self, *tags: str) -> list[ToolSpec]:
        """The registered tools that carry one of the tags, in order."""
        return list(self._executor.registry.filter_by_tag(*tags))

    def tools_for_task(self, agent: Agent) -> list[ToolSpec]:
        """The tools that an agent's model is shown: of its registered tools, 19 at most.

        Those tagged ``navigation`` come first, then those that share a tag with ``agent.tags``.
        """
        executor = self._executor
        return list(executor.registry.tools_for_task(agent.spec(""), executor.policy))
