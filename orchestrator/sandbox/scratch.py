"""The folder that this process keeps its temporary files in, and the canary beside it.

What programs and checks are given to read or write lies below the folder; the canary does not, so
that nothing which is confined may open it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from pathlib import Path

from orchestrator.errors import StoreError

_lock = threading.Lock()
_places: dict[int, Path] = {}  # by process: a fork of ours is not to remove what is its parent's


def _place() -> Path:
    with _lock:
        place = _places.get(os.getpid())
        if place is None:
            try:
                place = Path(tempfile.mkdtemp(prefix="diffcourt-")).resolve()
                (place / "work").mkdir()
                (place / "canary").write_bytes(b"nothing that is confined may read this\n")
                (place / "canary").chmod(0o600)
                (place / "outside").write_bytes(b"")
            except OSError as refused:
                why = f"no temporary directory can be made: {refused.strerror}"
                raise StoreError(why) from None
            _places[os.getpid()] = place
        return place


def folder() -> Path:
    """Where temporary folders are made; removed when this process ends.

    Raises:
        StoreError: it cannot be made.
    """
    return _place() / "work"


def canary() -> Path:
    """A file that this process may read and write, and nothing that is confined may.

    Raises:
        StoreError: it cannot be made.
    """
    return _place() / "canary"


def outside() -> Path:
    """A file that is in no room of bubblewrap's.

    Raises:
        StoreError: it cannot be made.
    """
    return _place() / "outside"


def _remove() -> None:
    place = _places.get(os.getpid())
    if place is not None:
        shutil.rmtree(place, ignore_errors=True)


atexit.register(_remove)
