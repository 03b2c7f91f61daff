"""Where runs are kept: ``.diffcourt/state/`` of the repository, which ignores itself.

``DIFFCOURT_STORE`` moves the journals to a PostgreSQL server. A run's scratch stays here.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from pathlib import Path

import anyio
from anyio import to_thread

from orchestrator.app.audit.signing_keys import load_signing_key
from orchestrator.app.own_secrets import make_redactor
from orchestrator.catalog.layers import OVERLAY, STATE_DIRECTORY
from orchestrator.engine.journal import Journal, open_journal
from orchestrator.engine.ports import RunMeta, SystemClock
from orchestrator.errors import InputError, RunNotFound, StoreError
from orchestrator.resources import user_directory
from orchestrator.review.change.git.directories import is_git_dir
from orchestrator.sandbox.safe_paths import Beneath, create, read_beneath
from orchestrator.stores.base import RunStore
from orchestrator.stores.lease_holder import this_process
from orchestrator.stores.sqlite import SqliteStore

STATE = Path(OVERLAY, STATE_DIRECTORY)
JOURNAL = "journal.db"
JUDGINGS = "judgings.db"  # what a judge was asked of runs that had ended
LATEST = "latest"
PATCH = "change.patch"
STORE = "DIFFCOURT_STORE"


def state_dir(repo: Path | None) -> Path:
    """The state directory of a repository, or of the current directory where there is none.

    Where that cannot be used (a read-only checkout, or one that put a link in its place, which is a
    change's way out), a directory of its own under the user's state home stands in for it.

    Raises:
        StoreError: neither can be written.
    """
    root = repo_root(repo or Path())
    places = [(root, STATE)]
    if own := user_directory(os.environ, "XDG_STATE_HOME", ".local/state"):
        places.append((own, Path(hashlib.sha256(os.fsencode(root)).hexdigest()[:16])))
    for above, below in places:
        with suppress(OSError):
            _prepare_directory(above, os.fspath(below))
            return above.resolve() / below  # what is confined finds real places only
    raise StoreError(
        f"no place for the run's state: make {root / STATE} writable, or set XDG_STATE_HOME to a "
        "folder that is"
    )


def _prepare_directory(above: Path, below: str) -> None:
    """Make a state directory where it is missing.

    Raises:
        OSError: it cannot be written, or is not what it seems.
    """
    above.mkdir(parents=True, exist_ok=True)
    with Beneath(above.resolve()) as folder:
        folder.make_folder(below)
        if not folder.is_file(f"{below}/.gitignore"):
            folder.write(f"{below}/.gitignore", b"*\n")
    own = above / below
    with os.scandir(own) as listed:
        journals = [entry for entry in listed if entry.name.startswith(JOURNAL)]
    ours = all(entry.is_file(follow_symlinks=False) for entry in journals)
    if not ours or not os.access(own, os.W_OK):
        raise PermissionError(own)


def inside_repository(start: Path) -> bool:
    """Whether a directory lies in a git repository."""
    return _find_root(start.absolute()) is not None


def repo_root(start: Path) -> Path:
    """The repository's top directory around ``start``, or ``start`` itself."""
    start = start.absolute()
    return _find_root(start) or start


def _find_root(start: Path) -> Path | None:
    """The nearest directory that has a git directory, or is a bare repository."""
    for up in (start, *start.parents):
        if os.path.exists(up / ".git") or (up.name != ".git" and is_git_dir(up)):
            return up
    return None


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


@contextmanager
def open_run(folder: Path, name: str) -> Iterator[tuple[RunStore, RunMeta]]:
    """A run by its name, as ``find_run`` has it, and the store that it is in.

    Raises:
        RunNotFound, InputError, StoreError: as ``find_run`` and ``open_store``.
    """
    with open_store(folder) as store:
        yield store, find_run(name, anyio.run(store.runs))


def open_writing(store: RunStore, run_id: str) -> AbstractAsyncContextManager[Journal]:
    """A run's journal, to be its one writer: signed, and without secrets, as the environment says.

    Raises:
        InputError: the key that the environment names cannot be used.
    """
    key, redact = load_signing_key(os.environ), make_redactor(os.environ)
    return open_journal(run_id, store, SystemClock(), holder=this_process(), key=key, redact=redact)


def ensure_unwritten(journal: Journal, folder: Path) -> None:
    """See that a run that was just begun has no record: what is recorded is believed, not done.

    Raises:
        StoreError: somebody else wrote some, such as the change whose checkout this is.
    """
    if journal.log.length > 1:  # the first row says that this session began
        raise StoreError(
            f"{folder / JOURNAL} held rows of a run that had not begun, which Diffcourt never "
            "writes; see who brought that file, and remove it"
        )


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


def find_run(name: str, runs: list[RunMeta]) -> RunMeta:
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


def remove_scratch_dir(folder: Path, run_id: str) -> None:
    """Remove a run's own folder."""
    with suppress(OSError), Beneath(folder) as root, root.parent(f"runs/{run_id}") as (runs, name):
        shutil.rmtree(name, dir_fd=runs)


async def remove_judgings(folder: Path, run_ids: Collection[str]) -> None:
    """Remove what was judged anew of some runs."""
    if not (folder / JUDGINGS).is_file():
        return
    store = await to_thread.run_sync(SqliteStore, folder / JUDGINGS)
    try:
        for run in await store.runs():
            if run.run_id in run_ids:
                await store.forget(run.run_id)
    finally:
        store.close()


def make_scratch_dir(folder: Path, run_id: str) -> Path:
    """A directory of the run's own for git objects and its patch."""
    with Beneath(folder) as root:
        root.make_folder(f"runs/{run_id}")
    return folder / "runs" / run_id


def save_patch(folder: Path, run_id: str, patch: bytes) -> None:
    """Keep the patch that a run reviews, on disk before the run is: it is asked for at resumption.

    Raises:
        StoreError: it could not be written.
    """
    place = folder / "runs" / run_id / PATCH
    try:
        with Beneath(folder) as root, root.parent(f"runs/{run_id}/{PATCH}", make=True) as at:
            create(*at, patch, 0o644, sync=True)
    except OSError as error:
        raise StoreError(f"cannot write {place}: {error.strerror}; free some space") from None


def load_patch(folder: Path, run_id: str) -> bytes:
    """The patch that a run reviews.

    Raises:
        StoreError: it is not here, as on another machine than the one that began the run.
    """
    place = folder / "runs" / run_id / PATCH
    try:
        return read_beneath(folder, f"runs/{run_id}/{PATCH}")
    except OSError as error:
        raise StoreError(
            f"the run reviews a patch, and {place} cannot be read ({error.strerror}); resume it "
            "on the machine that began it, or import it with its patch"
        ) from None
