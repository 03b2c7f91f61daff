"""Progress of a run, accumulated from its events."""

from collections.abc import Mapping, Sequence
from math import isfinite

from msgspec import Struct, field

from orchestrator.engine.observer_events import Event
from orchestrator.engine.types import Json

STATES = {
    "Intake": "reading the change",
    "Plan": "planning",
    "Triage": "assigning files",
    "Act": "reviewing",
    "Synthesize": "merging findings",
    "Evaluate": "checking what is missing",
    "Iterate": "reviewing what is missing",
}
"""The states of the flow in plain words; its ends are told with the reason."""


def describe_end(reason: str) -> str:
    """How a run ended, in plain words."""
    return "finished" if reason == "done" else f"stopped: {reason}"


class AgentProgress(Struct):
    """Progress of one agent.

    Attributes:
        status: ``running``, or its final status.
        tools: running tools, in the order they started.
        thinking: a model call is in progress.
        findings: number reported by its tools, not yet verified or merged.
    """

    name: str
    status: str = "running"
    tools: list[str] = field(default_factory=list)
    thinking: bool = False
    findings: int = 0
    tool_calls: int = 0


class RunProgress(Struct):
    """State of a run, accumulated from its events.

    Attributes:
        agents: by name, in the order they first started.
        findings: number reported by all tools and agents, not yet verified or merged.
        used, limits: the budget's counters by name, as last reported.
    """

    run_id: str = ""
    state: str = "starting"
    note: str = ""
    agents: dict[str, AgentProgress] = field(default_factory=dict)
    findings: int = 0
    used: dict[str, float] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Update the state by one event."""
        if event.kind == "run_started":
            self.run_id = event.detail
        elif event.kind == "state":
            self.state = STATES.get(event.detail, event.detail)
        elif event.kind == "note":
            self.note = event.detail
        elif event.kind == "budget":
            self.used = read_numbers(event.data, "used")
            self.limits = read_numbers(event.data, "limits")
        elif event.kind == "run_finished":
            self.state = describe_end(event.detail)
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
            self._count(agent, event)
        elif event.kind in {"model_started", "model_finished"}:
            agent.thinking = event.kind == "model_started"
        elif event.kind == "tool_started":
            agent.tools.append(event.tool)
        elif event.kind == "tool_finished":
            if event.tool in agent.tools:
                agent.tools.remove(event.tool)
            agent.tool_calls += 1
            self._count(agent, event)

    def _count(self, agent: AgentProgress, event: Event) -> None:
        found = count_findings(event)
        agent.findings += found
        self.findings += found


def count_findings(event: Event) -> int:
    """The number of findings in what a tool gave, or an agent reports besides those of tools."""
    found = event.data.get("findings") if isinstance(event.data, Mapping) else None
    if not isinstance(found, Sequence):
        return 0
    if event.kind == "tool_finished":
        return len(found)
    return sum(isinstance(each, Mapping) and not each.get("fingerprint") for each in found)


def read_numbers(data: Json, name: str) -> dict[str, float]:
    """The finite numbers in one part of a budget event's data."""
    part = data.get(name) if isinstance(data, Mapping) else None
    if not isinstance(part, Mapping):
        return {}
    return {
        str(key): value
        for key, value in part.items()
        if isinstance(value, int | float) and isfinite(value)
    }
