"""Verify that a run's journal was not altered; and its audit trail: who did what, when, and why."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from orchestrator.app.audit.signing_keys import load_verification_keys
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.verdict_recording import is_final_verdict, is_verdict, last_row
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.journal import APPROVAL, IMPORTED
from orchestrator.engine.journal_hash_chain import SigningKey
from orchestrator.engine.journal_hash_chain import verify_chain as check_chain
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
from orchestrator.engine.journal_verification import (
    Anchor,
    VerificationError,
    VerificationResult,
    verify_journal,
)
from orchestrator.engine.ports import Row
from orchestrator.errors import InputError, StoreError
from orchestrator.foreign_json import parse_json


class VerifiedRun(Struct, frozen=True):
    """The result of verifying a run's journal.

    Attributes:
        finished: whether it records a verdict.
        writer: the process that writes it now; may be None.
    """

    run_id: str
    finished: bool
    found: VerificationResult
    writer: str | None = None


def verify_run(
    repo: Path | None,
    name: str,
    *,
    anchor: Anchor | None = None,
    verdict: Path | None = None,
    keys: Sequence[Path] = (),
) -> VerifiedRun:
    """Verify a run's journal by its hash chain, a verdict or a head, and keys.

    Args:
        anchor: the head and length from a verdict.
        verdict: the verdict's file, instead of ``anchor``; the journal must record the same one.
        keys: key files, in addition to the environment's key.

    Raises:
        InputError: the verdict or a key cannot be used.
        RunNotFound: no run has that name.
        StoreError: the journal cannot be read, or has no rows.
    """
    known = load_verification_keys(os.environ, keys)
    document = _document(verdict) if verdict else None
    with state_directory.open_run(repo, name) as (store, run):
        rows = anyio.run(store.rows, run.run_id)
    if document is not None:
        anchor = _anchor(document, run.run_id)
    if not rows and anchor is None and not known:
        raise StoreError(f"run {run.run_id} has no rows; there is nothing to verify")
    return replace(check_rows(run.run_id, rows, anchor, document, known), writer=run.writer)


def check_rows(
    run_id: str,
    rows: Sequence[Row],
    anchor: Anchor | None,
    document: dict[str, Any] | None,
    keys: Mapping[str, SigningKey],
) -> VerifiedRun:
    """Verify rows against an anchor, keys, and the verdict ``document`` as it was written."""
    found = verify_journal(run_id, rows, anchor, keys)
    if document is not None:
        found = replace(found, errors=(*found.errors, *_differs(document, rows)))
    return VerifiedRun(run_id, last_row(rows, is_final_verdict) is not None, found)


def _document(path: Path) -> dict[str, Any]:
    try:
        document = parse_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"the verdict {path} cannot be read: {error.strerror}") from None
    except ValueError:
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("provenance"), dict):
        raise InputError(f"{path} is not a verdict; give a file that review --json wrote")
    return document


def _anchor(document: dict[str, Any], run_id: str) -> Anchor:
    if document.get("run_id") != run_id:
        raise InputError(f"the verdict is of run {document.get('run_id')}, not of {run_id}")
    head = document["provenance"].get("journal_head")
    length = document["provenance"].get("journal_length")
    if not (isinstance(head, str) and isinstance(length, int) and length > 0):
        raise InputError("the verdict has no journal head; it was not written by review")
    return Anchor(head, length)


def _differs(document: dict[str, Any], rows: Sequence[Row]) -> list[VerificationError]:
    """The journal must record the verdict as the file has it, but for its exit code.

    That one follows the command's ``--fail-on``, and not the run.
    """
    handed_out = _without_exit_code(canonical(document))
    if any(_without_exit_code(row.body) == handed_out for row in filter(is_verdict, rows)):
        return []  # possibly an earlier one, before an answer, an approval or a raised limit
    row = last_row(rows, is_final_verdict)
    if row is None:
        last = rows[-1].seq if rows else 0
        return [
            VerificationError(last + 1, "the verdict is not in the journal: its end was cut off")
        ]
    return [VerificationError(row.seq, f"row {row.seq} records a different verdict than the file")]


def _without_exit_code(body: bytes) -> bytes:
    try:
        return canonical({**json.loads(body), "exit_code": None})
    except (ValueError, TypeError, RecursionError):  # an altered row
        return body


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


def load_trail(repo: Path | None, name: str) -> AuditTrail:
    """Load the audit trail of a run: who did what.

    Raises:
        RunNotFound: no run has that name.
        StoreError: the journal cannot be read, or was altered.
    """
    with state_directory.open_run(repo, name) as (store, run):
        rows = anyio.run(store.rows, run.run_id)
    check_chain(rows)
    return AuditTrail(run.run_id, tuple(build_entries(rows)))


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
