"""Write files below a folder: no link is followed, and nothing lands outside of it."""

import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.errors import StoreError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = {errno.ENOSPC, errno.EDQUOT}


def unsafe(path: str) -> str | None:
    """Why a path of a tree or patch must not be written to disk, None when it may.

    A tree can be crafted to hold names that git itself would refuse.
    """
    parts = path.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        return "its path leads out of the tree"
    if any(part.rstrip(". ").lower() in {".git", "git~1"} for part in parts):
        return "its path lies in a .git directory"
    if "\0" in path:
        return "its name holds a NUL"
    return None


def make_directory(path: Path) -> None:
    """Make a directory and those above it.

    Raises:
        StoreError: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise StoreError(f"{path} cannot be written: {refused.strerror}") from None


@contextmanager
def temporary() -> Iterator[Path]:
    """A directory that is gone afterwards.

    Raises:
        StoreError: it cannot be made.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="diffcourt-")
    except OSError as refused:
        raise StoreError(f"no temporary directory can be made: {refused.strerror}") from None
    with folder as path:
        yield Path(path)


class Folder:
    """An open folder to write files into; paths are relative to it.

    Writing in sorted order is fastest: the directories of the last path stay open.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._fds = [os.open(root, _DIRECTORY)]
        self._parts: list[str] = []

    def close(self) -> None:
        """Let go of the folder."""
        for fd in self._fds:
            os.close(fd)
        self._fds = []

    def write(self, path: str, data: bytes) -> str | None:
        """Write one regular file, mode 0644, in place of whatever stood there.

        Returns:
            Why it could not be written, None when it was.

        Raises:
            StoreError: the disk is full.
        """
        why = unsafe(path)
        if why:
            return why
        *parents, name = path.split("/")
        try:
            self._enter(parents)
            self._put(name, data)
        except (OSError, ValueError) as refused:
            number = getattr(refused, "errno", None)
            if number in _FULL:
                raise StoreError(
                    "the disk is full (exporting files); free some space and run again"
                ) from None
            reason = os.strerror(number) if number else "its name has no form on disk"
            return f"it cannot be written on this file system: {reason}"
        return None

    def _enter(self, parents: Sequence[str]) -> None:
        same = 0
        while same < min(len(parents), len(self._parts)) and parents[same] == self._parts[same]:
            same += 1
        while len(self._parts) > same:
            os.close(self._fds.pop())
            self._parts.pop()
        for part in parents[same:]:
            with suppress(FileExistsError):  # if that is no directory, opening it fails
                os.mkdir(part, 0o755, dir_fd=self._fds[-1])
            self._fds.append(os.open(part, _DIRECTORY, dir_fd=self._fds[-1]))
            self._parts.append(part)

    def _put(self, name: str, data: bytes) -> None:
        here = self._fds[-1]
        try:
            fd = os.open(name, _CREATE, 0o644, dir_fd=here)
        except FileExistsError:
            os.unlink(name, dir_fd=here)
            fd = os.open(name, _CREATE, 0o644, dir_fd=here)
        with open(fd, "wb", buffering=0) as file:
            os.fchmod(fd, 0o644)
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) or 0 :]


def write_all(root: Path, items: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    """Write files below ``root``, which is made when it is not there.

    Args:
        root: no symbolic link.
        items: path and bytes.

    Returns:
        Path → why it could not be written.

    Raises:
        StoreError: the disk is full.
        OSError: ``root`` itself cannot be opened as a directory.
    """
    folder = Folder(root)
    try:
        told = ((path, folder.write(path, data)) for path, data in sorted(items))
        return {path: why for path, why in told if why}
    finally:
        folder.close()
