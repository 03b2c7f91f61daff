"""The folder that this process keeps its temporary files in, and the canary beside it.

What programs and checks are given to read or write lies below the folder; the canary does not, so
that nothing which is confined may open it. What a process that was killed leaves behind, the next
one removes.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import StoreError

PREFIX = "diffcourt-"
_MARK = "held"
_lock = threading.Lock()
_places: dict[int, Path] = {}  # by process: a fork of ours is not to remove what is its parent's


def _place() -> Path:
    with _lock:
        place = _places.get(os.getpid())
        if place is None:
            try:
                place = _make()
            except OSError as refused:
                why = f"no temporary directory can be made: {refused.strerror}"
                raise StoreError(why) from None
            _places[os.getpid()] = place
            threading.Thread(target=_sweep, args=(place.parent,), daemon=True).start()
        return place


def _make() -> Path:
    place = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    # Open, and locked, for as long as this process lives. The mark comes after the lock: a folder
    # with a mark and without a lock is nobody's any more.
    held = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    with suppress(OSError):  # no locks here: nobody will sweep
        fcntl.flock(held, fcntl.LOCK_EX)
        (place / _MARK).touch()
    for name in ("work", "servers"):
        (place / name).mkdir()
    (place / "canary").write_bytes(b"nothing that is confined may read this\n")
    (place / "canary").chmod(0o600)
    (place / "outside").write_bytes(b"")
    return place


def work_directory() -> Path:
    """Where temporary folders are made; removed when this process ends.

    Raises:
        StoreError: it cannot be made.
    """
    return _place() / "work"


def server_directory() -> Path:
    """The same for programs that a person configured; nothing that is confined may read it.

    Raises:
        StoreError: it cannot be made.
    """
    return _place() / "servers"


def canary_file() -> Path:
    """A file that this process may read and write, and nothing that is confined may.

    Raises:
        StoreError: it cannot be made.
    """
    return _place() / "canary"


def host_file() -> Path:
    """A file that is in no room of bubblewrap's.

    Raises:
        StoreError: it cannot be made.
    """
    return _place() / "outside"


def _sweep(parent: Path) -> None:
    """Remove what processes of ours that were killed have left in a folder."""
    with suppress(OSError):  # it may not be listed
        for name in os.listdir(parent):
            if name.startswith(PREFIX):
                _remove_if_left(parent / name)


def _remove_if_left(place: Path) -> None:
    try:
        number = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # somebody else's, a link, or gone
        return
    try:
        if os.fstat(number).st_uid == os.geteuid():
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _MARK in os.listdir(number):
                _remove(place)
    except OSError:  # it is in use
        return
    finally:
        os.close(number)


def _remove(place: Path) -> None:
    """The mark goes last: who is interrupted here leaves a folder that can still be swept."""
    for part in (place / "work", place / "servers", place):
        shutil.rmtree(part, ignore_errors=True)


def _remove_own() -> None:
    place = _places.get(os.getpid())
    if place is not None:
        _remove(place)


atexit.register(_remove_own)
