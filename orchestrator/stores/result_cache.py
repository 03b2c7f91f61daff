"""A cache of analyzer results in one SQLite file of the user's cache directory."""

import hashlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.data_directories import read_beside

NAME = "results.db"
MAX_BYTES = 64 << 20  # of the file; the least recently used entries go first
KEYS_PER_QUERY = 500
DAY = 86_400  # seconds
_CHECKSUM_BYTES = 16


@contextmanager
def open_result_cache(directory: Path, *, outside: Path) -> "Iterator[SqliteResultCache | None]":
    """Open the cache in a directory; None where it cannot be used or trusted.

    Args:
        outside: the work tree under review; a cache in it could have come with the change.
    """
    cache = None
    with suppress(OSError, sqlite3.Error):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = directory.stat()
        private = status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o022
        if private and not directory.resolve().is_relative_to(outside.resolve()):
            cache = SqliteResultCache(directory / NAME)
    try:
        yield cache
    finally:
        if cache is not None:
            cache.close()


def _with_checksum(key: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_CHECKSUM_BYTES, key=key[:64]).digest() + body


class SqliteResultCache:
    """Results by key; new ones are written when the cache is closed.

    Args:
        path: the database; its directory exists. A damaged one is replaced.

    Raises:
        sqlite3.Error: it cannot be used at all.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path, self._max_bytes = path, max_bytes
        self._today = int(time.time()) // DAY
        self._lock = threading.Lock()
        self._new: dict[bytes, bytes] = {}
        self._used: set[bytes] = set()
        try:
            self._db = self._open()
        except sqlite3.OperationalError:
            raise  # in use, or the disk is full: the file may be intact
        except sqlite3.DatabaseError:
            self._delete_files()
            self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=2)
        try:
            db.execute("PRAGMA synchronous=OFF")  # what a power cut takes is computed again
            if db.execute("PRAGMA user_version").fetchone() == (0,):
                db.executescript(read_beside(__file__, "result_cache.sql"))
            db.execute("SELECT used, body FROM results LIMIT 1").fetchone()
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _delete_files(self) -> None:
        for ending in ("", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(f"{self._path}{ending}")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The results that are known, by key; a damaged one is left out."""
        found: dict[bytes, bytes] = {}
        with self._lock, suppress(sqlite3.Error):
            for start in range(0, len(keys), KEYS_PER_QUERY):
                part = keys[start : start + KEYS_PER_QUERY]
                marks = ",".join("?" * len(part))
                query = f"SELECT key, used, body FROM results WHERE key IN ({marks})"  # noqa: S608
                for key, used, body in self._db.execute(query, part):
                    if _with_checksum(key, body[_CHECKSUM_BYTES:]) == body:
                        found[key] = body[_CHECKSUM_BYTES:]
                        if used < self._today:
                            self._used.add(key)
        return found

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        """Keep results."""
        with self._lock:
            self._new.update(entries)

    def close(self) -> None:
        """Write new results, drop the least recently used above the limit, close the file."""
        with self._lock:
            try:
                self._write()
            except sqlite3.OperationalError:
                pass  # in use, or the disk is full: the results are computed again
            except sqlite3.DatabaseError:
                self._delete_files()
            finally:
                self._db.close()

    def _write(self) -> None:
        if not self._new and not self._used:
            return
        today, db = self._today, self._db
        db.execute("BEGIN IMMEDIATE")
        db.executemany(
            "INSERT OR REPLACE INTO results VALUES (?, ?, ?)",
            ((key, today, _with_checksum(key, body)) for key, body in self._new.items()),
        )
        db.executemany(
            "UPDATE results SET used = ? WHERE key = ?", ((today, k) for k in self._used)
        )
        self._prune()
        db.execute("COMMIT")
        db.executescript("PRAGMA incremental_vacuum;")  # execute() would free one page alone

    def _prune(self) -> None:
        """Drop the least recently used half when the file is over its limit."""
        pages, free, size = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        if (pages - free) * size > self._max_bytes:
            self._db.execute(
                "DELETE FROM results WHERE key IN (SELECT key FROM results ORDER BY used LIMIT"
                " (SELECT count(*) / 2 + 1 FROM results))"
            )
