"""Takes the runs of a damaged SQLite journal that can be read into a new one."""

import shutil
import sqlite3
import struct
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import anyio
from msgspec import Struct

from orchestrator.errors import StoreError
from orchestrator.stores.sql_store import run_locked
from orchestrator.stores.sqlite_journal import HIDDEN, SqliteStore, is_damage
from orchestrator.stores.sqlite_log_damage import PAGE, find_damage, refuse_damaged_log


class Repair(Struct):
    """The copy of the damaged file (None: it is sound), and the runs taken over and lost."""

    copy: Path | None = None
    taken: Sequence[str] = ()
    lost: Sequence[str] = ()


def repair(path: Path) -> Repair:
    """Keep a damaged journal as a copy, and put a new one with its readable runs in its place.

    Raises:
        RunLocked: a run is being written.
        StoreError: the disk cannot be used.
    """
    if not path.is_file():
        return Repair()
    names = (path.with_name(f"{path.name}.damaged-{number}") for number in range(1, 10_000))
    copy = next(name for name in names if not name.exists())
    for end in ("", "-wal"):  # first of all: who opens a database may write to it
        if (file := path.with_name(path.name + end)).exists():
            shutil.copy2(file, f"{copy}{end}")
    if _is_sound(path):
        _remove(copy)
        return Repair()
    fresh, patched = path.with_name(f"{path.name}.new"), path.with_name(f"{path.name}.patched")
    _remove(fresh, patched)
    SqliteStore(fresh).close()
    _replace_first_page(path, patched, fresh.read_bytes()[:PAGE])
    found = Repair(copy)
    if old := _open(path) or _open(patched):
        with closing(old), closing(SqliteStore(fresh)) as new:
            found.taken, found.lost = anyio.run(_take_over, old, new)
    _remove(patched)
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    fresh.replace(path)
    return found


def _open(path: Path) -> SqliteStore | None:
    """A journal whose runs can be listed; None: not even that."""
    with suppress(StoreError):
        store = SqliteStore(path)
        try:
            anyio.run(store.runs)
        except StoreError:
            store.close()
            raise
        return store
    return None


def _remove(*stores: Path) -> None:
    for store in stores:
        for end in ("-wal", "-shm", ""):
            store.with_name(store.name + end).unlink(missing_ok=True)


def _replace_first_page(path: Path, patched: Path, page: bytes) -> None:
    """A copy with the header and schema of a new journal: its tables begin at the same pages."""
    data = path.read_bytes()
    pages = struct.pack(">I", len(data) // PAGE)
    patched.write_bytes(page[:28] + pages + page[32:] + data[PAGE:])
    if (log := path.with_name(f"{path.name}-wal")).exists():
        frames = log.read_bytes()
        patched_log = patched.with_name(f"{patched.name}-wal")
        patched_log.write_bytes(frames[: find_damage(frames)])


async def _take_over(old: SqliteStore, new: SqliteStore) -> tuple[list[str], list[str]]:
    taken: list[str] = []
    runs = await old.runs()
    if written := next((run for run in runs if run.writer), None):
        raise run_locked(written.run_id, written.writer or "", 0)
    for run in reversed(runs):
        rows = None
        with suppress(StoreError):
            rows = await old.rows(run.run_id)
        if rows is not None and run.meta is not None:
            await new.restore(run, rows)
            taken.append(run.run_id)
    lost = [run.run_id for run in runs if run.run_id not in taken]
    return taken, lost


def _is_sound(path: Path) -> bool:
    try:
        refuse_damaged_log(path)
        with closing(sqlite3.connect(path)) as db:
            checked = db.execute("PRAGMA integrity_check(1)").fetchall()
            with closing(SqliteStore(path)) as store:
                odd = [run for run in anyio.run(store.runs) if run.run_id.startswith(HIDDEN)]
            odd += db.execute(SqliteStore.QUERIES["odd_runs"]).fetchall()
    except sqlite3.Error as error:
        if is_damage(error):
            return False
        raise StoreError(
            f"the journal {path} cannot be read ({error}); nothing was changed"
        ) from None
    except StoreError:
        return False
    return checked == [("ok",)] and not odd
