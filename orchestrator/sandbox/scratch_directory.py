"""The temporary directory of this process, and the canary beside it.

Programs and checks may be allowed to read or write files below ``work``. The canary is not below
it, so that no confined process may open it. What a killed process leaves, the next one removes.
"""

import atexit
import fcntl
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.errors import StoreError

PREFIX = "diffcourt-"
_LOCKED_ONCE = "held"
_lock = threading.Lock()
_directories: dict[int, Path] = {}  # by process id: a fork must not remove its parent's directory


def _own_directory() -> Path:
    with _lock:
        directory = _directories.get(os.getpid())
        if directory is None:
            try:
                directory = _make()
            except OSError as error:
                raise StoreError(
                    f"no temporary directory can be created: {error.strerror}"
                ) from None
            _directories[os.getpid()] = directory
            threading.Thread(target=_remove_stale, args=(directory.parent,), daemon=True).start()
        return directory


def _make() -> Path:
    directory = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    # Open and locked for as long as this process lives. The file comes after the lock: a directory
    # with the file and without a lock belongs to a dead process.
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    with suppress(OSError):  # no locks here: nothing is removed later
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        (directory / _LOCKED_ONCE).touch()
    for name in ("work", "servers"):
        (directory / name).mkdir()
    (directory / "canary").write_bytes(b"no confined process may read this\n")
    (directory / "canary").chmod(0o600)
    (directory / "outside").write_bytes(b"")
    return directory


def work_directory() -> Path:
    """The directory for temporary files; removed when this process ends."""
    return _own_directory() / "work"


def server_directory() -> Path:
    """The same for programs that a person configured; no confined process may read it."""
    return _own_directory() / "servers"


def canary_file() -> Path:
    """A file that this process may read and write, and no confined process may."""
    return _own_directory() / "canary"


def host_file() -> Path:
    """A file that is never mounted in bubblewrap's namespaces."""
    return _own_directory() / "outside"


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """A directory for programs to write, removed at the end, however deep they made it."""
    directory = Path(tempfile.mkdtemp(dir=work_directory()))
    try:
        yield directory
    finally:
        remove_tree(directory)


def remove_tree(directory: Path) -> None:
    """Remove what a hostile program may have filled; what cannot be removed is left."""
    with suppress(RecursionError):  # rmtree calls itself once a level, with a descriptor for each
        shutil.rmtree(directory, ignore_errors=True)
    if not os.path.lexists(directory):
        return
    with suppress(OSError):
        top = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _remove_below(top)
        finally:
            os.close(top)
        os.rmdir(directory)


def _remove_below(top: int) -> None:
    """Remove all below an open directory: a nested directory is first moved into it."""
    number = itertools.count()
    while names := _directories_in(top):
        for name in names:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            try:
                for nested in _directories_in(inner):
                    moved = f"{os.getpid()}-{next(number)}"  # its own name may be taken there
                    os.rename(nested, moved, src_dir_fd=inner, dst_dir_fd=top)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)


def _directories_in(directory: int) -> list[str]:
    """Remove the files of an open directory; the names of its directories."""
    with os.scandir(directory) as listed:
        entries = list(listed)
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name, dir_fd=directory)
    return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _remove_stale(parent: Path) -> None:
    """Remove the directories of killed Diffcourt processes below a directory."""
    with suppress(OSError):  # it is not readable
        for name in os.listdir(parent):
            if name.startswith(PREFIX):
                _remove_if_stale(parent / name)


def _remove_if_stale(directory: Path) -> None:
    try:
        number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # another user's, a link, or gone
        return
    try:
        if os.fstat(number).st_uid == os.geteuid():
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _LOCKED_ONCE in os.listdir(number):
                _remove(directory)
    except OSError:  # it is in use
        return
    finally:
        os.close(number)


def _remove(directory: Path) -> None:
    """Remove a directory; the file that marks it goes last, so that a later process can go on."""
    for part in (directory / "work", directory / "servers", directory):
        remove_tree(part)


def _remove_own_directory() -> None:
    directory = _directories.get(os.getpid())
    if directory is not None:
        _remove(directory)


atexit.register(_remove_own_directory)
