"""The tables of the journal's SQLite file, and how those of an older file become them.

A row's place is its run's number and, behind it, its own: what a run adds goes to the end of one
tree, which is the one thing that SQLite does without touching the pages beside it. With a key of
its own, or without a rowid, a commit writes twice as many pages.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.errors import StoreError

LAYOUT = 1
"""The file's ``user_version``. 0 is an empty file, or the first layout: rows by the run's name."""

LAST_SEQ = 0xFFFFFFFF

_TABLES = """
CREATE TABLE runs (
    number INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, started REAL NOT NULL, meta TEXT NOT NULL,
    holder TEXT, lease_until REAL NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE journal (
    place INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL,
    at REAL NOT NULL, body BLOB NOT NULL, hash TEXT NOT NULL
) STRICT;
"""

_FROM_THE_FIRST = """
INSERT INTO runs (run, started, meta, holder, lease_until, fence)
    SELECT run, started, meta, holder, lease_until, fence FROM first_runs ORDER BY started;
INSERT INTO journal
    SELECT number << 32 | seq, kind, key, at, body, hash
    FROM first_journal JOIN runs USING (run) ORDER BY number, seq;
DROP TABLE first_runs;
DROP TABLE first_journal;
"""


def place_of(number: int, seq: int) -> int:
    """Where a row of a run stands."""
    return number << 32 | seq


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """What is done within is done whole or not at all, and nobody else writes meanwhile."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        # A failed COMMIT (a full disk) may have ended the transaction by itself.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def lay_out(db: sqlite3.Connection) -> None:
    """Make the tables where there are none, and move an older file's rows into them.

    Raises:
        StoreError: a newer Diffcourt made the file, or somebody has it do more than keep rows.
        sqlite3.Error: it cannot be written, or is not such a database.
    """
    more = "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view')"
    if found := db.execute(more).fetchone():
        raise StoreError(f"the journal has a {found[0]} that Diffcourt did not make: {found[1]!r}")
    if _version(db) == LAYOUT:
        return
    with transaction(db):
        if _version(db) == 0:  # still: others may have been here first
            _make(db)
    if _version(db) != LAYOUT:
        raise StoreError("the journal was written by a newer Diffcourt; use that version")


def _make(db: sqlite3.Connection) -> None:
    first = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'journal'").fetchone()
    if first is None:
        db.execute("DROP TABLE IF EXISTS runs")  # of a file that was cut off while it was made
    else:
        db.execute("ALTER TABLE runs RENAME TO first_runs")
        db.execute("ALTER TABLE journal RENAME TO first_journal")
    for statement in (_TABLES + (_FROM_THE_FIRST if first else "")).split(";"):
        db.execute(statement)  # not executescript, which would commit
    db.execute(f"PRAGMA user_version={LAYOUT}")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
