"""Progress of a run, accumulated from its events, and how it is shown: lines, or on a terminal."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import isfinite
from typing import TextIO

from msgspec import Struct, field

from orchestrator.ci_systems import find_ci_system
from orchestrator.engine.observer_events import Event, Observer, ignore_event
from orchestrator.engine.types import Json
from orchestrator.errors import OutputError
from orchestrator.report.terminal_escaping import emit, escape_line

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


ENDS = ("Done", "StopBudget", "StopHuman", "StopStagnation")
"""States that the line of the end follows."""
MAX_FAILURES = 50
MAX_NOTES = 100


class PlainProgress:
    """Writes one line per state, agent, failure and note, for CI logs and pipes.

    Args:
        stream: output; if writing fails, output stops and the run continues.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream
        self._progress = RunProgress()
        self._failures: set[tuple[str, str, str]] = set()
        self._notes: set[str] = set()
        self._at_start = True

    def __call__(self, event: Event) -> None:
        """Write the line of one event, if it has one."""
        self._progress.add(event)
        if event.replayed:
            if self._at_start:
                self._write(event, "replaying the recorded part of the run")
            self._at_start = False
            return
        self._at_start = self._at_start and event.kind == "run_started"
        text = self._describe(event)
        if text:
            self._write(event, text)

    def _describe(self, event: Event) -> str:
        match event.kind:
            case "run_started":
                text = f"run {event.detail}"
            case "state":
                text = "" if event.detail in ENDS else self._progress.state
            case "agent_started":
                text = f"  {event.agent}: started"
            case "agent_finished":
                agent = self._progress.agents[event.agent]
                counts = f"tool calls {agent.tool_calls}, findings {agent.findings}"
                text = f"  {event.agent}: {event.detail or 'ok'} ({counts})"
            case "tool_finished":
                text = self._describe_failure(event)
            case "note":
                text = self._describe_note(event.detail)
            case "run_finished":
                text = self._progress.state
            case _:
                text = ""
        return text

    def _describe_failure(self, event: Event) -> str:
        """A refused or failed tool call: each kind once, up to a maximum."""
        failure = (event.agent, event.tool, event.detail)
        if event.detail in {"", "ok"} or failure in self._failures:
            return ""
        self._failures.add(failure)
        if len(self._failures) > MAX_FAILURES + 1:
            return ""
        if len(self._failures) > MAX_FAILURES:
            return "further refusals and failures are shown only in the report"
        prefix = f"{event.agent}: " if event.agent else ""
        return f"  {prefix}{event.tool}: {event.detail}"

    def _describe_note(self, text: str) -> str:
        if text in self._notes or len(self._notes) >= MAX_NOTES:
            return ""
        self._notes.add(text)
        return f"note: {text}"

    def _write(self, event: Event, text: str) -> None:
        if self._stream is None:
            return
        indent = text[: len(text) - len(text.lstrip(" "))]
        try:
            emit(f"{event.at:7.1f}s  {indent}{escape_line(text)}\n", self._stream)
        except (OutputError, ValueError):
            self._stream = None


def choose_progress_view(
    stream: TextIO | None, quiet: bool = False
) -> AbstractContextManager[Observer]:
    """The display of a run: live on a terminal, lines in CI, pipes and dumb terminals, or none."""
    if quiet or stream is None:
        return nullcontext(ignore_event)
    plain_terminal = os.environ.get("TERM", "dumb") in {"", "dumb", "unknown"}
    if plain_terminal or find_ci_system(os.environ) or not stream.isatty():
        return nullcontext(PlainProgress(stream))
    # rich costs 150 ms, and only a terminal needs it
    from orchestrator.report.live_progress import LiveProgress  # noqa: PLC0415

    return LiveProgress(stream)
