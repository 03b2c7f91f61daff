"""Facts about one run, read only from the rows of its journal."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct, field

from orchestrator.app.human_decisions.run_decisions import newest_feedback, read_feedback
from orchestrator.app.runs.verdict_recording import VERDICT, WAITING
from orchestrator.app.types import DAMAGE, ENTRY_DAMAGED, is_program_run, is_readable
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.journal_hash_chain import verify_chain
from orchestrator.engine.journal_keys import FEEDBACK, FORK_NOTE, GUARDS, Key
from orchestrator.engine.journal_log import is_session_start, seconds_worked
from orchestrator.engine.journal_rows import (
    Intent,
    Note,
    Outcome,
    RecordedRequest,
    RecordedResult,
    RefusedEffect,
    decodable,
    read_row,
)
from orchestrator.engine.ports import Row, RunMeta
from orchestrator.errors import InputError, StoreError

RunState = Literal["finished", "waiting", "interrupted", "running"]


class ToolCallFact(Struct, frozen=True, gc=False):
    """A tool call that has ended.

    Attributes:
        result: ``ok``, ``failed``, ``timeout`` or ``declined`` of a call that was performed, else
            the code of its refusal.
        performed: False if it was refused.
        seconds: None if it was not performed.
    """

    agent: str
    tool: str
    result: str
    performed: bool
    seconds: float | None = None


class ModelCallFact(Struct, frozen=True, gc=False):
    """A model call that has ended; ``model`` is the requested one if no reply names it."""

    agent: str
    model: str
    ok: bool
    seconds: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0


class TaskFact(Struct, frozen=True, gc=False):
    """A task of an agent that has ended."""

    agent: str
    status: str


class FindingFact(Struct, frozen=True, gc=False):
    """A finding of a verdict; ``state`` is ``open``, ``waived``, ``dismissed`` or ``fixed``."""

    identity: str
    rule: str
    category: str
    severity: str
    state: str


class RunFacts(Struct, kw_only=True):
    """Facts about one run.

    Attributes:
        started: seconds since the epoch.
        is_review: False for a run of a program that uses the library; it has no verdict.
        pattern: ``team`` or ``single``; ``analyzers`` if no model took part; else empty.
        seconds: time worked, without the time between sessions.
        outcome, status, stop: of the verdict; empty without one.
        resumes: later sessions with effects; those of approvals and overrides do not count.
        resumes_ended: those of them that reached a verdict or a question.
        usd: the most that it cost: calls whose outcome is unknown count at their worst case.
        person_asked: a person was asked how to continue, or a question of the plan.
        escalations: the agent and its new stage.
        guard_blocks: the guard of each block.
        rejected: findings that were reported and do not count.
    """

    run_id: str
    started: float
    is_review: bool
    state: RunState = "interrupted"
    pattern: str = ""
    seconds: float = 0.0
    outcome: str = ""
    status: str = ""
    stop: str = ""
    resumes: int = 0
    resumes_ended: int = 0
    usd: float = 0.0
    usd_by_agent: dict[str, float] = field(default_factory=dict)
    person_asked: bool = False
    tool_calls: list[ToolCallFact] = field(default_factory=list)
    model_calls: list[ModelCallFact] = field(default_factory=list)
    tasks: list[TaskFact] = field(default_factory=list)
    loops_cut: list[str] = field(default_factory=list)
    escalations: list[tuple[str, str]] = field(default_factory=list)
    guard_blocks: list[str] = field(default_factory=list)
    findings: list[FindingFact] = field(default_factory=list)
    rejected: int = 0


def read_run(run: RunMeta, rows: Sequence[Row]) -> RunFacts:
    """Verify a run's chain and read what the run did.

    Raises:
        StoreError: the rows were altered, or are not of this version of the program.
    """
    verify_chain(rows)
    if not is_readable(run):
        raise StoreError(ENTRY_DAMAGED)
    is_review = not is_program_run(run)
    reader = _Reader(RunFacts(run_id=run.run_id, started=run.started, is_review=is_review))
    for row in rows:
        try:
            reader.read(row)
        except (*DAMAGE, InputError) as error:
            raise StoreError(f"journal row {row.seq} ({row.key}) cannot be read: {error}") from None
    return reader.finish(rows, running=run.writer is not None)


_VERDICT = msgspec.json.Decoder(Verdict)


class _Open(Struct):
    """An effect that has begun and not ended."""

    request: RecordedRequest
    at: float
    usd: float


class _Reader:
    """Reads the rows of one run in their order."""

    def __init__(self, facts: RunFacts) -> None:
        self._facts = facts
        self._open: dict[str, _Open] = {}
        self._verdict: Verdict | None = None
        self._final = self._waiting = False
        self._sessions = 0
        self._session_worked = self._session_ended = False
        self._copied = 0
        self._marked_fixed: set[str] = set()
        self._looped: set[Key] = set()

    def read(self, row: Row) -> None:
        """Read the next row; rows that a fork copied count only in the original run."""
        if row.seq == 1 and row.key == FORK_NOTE and isinstance(fork := read_row(row), Note):
            self._copied = 1 + fork.copied
        if row.seq <= self._copied:
            return
        if is_session_start(row):
            self._end_session()
            self._sessions += 1
            return
        match read_row(row):
            case Intent() as begun:
                self._begin(row, begun)
            case Outcome() as ended:
                self._end(row, ended)
            case RefusedEffect() as refused:
                self._refuse(row, refused)
            case Note() as note:
                self._note(row, note)

    def finish(self, rows: Sequence[Row], *, running: bool) -> RunFacts:
        """The facts, once all rows are read."""
        self._end_session()
        facts = self._facts
        facts.seconds = seconds_worked(list(rows[self._copied :]))
        for effect in self._open.values():
            self._spend(effect.request.agent, effect.usd)
            if effect.request.kind == "task":
                facts.tasks.append(TaskFact(effect.request.agent, "open"))
        if self._final:
            facts.state = "finished"
        elif running:
            facts.state = "running"
        elif self._waiting:
            facts.state = "waiting"
        if self._verdict is not None:
            self._conclude(self._verdict)
        return facts

    def _end_session(self) -> None:
        if self._sessions > 1 and self._session_worked:
            self._facts.resumes += 1
            self._facts.resumes_ended += self._session_ended
        self._session_worked = self._session_ended = False

    def _spend(self, agent: str, usd: float) -> None:
        if usd:
            self._facts.usd += usd
            by_agent = self._facts.usd_by_agent
            by_agent[agent] = by_agent.get(agent, 0.0) + usd

    def _lose(self, key: str) -> None:
        """Count an attempt whose outcome is unknown at its worst case: it may have been billed."""
        lost = self._open.pop(key, None)
        if lost is not None:
            self._spend(lost.request.agent, lost.usd)

    def _begin(self, row: Row, begun: Intent) -> None:
        self._lose(row.key)
        request = begun.request
        self._open[row.key] = _Open(request, row.at, begun.worst.usd)
        self._session_worked, self._waiting = True, False
        if request.kind == "question":
            self._facts.person_asked = True

    def _end(self, row: Row, ended: Outcome) -> None:
        begun = self._open.pop(row.key, None)
        request = begun.request if begun else RecordedRequest()
        seconds = row.at - begun.at if begun else None
        self._spend(request.agent, ended.cost.usd)
        self._session_worked, self._waiting = True, False
        facts = self._facts
        if request.kind == "model":
            # Of a call that a program made itself, what it returned says nothing.
            reply = ended.read_result() if request.agent else RecordedResult()
            used = reply.usage
            facts.model_calls.append(
                ModelCallFact(
                    request.agent, reply.model or request.model, bool(ended.value), seconds,
                    used.input_tokens, used.output_tokens, used.cached_tokens, ended.cost.usd,
                )
            )  # fmt: skip
        elif request.kind == "tool":
            code = ended.read_result().code if ended.value else ended.code or "failed"
            facts.tool_calls.append(
                ToolCallFact(request.agent, request.name, code or "ok", True, seconds)
            )
        elif request.kind == "task":
            task = ended.read_result()
            facts.tasks.append(
                TaskFact(task.agent, task.status)
                if ended.value
                else TaskFact(request.agent, "failed")
            )

    def _refuse(self, row: Row, refused: RefusedEffect) -> None:
        self._lose(row.key)
        self._session_worked, self._waiting = True, False
        request = refused.request
        if request.kind == "tool":
            call = ToolCallFact(request.agent, request.name, refused.code, False)
            self._facts.tool_calls.append(call)
            if refused.guard:
                self._facts.guard_blocks.append(refused.guard)

    def _note(self, row: Row, note: Note) -> None:
        facts, key = self._facts, Key.parse(row.key)
        if row.key == VERDICT or key.part == WAITING:
            self._verdict = _VERDICT.decode(decodable(row.body))
            self._final, self._waiting = row.key == VERDICT, key.part == WAITING
            if self._verdict.override is None:  # else a person's session, not the run's
                self._session_worked = self._session_ended = True
        elif row.key == FEEDBACK:
            given = newest_feedback(read_feedback(row))
            self._marked_fixed = {at for at, one in given.items() if one.said == "fixed"}
        elif key.step == "loop":
            if key.task not in self._looped:  # an escalated task may loop again
                facts.loops_cut.append(key.name or key.part)
            self._looped.add(key.task)
        elif key.is_escalation:
            facts.escalations.append((note.agent, note.to_stage))
        elif key.part == GUARDS and note.action == "block":
            facts.guard_blocks.append(note.guard)

    def _conclude(self, verdict: Verdict) -> None:
        facts = self._facts
        if self._final:
            facts.outcome, facts.status = verdict.verdict, verdict.status
            facts.stop = verdict.stop.reason
        if verdict.provenance.provider == OFFLINE:
            facts.pattern = "analyzers"
        elif verdict.assignment is not None:
            facts.pattern = verdict.assignment.pattern
        dismissed = {
            name for use in verdict.memory if use.effect == "dismissed" for name in use.findings
        }
        for one in verdict.findings:
            state: str = "dismissed" if one.state == "waived" and one.id in dismissed else one.state
            if state == "open" and one.identity in self._marked_fixed:
                state = "fixed"
            facts.findings.append(
                FindingFact(one.identity, one.counted_as, one.category, one.severity, state)
            )
        for past in verdict.previous.fixed if verdict.previous else ():
            facts.findings.append(
                FindingFact(past.fingerprint, past.counted_as, "", past.severity, "fixed")
            )
        facts.rejected = len(verdict.rejected)
