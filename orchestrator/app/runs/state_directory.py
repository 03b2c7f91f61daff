"""The state directory: ``.diffcourt/state/`` of the repository, which git ignores.

``DIFFCOURT_STORE`` moves the journals to a PostgreSQL server. The files of a run stay here.
There a repository is known by the address of ``origin``. A path differs between runners and can be
equal for different repositories in containers; root commits are missing in shallow clones and equal
in all forks.
"""

import hashlib
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    closing,
    contextmanager,
    suppress,
)
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from diffchecks.safe_paths import SafeDirectory, create_file, read_safely
from orchestrator.app.audit.signing_keys import load_signing_key
from orchestrator.app.process_secrets import make_redactor
from orchestrator.app.types import DAMAGE, ReviewOptions, is_readable, review_options
from orchestrator.code_review.change.git.repository_layout import (
    find_repository,
    is_git_dir,
    repository_directories,
    resolve_path,
    tracks_below,
)
from orchestrator.data_directories import OVERLAY, STATE_DIRECTORY, user_directory
from orchestrator.engine.journal import Journal, open_journal
from orchestrator.engine.journal_hash_chain import verify_chain
from orchestrator.engine.ports import RunMeta, SystemClock
from orchestrator.errors import InputError, RunLocked, RunNotFound, StoreError
from orchestrator.optional_dependencies import install_command
from orchestrator.stores.sql_store import RunStore
from orchestrator.stores.sqlite_journal import SqliteStore
from orchestrator.stores.sqlite_repair import Repair, repair
from orchestrator.stores.writer_identity import this_process

if TYPE_CHECKING:
    from orchestrator.stores.postgres import PostgresStore

T = TypeVar("T")
STATE = Path(OVERLAY, STATE_DIRECTORY)
JOURNAL = "journal.db"
JUDGINGS = "judgings.db"  # later judgings of finished runs
LATEST = "latest"
PATCH = "change.patch"
STORE = "DIFFCOURT_STORE"
WAIT_SECONDS = 3.0
"""How long a decision waits while another process writes the run."""


def state_dir(repo: Path | None) -> Path:
    """The state directory of a repository, or of the current directory if there is none.

    If that cannot be used (the checkout is read-only, or has a symbolic link at its place, with
    which a change could escape), a directory under the user's state home is used.

    Raises:
        InputError: git tracks it, so its contents may have come with a clone; or no repository.
        StoreError: neither is writable.
    """
    root = repo_root(repo or Path())
    if not root.is_dir():  # deleted meanwhile; else it would come back with nothing but runs
        raise InputError(f"{root} does not exist")
    _ensure_untracked(root)
    places = [(root, STATE)]
    if own := user_directory(os.environ, "XDG_STATE_HOME", ".local/state"):
        places.append((own, Path(hashlib.sha256(os.fsencode(root)).hexdigest()[:16])))
    for above, below in places:
        with suppress(OSError):
            _prepare_directory(above, os.fspath(below))
            return above.resolve() / below  # confined processes need real paths
    raise StoreError(
        f"no writable state directory: make {root / STATE} writable, or set XDG_STATE_HOME to a "
        "writable directory"
    )


def _ensure_untracked(root: Path) -> None:
    if not os.path.lexists(root / STATE):
        return
    found = find_repository(root)
    if found is not None and tracks_below(found.git_dir, STATE.as_posix()):
        raise InputError(
            f"git tracks {STATE} of {root}, so its runs may come from somebody else; run git rm -r "
            f"--cached {STATE} there, and delete that directory unless its runs are yours"
        )


def _prepare_directory(above: Path, below: str) -> None:
    """Create a state directory if it does not exist."""
    above.mkdir(parents=True, exist_ok=True)
    with SafeDirectory(above.resolve()) as folder:
        folder.make_directory(below)
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
    return find_repository(start) is not None


def repo_root(start: Path) -> Path:
    """The top directory of the repository that contains ``start``, or ``start`` itself.

    Raises:
        InputError: ``.git`` names the repository of another directory.
    """
    found = find_repository(start)
    return found.root if found else start.absolute()


@contextmanager
def open_store(repo: Path | None) -> Iterator[RunStore]:
    """Open the store that ``DIFFCOURT_STORE`` names, or else the journal in the state directory.

    Args:
        repo: a directory of the repository, whose runs the store shows; None: the current one.

    Raises:
        InputError: its address is not supported, or its library is not installed.
        StoreError: the store cannot be opened.
    """
    folder, address = state_dir(repo), os.environ.get(STORE, "").strip()
    opened = _postgres(address, repo) if address else SqliteStore(folder / JOURNAL)
    with closing(opened) as store:
        yield store


def repair_store(repo: Path | None) -> Repair:
    """Repair the SQLite journal of a repository, see ``sqlite_repair``.

    Raises:
        InputError: the runs are in another database.
        StoreError: as ``repair``.
    """
    if os.environ.get(STORE, "").strip():
        raise InputError(f"{STORE} names another database; its own tools repair it")
    return repair(state_dir(repo) / JOURNAL)


def mark_store(repo: Path | None) -> str:
    """A text that changes whenever a run of the repository has changed; no rows are read."""
    folder, address, marks = state_dir(repo), os.environ.get(STORE, "").strip(), []
    if address:
        with closing(_postgres(address, repo)) as store:
            return anyio.run(store.mark)
    for name in (JOURNAL, f"{JOURNAL}-wal"):
        with suppress(FileNotFoundError):
            found = os.stat(folder / name)
            marks.append(f"{found.st_mtime_ns}.{found.st_size}")
    return " ".join(marks)


@contextmanager
def open_run(repo: Path | None, name: str) -> Iterator[tuple[RunStore, RunMeta]]:
    """Find a run by its name, and yield the open store and the run.

    Raises:
        RunNotFound, InputError, StoreError: as ``find_run`` and ``open_store``, or a damaged row
            could not be read.
    """
    with open_store(repo) as store:
        run = find_run(name, anyio.run(store.runs))
        try:
            yield store, run
        except DAMAGE:
            verify_chain(anyio.run(store.rows, run.run_id))  # sound: the error is ours
            raise


def open_writing(store: RunStore, run_id: str) -> AbstractAsyncContextManager[Journal]:
    """Open a run's journal as its writer, with the signing key and secrets of the environment.

    Raises:
        InputError: the signing key cannot be used.
    """
    key, redact = load_signing_key(os.environ), make_redactor(os.environ)
    return open_journal(run_id, store, SystemClock(), holder=this_process(), key=key, redact=redact)


def decide_on(
    repo: Path | None, name: str, decide: Callable[[RunStore, RunMeta, Journal], Awaitable[T]]
) -> T:
    """Find a run by its name, and open its journal for a person's decision; returns what it gives.

    It is opened once no other process writes it, and keeps what the decision notes.

    Raises:
        RunNotFound: no run has that name.
        InputError: the signing key cannot be used.
        RunLocked: another process writes it for longer than a decision takes.
    """

    async def work(store: RunStore, run: RunMeta) -> T:
        async with AsyncExitStack() as opened:
            until = anyio.current_time() + WAIT_SECONDS
            while True:
                try:
                    journal = await opened.enter_async_context(open_writing(store, run.run_id))
                    break
                except RunLocked:
                    if anyio.current_time() > until:
                        raise
                    await anyio.sleep(0.05)
            found = await decide(store, run, journal)
            await journal.flush()
            return found

    with open_run(repo, name) as (store, run):
        return anyio.run(work, store, run)


def ensure_unwritten(journal: Journal, folder: Path) -> None:
    """Check that the journal of a new run is empty: recorded effects would not be performed.

    Raises:
        StoreError: it has rows, for example because the change added a journal to the checkout.
    """
    if journal.log.length > 1:  # the first row records the start of this session
        raise StoreError(
            f"{folder / JOURNAL} has rows of a run that has not started, which Diffcourt never "
            "writes; if nobody put that file there, its disk damaged it: diffcourt runs repair"
        )


def _postgres(address: str, repo: Path | None) -> "PostgresStore":
    if not address.startswith(("postgresql://", "postgres://")):
        # Without the value: it may hold a password.
        raise InputError(f"{STORE} must start with postgresql://; unset it to keep runs in {STATE}")
    try:
        # Imported here: it is optional, and takes 60 ms.
        from orchestrator.stores.postgres import PostgresStore  # noqa: PLC0415
    except ImportError:
        raise InputError(
            f"{STORE} names a PostgreSQL server, but psycopg is not installed; "
            f"run: {install_command('postgres')}"
        ) from None
    return PostgresStore(address, repository_identity(repo or Path()))


def new_run_id() -> str:
    """A unique run id, sortable by time."""
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(4)


def find_run(name: str, runs: list[RunMeta]) -> RunMeta:
    """Find a run by its id, a unique prefix of it, or ``latest``: one with a readable entry.

    Raises:
        RunNotFound: no run matches, or several do.
    """
    found = [run for run in runs if run.run_id.startswith(name)]
    if name == LATEST:
        found = [*filter(is_readable, runs)][:1] or found
    if len(found) == 1:
        return found[0]
    if name == LATEST:
        raise RunNotFound("there are no runs in this repository; start one with: diffcourt review")
    if len(found) > 1:
        raise RunNotFound(f"{name} matches {len(found)} runs; give a longer prefix")
    raise RunNotFound(
        f"there is no run {name} in this repository; list the runs with: diffcourt runs"
    )


def remove_scratch_dir(folder: Path, run_id: str) -> None:
    """Remove a run's own directory."""
    with (
        suppress(OSError),
        SafeDirectory(folder) as root,
        root.parent(f"runs/{run_id}") as (runs, name),
    ):
        shutil.rmtree(name, dir_fd=runs)


async def remove_judgings(folder: Path, run_ids: Collection[str]) -> None:
    """Remove the later judgings of some runs."""
    if not (folder / JUDGINGS).is_file():
        return
    with closing(await to_thread.run_sync(SqliteStore, folder / JUDGINGS)) as store:
        for run_id in run_ids:
            await store.forget(run_id)


def make_scratch_dir(folder: Path, run_id: str) -> Path:
    """Create the run's own directory, for git objects and its patch."""
    try:
        with SafeDirectory(folder) as root:
            root.make_directory(f"runs/{run_id}")
    except OSError as error:
        raise StoreError(
            f"cannot make {folder / 'runs' / run_id}: {error.strerror}; remove any link in its path"
        ) from None
    return folder / "runs" / run_id


def save_patch(folder: Path, run_id: str, patch: bytes) -> None:
    """Save the patch that a run reviews, durably, since a resumed run reads it again."""
    place = folder / "runs" / run_id / PATCH
    try:
        with SafeDirectory(folder) as root, root.parent(f"runs/{run_id}/{PATCH}", make=True) as at:
            create_file(*at, patch, 0o644, sync=True)
    except OSError as error:
        raise StoreError(f"cannot write {place}: {error.strerror}; free some space") from None


def load_options(folder: Path, run: RunMeta) -> ReviewOptions:
    """The options with which a review was started, with the patch that it reviews.

    Raises:
        InputError: the run is no review.
        StoreError: its entry or the patch cannot be read.
    """
    meta = review_options(run)
    return ReviewOptions.of_meta(meta, load_patch(folder, run.run_id) if meta["has_diff"] else None)


def load_patch(folder: Path, run_id: str) -> bytes:
    """Load the patch that a run reviews.

    Raises:
        StoreError: it cannot be read, for example because the run started on another machine.
    """
    place = folder / "runs" / run_id / PATCH
    try:
        return read_safely(folder, f"runs/{run_id}/{PATCH}")
    except OSError as error:
        raise StoreError(
            f"the run reviews a patch, and {place} cannot be read ({error.strerror}); resume it "
            "on the machine that started it, or import it with its patch"
        ) from None


MAX_CONFIG_BYTES = 1 << 20

_SECTION = re.compile(r"\s*\[([^\]]*)\]")
_ORIGIN = re.compile(r'remote\s+"origin"', re.IGNORECASE)
_URL = re.compile(r'\s*url\s*=\s*"?([^"#;\s][^"#;]*)', re.IGNORECASE)
_SSH = re.compile(r"(?:[^/@:]+@)?([^/@:]{2,}):(?!//)(.+)")
"""``user@host:path``; a single letter before the colon is a drive."""


def repository_identity(place: Path) -> str:
    """The address of the repository's ``origin`` without its scheme, user, password and ``.git``.

    Without a remote ``origin`` it is the host and the path of the git directory.
    """
    place = resolve_path(place)
    git_dir = next(filter(is_git_dir, repository_directories(place)), place)
    address = _origin_url(git_dir)
    if ssh := _SSH.fullmatch(address):
        host, path = ssh[1], ssh[2]
    else:
        host, path = _split(address)
    path = path.strip("/").removesuffix(".git")
    return f"{host.lower()}/{path}" if host and path else f"{socket.gethostname()}:{git_dir}"


def _split(address: str) -> tuple[str, str]:
    """Host and path of a URL, with the port except for SSH, whose port is not the web's."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return "", ""
    shown = f":{port}" if port and "ssh" not in parts.scheme else ""
    return f"{parts.hostname}{shown}" if parts.hostname else "", parts.path


def _origin_url(git_dir: Path) -> str:
    """The ``url`` of ``origin`` in the git directory's own ``config``; empty without one."""
    try:
        text = os.fsdecode(read_safely(git_dir, "config", MAX_CONFIG_BYTES))
    except OSError:
        return ""
    inside = False
    for line in text.splitlines():
        if section := _SECTION.match(line):
            inside = _ORIGIN.fullmatch(section[1].strip()) is not None
        elif inside and (url := _URL.match(line)):
            return url[1].strip()
    return ""
