"""Facts about one run, read only from the rows of its journal."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Raw, Struct, field

from orchestrator.app.human_decisions.feedback_notes import newest_feedback, read_feedback
from orchestrator.app.runs.verdict_recording import VERDICT, WAITING
from orchestrator.app.types import is_program_run
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.engine.effect_kinds import NO_REQUEST, RecordedRequest, decode_request
from orchestrator.engine.journal_hash_chain import verify_chain
from orchestrator.engine.journal_keys import FEEDBACK, FORK_NOTE, GUARDS, Key
from orchestrator.engine.journal_log import is_session_start, seconds_worked
from orchestrator.engine.ports import Row, RunMeta
from orchestrator.errors import StoreError

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
        usd_by_agent: ``usd`` by agent.
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
    reader = _Reader(RunFacts(run_id=run.run_id, started=run.started, is_review=_is_review(run)))
    for row in rows:
        try:
            reader.read(row)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"journal row {row.seq} ({row.key}) cannot be read: {error}") from None
    return reader.finish(rows, running=run.writer is not None)


def _is_review(run: RunMeta) -> bool:
    if not isinstance(run.meta, dict):
        raise StoreError("its entry in the store is damaged")
    return not is_program_run(run)


# --- the fields of rows that are read; others are skipped without being parsed -------------------


class _Cost(Struct):
    usd: float = 0.0


class _Begun(Struct):
    """An intent, or a refusal."""

    asked: Raw = Raw(b"null")
    worst: _Cost = field(default_factory=_Cost)
    code: str = ""
    guard: str = ""


class _Ended(Struct):
    """An outcome."""

    cost: _Cost = field(default_factory=_Cost)
    value: Raw = Raw(b"")
    code: str = ""


class _Used(Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class _Reply(Struct):
    model: str = ""
    usage: _Used = field(default_factory=_Used)


class _Result(Struct):
    code: str = ""


class _TaskEnd(Struct):
    agent: str = ""
    status: str = ""


class _Change(Struct):
    agent: str = ""
    to_stage: str = ""


class _Ruling(Struct):
    guard: str = ""
    action: str = ""


class _Found(Struct):
    fingerprint: str
    rule: str
    severity: str
    title: str = ""
    category: str = ""
    id: str = ""
    state: str = "open"
    first_fingerprint: str = ""


class _MemoryUse(Struct):
    effect: str
    findings: tuple[str, ...] = ()


class _Previous(Struct):
    fixed: tuple[_Found, ...] = ()


class _Fork(Struct):
    copied: int


class _Stop(Struct):
    reason: str


class _Assignment(Struct):
    pattern: str


class _Provenance(Struct):
    provider: str


class _Verdict(Struct):
    verdict: str
    status: str
    stop: _Stop
    provenance: _Provenance
    assignment: _Assignment | None = None
    findings: tuple[_Found, ...] = ()
    rejected: tuple[Raw, ...] = ()
    memory: tuple[_MemoryUse, ...] = ()
    previous: _Previous | None = None
    override: Raw = Raw(b"null")


_BEGUN = msgspec.json.Decoder(_Begun)
_ENDED = msgspec.json.Decoder(_Ended)
_REPLY = msgspec.json.Decoder(_Reply)
_RESULT = msgspec.json.Decoder(_Result)
_TASK_END = msgspec.json.Decoder(_TaskEnd)
_CHANGE = msgspec.json.Decoder(_Change)
_RULING = msgspec.json.Decoder(_Ruling)
_FORK = msgspec.json.Decoder(_Fork)
_VERDICT = msgspec.json.Decoder(_Verdict)


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
        self._verdict: _Verdict | None = None
        self._final = self._waiting = False
        self._sessions = 0
        self._session_worked = self._session_ended = False
        self._copied = 0
        self._marked_fixed: set[str] = set()

    def read(self, row: Row) -> None:
        """Read the next row; rows that a fork copied count only in the original run."""
        if row.seq == 1 and row.key == FORK_NOTE:
            self._copied = 1 + _FORK.decode(row.body).copied
        if row.seq <= self._copied:
            return
        if is_session_start(row):
            self._end_session()
            self._sessions += 1
        elif row.kind == "intent":
            self._begin(row)
        elif row.kind == "outcome":
            self._end(row)
        elif row.kind == "refusal":
            self._refuse(row)
        elif row.kind == "note":
            self._note(row)

    def finish(self, rows: Sequence[Row], *, running: bool) -> RunFacts:
        """The facts, once all rows are read."""
        self._end_session()
        facts = self._facts
        facts.seconds = seconds_worked(list(rows[self._copied :]))
        for effect in self._open.values():
            self._spend(effect.request.agent, effect.usd)
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

    def _begin(self, row: Row) -> None:
        body = _BEGUN.decode(row.body)
        self._lose(row.key)
        self._open[row.key] = _Open(decode_request(body.asked), row.at, body.worst.usd)
        self._session_worked, self._waiting = True, False
        if self._open[row.key].request.kind == "question":
            self._facts.person_asked = True

    def _end(self, row: Row) -> None:
        body, begun = _ENDED.decode(row.body), self._open.pop(row.key, None)
        request = begun.request if begun else NO_REQUEST
        seconds = row.at - begun.at if begun else None
        self._spend(request.agent, body.cost.usd)
        self._session_worked, self._waiting = True, False
        facts, value = self._facts, bytes(body.value)
        if request.kind == "model":
            reply = _read_reply(request, value)
            used = reply.usage
            facts.model_calls.append(
                ModelCallFact(
                    request.agent, reply.model or request.model, bool(value), seconds,
                    used.input_tokens, used.output_tokens, used.cached_tokens, body.cost.usd,
                )
            )  # fmt: skip
        elif request.kind == "tool":
            result = _RESULT.decode(value).code if value else body.code or "failed"
            facts.tool_calls.append(
                ToolCallFact(request.agent, request.name, result or "ok", True, seconds)
            )
        elif request.kind == "task":
            ended = _TASK_END.decode(value) if value else _TaskEnd(request.agent, "failed")
            facts.tasks.append(TaskFact(ended.agent, ended.status))

    def _refuse(self, row: Row) -> None:
        body = _BEGUN.decode(row.body)
        self._lose(row.key)
        self._session_worked, self._waiting = True, False
        request = decode_request(body.asked)
        if request.kind == "tool":
            call = ToolCallFact(request.agent, request.name, body.code, False)
            self._facts.tool_calls.append(call)
            if body.guard:
                self._facts.guard_blocks.append(body.guard)

    def _note(self, row: Row) -> None:
        facts, key = self._facts, Key.parse(row.key)
        if row.key == VERDICT or key.part == WAITING:
            self._verdict = _VERDICT.decode(row.body)
            self._final, self._waiting = row.key == VERDICT, key.part == WAITING
            if bytes(self._verdict.override) == b"null":  # else a person's session, not the run's
                self._session_worked = self._session_ended = True
        elif row.key == FEEDBACK:
            given = newest_feedback(read_feedback(row))
            self._marked_fixed = {at for at, one in given.items() if one.said == "fixed"}
        elif key.step == "loop":
            facts.loops_cut.append(key.name or key.part)
        elif key.is_escalation:
            change = _CHANGE.decode(row.body)
            facts.escalations.append((change.agent, change.to_stage))
        elif key.part == GUARDS:
            ruling = _RULING.decode(row.body)
            if ruling.action == "block":
                facts.guard_blocks.append(ruling.guard)

    def _conclude(self, verdict: _Verdict) -> None:
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
            state = "dismissed" if one.state == "waived" and one.id in dismissed else one.state
            identity = one.first_fingerprint or one.fingerprint
            marked = state == "open" and identity in self._marked_fixed
            facts.findings.append(_finding(one, "fixed" if marked else state))
        for one in verdict.previous.fixed if verdict.previous else ():
            facts.findings.append(_finding(one, "fixed"))
        facts.rejected = len(verdict.rejected)


def _read_reply(request: RecordedRequest, value: bytes) -> _Reply:
    """A model's reply; of a call that a program made itself, what it returned says nothing."""
    return _REPLY.decode(value) if value and request.agent else _Reply()


def _finding(one: _Found, state: str) -> FindingFact:
    # A finding of an agent without a rule of the table is counted by its title.
    rule = one.title if one.rule.endswith(".reported") else one.rule
    identity = one.first_fingerprint or one.fingerprint
    return FindingFact(identity, rule, one.category, one.severity, state)
