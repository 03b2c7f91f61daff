"""Whatever is done to the journal of a real review in its SQLite file, the audit says so.

Each case is one thing that is done to the rows through SQL, together with what whoever verifies
them has been given (nothing, the verdict's head, the verdict, the key) and promised.
"""

import json
import os
import random
import sqlite3
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from msgspec.structs import replace

from orchestrator.app.audit.verification import check_rows
from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.journal_hash_chain import (
    GENESIS,
    SIGNED_HEAD,
    HmacKey,
    SigningKey,
    row_hash,
    signed_head_body,
    signed_head_key,
)
from orchestrator.engine.journal_verification import Anchor
from orchestrator.engine.ports import Row
from orchestrator.stores.sqlite_journal import SqliteStore, place_of
from tests.review.review_kit import change

FULL = 1_000_000
SAMPLE = 20
"""More than there are: all of them."""

SECRET, ANOTHER = "a secret of at least thirty-two characters", HmacKey(b"not that one" * 4)
APP = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
COLUMNS = ("seq", "kind", "key", "at", "body", "hash")


@dataclass(frozen=True)
class Case:
    """One thing done to the rows.

    Attributes:
        kind: for the table.
        do: makes it so, inside a transaction that is rolled back.
        given: ``nothing``, ``head``, ``verdict`` or ``key``.
        row: the row that must be named first; 0: any.
        intact: nothing was done that may be reported.
    """

    kind: str
    do: Callable[[sqlite3.Connection], None]
    given: str = "nothing"
    row: int = 0
    intact: bool = False


class Bench:
    """The journal of a real, signed review, and all that can be done to it."""

    def __init__(self, folder: Path) -> None:
        repo = change(folder / "repo", {}, {"app.py": APP})
        command = [sys.executable, "-m", "orchestrator", "review", "--quiet", "--json", "-"]
        done = subprocess.run(
            command,
            cwd=repo.path,
            env={**os.environ, "DIFFCOURT_AUDIT_KEY": SECRET},
            capture_output=True,
            check=False,
        )
        assert done.stdout, done.stderr.decode()
        self.verdict = json.loads(done.stdout)
        self.run = self.verdict["run_id"]
        self.key = HmacKey(SECRET.encode())
        self.store = SqliteStore(repo.path / ".diffcourt/state/journal.db")
        self.rows = anyio.run(self.store.rows, self.run)
        carried = self.verdict["provenance"]
        self.anchor = Anchor(carried["journal_head"], carried["journal_length"])
        self.noted = next(row.seq for row in self.rows if row.key == "verdict")

    # --- what is done ---------------------------------------------------------------------------

    def cases(self) -> Iterator[Case]:
        for given in ("nothing", "head", "verdict", "key"):
            yield Case("nothing done", lambda db: None, given, intact=True)
        for row in self.rows:
            yield from self._bytes(row)
        yield from self._moved()
        yield from self._before()
        yield from self._cut()
        yield from self._rewritten()

    def _bytes(self, row: Row) -> Iterator[Case]:
        """Every byte of every column, set to another one."""
        for column in ("kind", "key", "at", "body", "hash"):
            value = getattr(row, column)
            raw = struct.pack("<d", value) if column == "at" else value
            raw = raw.encode() if isinstance(raw, str) else raw
            for at in range(len(raw)):
                edit = partial(self._set, row.seq, column, raw, at)
                yield Case("byte edited", edit, row=row.seq)
        # The last row taken out of the run is a cut end, which the chain alone cannot tell.
        given, named = ("key", 0) if row is self.rows[-1] else ("nothing", row.seq)
        for bit in range(31):
            away = partial(self._place, row.seq, place_of(1 ^ (1 << bit), row.seq))
            yield Case("byte edited", away, given, named)
        for bit in range(24):
            number = row.seq ^ (1 << bit)
            if not 1 <= number <= len(self.rows):
                # As row 0 it stands before row 1, which is then the first that is wrong.
                named = row.seq if number else 1
                moved = partial(self._place, row.seq, place_of(1, number))
                yield Case("byte edited", moved, row=named)

    def _moved(self) -> Iterator[Case]:
        """Rows deleted, swapped, put in twice or made up, with the numbers put right or not."""
        rows = self.rows
        for at in range(len(rows) - 1):
            yield Case("row deleted", partial(self._put, [*rows[:at], *rows[at + 1 :]]), row=at + 1)
            yield self._numbered("row deleted", [*rows[:at], *rows[at + 1 :]])
            swapped = [*rows[:at], rows[at + 1], rows[at], *rows[at + 2 :]]
            yield self._numbered("rows swapped", swapped)
            far = random.Random(at).choice([n for n in range(len(rows)) if n != at])
            swapped = list(rows)
            swapped[at], swapped[far] = rows[far], rows[at]
            yield self._numbered("rows swapped", swapped)
        for at in range(len(rows) + 1):
            again = rows[max(at - 1, 0)]
            yield self._numbered("row inserted", [*rows[:at], again, *rows[at:]])
            made = chained(rows[:at], "note", "made up", b"{}", 1.0)
            given = "nothing" if at < len(rows) else "key"
            yield self._numbered("row inserted", [*rows[:at], made, *rows[at:]], given)

    def _cut(self) -> Iterator[Case]:
        """The end cut off, and older copies that were signed when they were whole."""
        for length in range(len(self.rows)):
            cut = partial(self._put, self.rows[:length])
            yield Case("end cut off", cut, "key")
            if length < self.noted:
                yield Case("end cut off", cut, "verdict", length + 1)
                yield Case("older copy", partial(self._older, length), "verdict")
            if length < self.anchor.length:
                yield Case("end cut off", cut, "head", length + 1)

    def _rewritten(self) -> Iterator[Case]:
        """A row edited, and the chain of all that follow computed anew."""
        for row in self.rows[:-1]:
            edited = replace(row, at=row.at + 1)
            for signed_heads in ("kept", "dropped", "by another key"):
                forge = partial(self._forge, edited, signed_heads)
                yield Case(f"rewritten, signatures {signed_heads}", forge, "key")
            if row.seq <= self.anchor.length:
                for given in ("head", "verdict"):
                    forge = partial(self._forge, edited, "dropped")
                    yield Case(f"rewritten, {given} known", forge, given)
        noted = self.rows[self.noted - 1]
        edited = replace(noted, body=canonical({**self.verdict, "verdict": "merge"}))
        yield Case("rewritten, verdict known", partial(self._forge, edited, "kept"), "verdict")

    def _before(self) -> Iterator[Case]:
        """A row made up at a number before the first, as it is or with the chain put right."""
        made = replace(chained([], "note", "verdict", b"{}", 1.0), seq=0)
        yield Case("row put before the first", partial(self._put, [made, *self.rows]), row=1)
        hashed = row_hash(GENESIS, 0, made.kind, made.key, made.at, made.body)
        yield Case(
            "row put before the first",
            partial(self._put, [replace(made, hash=hashed), *self.rows]),
            row=1,
        )

    def _numbered(self, kind: str, rows: Sequence[Row], given: str = "nothing") -> Case:
        return Case(kind, partial(self._renumber, rows), given)

    # --- how it is done -------------------------------------------------------------------------

    def _set(self, seq: int, column: str, raw: bytes, at: int, db: sqlite3.Connection) -> None:
        flip = 1 + (at * 31 + seq * 7) % 255
        raw = raw[:at] + bytes([raw[at] ^ flip]) + raw[at + 1 :]
        value = struct.unpack("<d", raw)[0] if column == "at" else raw
        # Text is stored as its bytes, UTF-8 or not.
        cast = {"at": "?", "body": "?"}.get(column, "CAST(? AS TEXT)")
        db.execute(
            f"UPDATE journal SET {column} = {cast} WHERE place = ?", (value, place_of(1, seq))
        )

    def _place(self, seq: int, place: int, db: sqlite3.Connection) -> None:
        db.execute("UPDATE journal SET place = ? WHERE place = ?", (place, place_of(1, seq)))

    def _renumber(self, rows: Sequence[Row], db: sqlite3.Connection) -> None:
        self._put([replace(row, seq=number) for number, row in enumerate(rows, 1)], db)

    def _older(self, length: int, db: sqlite3.Connection) -> None:
        self._put(with_signed_head(self.rows[:length], self.run, self.key), db)

    def _forge(self, edited: Row, signed_heads: str, db: sqlite3.Connection) -> None:
        rows = [edited if row.seq == edited.seq else row for row in self.rows]
        if signed_heads != "kept":
            rows = [row for row in rows if row.kind != SIGNED_HEAD]
        forged = rechained(rows)
        self._put(
            with_signed_head(forged, self.run, ANOTHER)
            if signed_heads == "by another key"
            else forged,
            db,
        )

    def _put(self, rows: Sequence[Row], db: sqlite3.Connection) -> None:
        db.execute("DELETE FROM journal")
        db.executemany(
            "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?)",
            [(place_of(1, row.seq), *(getattr(row, name) for name in COLUMNS[1:])) for row in rows],
        )

    # --- what the audit says --------------------------------------------------------------------

    async def holds(self, case: Case) -> bool | None:
        """Whether the audit keeps its promise; None where SQLite refuses to store such a row."""
        db = self.store._db
        db.execute("BEGIN")
        try:
            case.do(db)
            rows = await self.store.rows(self.run)
        except sqlite3.IntegrityError:
            return None
        finally:
            db.execute("ROLLBACK")
        found = check_rows(
            self.run,
            rows,
            self.anchor if case.given in {"head", "verdict"} else None,
            self.verdict if case.given == "verdict" else None,
            {self.key.key_id: self.key} if case.given == "key" else {},
        ).found
        if case.intact:
            return not found.errors
        return bool(found.errors) and case.row in {0, found.errors[0].row}


def chained(rows: Sequence[Row], kind: str, key: str, body: bytes, at: float) -> Row:
    """A row that follows others, with the hash that belongs to it."""
    seq, previous = len(rows) + 1, rows[-1].hash if rows else GENESIS
    return Row(seq, kind, key, at, body, row_hash(previous, seq, kind, key, at, body))


def rechained(rows: Sequence[Row]) -> list[Row]:
    """The rows with a chain that fits, as whoever owns the file can compute it."""
    new: list[Row] = []
    for row in rows:
        new.append(chained(new, row.kind, row.key, row.body, row.at))
    return new


def with_signed_head(rows: Sequence[Row], run: str, key: SigningKey) -> list[Row]:
    """The rows with a signature at their end."""
    if not rows:
        return []
    seq, at = len(rows) + 1, rows[-1].at
    body = canonical(signed_head_body(key, run, seq, at, rows[-1].hash))
    return [*rows, chained(rows, SIGNED_HEAD, signed_head_key(seq), body, at)]


def sample(cases: Sequence[Case], count: int) -> list[Case]:
    """As many as asked for, of every kind."""
    kinds: dict[str, list[Case]] = {}
    for case in cases:
        kinds.setdefault(case.kind, []).append(case)
    chosen: list[Case] = []
    for left, group in zip(range(len(kinds), 0, -1), sorted(kinds.values(), key=len), strict=True):
        share = min(len(group), (count - len(chosen)) // left)
        chosen += random.Random(len(group)).sample(group, share)
    return chosen


async def _run(bench: Bench, count: int) -> tuple[Counter[str], list[str]]:
    passed, failed = Counter[str](), []
    for case in sample(list(bench.cases()), count):
        held = await bench.holds(case)
        if held:
            passed[case.kind] += 1
        elif held is not None:
            failed.append(f"{case.kind}, given {case.given}, row {case.row}: {case.do}")
    return passed, failed


def run(count: int, say: Callable[[str], None] = print) -> tuple[int, int]:
    """Do ``count`` things to a journal, or all there are; returns (detected, missed)."""
    with TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        try:
            passed, failed = anyio.run(_run, bench, count)
        finally:
            bench.store.close()
    for kind, number in sorted(passed.items()):
        print(f"  {kind}: {number}")
    for line in failed[:20]:
        say(f"  MISSED {line}")
    return passed.total(), len(failed)
