"""The audit trail: a journal's rows as entries of who did what, when, and by which authority."""

import json
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UNSET, Struct

from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.engine.journal import APPROVAL, IMPORTED
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.journal_log import SESSION
from orchestrator.engine.journal_rows import (
    Data,
    Effect,
    HeadSignature,
    Intent,
    Note,
    RefusedEffect,
    read_row,
)
from orchestrator.engine.ports import Row

HARNESS = "diffcourt"


class AuditEntry(Struct, frozen=True):
    """One action that was performed or refused.

    Attributes:
        row: number of the row with which it began.
        at: when it began, in seconds since the epoch.
        key: its place in the run, such as ``2/act/security/turn3/model``.
        who: the agent, or ``diffcourt`` for what the program's own code did.
        what: the tool with its arguments, the model, or what was decided.
        level: what it could do to the world, ``READ`` and up; empty for notes.
        authority: what allowed or refused it.
        outcome: how it ended; empty for notes.
        refused: it was not performed.
    """

    row: int
    at: float
    key: str
    who: str
    what: str
    level: str = ""
    authority: str = ""
    outcome: str = ""
    refused: bool = False


class AuditTrail(Struct, frozen=True):
    """All actions of a run, in the order in which they began."""

    run_id: str
    entries: tuple[AuditEntry, ...]


def build_entries(rows: Sequence[Row]) -> list[AuditEntry]:
    """The entries of verified rows, in the order in which they began."""
    return sorted(_entries(rows), key=lambda entry: entry.row)


def _entries(rows: Sequence[Row]) -> Iterator[AuditEntry]:
    begun: dict[str, tuple[Row, Effect, str]] = {}
    said_by: dict[str, str] = {}
    for row in rows:
        match read_row(row):
            case Data():
                continue
            case HeadSignature() as head:
                what, by = f"signed rows 1 to {row.seq - 1}", f"key {head.key}"
                yield AuditEntry(row.seq, row.at, row.key, HARNESS, what, authority=by)
            case Note() as note:
                key = Key.parse(row.key)
                if key.part == APPROVAL:
                    said_by[key.subject] = note.who
                what = _describe_note(row, key, note)
                yield AuditEntry(row.seq, row.at, row.key, HARNESS, what)
            case body:
                this = row, body, said_by.get(row.key, "")
                start = begun.pop(row.key, this)
                if not isinstance(body, Intent):
                    yield _effect(start, body, _ended(body))
                    continue
                if start is not this:
                    yield _effect(start, None, "cut off")
                begun[row.key] = this
    for start in begun.values():
        yield _effect(start, None, "not ended")


def _describe_note(row: Row, key: Key, note: Note) -> str:
    if key.part == SESSION:
        return f"session {key.number} began"
    subject = note.subject
    if note.to_stage:
        subject = f"{note.agent} escalates to {note.to_stage}: {note.why}"
    elif key.part == APPROVAL:
        subject = f"{'yes' if note.approved else 'no'} by {note.who}"
    elif key.part == IMPORTED:
        subject = f"the rows before were imported by {note.who}"
    return f"{row.key}: {subject}" if subject else row.key


def _effect(begun: tuple[Row, Effect, str], ended: Effect | None, outcome: str) -> AuditEntry:
    """An effect from its first row; ``ended`` is the body of its last."""
    start, first, who = begun
    refused = isinstance(ended, RefusedEffect)
    authority = ended.code if ended and refused else _authority(first, who)
    result = ended.result if ended else None
    observed = [
        f"{warning.guard}: {warning.reason}"
        for warning in (result.warnings if result else ())
        if warning.observed
    ]
    if observed:
        authority = "NONE, observed only"
        outcome = f"{outcome}; would be refused: {'; '.join(observed)}"
    offline = result is not None and result.model == OFFLINE
    return AuditEntry(
        row=start.seq,
        at=start.at,
        key=start.key,
        who=first.request.agent or HARNESS,
        what="follows its playbook" if offline else _what(start.key, first),
        level=first.level,
        authority=authority,
        outcome=outcome,
        refused=refused,
    )


def _what(key: str, effect: Effect) -> str:
    request = effect.request
    match request.kind:
        case "tool":
            text = f"{request.tool} {json.dumps(msgspec.json.decode(request.arguments))}"
            if effect.effective is not UNSET:
                text += f", performed with {json.dumps(msgspec.json.decode(effect.effective))}"
            return text
        case "model":
            return f"calls model {request.model}"
        case "task":
            return f"works on {key}"
        case "question":
            return "asks a person"  # what is in the run's report; the audit says who answered
    return f"{key} {json.dumps(effect.parameters)}"


def _authority(effect: Effect, who: str) -> str:
    match effect.request.kind:
        case "tool":
            is_approved = who or effect.level in {"ADMIN", "IRREVERSIBLE"}
            return f"approved by {who or 'nobody known'}" if is_approved else "tool policy"
        case "model":
            return "budget"
    return "flow"


def _ended(body: Effect) -> str:
    if body.error:
        return f"{body.error}: {body.exception()}"
    result = body.result
    if result.answer is not UNSET:
        return f"{result.who} answers: {result.answer}"
    return result.code or result.status or "ok"
