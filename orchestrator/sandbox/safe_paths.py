"""The path policy: what a path that somebody else wrote may reach on disk.

A path is resolved strictly beneath an open folder. ``..``, absolute paths and NUL are refused by
their look; no link is followed, neither on the way nor at the end; only regular files are opened,
and opening never waits (a pipe, a device). The folder is held by its descriptor, so nothing that is
renamed or swapped while we work leads elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from orchestrator.sandbox.path_resolution import FOLDER, STEP, Resolve, check, resolver, step

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NEVER_WAIT = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


class Beneath:
    """An open folder, and what paths below it may be used for.

    Args:
        root: the folder, itself no link; what is above it is taken as it is.
        resolve: how paths are resolved; the system's best where left out.

    Raises:
        OSError: it is none, or cannot be entered.
    """

    def __init__(self, root: Path | str, resolve: Resolve | None = None) -> None:
        self._resolve = resolve or resolver()
        self._root = os.open(root, STEP | os.O_NOFOLLOW)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._root)

    def open(self, path: str) -> int:
        """Open a regular file for reading; returns its descriptor.

        Raises:
            OSError: ``EXDEV`` it leads out, ``ELOOP`` by a link, ``EISDIR`` and ``EINVAL`` no
                regular file, and whatever the system says.
        """
        fd = self._open(path, _NEVER_WAIT)
        kind = os.fstat(fd).st_mode
        if stat.S_ISREG(kind):
            return fd
        os.close(fd)
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise OSError(errno.EINVAL, "it is no regular file", path)

    def folder(self, path: str = "", flags: int = os.O_RDONLY) -> int:
        """Open a folder, the root itself where no path is given; returns its descriptor.

        Raises:
            OSError: as ``open``.
        """
        if not path:
            return os.open(".", flags | FOLDER, dir_fd=self._root)
        return self._open(path, flags | FOLDER)

    def read(self, path: str, most: int = -1) -> bytes:
        """The bytes of a regular file, at most so many.

        Raises:
            OSError: as ``open``.
        """
        with os.fdopen(self.open(path), "rb") as file:
            return file.read(most)

    def is_file(self, path: str) -> bool:
        """Whether a regular file can be opened there."""
        try:
            os.close(self.open(path))
        except OSError:
            return False
        return True

    def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write one regular file in place of whatever but a folder stood there.

        Folders on the way are made.

        Raises:
            OSError: as ``open``.
        """
        with self.parent(path, make=True) as (folder, name):
            create(folder, name, data, mode)

    @contextmanager
    def parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The open folder that holds a path, and the path's last part: for calls with ``dir_fd``.

        Args:
            make: make the folders that are missing.

        Raises:
            OSError: as ``open``.
        """
        check(path)
        above, _, name = path.rpartition("/")
        try:
            folder = self.folder(above, STEP)
        except FileNotFoundError:
            if not make:
                raise
            self.make_folder(above)
            folder = self.folder(above, STEP)
        try:
            yield folder, name
        finally:
            os.close(folder)

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it, where they are missing.

        Raises:
            OSError: as ``open``; ``ENOTDIR`` or ``ELOOP`` where something else stands in the way.
        """
        with suppress(FileNotFoundError):
            os.close(self.folder(path, STEP))
            return
        here = self.folder("", STEP)
        try:
            for part in path.split("/"):
                with suppress(FileExistsError):  # if that is no folder, opening it fails
                    os.mkdir(part, 0o755, dir_fd=here)
                above, here = here, step(here, part, STEP)
                os.close(above)
        finally:
            os.close(here)

    def set_mode(self, path: str, mode: int) -> None:
        """Set a folder's permissions, also of one that cannot be listed.

        Raises:
            OSError: as ``open``.
        """
        folder = self.folder(path, STEP)
        try:
            os.chmod(f"/proc/self/fd/{folder}", mode)
        finally:
            os.close(folder)

    def _open(self, path: str, flags: int) -> int:
        check(path)
        return self._resolve(self._root, path, flags)


def create(folder: int, name: str, data: bytes, mode: int, *, sync: bool = False) -> None:
    """Write a new file into an open folder; a file or link of that name goes first.

    Args:
        sync: on disk when it returns.

    Raises:
        OSError: it cannot be written.
    """
    try:
        fd = os.open(name, _CREATE, mode, dir_fd=folder)
    except FileExistsError:
        os.unlink(name, dir_fd=folder)
        fd = os.open(name, _CREATE, mode, dir_fd=folder)
    with os.fdopen(fd, "wb", buffering=0) as file:
        os.fchmod(fd, mode)
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) or 0 :]
        if sync:
            os.fsync(fd)


def read_beneath(root: Path | str, path: str, most: int = -1) -> bytes:
    """The bytes of one regular file beneath a folder.

    Raises:
        OSError: as ``Beneath.open``.
    """
    with Beneath(root) as folder:
        return folder.read(path, most)
