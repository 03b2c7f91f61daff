"""What a repository's index tracks below a directory, read without starting git.

Every command asks this before it opens a journal, and a process of git takes longer than the rest.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from diffchecks.safe_paths import read_safely
from orchestrator.errors import InputError

_HEADER = 12
_TIMES = 40  # bytes before the object id
_NAME_LENGTH = 0x0FFF
_EXTENDED = 0x4000
_COMPRESSED = 4  # the version in which a path is what differs from the one before


def tracks_below(git_dir: Path, directory: str) -> bool:
    """Whether an index of a git directory has a path below a directory, in any case.

    Raises:
        InputError: the index is malformed.
    """
    wanted = f"{directory}/".lower().encode()
    names = os.listdir(git_dir) if git_dir.is_dir() else []
    for name in names:
        if name != "index" and not name.startswith("sharedindex."):
            continue
        try:
            data = read_safely(git_dir, name)
        except OSError:
            continue  # git cannot read it either
        if int.from_bytes(data[4:8]) == _COMPRESSED:
            if any(path.lower().startswith(wanted) for path in _compressed_paths(data)):
                return True
        elif wanted in data.lower():
            return True
    return False


def _compressed_paths(data: bytes) -> list[bytes]:
    for width in (20, 32):  # the file does not say which hash it uses
        try:
            return list(_parse(data, width))
        except (IndexError, ValueError):
            continue
    raise InputError("the index is malformed; restore it with: rm .git/index && git reset")


def _parse(data: bytes, width: int) -> Iterator[bytes]:
    at, path = _HEADER, b""
    for _ in range(int.from_bytes(data[8:12])):
        at += _TIMES + width
        flags = int.from_bytes(data[at : at + 2])
        at += 4 if flags & _EXTENDED else 2
        cut = -1
        while True:  # as offsets in packs: each byte but the last has its highest bit set
            byte = data[at]
            at += 1
            cut = (cut + 1 << 7) | byte & 0x7F
            if not byte & 0x80:
                break
        end = data.index(b"\0", at)
        path = path[: len(path) - cut] + data[at:end]
        if cut < 0 or min(len(path), _NAME_LENGTH) != flags & _NAME_LENGTH:
            raise ValueError(width)
        yield path
        at = end + 1
