"""The path policy: what a path that somebody else wrote may reach on disk.

A path is resolved strictly beneath an open directory. ``..``, absolute paths and NUL are refused;
no symbolic link is followed, neither on the way nor at the end; only regular files are opened, and
opening never blocks (a pipe, a device). The directory is held by its descriptor, so renaming or
swapping its parents meanwhile leads nowhere else. Each component is opened beneath the one before
it, which the kernel's own way (``openat2``) is not faster than, and some containers forbid that.
"""

import errno
import fcntl
import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Self

_DIRECTORY = os.O_DIRECTORY | os.O_CLOEXEC
_TRAVERSE = getattr(os, "O_PATH", os.O_RDONLY) | _DIRECTORY
"""Opens a directory to resolve from, also one that cannot be listed."""
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY

_MAX_PATH_BYTES = 4095  # Linux's limit for a whole path


class SafeDirectory:
    """An open directory, and operations on paths below it.

    Args:
        root: the directory, itself not a link; its parents are trusted.
    """

    def __init__(self, root: Path | str) -> None:
        self._root = os.open(root, _TRAVERSE | os.O_NOFOLLOW)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory's descriptor."""
        os.close(self._root)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory's lock, which all of our writers that read before they write take."""
        descriptor = self.open_directory()
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def open(self, path: str) -> int:
        """Open a regular file for reading; returns its descriptor.

        Raises:
            OSError: ``EXDEV`` for a path that leads out, ``ELOOP`` for a link, ``EISDIR`` and
                ``EINVAL`` for what is not a regular file, and the system's own errors.
        """
        descriptor = self._open(path, _READ)
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return descriptor
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise OSError(errno.EINVAL, "it is not a regular file", path)

    def open_directory(self, path: str = "", flags: int = os.O_RDONLY) -> int:
        """Open a directory, the root itself by default; returns its descriptor."""
        if not path:
            return os.open(".", flags | _DIRECTORY, dir_fd=self._root)
        return self._open(path, flags | _DIRECTORY)

    def read(self, path: str, max_bytes: int = -1) -> bytes:
        """The bytes of a regular file, at most ``max_bytes``."""
        with os.fdopen(self.open(path), "rb") as file:
            return file.read(max_bytes)

    def mode(self, path: str) -> int:
        """The mode of what is there (``st_mode``), of a link itself."""
        with self.parent(path) as (directory, name):
            return os.lstat(name, dir_fd=directory).st_mode

    def read_link(self, path: str) -> str:
        """The target of a symbolic link, which is not followed."""
        with self.parent(path) as (directory, name):
            return os.readlink(name, dir_fd=directory)

    def is_file(self, path: str) -> bool:
        """Whether a regular file can be opened there."""
        try:
            os.close(self.open(path))
        except OSError:
            return False
        return True

    def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a regular file that replaces any file or link; makes missing directories."""
        with self.parent(path, make=True) as (directory, name):
            create_file(directory, name, data, mode)

    def replace(self, path: str, data: bytes) -> None:
        """As ``write`` in a directory that exists; who reads sees the old file or the new one."""
        with self.parent(path) as (directory, name):
            create_file(directory, f"{name}.new", data, 0o644)
            os.replace(f"{name}.new", name, src_dir_fd=directory, dst_dir_fd=directory)

    @contextmanager
    def parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """A path's open parent directory and its last component, for calls with ``dir_fd``."""
        check_path(path)
        above, _, name = path.rpartition("/")
        try:
            directory = self.open_directory(above, _TRAVERSE)
        except FileNotFoundError:
            if not make:
                raise
            self.make_directory(above)
            directory = self.open_directory(above, _TRAVERSE)
        try:
            yield directory, name
        finally:
            os.close(directory)

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents, where they are missing.

        Raises:
            OSError: as ``open``; ``ENOTDIR`` or ``ELOOP`` where something else is in the way.
        """
        with suppress(FileNotFoundError):
            os.close(self.open_directory(path, _TRAVERSE))
            return
        here = self.open_directory("", _TRAVERSE)
        try:
            for component in path.split("/"):
                with suppress(FileExistsError):  # if it is not a directory, opening it fails
                    os.mkdir(component, 0o755, dir_fd=here)
                above, here = here, _open_component(here, component, _TRAVERSE)
                os.close(above)
        finally:
            os.close(here)

    def set_mode(self, path: str, mode: int) -> None:
        """Set a directory's permissions, also of one that cannot be listed."""
        directory = self.open_directory(path, _TRAVERSE)
        try:
            os.chmod(f"/proc/self/fd/{directory}", mode)
        finally:
            os.close(directory)

    def _open(self, path: str, flags: int) -> int:
        check_path(path)
        return _open_beneath(self._root, path, flags)


def create_file(directory: int, name: str, data: bytes, mode: int, *, sync: bool = False) -> None:
    """Write a new file into an open directory; a file or link of that name is removed first.

    Args:
        sync: the file is on disk when this returns.
    """
    try:
        descriptor = os.open(name, _CREATE, mode, dir_fd=directory)
    except FileExistsError:
        os.unlink(name, dir_fd=directory)
        descriptor = os.open(name, _CREATE, mode, dir_fd=directory)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        os.fchmod(descriptor, mode)
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) or 0 :]
        if sync:
            os.fsync(descriptor)


def read_safely(root: Path | str, path: str, max_bytes: int = -1) -> bytes:
    """The bytes of one regular file beneath a directory."""
    with SafeDirectory(root) as directory:
        return directory.read(path, max_bytes)


# --- which paths are allowed ----------------------------------------------------------------------


def check_path(path: str) -> None:
    """Refuse a path by its text alone.

    Raises:
        OSError: ``EXDEV``, ``EINVAL``, ``EILSEQ`` or ``ENAMETOOLONG``.
    """
    if reason := escape_reason(path):
        raise OSError(errno.EINVAL if "\0" in path else errno.EXDEV, reason, path)
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise OSError(
            errno.EILSEQ, "its name cannot be encoded for the file system", path
        ) from None
    if len(encoded) > _MAX_PATH_BYTES:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)


def escape_reason(path: str) -> str | None:
    """Why the text of a path cannot be one below a directory; None when it can."""
    if "\0" in path:
        return "its name contains a NUL"
    if any(component in {"", ".", ".."} for component in path.split("/")):
        return "its path leads out of the tree"
    return None


@lru_cache(maxsize=1 << 16)
def unsafe_path_reason(path: str) -> str | None:
    """Why a path of a tree or patch must not be written to disk; None when it may be.

    A tree can be crafted to hold names that git itself would refuse. Other systems take more names
    for ``.git`` than this one does, and what is written here may be read there.
    """
    reason = escape_reason(path)
    if reason is None and any(_is_git(component) for component in path.split("/")):
        reason = "its path is in a .git directory"
    return reason


def _is_git(component: str) -> bool:
    """As file systems see it that ignore case or invisible characters, or have streams or 8.3."""
    if not component.isascii():
        visible = (c for c in component if c.isascii() or unicodedata.category(c) != "Cf")
        component = "".join(visible)
    return component.partition(":")[0].rstrip(". ").lower() in {".git", "git~1"}


# --- resolving a path -----------------------------------------------------------------------------


def _open_beneath(directory: int, path: str, flags: int) -> int:
    """Open a path component by component, each beneath the one before it."""
    *parents, name = path.split("/")
    here = directory
    try:
        for component in parents:
            below = _open_component(here, component, _TRAVERSE)
            if here != directory:
                os.close(here)
            here = below
        return _open_component(here, name, flags)
    finally:
        if here != directory:
            os.close(here)


def _open_component(directory: int, name: str, flags: int) -> int:
    """Open one name in an open directory, unless it is a link."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except NotADirectoryError:  # also raised for a link where a directory is expected
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):
            raise
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
