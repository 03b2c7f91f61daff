"""What the events of a run add up to, for any view of it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from msgspec import Struct, field

from orchestrator.engine.events import Event
from orchestrator.engine.types import Json


class AgentProgress(Struct):
    """One agent's work so far.

    Attributes:
        status: ``running``, or how it ended.
        tools: tools that run at this moment, in the order they began.
        thinking: a model call is under way.
        findings: what its tools have reported; not yet verified or merged.
    """

    name: str
    status: str = "running"
    tools: list[str] = field(default_factory=list)
    thinking: bool = False
    findings: int = 0
    tool_calls: int = 0


class RunProgress(Struct):
    """The sum of all events seen.

    Attributes:
        agents: by name, in the order they first began.
        findings: what tools have reported; not yet verified or merged.
        used, limits: the budget's counters by name, as last told.
    """

    run_id: str = ""
    state: str = "starting"
    note: str = ""
    agents: dict[str, AgentProgress] = field(default_factory=dict)
    findings: int = 0
    used: dict[str, float] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Take one event in."""
        if event.kind == "run_started":
            self.run_id = event.detail
        elif event.kind == "state":
            self.state = event.detail
        elif event.kind == "note":
            self.note = event.detail
        elif event.kind == "budget":
            self.used, self.limits = (
                read_numbers(event.data, "used"),
                read_numbers(event.data, "limits"),
            )
        elif event.kind == "run_finished":
            self.state = f"stopped: {event.detail}"
        else:
            self._agent_event(event)

    def _agent_event(self, event: Event) -> None:
        if event.kind == "agent_started":
            self.agents[event.agent] = AgentProgress(event.agent)
            return
        agent = self.agents.setdefault(event.agent, AgentProgress(event.agent))
        if event.kind == "agent_finished":
            agent.status, agent.thinking = event.detail or "ok", False
            agent.tools.clear()
        elif event.kind in {"model_started", "model_finished"}:
            agent.thinking = event.kind == "model_started"
        elif event.kind == "tool_started":
            agent.tools.append(event.tool)
        elif event.kind == "tool_finished":
            if event.tool in agent.tools:
                agent.tools.remove(event.tool)
            found = count_findings(event)
            agent.tool_calls += 1
            agent.findings += found
            self.findings += found


def count_findings(event: Event) -> int:
    """The number of findings a tool's event tells of."""
    found = event.data.get("findings") if isinstance(event.data, Mapping) else None
    return found if isinstance(found, int) else 0


def read_numbers(data: Json, name: str) -> dict[str, float]:
    """The finite numbers of one part of a budget's event."""
    part = data.get(name) if isinstance(data, Mapping) else None
    if not isinstance(part, Mapping):
        return {}
    return {
        str(key): value
        for key, value in part.items()
        if isinstance(value, int | float) and isfinite(value)
    }
