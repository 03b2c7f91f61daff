"""Whether a run's journal is as it was written, and what it says of who did what."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.app import state_directory
from orchestrator.app.audit.signing_keys import load_verification_keys
from orchestrator.app.audit.trail import AuditTrail, build_acts
from orchestrator.app.partial_verdict import VERDICT, is_waiting_verdict
from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.journal_chain import SigningKey
from orchestrator.engine.journal_chain import verify_chain as check_chain
from orchestrator.engine.journal_verification import (
    Anchor,
    VerificationError,
    VerificationResult,
    verify_journal,
)
from orchestrator.engine.ports import Row
from orchestrator.errors import InputError, StoreError


class VerifiedRun(Struct, frozen=True):
    """A run's journal held against what was given.

    Attributes:
        finished: it records a verdict.
        writer: who writes it at this moment, None when nobody does.
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
    """Hold a run's journal against its chain, a verdict or a head, and keys.

    Args:
        anchor: the head and length that a verdict carried.
        verdict: the verdict's file, in place of these; it must be the one that is recorded.
        keys: files with keys, beside the environment's.

    Raises:
        InputError: what was given cannot be used.
        RunNotFound: there is no such run.
        StoreError: the journal cannot be read, or has no rows at all.
    """
    known = load_verification_keys(os.environ, keys)
    document = _document(verdict) if verdict else None
    with state_directory.open_run(state_directory.state_dir(repo), name) as (store, run):
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
    """Hold rows against all that is known of them; ``document`` is the verdict as handed out."""
    found = verify_journal(run_id, rows, anchor, keys)
    if document is not None:
        found = replace(found, faults=(*found.faults, *_differs(document, rows)))
    return VerifiedRun(run_id, _recorded(rows) is not None, found)


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"the verdict {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("provenance"), dict):
        raise InputError(f"{path} is no verdict; give what review --json wrote")
    return document


def _anchor(document: dict[str, Any], run_id: str) -> Anchor:
    if document.get("run_id") != run_id:
        raise InputError(f"the verdict is of run {document.get('run_id')}, not of {run_id}")
    head = document["provenance"].get("journal_head")
    length = document["provenance"].get("journal_length")
    if not (isinstance(head, str) and isinstance(length, int) and length > 0):
        raise InputError("the verdict carries no head of a journal; it was not made by review")
    return Anchor(head, length)


def _recorded(rows: Sequence[Row]) -> Row | None:
    return next((row for row in rows if row.kind == "note" and row.key == VERDICT), None)


def _differs(document: dict[str, Any], rows: Sequence[Row]) -> list[VerificationError]:
    """The verdict follows the head that it carries, and must be there as it was handed out."""
    handed_out = canonical(document)
    if any(is_waiting_verdict(row) and row.body == handed_out for row in rows):
        return []  # what it had come to when it stopped for an answer
    row = _recorded(rows)
    if row is None:
        last = rows[-1].seq if rows else 0
        return [
            VerificationError(
                last + 1, "the verdict itself is not in the journal: its end was cut off"
            )
        ]
    if row.body != handed_out:
        return [
            VerificationError(row.seq, f"row {row.seq} records another verdict than the file holds")
        ]
    return []


def load_trail(repo: Path | None, name: str) -> AuditTrail:
    """Who did what in a run.

    Raises:
        RunNotFound: there is no such run.
        StoreError: the journal cannot be read, or was altered.
    """
    with state_directory.open_run(state_directory.state_dir(repo), name) as (store, run):
        rows = anyio.run(store.rows, run.run_id)
    check_chain(rows)
    return AuditTrail(run.run_id, tuple(build_acts(rows)))
