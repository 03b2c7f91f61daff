"""The record of a run, read from its journal: states, tasks, calls, questions and decisions."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from orchestrator.app.human_decisions.run_decisions import (
    FindingFeedback,
    newest_feedback,
    read_feedback,
)
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.engine.approvals import ASKED, approval_id
from orchestrator.engine.budget import NO_COST, Cost
from orchestrator.engine.journal import APPROVAL
from orchestrator.engine.journal_keys import FEEDBACK, GRANT, GUARDS, Key
from orchestrator.engine.journal_rows import (
    Effect,
    EffectKind,
    Intent,
    Note,
    Outcome,
    RefusedEffect,
    read_fields,
    read_row,
)
from orchestrator.engine.ports import Row

SpanStatus = Literal["ok", "failed", "refused", "open"]


class EffectSpan(Struct, kw_only=True):
    """An effect from its start to its end.

    Attributes:
        row: number of the row with which it began; identifies it.
        task: the key of its task; empty outside of tasks.
        name: the tool, the model, or else the key.
        at: seconds since the run began.
        seconds: None until it ends.
        outcome: its code, status or error, in a few words.
        ended_row: number of the row of its end; 0 until it ends.
        repeated: how often it was started again, as after a crash.
    """

    row: int
    key: str
    kind: EffectKind
    task: str
    agent: str
    name: str
    at: float
    seconds: float | None = None
    status: SpanStatus = "open"
    outcome: str = ""
    ended_row: int = 0
    cost: Cost = NO_COST
    repeated: int = 0


class StateStep(Struct, kw_only=True):
    """A state that the run entered; ``seconds`` is None for the last one."""

    name: str
    at: float
    seconds: float | None = None


class Waiting(Struct, frozen=True, kw_only=True):
    """What only a person can decide.

    Attributes:
        name: for ``resume --to`` (a question) or ``approve`` (a call).
        text: the question, or the tool.
        level: what the call can do to the world; empty for a question.
        since: seconds since the epoch.
    """

    kind: Literal["question", "call"]
    name: str
    call: str
    agent: str
    text: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    level: str = ""
    since: float = 0.0


class PersonDecision(Struct, frozen=True):
    """What a person decided, answered or granted, and when."""

    who: str
    what: str
    about: str
    at: float


class RunRecord(Struct, kw_only=True):
    """The record of a run.

    Attributes:
        started: time of the first row, in seconds since the epoch.
        seconds: from the first row to the last.
        rulings: the guards' notes.
        feedback: identity of a finding → the newest feedback.
    """

    run_id: str
    started: float = 0.0
    seconds: float = 0.0
    rows: int = 0
    states: list[StateStep] = field(default_factory=list)
    spans: list[EffectSpan] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    decided: list[PersonDecision] = field(default_factory=list)
    rulings: list[Note] = field(default_factory=list)
    feedback: dict[str, FindingFeedback] = field(default_factory=dict)

    @property
    def spent(self) -> Cost:
        """The cost of the ended effects."""
        return sum((span.cost for span in self.spans), NO_COST)

    @property
    def at_work(self) -> list[tuple[str, list[EffectSpan]]]:
        """Agents whose tasks have not ended, each with its calls that have not."""
        tasks = [span for span in self.spans if span.kind == "task" and span.status == "open"]
        return [(task.agent, [*self._open_under(task.key)]) for task in tasks]

    def _open_under(self, task: str) -> Iterator[EffectSpan]:
        for span in self.spans:
            if span.task == task and span.status == "open" and span.kind in {"model", "tool"}:
                yield span


class _Reader:
    """Builds the record row by row."""

    def __init__(self, run_id: str) -> None:
        self.record = RunRecord(run_id=run_id)
        self._open: dict[str, EffectSpan] = {}
        self._calls: dict[str, Waiting] = {}
        self._questions: dict[str, Waiting] = {}
        self._requests: dict[str, Effect] = {}

    def read(self, row: Row) -> None:
        """Read the next row."""
        record = self.record
        if not record.rows:
            record.started = row.at
        record.rows, record.seconds = record.rows + 1, max(record.seconds, row.at - record.started)
        match read_row(row):
            case Note() as note:
                self._read_note(row, note)
            case Intent() as begun:
                self._begin(row, begun)
            case (Outcome() | RefusedEffect()) as ended:
                self._end(row, ended)

    def _read_note(self, row: Row, note: Note) -> None:
        key = Key.parse(row.key)
        if key.part == "state":
            self._enter(note.state, row.at - self.record.started)
        elif key.part == ASKED:
            self._calls[key.subject] = self._waiting_call(key.subject, row)
        elif key.part == APPROVAL:
            self._calls.pop(key.subject, None)
            self._decide(row, note.who, "approved" if note.approved else "denied", key.subject)
        elif row.key == FEEDBACK:
            given = read_feedback(row)
            self.record.feedback = newest_feedback(given)
            self._decide(row, given[-1].who, "said", str(given[-1]))
        elif key.part == GUARDS:
            self.record.rulings.append(note)

    def _waiting_call(self, call: str, row: Row) -> Waiting:
        asked = read_fields(row.body)
        return Waiting(
            kind="call",
            name=approval_id(self.record.run_id, call, str(asked.get("request"))),
            call=call,
            agent=str(asked.get("agent")),
            text=str(asked.get("tool")),
            arguments=asked.get("arguments") or {},
            level=str(asked.get("level")),
            since=row.at,
        )

    def _decide(self, row: Row, who: str, what: str, about: str) -> None:
        self.record.decided.append(PersonDecision(who, what, about, row.at))

    def _enter(self, state: str, at: float) -> None:
        states = self.record.states
        if states:
            states[-1].seconds = at - states[-1].at
        # What precedes the first one's row, such as reading the change, is done in it.
        states.append(StateStep(name=state, at=at if states else 0.0))

    def _begin(self, row: Row, begun: Effect) -> None:
        request = begun.request
        self._requests[row.key] = begun
        if (known := self._open.get(row.key)) is not None:
            known.repeated += 1
            return
        key = Key.parse(row.key)
        span = EffectSpan(
            row=row.seq,
            key=row.key,
            kind=request.kind,
            task=str(key.task) if key.iteration or key.name else "",
            agent=request.agent or key.name,
            name=request.name or row.key,
            at=row.at - self.record.started,
        )
        self._open[row.key] = span
        self.record.spans.append(span)
        if span.kind == "question":
            self._questions[row.key] = Waiting(
                kind="question",
                name=row.key.removesuffix("/answer"),
                call=row.key,
                agent=request.agent,
                text=request.question,
                since=row.at,
            )

    def _end(self, row: Row, ended: Effect) -> None:
        if row.key not in self._open:
            self._begin(row, ended)
        span, result = self._open.pop(row.key), ended.result
        span.seconds = row.at - self.record.started - span.at
        span.ended_row = row.seq
        span.status, span.outcome = _outcome_of(ended)
        span.cost = ended.cost
        self._calls.pop(row.key, None)
        if span.kind == "model" and result.model:
            span.name = "playbook" if result.model == OFFLINE else result.model
        if span.kind == "question":
            del self._questions[row.key]
            self._decide(row, result.who, "answered", result.answer or "")
        if Key.parse(row.key).part == GRANT:
            granted = self._requests[row.key].parameters
            more = ", ".join(f"{name} {value:g}" for name, value in granted.items())
            self._decide(row, result.who, "granted", more)

    def finish(self) -> RunRecord:
        """The record, after all rows are read."""
        self.record.waiting += [*self._questions.values(), *self._calls.values()]
        return self.record


def read_record(run_id: str, rows: Iterable[Row]) -> RunRecord:
    """Read a run's rows.

    Raises:
        ValueError: a row was not written by Diffcourt.
    """
    reader = _Reader(run_id)
    for row in rows:
        reader.read(row)
    return reader.finish()


def _outcome_of(ended: Effect) -> tuple[SpanStatus, str]:
    if ended.error:
        return "refused" if isinstance(ended, RefusedEffect) else "failed", str(ended)
    result = ended.result
    detail = result.code or result.detail or result.stop or result.status
    return "failed" if result.has_failed else "ok", detail
