"""Verification of a journal by its hash chain, a head kept elsewhere, and signatures."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from orchestrator.engine.journal_hash_chain import (
    GENESIS,
    SIGNED_HEAD,
    SigningKey,
    find_chain_errors,
    find_signature_errors,
    read_key_id,
)
from orchestrator.engine.journal_log import is_session_start
from orchestrator.engine.ports import Row


class VerificationError(Struct, frozen=True):
    """A row that is missing, altered, or not signed as it should be."""

    row: int
    what: str


class Anchor(Struct, frozen=True):
    """A head that was kept outside the journal, such as in a verdict.

    Attributes:
        head: hash of row number ``length``.
        length: number of rows up to it; later rows may follow.
    """

    head: str
    length: int


class SignedHead(Struct, frozen=True):
    """A signed head: row ``row`` signs all rows before it."""

    row: int
    key_id: str
    checked: bool


class VerificationResult(Struct, frozen=True):
    """The result of verifying a journal.

    Attributes:
        head: hash of the last row; with ``rows`` it is an anchor for a later verification.
        errors: rows that are not as they were written; empty means intact, except for ``gaps``.
        signed_to: number of the last row that a checked signature covers, 0 for none.
        gaps: what could not be verified with the given anchor and keys.
    """

    rows: int
    head: str
    errors: tuple[VerificationError, ...]
    signed_heads: tuple[SignedHead, ...]
    signed_to: int
    gaps: tuple[str, ...]


def verify_journal(
    run_id: str, rows: Sequence[Row], anchor: Anchor | None, keys: Mapping[str, SigningKey]
) -> VerificationResult:
    """Verify the rows of one run.

    Args:
        anchor: the head that they must have had.
        keys: keys that signed it, by their ids. With any given, every row must be signed.
    """
    errors = [VerificationError(*found) for found in find_chain_errors(rows)]
    if anchor:
        errors += _unlike(anchor, rows)
    signed_heads = tuple(
        SignedHead(row.seq, key_id, key_id in keys)
        for row in rows
        if row.kind == SIGNED_HEAD and (key_id := read_key_id(row))
    )
    signed_to = max((head.row for head in signed_heads if head.checked), default=0)
    # Signatures cover the chain: after a broken row they prove nothing.
    if keys and not errors:
        wrong = find_signature_errors(run_id, rows, keys)
        errors = [VerificationError(*found) for found in wrong]
        errors += _unsigned(rows, signed_heads, signed_to, keys)
    return VerificationResult(
        rows=len(rows),
        head=rows[-1].hash if rows else GENESIS,
        errors=tuple(errors),
        signed_heads=signed_heads,
        signed_to=0 if errors else signed_to,
        gaps=(*_gaps(len(rows), anchor, signed_heads, keys), *(_signed_late(rows) if keys else ())),
    )


def _unlike(anchor: Anchor, rows: Sequence[Row]) -> Iterator[VerificationError]:
    last = rows[-1].seq if rows else 0
    named = next((row for row in rows if row.seq == anchor.length), None)
    if last < anchor.length:
        yield VerificationError(
            last + 1,
            f"the journal ends at row {last}, and had {anchor.length} rows when the verdict was "
            "made: its end was cut off, or an older copy was put in its place",
        )
    elif named is not None and named.hash != anchor.head:
        yield VerificationError(
            anchor.length, f"row {anchor.length} is not the one that was the head: rewritten"
        )


def _unsigned(
    rows: Sequence[Row],
    signed_heads: Sequence[SignedHead],
    signed_to: int,
    keys: Mapping[str, SigningKey],
) -> Iterator[VerificationError]:
    given = ", ".join(sorted(keys))
    if not signed_heads:
        yield VerificationError(
            1, f"nothing is signed, and key {given} is given: run or rewritten without the key"
        )
    elif not signed_to:
        found = ", ".join(sorted({head.key_id for head in signed_heads}))
        yield VerificationError(
            signed_heads[-1].row,
            f"it is signed with key {found} and not with {given}: the wrong key, or rewritten",
        )
    elif signed_to < rows[-1].seq:
        yield VerificationError(
            signed_to + 1,
            f"rows {signed_to + 1} to {rows[-1].seq} are not signed: the run was cut off, "
            "or they were written without the key",
        )


def _gaps(
    length: int,
    anchor: Anchor | None,
    signed_heads: Sequence[SignedHead],
    keys: Mapping[str, SigningKey],
) -> Iterator[str]:
    if anchor is None:
        yield "no head was given: rows cut off at the end, or an older copy, would not be seen"
    unchecked = sum(not head.checked for head in signed_heads)
    if unchecked:
        why = "made with a key that was not given" if keys else "no key was given"
        noun = "signature was" if unchecked == 1 else "signatures were"
        yield f"{unchecked} {noun} not checked: {why}"
    if not keys and anchor is None:
        yield "no key was given: a journal that was rewritten as a whole would not be seen"
    elif not keys and anchor and anchor.length < length:
        yield (
            f"rows {anchor.length + 1} to {length} came after the head that was given, "
            "and no key was given: a rewrite of these would not be seen"
        )


def _signed_late(rows: Sequence[Row]) -> Iterator[str]:
    """Rows that a killed session left unsigned, and the next session signed as they were."""
    signed = 0
    for row in rows:
        if row.kind == SIGNED_HEAD:
            signed = row.seq
        elif is_session_start(row) and row.seq - 1 > signed:
            yield (
                f"rows {signed + 1} to {row.seq - 1} were not signed when their session ended, "
                "and were signed by the next: what was done to them in between would not be seen"
            )
            signed = row.seq - 1
