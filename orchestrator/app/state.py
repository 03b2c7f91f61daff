"""Where runs are kept: ``.diffcourt/state/`` of the repository, which ignores itself.

``DIFFCOURT_STORE`` moves the journals to a PostgreSQL server. A run's scratch stays here.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.engine.ports import RunMeta
from orchestrator.errors import InputError, RunNotFound, StoreError
from orchestrator.stores.base import RunStore
from orchestrator.stores.sqlite import SqliteStore

STATE = Path(".diffcourt/state")
JOURNAL = "journal.db"
LATEST = "latest"
PATCH = "change.patch"
STORE = "DIFFCOURT_STORE"


def home(repo: Path | None) -> Path:
    """The state folder of a repository, or of the current folder where there is none.

    Where that cannot be written (a read-only checkout), a folder of its own under the user's state
    home stands in for it.

    Raises:
        StoreError: neither can be written.
    """
    root = top(repo or Path())
    for folder in (root / STATE, _elsewhere(root)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            ignore = folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise StoreError(f"no place for the run's state: make {root / STATE} writable")


def inside_repository(start: Path) -> bool:
    """Whether a folder lies in a git repository."""
    start = start.absolute()
    return any((up / ".git").exists() for up in (start, *start.parents))


def top(start: Path) -> Path:
    """The repository's top folder around ``start``, or ``start`` itself."""
    start = start.absolute()
    return next((up for up in (start, *start.parents) if (up / ".git").exists()), start)


def _elsewhere(root: Path) -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    return Path(base) / "diffcourt" / name


@contextmanager
def open_store(folder: Path) -> Iterator[RunStore]:
    """The store that ``DIFFCOURT_STORE`` names, else the journal of a state folder.

    Raises:
        InputError: it names none that we know, or one whose library is not installed.
        StoreError: it cannot be used.
    """
    address = os.environ.get(STORE, "").strip()
    store = _postgres(address) if address else SqliteStore(folder / JOURNAL)
    try:
        yield store
    finally:
        store.close()


def _postgres(address: str) -> RunStore:
    if not address.startswith(("postgresql://", "postgres://")):
        # Without the value: it may hold a password.
        raise InputError(f"{STORE} must begin with postgresql://; unset it to keep runs in {STATE}")
    try:
        # Imported here: few use it, and it takes 60 ms.
        from orchestrator.stores.postgres import PostgresStore  # noqa: PLC0415
    except ImportError:
        raise InputError(
            f"{STORE} names a PostgreSQL server, and its library is not installed; "
            "pip install 'diffcourt[postgres]'"
        ) from None
    return PostgresStore(address)


def new_run_id() -> str:
    """Sortable by time, and no other run's."""
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(4)


def resolve(name: str, runs: list[RunMeta]) -> RunMeta:
    """The run of that name: a whole id, the start of exactly one, or ``latest``.

    Raises:
        RunNotFound: none, or several.
    """
    if name == LATEST and runs:
        return runs[0]
    found = [run for run in runs if run.run_id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        raise RunNotFound(f"{name} could be any of {len(found)} runs; say more of its name")
    raise RunNotFound(f"there is no run {name} here; `diffcourt runs` lists them")


def forget_scratch(folder: Path, run_id: str) -> None:
    """Remove a run's own folder."""
    shutil.rmtree(folder / "runs" / run_id, ignore_errors=True)


def scratch(folder: Path, run_id: str) -> Path:
    """A folder of the run's own for git objects and its patch."""
    place = folder / "runs" / run_id
    place.mkdir(parents=True, exist_ok=True)
    return place


def keep_patch(folder: Path, run_id: str, patch: bytes) -> None:
    """Keep the patch that a run reviews, on disk before the run is: it is asked for at resumption.

    Raises:
        StoreError: it could not be written.
    """
    place = scratch(folder, run_id) / PATCH
    try:
        with place.open("wb") as file:
            file.write(patch)
            file.flush()
            os.fsync(file.fileno())
    except OSError as fault:
        raise StoreError(f"cannot write {place}: {fault.strerror}; free some space") from None


def kept_patch(folder: Path, run_id: str) -> bytes:
    """The patch that a run reviews.

    Raises:
        StoreError: it is not here, as on another machine than the one that began the run.
    """
    place = folder / "runs" / run_id / PATCH
    try:
        return place.read_bytes()
    except OSError as fault:
        raise StoreError(
            f"the run reviews a patch, and {place} cannot be read ({fault.strerror}); resume it "
            "on the machine that began it, or import it with its patch"
        ) from None
