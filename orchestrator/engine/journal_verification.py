"""Whether a journal is as it was written: by its chain, a head kept elsewhere, and signatures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from orchestrator.engine.journal_log import GENESIS, SITTING, breaks
from orchestrator.engine.ports import Row
from orchestrator.engine.signed_head import SEAL, SealKey, seal_breaks, signed_by


class Fault(Struct, frozen=True):
    """Something that is not as it was written.

    Attributes:
        row: its number.
        what: what is wrong with it.
    """

    row: int
    what: str


class Anchor(Struct, frozen=True):
    """A head that was kept outside the journal, as a verdict carries it.

    Attributes:
        head: hash of row number ``length``.
        length: rows up to there; more may have come later.
    """

    head: str
    length: int


class Seal(Struct, frozen=True):
    """A signed head: row ``row`` signs all rows before it."""

    row: int
    key_id: str
    checked: bool


class Examination(Struct, frozen=True):
    """What came of holding a journal against what is known of it.

    Attributes:
        head: hash of the last row; with ``rows`` it is an anchor for later.
        faults: what is not as it was written; empty means intact, as far as ``gaps`` allow.
        signed_to: number of the last row that a checked signature covers, 0 for none.
        gaps: what could not be told with what was given.
    """

    rows: int
    head: str
    faults: tuple[Fault, ...]
    seals: tuple[Seal, ...]
    signed_to: int
    gaps: tuple[str, ...]


def examine(
    run_id: str, rows: Sequence[Row], anchor: Anchor | None, keys: Mapping[str, SealKey]
) -> Examination:
    """Examine one run's rows.

    Args:
        rows: as the store has them, in the order of their numbers.
        anchor: the head that they must have had.
        keys: keys that signed it, by their ids. With any given, every row must be signed.
    """
    faults = [Fault(*found) for found in breaks(rows)]
    if anchor:
        faults += _unlike(anchor, rows)
    seals = tuple(
        Seal(row.seq, key_id, key_id in keys)
        for row in rows
        if row.kind == SEAL and (key_id := signed_by(row))
    )
    signed_to = max((seal.row for seal in seals if seal.checked), default=0)
    # Signatures are of the chain: where that is broken they say nothing more.
    if keys and not faults:
        faults += [Fault(*found) for found in seal_breaks(run_id, rows, keys)]
        faults += _unsigned(rows, seals, signed_to, keys)
    return Examination(
        rows=len(rows),
        head=rows[-1].hash if rows else GENESIS,
        faults=tuple(faults),
        seals=seals,
        signed_to=0 if faults else signed_to,
        gaps=(*_gaps(len(rows), anchor, seals, keys), *(_signed_late(rows) if keys else ())),
    )


def _unlike(anchor: Anchor, rows: Sequence[Row]) -> Iterator[Fault]:
    last = rows[-1].seq if rows else 0
    named = next((row for row in rows if row.seq == anchor.length), None)
    if last < anchor.length:
        yield Fault(
            last + 1,
            f"the journal ends at row {last}, and had {anchor.length} rows when the verdict was "
            "made: its end was cut off, or an older copy was put in its place",
        )
    elif named is not None and named.hash != anchor.head:
        yield Fault(
            anchor.length, f"row {anchor.length} is not the one that was the head: rewritten"
        )


def _unsigned(
    rows: Sequence[Row], seals: Sequence[Seal], signed_to: int, keys: Mapping[str, SealKey]
) -> Iterator[Fault]:
    given = ", ".join(sorted(keys))
    if not seals:
        yield Fault(
            1, f"nothing is signed, and key {given} is given: run or rewritten without the key"
        )
    elif not signed_to:
        found = ", ".join(sorted({seal.key_id for seal in seals}))
        yield Fault(
            seals[-1].row,
            f"it is signed with key {found} and not with {given}: the wrong key, or rewritten",
        )
    elif signed_to < rows[-1].seq:
        yield Fault(
            signed_to + 1,
            f"rows {signed_to + 1} to {rows[-1].seq} are not signed: the run was cut off, "
            "or they were written without the key",
        )


def _gaps(
    length: int, anchor: Anchor | None, seals: Sequence[Seal], keys: Mapping[str, SealKey]
) -> Iterator[str]:
    if anchor is None:
        yield "no head was given: rows cut off at the end, or an older copy, would not be seen"
    unchecked = sum(not seal.checked for seal in seals)
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
    """Rows that a killed sitting left unsigned, and the next one signed as it found them."""
    signed = 0
    for row in rows:
        if row.kind == SEAL:
            signed = row.seq
        elif row.kind == "note" and row.key.startswith(SITTING) and row.seq - 1 > signed:
            yield (
                f"rows {signed + 1} to {row.seq - 1} were not signed when their sitting ended, "
                "and were signed by the next: what was done to them in between would not be seen"
            )
            signed = row.seq - 1
