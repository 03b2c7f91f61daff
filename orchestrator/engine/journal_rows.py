"""The bodies of a journal's rows, typed, and their only decoder. ``journal`` writes them.

Requests and values are decoded when a reader asks for them: most readers need few, and a tool's
result can be long.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, convert, field

from orchestrator import errors
from orchestrator.engine.budget import NO_COST, Cost
from orchestrator.engine.ports import Row
from orchestrator.engine.types import Json, Level, Usage
from orchestrator.errors import DiffcourtError, ModelError, Refused

T = TypeVar("T")

_ESCAPE = re.compile(
    rb"\\(?:ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(?P<lone>ud[89a-f][0-9a-f]{2})|.)",
    re.DOTALL | re.IGNORECASE,
)

EffectKind = Literal["task", "model", "tool", "question", "other"]

NOTHING = Raw(b"null")


class GuardWarning(Struct, frozen=True, omit_defaults=True):
    """A guard's warning about a call that was performed.

    Attributes:
        observed: the call would have been refused, had the run not been observe-only.
    """

    guard: str
    reason: str
    observed: bool = False

    def __str__(self) -> str:
        observed = "not refused, since this run only observes: " if self.observed else ""
        return f"{observed}{self.guard}: {self.reason}"


class RecordedRequest(Struct):
    """The fields of a recorded request by which its kind is known.

    Attributes:
        agent: empty for effects that no agent asked for.
        tool: None for what is no tool call; a model may call a tool without a name.
        brief: the digest of a task's brief.
        question: to a person.
        arguments: of a tool call.
        system: the digest of a model call's system prompt.
        texts: of a model call: kind and digest of what code added since the last answer.
    """

    agent: str = ""
    tool: str | None = None
    model: str = ""
    brief: str = ""
    question: str = ""
    arguments: Raw = NOTHING
    system: str = ""
    texts: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> EffectKind:
        """The kind of the effect."""
        if self.tool is not None:
            return "tool"
        if self.model:
            return "model"
        if self.brief:
            return "task"
        return "question" if self.question else "other"

    @property
    def name(self) -> str:
        """The tool or the model that is called; empty for other kinds."""
        return self.tool or self.model


class RecordedResult(Struct):
    """The fields of a recorded value: of a model's answer, a tool's or a task's result, an answer.

    Attributes:
        ok, code, content, data, warnings: of a tool call.
        status, detail, agent, report: of a task.
        stop, usage, model, blocks, id, server, max_tokens: of a model call.
        who, answer: of a person's answer or grant.
    """

    ok: bool = True
    code: str = ""
    content: str = ""
    data: Raw = NOTHING
    warnings: tuple[GuardWarning, ...] = ()
    status: str = ""
    detail: str = ""
    agent: str = ""
    report: Raw = NOTHING
    stop: str = ""
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    blocks: Raw | UnsetType = UNSET
    id: str = ""
    server: str = ""
    max_tokens: int = 0
    who: str = ""
    answer: str | UnsetType = UNSET

    @property
    def has_failed(self) -> bool:
        """Whether a tool call or a task failed."""
        return not self.ok or self.status not in {"", "ok"}


class RecordedError(Struct, kw_only=True):
    """An error as a row records it; ``error`` is the name of its class, empty without one.

    Attributes:
        code, reason: of a refusal.
        guard: the guard that refused, if one did.
        message: of any other error.
    """

    error: str = ""
    code: str = ""
    guard: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    message: str | UnsetType = UNSET

    def exception(self) -> DiffcourtError:
        """The error itself."""
        kind: type[DiffcourtError] = getattr(errors, self.error, ModelError)
        parts = (self.guard, self.reason, self.message)
        return kind(*(part for part in parts if part is not UNSET))

    def __str__(self) -> str:
        return f"{self.code or self.error}: {self.exception()}"


class Effect(RecordedError, kw_only=True):
    """The body of a row of an effect; an intent, an outcome or a refusal has some of the fields.

    Attributes:
        asked: the request, as JSON; of intents and refusals.
        level: what it can do to the world.
        worst: the most that it can cost; of an intent.
        effective: of an intent: a tool call's arguments, if guards or its schema changed them.
        cost: what it used; of an outcome.
        value: its value, as JSON; empty without one.
    """

    asked: Raw = NOTHING
    level: str = Level.READ.name
    worst: Cost = NO_COST
    effective: Raw | UnsetType = UNSET
    cost: Cost = NO_COST
    value: Raw = Raw(b"")

    @property
    def request(self) -> RecordedRequest:
        """The request; one of another form gives an empty one."""
        return _lenient(_REQUEST, self.asked)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """All fields of the request; none if it has another form."""
        return read_fields(self.asked)

    @property
    def result(self) -> RecordedResult:
        """The value; one of another form, such as a program's own, gives an empty one."""
        return _lenient(_RESULT, self.value)

    def read_result(self) -> RecordedResult:
        """The value of an agent's effect, empty without one.

        Raises:
            msgspec.DecodeError: it has another form.
        """
        return _RESULT.decode(self.value) if self.value else RecordedResult()


class Intent(Effect, kw_only=True):
    """An effect begins."""


class Outcome(Effect, kw_only=True):
    """An effect has ended."""


class RefusedEffect(Effect, kw_only=True):
    """An effect was not performed."""


class Note(Struct):
    """The fields of notes that readers use; each topic has some of them.

    Attributes:
        message, state, decision, verdict: what a note is about.
        who, approved: of a person's decision.
        agent, from_stage, to_stage, why: of an escalation; ``why`` also of others.
        layer, guard, action, reason, place: of what a guard ruled.
        observations, exchanges: of what compaction left out; UNSET in other notes.
        copied: number of rows that a fork begins with.
    """

    message: str = ""
    state: str = ""
    decision: str = ""
    verdict: str = ""
    who: str = ""
    approved: bool = False
    agent: str = ""
    from_stage: str = ""
    to_stage: str = ""
    why: str = ""
    layer: str = ""
    guard: str = ""
    action: str = ""
    reason: str = ""
    place: str = ""
    observations: tuple[str, ...] = ()
    exchanges: int | UnsetType = UNSET
    copied: int = 0

    @property
    def subject(self) -> str:
        """What it is about; empty if it does not say."""
        return self.message or self.state or self.decision or self.verdict


class Data(Struct):
    """A long value, which other rows name by its digest; decoded when it is read."""

    body: bytes = b"{}"

    @property
    def value(self) -> Any:
        """The value; None if there is none."""
        return read_fields(self.body).get("value")


class HeadSignature(Struct):
    """A signature of all rows before, with the id of its key."""

    key: str = ""


RowBody = Effect | Note | Data | HeadSignature

_REQUEST = msgspec.json.Decoder(RecordedRequest)
_RESULT = msgspec.json.Decoder(RecordedResult)
_EFFECT = msgspec.json.Decoder(Effect)
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(body)
    for kind, body in {
        "intent": Intent,
        "outcome": Outcome,
        "refusal": RefusedEffect,
        "note": Note,
        "signed_head": HeadSignature,
    }.items()
}


def decodable(body: bytes) -> bytes:
    """A row's body as msgspec decodes it: a lone surrogate becomes the text of its escape.

    A file name that is not UTF-8 holds lone surrogates, which no Unicode text can.
    """
    if b"\\ud" not in body:
        return body
    return _ESCAPE.sub(lambda found: b"\\" * (found["lone"] is not None) + found[0], body)


def read_row(row: Row) -> RowBody:
    """Decode the body of a row; a row of another kind is read as an effect.

    Raises:
        ValueError, InputError: the row was not written by Diffcourt.
    """
    if row.kind == "data":
        return Data(row.body)
    body: RowBody = _DECODERS.get(row.kind, _EFFECT).decode(decodable(row.body))
    return body


def read_fields(body: Raw | bytes) -> Mapping[str, Any]:
    """All fields of a row's body, a request or a value; none if it is no JSON object.

    Raises:
        ValueError: it is no JSON.
    """
    found = msgspec.json.decode(decodable(bytes(body))) if body else None
    return found if isinstance(found, dict) else {}


def _lenient(decoder: msgspec.json.Decoder[T], value: Raw) -> T:
    try:
        return decoder.decode(value)
    except msgspec.DecodeError:
        return decoder.type()


def error_to_json(error: DiffcourtError) -> dict[str, Json]:
    """An error as ``RecordedError`` has it; of a refusal: code, reason, guard if any."""
    body: dict[str, Json] = {"error": type(error).__name__}
    if not isinstance(error, Refused):
        return {**body, "message": str(error)}
    guard = {"guard": error.guard} if error.guard else {}
    return {**body, "code": error.code, "reason": error.reason, **guard}


def error_from_json(body: Mapping[str, Any]) -> DiffcourtError:
    """The inverse of ``error_to_json``."""
    return convert(body, RecordedError).exception()
