"""Progress of a run: from its events, or from its journal while another process writes it."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct, field
from msgspec.json import decode

from diffchecks.safe_paths import SafeDirectory
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.run_index import VerdictBrief, read_limits
from orchestrator.app.runs.verdict_recording import is_verdict
from orchestrator.app.types import DAMAGE, describe_damage, is_program_run, review_options
from orchestrator.data_directories import read_table
from orchestrator.engine.budget import NO_COST
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.journal_rows import (
    Effect,
    Intent,
    Note,
    RecordedRequest,
    decodable,
    read_row,
)
from orchestrator.engine.observer_events import Event, EventKind, Observer
from orchestrator.engine.ports import Row
from orchestrator.errors import InputError

PROGRESS = "progress.txt"
"""The file in a run's directory; it is derived from events and never read back."""
POLL_SECONDS = 0.5
_TABLE: Mapping[str, Mapping[str, Any]] = read_table(__file__, "run_progress.yaml")
STATES, COUNTERS = _TABLE["states"], _TABLE["counters"]
_KINDS: Mapping[str, Sequence[EventKind]] = _TABLE["events"]
WAITING = {"stopped: human": "a person's answer or approval", "stopped: budget": "a higher limit"}
"""The ends after which a run can go on, and what it needs for that."""
TELLING = {"run_started", "state", "agent_started", "agent_finished", "run_finished"}
"""Events after which the text is written."""


class AgentProgress(Struct):
    """Progress of one agent.

    Attributes:
        status: ``running``, or its final status; empty for calls that no task of an agent makes.
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

    @property
    def is_running(self) -> bool:
        """Whether its task or a call of it has not ended."""
        return self.status == "running" or bool(self.tools)

    def __str__(self) -> str:
        doing = ", ".join(self.tools) or ("thinking" if self.thinking else "")
        counts = f"calls {self.tool_calls:<4} findings {self.findings:<4}"
        return (
            f"  {_plain(self.name):<20} {_plain(self.status):<8} {counts} {_plain(doing)}".rstrip()
        )


class RunProgress(Struct):
    """State of a run, accumulated from its events.

    Attributes:
        at: seconds since it began or was resumed, of the last event.
        entered: the states so far.
        agents: by name, in the order they first started.
        findings: number reported by all tools and agents, not yet verified or merged.
        used, limits: the budget's counters by name, as last reported.
    """

    run_id: str = ""
    is_program: bool = False
    at: float = 0.0
    state: str = "starting"
    entered: list[str] = field(default_factory=list)
    note: str = ""
    agents: dict[str, AgentProgress] = field(default_factory=dict)
    findings: int = 0
    used: dict[str, float] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Update the state by one event."""
        self.at = event.at
        if event.kind == "run_started":
            self.run_id, self.is_program = event.detail, event.data == "program"
            self.state = "running" if self.is_program else self.state
        elif event.kind == "state":
            self.entered.append(event.detail)
            self.state = STATES.get(event.detail, event.detail)
        elif event.kind == "note":
            self.note = event.detail
        elif event.kind == "budget":
            assert isinstance(event.data, dict)
            self.used, self.limits = event.data["used"], event.data["limits"]
        elif event.kind == "run_finished":
            self.state = "finished" if event.detail == "done" else f"stopped: {event.detail}"
        else:
            self._agent_event(event)

    def _agent_event(self, event: Event) -> None:
        if event.kind == "agent_started":
            self.agents[event.agent] = AgentProgress(event.agent)
            return
        agent = self.agents.setdefault(event.agent, AgentProgress(event.agent, ""))
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

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in (f"run {self.run_id}", *self.lines(self.at)))

    def lines(self, at: float, most_agents: int = 100) -> list[str]:
        """What a person reads: state, what is done and what is left, budget, and each agent."""
        # A copy, since a display reads in a thread of its own.
        named = [agent for agent in list(self.agents.values()) if agent.name]
        named.sort(key=lambda agent: not agent.is_running)
        last, order = (self.entered or [""])[-1], [] if self.is_program else [*STATES][:-1]
        position = (
            order.index(last) if last in order else {"": -1, "Iterate": 0}.get(last, len(order))
        )
        done = [STATES[name] for name in order[: position + 1] if name in self.entered[:-1]]
        done += [agent.name for agent in named if not agent.is_running]
        left = [agent.name for agent in named if agent.is_running]
        left += [STATES[name] for name in order[position + 1 :]]
        left += [WAITING[self.state]] if self.state in WAITING else []
        head = [f"{self.state}   {_duration(at)}{self._limit('seconds', _duration)}"]
        head.append(f"findings {self.findings}")
        if rounds := self.entered.count("Plan"):
            head.append(f"iteration {rounds}{self._limit('iterations', _amount)}")
        lines = [
            "   ".join(head),
            f"completed: {', '.join(done) or 'nothing yet'}",
            f"remaining: {', '.join(left) or 'nothing'}" if left or not self.is_program else "",
            "   ".join(
                f"{label} {_amount(used)}{self._limit(name, _amount)}"
                for name, label in COUNTERS.items()
                if (used := self.used.get(name, 0))
            ),
            *map(str, named[:most_agents]),
            f"  and {len(named) - most_agents} more" if len(named) > most_agents else "",
            self.note,
        ]
        return [_plain(line) for line in lines if line]

    def _limit(self, name: str, form: Callable[[float], str]) -> str:
        """`` of 400``; empty without a limit."""
        limit = self.limits.get(name, inf)
        return f" of {form(limit)}" if limit < inf else ""


def _amount(value: float) -> str:
    """Whole numbers in full, dollars to a hundredth of a cent."""
    return f"{round(value, 4):,.12g}"


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _plain(line: str) -> str:
    """A line of printable ASCII: no text of a model or a file writes another one."""
    return line.encode("unicode_escape").decode()


def count_findings(event: Event) -> int:
    """The number of findings in what a tool gave, or an agent reports besides those of tools."""
    found = event.data.get("findings") if isinstance(event.data, Mapping) else None
    if not isinstance(found, Sequence):
        return 0
    if event.kind == "tool_finished":
        return len(found)
    return sum(isinstance(each, Mapping) and not each.get("fingerprint") for each in found)


def record_progress(folder: Path, run_id: str, then: Observer) -> Observer:
    """An observer that keeps the file of a run's progress, and passes events on.

    A run does not fail because the file cannot be written.
    """
    progress = RunProgress(run_id)

    def observe(event: Event) -> None:
        progress.add(event)
        if event.kind in TELLING:
            with suppress(OSError), SafeDirectory(folder) as root:
                root.replace(f"runs/{run_id}/{PROGRESS}", str(progress).encode())
        then(event)

    return observe


class _RowEvents:
    """The events that a journal's rows tell of."""

    def __init__(self) -> None:
        self._begun: dict[str, RecordedRequest] = {}
        self._start, self._spent = 0.0, NO_COST
        self.limits: dict[str, float] = {}

    def read(self, row: Row) -> Iterator[Event]:
        """The events of the next row."""
        self._start = self._start or row.at
        at = row.at - self._start
        if is_verdict(row):
            brief = decode(decodable(row.body), type=VerdictBrief)
            yield Event("run_finished", at, detail=brief.stop.reason)
            return
        key = Key.parse(row.key)
        match read_row(row):
            case Note() as note if key.part == "state":
                yield Event("state", at, detail=note.state)
            case Intent() as begun:
                request = self._begun[row.key] = begun.request
                for kind in _KINDS.get(request.kind, ())[:1]:
                    yield Event(kind, at, request.agent or key.name, request.name, row.key)
            case Effect() as ended:
                request = self._begun.pop(row.key, ended.request)
                self._spent += ended.cost
                for kind in _KINDS.get(request.kind, ())[1:]:
                    result, name = ended.result, request.agent or key.name
                    detail = ended.code or result.code or result.status or "ok"
                    data = decode(
                        decodable(bytes(result.report if kind == "agent_finished" else result.data))
                    )
                    yield Event(kind, at, name, request.name, row.key, detail, data)
                    used = {**self._spent.to_json(), "seconds": at}
                    yield Event("budget", at, data={"used": used, "limits": self.limits})


def follow_run(repo: Path | None, name: str) -> Iterator[list[Event]]:
    """What a run's journal records, as events, until nobody writes it any more.

    Raises:
        RunNotFound: no run has this name.
        InputError: it cannot be read.
    """
    reader, rows = _RowEvents(), list[Row]()
    with state_directory.open_store(repo) as store:
        run = state_directory.find_run(name, anyio.run(store.runs))
        kind = "program" if is_program_run(run) else None
        events = [Event("run_started", 0.0, detail=run.run_id, data=kind)]
        while True:
            run = state_directory.find_run(run.run_id, anyio.run(store.runs))
            more = anyio.run(store.rows, run.run_id, rows[-1].seq if rows else 0)
            rows += more
            try:
                if more and not kind:
                    limits = anyio.run(read_limits, run.run_id, review_options(run), rows)
                    reader.limits = {**limits, "seconds": 60 * limits.get("minutes", inf)}
                events += [event for row in more for event in reader.read(row)]
            except DAMAGE as error:
                raise InputError(f"{run.run_id}: {describe_damage(run.run_id, error)}") from None
            if kind and run.writer is None and rows:
                events.append(Event("run_finished", rows[-1].at - rows[0].at, detail="done"))
            yield events
            if run.writer is None:
                return
            events = []
            time.sleep(POLL_SECONDS)
