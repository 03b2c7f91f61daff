"""Verify that a run's journal was not altered, and load its audit trail."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.app.audit.audit_entries import AuditTrail, build_entries
from orchestrator.app.audit.signing_keys import load_verification_keys
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.verdict_recording import is_final_verdict, is_verdict, last_row
from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.journal_hash_chain import SigningKey
from orchestrator.engine.journal_hash_chain import verify_chain as check_chain
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


def _without_exit_code(body: bytes) -> bytes:
    try:
        return canonical({**json.loads(body), "exit_code": None})
    except (ValueError, TypeError, RecursionError):  # an altered row
        return body
