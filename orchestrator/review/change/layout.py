"""Which folders belong to a repository: what its git must be able to open.

Only for saying what a call may touch. git itself decides what is a repository; where this differs
from git, git is refused a file and says so.
"""

from __future__ import annotations

import os
from pathlib import Path

_MOST_ALTERNATES = 50


def found_from(place: Path) -> tuple[Path, ...]:
    """The folders of the repository that a folder lies in; none when there is none."""
    for folder in (place, *place.parents):
        entry = folder / ".git"
        if entry.is_dir():
            return (folder, *parts(entry))
        named = _named(entry, b"gitdir:")
        if named is not None:
            return (folder, *parts(named))
        if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
            return parts(folder)
    return ()


def parts(git_dir: Path) -> tuple[Path, ...]:
    """A git directory, the one it is a further work tree of, and the stores they borrow from."""
    common = _named(git_dir / "commondir", b"") or git_dir
    stores = [common / "objects"]
    for store in stores:
        stores += [path for path in _alternates(store) if path not in stores]
        if len(stores) > _MOST_ALTERNATES:
            break
    return tuple(path for path in dict.fromkeys((git_dir, common, *stores[1:])) if path.exists())


def _named(file: Path, mark: bytes) -> Path | None:
    """The path in a file of one line, relative to where it stands."""
    try:
        with file.open("rb") as stream:
            line = stream.read(8192).split(b"\n")[0].rstrip(b"\r")
    except OSError:
        return None
    if not line.startswith(mark):
        return None
    return Path(os.path.normpath(file.parent / os.fsdecode(line.removeprefix(mark).strip())))


def _alternates(store: Path) -> list[Path]:
    try:
        lines = (store / "info/alternates").read_bytes().split(b"\n")
    except OSError:
        return []
    paths = [os.fsdecode(_unquoted(line)) for line in lines if line and not line.startswith(b"#")]
    return [Path(os.path.normpath(store / path)) for path in paths if "\0" not in path]


def _unquoted(line: bytes) -> bytes:
    if not (line.startswith(b'"') and line.endswith(b'"') and len(line) > 1):
        return line
    return line[1:-1].replace(b"\\n", b"\n").replace(b'\\"', b'"').replace(b"\\\\", b"\\")
