"""Packs the files of a tree into one file, since creating thousands of files is slow.

Next to the directories of both sides is a file with all contents, one after the other, and next to
each directory an index that lists the files of that side. Packed files need not exist in the
directory.
"""

import errno
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from diffchecks.safe_paths import read_safely

Place = tuple[int, int]
"""The offset of a file's contents, and its size in bytes."""

_KEPT = 4  # indexes: both sides of a change, and of a patched change


def contents_path(root: Path) -> Path:
    """The file with the contents of both sides, for one side's directory."""
    return root.parent / "packed-contents"


def append_contents(root: Path, contents: Iterable[bytes]) -> int:
    """Append the contents of files; returns their offsets."""
    with contents_path(root).open("ab") as file:
        start = file.tell()
        file.writelines(contents)
    return start


def write_index(root: Path, places: Mapping[str, Place]) -> None:
    """Write the index of a side; replaces an existing one."""
    new = f"{_index_path(root)}.new"
    Path(new).write_text(json.dumps(places), "ascii")  # keeps names that are not UTF-8
    os.replace(new, _index_path(root))


def _index_path(root: Path | str) -> str:
    return f"{root}.index"


class _Index(Struct, frozen=True):
    """An index that was read, and the descriptor of the contents, which is kept open."""

    version: tuple[int, int]
    places: dict[str, Place]
    contents: int


_indexes: dict[str, _Index] = {}


def read_file(root: Path | str, path: str, max_bytes: int = -1) -> bytes:
    """Read one regular file of a side, at most ``max_bytes``.

    Raises:
        OSError: it does not exist, or its path leads elsewhere.
    """
    index = _index(str(root))
    place = index.places.get(path) if index else None
    if index is None or place is None:
        return read_safely(root, path, max_bytes)
    start, size = place
    wanted = size if max_bytes < 0 else min(size, max_bytes)
    data = os.pread(index.contents, wanted, start)
    if len(data) != wanted:
        raise OSError(errno.EIO, "it is not packed completely", path)
    return data


def _index(root: str) -> _Index | None:
    """The index of a side; read again if it was rewritten."""
    try:
        status = os.stat(_index_path(root))
    except OSError:
        return None
    version = status.st_ino, status.st_mtime_ns
    known = _indexes.get(root)
    if known is None or known.version != version:
        _forget(root)
        while len(_indexes) >= _KEPT:
            _forget(next(iter(_indexes)))
        places = json.loads(Path(_index_path(root)).read_bytes())
        contents = os.open(contents_path(Path(root)), os.O_RDONLY)
        known = _indexes[root] = _Index(version, places, contents)
    return known


def _forget(root: str) -> None:
    if known := _indexes.pop(root, None):
        os.close(known.contents)
