"""The audit trail: a journal's rows as entries of who did what, when, and by which authority."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.engine.journal import APPROVAL, IMPORTED, error_from_json
from orchestrator.engine.journal_hash_chain import SIGNED_HEAD
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.journal_log import SESSION
from orchestrator.engine.ports import Row

HARNESS = "diffcourt"
SUBJECT_FIELDS = ("message", "state", "decision", "verdict")


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
    level: str
    authority: str
    outcome: str
    refused: bool


class AuditTrail(Struct, frozen=True):
    """All actions of a run, in the order in which they began."""

    run_id: str
    entries: tuple[AuditEntry, ...]


def build_entries(rows: Sequence[Row]) -> list[AuditEntry]:
    """The entries of verified rows, in the order in which they began."""
    return sorted(_entries(rows), key=lambda entry: entry.row)


def _entries(rows: Sequence[Row]) -> Iterator[AuditEntry]:
    begun: dict[str, tuple[Row, dict[str, Any]]] = {}
    said_by: dict[str, str] = {}
    for row in rows:
        if row.kind == "data":
            continue
        body = json.loads(row.body)
        if row.kind in {"note", SIGNED_HEAD}:
            key = Key.parse(row.key)
            if key.part == APPROVAL:
                said_by[key.subject] = str(body.get("who"))
            yield _note_entry(row, body)
            continue
        body["who"] = said_by.get(row.key, "")
        start, request = begun.pop(row.key, (row, body))
        if row.kind == "intent":
            if start is not row:
                yield _effect(start, request, "cut off")
            begun[row.key] = row, body
        else:
            refusal = body if row.kind == "refusal" else None
            entry = _effect(start, request, _ended(body), refusal, _observed(body))
            offline = _model_of(body) == OFFLINE
            yield replace(entry, what="follows its playbook") if offline else entry
    for start, request in begun.values():
        yield _effect(start, request, "not ended")


def _model_of(body: Mapping[str, Any]) -> str:
    """The model that answered a call; empty if none did."""
    value = body.get("value")
    return str(value.get("model", "")) if isinstance(value, dict) else ""


def _note_entry(row: Row, body: Mapping[str, Any]) -> AuditEntry:
    """A note or a signed head, which the program itself writes."""
    if row.kind == SIGNED_HEAD:
        what, authority = f"signed rows 1 to {row.seq - 1}", f"key {body.get('key')}"
    else:
        subject = note_subject(body)
        if "to_stage" in body:
            subject = f"{body['agent']} escalates to {body['to_stage']}: {body['why']}"
        key = Key.parse(row.key)
        if key.part == APPROVAL:
            subject = f"{'yes' if body.get('approved') else 'no'} by {body.get('who')}"
        if key.part == IMPORTED:
            subject = f"the rows before were imported by {body.get('who')}"
        what, authority = f"{row.key}: {subject}" if subject else row.key, ""
        if key.part == SESSION:
            what = f"session {key.number} began"
    return AuditEntry(
        row=row.seq,
        at=row.at,
        key=row.key,
        who=HARNESS,
        what=what,
        level="",
        authority=authority,
        outcome="",
        refused=False,
    )


def note_subject(note: Mapping[str, Any]) -> str:
    """The part of a note that says what it is about; empty if none does."""
    return str(next((note[name] for name in SUBJECT_FIELDS if note.get(name)), ""))


def _effect(
    start: Row,
    request: Mapping[str, Any],
    outcome: str,
    refusal: Mapping[str, Any] | None = None,
    observed: Sequence[str] = (),
) -> AuditEntry:
    parameters = request.get("asked")
    parameters = parameters if isinstance(parameters, dict) else {}
    level = str(request.get("level", ""))
    if refusal is None:
        authority = _authority(parameters, level, request.get("who") or "nobody known")
    else:
        authority = str(refusal.get("code", ""))
    if observed:
        authority = "NONE, observed only"
        outcome = f"{outcome}; would be refused: {'; '.join(observed)}"
    return AuditEntry(
        row=start.seq,
        at=start.at,
        key=start.key,
        who=str(parameters.get("agent", HARNESS)),
        what=_what(start.key, parameters),
        level=level,
        authority=authority,
        outcome=outcome,
        refused=refusal is not None,
    )


def _observed(body: Mapping[str, Any]) -> list[str]:
    """Why a call of an observe-only run would otherwise have been refused."""
    value = body.get("value")
    warnings = value.get("warnings", ()) if isinstance(value, dict) else ()
    return [
        f"{warning['guard']}: {warning['reason']}"
        for warning in warnings
        if warning.get("observed")
    ]


def _what(key: str, parameters: Mapping[str, Any]) -> str:
    if "tool" in parameters:
        return f"{parameters['tool']} {json.dumps(parameters.get('arguments'))}"
    if "model" in parameters:
        return f"calls model {parameters['model']}"
    if "brief" in parameters:
        return f"works on {key}"
    if "question" in parameters:
        return "asks a person"  # what is in the run's report; the audit says who answered
    return f"{key} {json.dumps(parameters)}"


def _authority(parameters: Mapping[str, Any], level: str, who: str) -> str:
    if "tool" in parameters:
        return f"approved by {who}" if level in {"ADMIN", "IRREVERSIBLE"} else "tool policy"
    if "model" in parameters:
        return "budget"
    return "flow"


def _ended(body: Mapping[str, Any]) -> str:
    if "error" in body:
        return f"{body['error']}: {error_from_json(body)}"
    value = body.get("value")
    if isinstance(value, dict) and "answer" in value:
        return f"{value.get('who')} answers: {value['answer']}"
    word = value.get("code") or value.get("status") if isinstance(value, dict) else None
    return str(word or "ok")
