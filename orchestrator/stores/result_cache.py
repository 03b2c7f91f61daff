"""Kept answers in one SQLite file of the user's cache folder.

It is a cache: whatever is wrong with it, a review goes on without it. The change under review
cannot write there, and a file that came with the work tree is never opened.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

NAME = "answers.db"
LARGEST = 64 << 20  # bytes of the file; the longest unused go first
AT_ONCE = 500  # keys in one statement
DAY = 86_400
_CHECK = 16

_SCHEMA = """
PRAGMA auto_vacuum=INCREMENTAL;
PRAGMA journal_mode=WAL;
CREATE TABLE IF NOT EXISTS answers (
    key BLOB PRIMARY KEY, used INTEGER NOT NULL, body BLOB NOT NULL
) STRICT;
PRAGMA user_version=1;
"""


@contextmanager
def open_answers(folder: Path, *, outside: Path) -> Iterator[SqliteAnswers | None]:
    """The kept answers, None where they cannot be had or trusted.

    Args:
        outside: the work tree under review; a cache in it could have come with the change.
    """
    answers = None
    with suppress(OSError, sqlite3.Error):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _is_ours(folder) and not folder.resolve().is_relative_to(outside.resolve()):
            answers = SqliteAnswers(folder / NAME)
    try:
        yield answers
    finally:
        if answers is not None:
            answers.close()


def _is_ours(folder: Path) -> bool:
    """Whether nobody else can write there."""
    about = folder.stat()
    return about.st_uid == os.getuid() and not stat.S_IMODE(about.st_mode) & 0o022


def _checked(key: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_CHECK, key=key[:64]).digest() + body


class SqliteAnswers:
    """Answers by key; new ones are written when it is closed.

    Args:
        path: the database; its folder exists. A damaged one is made anew.

    Raises:
        sqlite3.Error: it cannot be used at all.
    """

    def __init__(self, path: Path, largest: int = LARGEST) -> None:
        self._path, self._largest = path, largest
        self._today = int(time.time()) // DAY
        self._lock = threading.Lock()
        self._new: dict[bytes, bytes] = {}
        self._seen: set[bytes] = set()
        try:
            self._db = self._open()
        except sqlite3.OperationalError:
            raise  # in use, or no room: it may be whole
        except sqlite3.DatabaseError:
            self._forget()
            self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=2)
        try:
            db.execute("PRAGMA synchronous=OFF")  # what a power cut takes is worked out again
            if db.execute("PRAGMA user_version").fetchone() == (0,):
                db.executescript(_SCHEMA)
            db.execute("SELECT used, body FROM answers LIMIT 1").fetchone()
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _forget(self) -> None:
        for ending in ("", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(f"{self._path}{ending}")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The answers that are known, by key; a damaged one is not."""
        found: dict[bytes, bytes] = {}
        with self._lock, suppress(sqlite3.Error):
            for at in range(0, len(keys), AT_ONCE):
                part = keys[at : at + AT_ONCE]
                marks = ",".join("?" * len(part))
                asked = f"SELECT key, used, body FROM answers WHERE key IN ({marks})"  # noqa: S608
                for key, used, body in self._db.execute(asked, part):
                    if _checked(key, body[_CHECK:]) == body:
                        found[key] = body[_CHECK:]
                        if used < self._today:
                            self._seen.add(key)
        return found

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        """Keep answers."""
        with self._lock:
            self._new.update(entries)

    def close(self) -> None:
        """Write what is new, drop what is too much, and let go of the file."""
        with self._lock:
            try:
                self._write()
            except sqlite3.OperationalError:
                pass  # in use, or no room: it is all worked out again
            except sqlite3.DatabaseError:
                self._forget()
            finally:
                self._db.close()

    def _write(self) -> None:
        if not self._new and not self._seen:
            return
        today, db = self._today, self._db
        db.execute("BEGIN IMMEDIATE")
        db.executemany(
            "INSERT OR REPLACE INTO answers VALUES (?, ?, ?)",
            ((key, today, _checked(key, body)) for key, body in self._new.items()),
        )
        db.executemany(
            "UPDATE answers SET used = ? WHERE key = ?", ((today, k) for k in self._seen)
        )
        self._prune()
        db.execute("COMMIT")
        db.executescript("PRAGMA incremental_vacuum;")  # execute() would free one page alone

    def _prune(self) -> None:
        """Drop the half that was not used for the longest time, when it is all too much."""
        pages, free, size = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        if (pages - free) * size > self._largest:
            self._db.execute(
                "DELETE FROM answers WHERE key IN (SELECT key FROM answers ORDER BY used LIMIT"
                " (SELECT count(*) / 2 + 1 FROM answers))"
            )
