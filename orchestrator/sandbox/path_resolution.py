"""Which paths there are, and how one is resolved beneath an open folder without following a link.

Linux does it in one step (``openat2``, since 5.6, and not where a container forbids it). Elsewhere
each part is opened beneath the one before it. Both give the same answers.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
import unicodedata
from collections.abc import Callable
from functools import cache

Resolve = Callable[[int, str, int], int]
"""Opens what is there: descriptor of the folder, path, flags → descriptor."""

FOLDER = os.O_DIRECTORY | os.O_CLOEXEC
STEP = getattr(os, "O_PATH", os.O_RDONLY) | FOLDER
"""Opens a folder to go on from, also one that cannot be listed."""

_LONGEST = 4095  # bytes, as Linux has it for a whole path

_OPENAT2 = 437  # the number of the call on every architecture that Python runs on
_RESOLVE = 0x02 | 0x04 | 0x08  # no magic links, no links, beneath the folder


class _How(ctypes.Structure):
    """``struct open_how`` of linux/openat2.h."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def by_kernel(folder: int, path: str, flags: int) -> int:
    """Resolve a path in one call of the kernel.

    Raises:
        OSError: it is not there, or a link is in its way (``ELOOP``).
    """
    how = _How(flags | os.O_CLOEXEC, 0, _RESOLVE)
    call = _libc().syscall
    while True:
        size = ctypes.c_size_t(ctypes.sizeof(how))
        fd: int = call(_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), size)
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), path)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def by_walk(folder: int, path: str, flags: int) -> int:
    """Resolve a path part by part, each beneath the one before it.

    Raises:
        OSError: as ``by_kernel``.
    """
    *parents, name = path.split("/")
    here = folder
    try:
        for part in parents:
            below = step(here, part, STEP)
            if here != folder:
                os.close(here)
            here = below
        return step(here, name, flags)
    finally:
        if here != folder:
            os.close(here)


def step(folder: int, name: str, flags: int) -> int:
    """Open one name in an open folder, unless it is a link.

    Raises:
        OSError: as ``by_kernel``.
    """
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except NotADirectoryError:  # which is also what is said of a link where a folder belongs
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISLNK(about.st_mode):
            raise
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None


@cache
def resolver() -> Resolve:
    """How paths are resolved on this system."""
    if sys.platform != "linux":
        return by_walk
    root = os.open("/", STEP)
    try:
        os.close(by_kernel(root, ".", STEP))
    except OSError:  # an older kernel, or a filter
        return by_walk
    finally:
        os.close(root)
    return by_kernel


def leads_out(path: str) -> str | None:
    """Why a path is none below a folder, by its look alone; None when it is one."""
    if "\0" in path:
        return "its name holds a NUL"
    if any(part in {"", ".", ".."} for part in path.split("/")):
        return "its path leads out of the tree"
    return None


def unsafe(path: str) -> str | None:
    """Why a path of a tree or patch must not be written to disk, None when it may.

    A tree can be crafted to hold names that git itself would refuse. Other systems take more names
    for ``.git`` than this one does, and what is written here may be read there.
    """
    why = leads_out(path)
    if why is None and any(_is_git(part) for part in path.split("/")):
        why = "its path lies in a .git directory"
    return why


def _is_git(part: str) -> bool:
    """As file systems see it that fold case, drop unseen characters, or know streams and 8.3."""
    shown = (char for char in part if char.isascii() or unicodedata.category(char) != "Cf")
    return "".join(shown).partition(":")[0].rstrip(". ").lower() in {".git", "git~1"}


def check(path: str) -> None:
    """Refuse a path by its look.

    Raises:
        OSError: ``EXDEV``, ``EINVAL``, ``EILSEQ`` or ``ENAMETOOLONG``.
    """
    if why := leads_out(path):
        raise OSError(errno.EINVAL if "\0" in path else errno.EXDEV, why, path)
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, "its name has no form on disk", path) from None
    if len(encoded) > _LONGEST:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
