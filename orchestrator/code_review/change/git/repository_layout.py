"""The directories of a repository that git must be able to open.

Only for saying what a call may touch: git itself decides what is a repository. The files that say
so may be somebody else's, so that what they name must at least look like what they say it is.
"""

import os
from pathlib import Path

from orchestrator.data_directories import OVERLAY, STATE_DIRECTORY
from orchestrator.sandbox.safe_paths import read_safely

STATE = f"{OVERLAY}/{STATE_DIRECTORY}/"
"""What begins the path of every file that Diffcourt writes into a checkout."""

_MOST_STORES = 50
_MOST_BYTES = 1 << 16


def resolve_path(path: Path) -> Path:
    """The path from the root, without links: what is confined finds real places only."""
    return Path(os.path.realpath(path))


def is_directory(path: Path) -> bool:
    """Whether it is a directory that can be looked at."""
    return os.path.isdir(path)


def repository_directories(place: Path) -> tuple[Path, ...]:
    """The directories of the repository that a directory lies in; none when there is none."""
    for folder in (place, *place.parents):
        entry = folder / ".git"
        if os.path.isdir(entry):  # unlike a Path it takes what may not be looked at for missing
            return (folder, *git_directories(entry))
        named = _read_path_file(folder, ".git", b"gitdir:")
        if named is not None:
            return (folder, *git_directories(named))
        if is_git_dir(folder):
            return git_directories(folder)
    return ()


def git_directories(git_dir: Path) -> tuple[Path, ...]:
    """A git directory, the one it is a further work tree of, and the stores they borrow from."""
    real = git_dir.resolve()
    common = _common_directory(real)
    stores = [common / "objects"]
    for store in stores:
        if len(stores) < _MOST_STORES:
            stores += [path for path in _alternates(store) if path not in stores]
    return tuple(
        path for path in dict.fromkeys((real, common, *stores[1:])) if os.path.exists(path)
    )


def is_shallow_clone(git_dir: Path) -> bool:
    """Whether the clone's history was cut off, as git knows it by a file."""
    return os.path.exists(_common_directory(git_dir.resolve()) / "shallow")


def _common_directory(real: Path) -> Path:
    """What all work trees of a repository share."""
    named = _read_path_file(real, "commondir", b"")
    return named if named and is_git_dir(named) else real


def is_git_dir(folder: Path) -> bool:
    """Whether it looks like a git directory, a bare repository's too."""
    return os.path.isfile(folder / "HEAD") and os.path.isdir(folder / "objects")


def _read_path_file(folder: Path, name: str, mark: bytes) -> Path | None:
    """The path in a file of one line, relative to where it stands."""
    try:
        line = read_safely(folder, name, _MOST_BYTES).split(b"\n")[0].rstrip(b"\r")
    except OSError:
        return None
    if not line.startswith(mark) or b"\0" in line:
        return None
    return Path(os.path.normpath(folder / os.fsdecode(line.removeprefix(mark).strip())))


def _alternates(store: Path) -> list[Path]:
    try:
        lines = read_safely(store, "info/alternates", _MOST_BYTES).split(b"\n")
    except OSError:
        return []
    named = [os.fsdecode(_unquote(line)) for line in lines if line and not line.startswith(b"#")]
    paths = [Path(os.path.normpath(store / path)) for path in named if "\0" not in path]
    return [path for path in paths if os.path.isdir(path / "pack")]


def _unquote(line: bytes) -> bytes:
    if not (line.startswith(b'"') and line.endswith(b'"') and len(line) > 1):
        return line
    return line[1:-1].replace(b"\\n", b"\n").replace(b'\\"', b'"').replace(b"\\\\", b"\\")
