"""The record of a run, read from its journal: states, tasks, calls, questions and decisions."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from orchestrator.app.human_decisions.feedback_notes import (
    FindingFeedback,
    newest_feedback,
    read_feedback,
)
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.engine.approvals import ASKED, approval_id
from orchestrator.engine.budget import NO_COST, Cost
from orchestrator.engine.effect_kinds import EffectKind, read_request
from orchestrator.engine.journal import APPROVAL, error_from_json
from orchestrator.engine.journal_keys import FEEDBACK, GRANT, GUARDS, Key
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
        arguments: of the call.
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
        rulings: bodies of the guards' notes.
        feedback: identity of a finding → the newest feedback.
        notes: other notes: key → body.
    """

    run_id: str
    started: float = 0.0
    seconds: float = 0.0
    rows: int = 0
    states: list[StateStep] = field(default_factory=list)
    spans: list[EffectSpan] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    decided: list[PersonDecision] = field(default_factory=list)
    rulings: list[Mapping[str, Any]] = field(default_factory=list)
    feedback: dict[str, FindingFeedback] = field(default_factory=dict)
    notes: dict[str, Mapping[str, Any]] = field(default_factory=dict)

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
        self._asked: dict[str, tuple[Mapping[str, Any], float]] = {}
        self._questions: dict[str, tuple[Mapping[str, Any], float]] = {}
        self._requests: dict[str, Mapping[str, Any]] = {}

    def read(self, row: Row) -> None:
        """Read the next row."""
        record = self.record
        if not record.rows:
            record.started = row.at
        record.rows, record.seconds = record.rows + 1, max(record.seconds, row.at - record.started)
        if row.kind == "data":
            return
        body = json.loads(row.body)
        if row.kind == "note":
            self._read_note(row, body)
        elif row.kind == "intent":
            self._begin(row, body)
        elif row.kind in {"outcome", "refusal"}:
            self._end(row, body)

    def _read_note(self, row: Row, body: Mapping[str, Any]) -> None:
        key, at = Key.parse(row.key), row.at - self.record.started
        if key.part == "state":
            self._enter(str(body.get("state")), at)
        elif key.part == ASKED:
            self._asked[key.subject] = body, row.at
        elif key.part == APPROVAL:
            self._asked.pop(key.subject, None)
            what = "approved" if body.get("approved") else "denied"
            self.record.decided.append(
                PersonDecision(str(body.get("who")), what, key.subject, row.at)
            )
        elif row.key == FEEDBACK:
            self._read_feedback(row)
        elif key.part == GUARDS:
            self.record.rulings.append(body)
        else:
            self.record.notes[row.key] = body

    def _read_feedback(self, row: Row) -> None:
        given = read_feedback(row)
        self.record.feedback = newest_feedback(given)
        self.record.decided.append(PersonDecision(given[-1].who, "said", str(given[-1]), row.at))

    def _enter(self, state: str, at: float) -> None:
        states = self.record.states
        if states:
            states[-1].seconds = at - states[-1].at
        states.append(StateStep(name=state, at=at))

    def _begin(self, row: Row, body: Mapping[str, Any]) -> None:
        asked = body.get("asked")
        asked = asked if isinstance(asked, dict) else {}
        request = read_request(asked)
        self._requests[row.key] = asked
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
            self._questions[row.key] = asked, row.at

    def _end(self, row: Row, body: Mapping[str, Any]) -> None:
        if row.key not in self._open:
            self._begin(row, body)
        span = self._open.pop(row.key)
        span.seconds = row.at - self.record.started - span.at
        span.ended_row = row.seq
        span.status, span.outcome = _outcome_of(row.kind, body)
        span.cost = Cost.from_json(body.get("cost", {}))
        self._asked.pop(row.key, None)
        value = body.get("value")
        value = value if isinstance(value, dict) else {}
        if span.kind == "model" and value.get("model"):
            span.name = "playbook" if value["model"] == OFFLINE else str(value["model"])
        if span.kind == "question" and row.key in self._questions:
            del self._questions[row.key]
            answer = PersonDecision(
                str(value.get("who")), "answered", str(value.get("answer")), row.at
            )
            self.record.decided.append(answer)
        if Key.parse(row.key).part == GRANT:
            more = ", ".join(f"{k} {v:g}" for k, v in self._requests[row.key].items())
            self.record.decided.append(
                PersonDecision(str(value.get("who")), "granted", more, row.at)
            )

    def finish(self) -> RunRecord:
        """The record, after all rows are read."""
        record = self.record
        for row_key, (asked, since) in self._questions.items():
            record.waiting.append(
                Waiting(
                    kind="question",
                    name=row_key.removesuffix("/answer"),
                    call=row_key,
                    agent=str(asked.get("agent")),
                    text=str(asked.get("question")),
                    since=since,
                )
            )
        for call, (asked, since) in self._asked.items():
            record.waiting.append(
                Waiting(
                    kind="call",
                    name=approval_id(record.run_id, call, str(asked.get("request"))),
                    call=call,
                    agent=str(asked.get("agent")),
                    text=str(asked.get("tool")),
                    arguments=asked.get("arguments") or {},
                    level=str(asked.get("level")),
                    since=since,
                )
            )
        return record


def read_record(run_id: str, rows: Iterable[Row]) -> RunRecord:
    """Read a run's rows.

    Raises:
        ValueError: a row was not written by Diffcourt.
    """
    reader = _Reader(run_id)
    for row in rows:
        reader.read(row)
    return reader.finish()


def _outcome_of(kind: str, body: Mapping[str, Any]) -> tuple[SpanStatus, str]:
    if "error" in body:
        status: SpanStatus = "refused" if kind == "refusal" else "failed"
        return status, f"{body.get('code') or body['error']}: {error_from_json(body)}"
    value = body.get("value")
    if not isinstance(value, dict):
        return "ok", ""
    failed = value.get("ok") is False or value.get("status") not in {None, "ok"}
    said = value.get("code") or value.get("detail") or value.get("stop") or value.get("status")
    return "failed" if failed else "ok", str(said or "")
