"""Which repository a directory belongs to, and the directories that git must be able to open.

git does not search here: it is told the git directory. What it would find may be somebody else's. A
change can bring the files of a git directory (``HEAD``, ``objects``, ``refs``, ``config``), and an
archive a ``.git`` that names the repository of another directory. What the index tracks is read
without git, too: every command asks this first, and a process of git takes longer than the rest.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from diffchecks.safe_paths import read_safely
from orchestrator.data_directories import OVERLAY, STATE_DIRECTORY
from orchestrator.errors import InputError
from orchestrator.program_search import distrust

STATE = f"{OVERLAY}/{STATE_DIRECTORY}/"
"""What begins the path of every file that Diffcourt writes into a checkout."""

_MAX_STORES = 50
_MAX_BYTES = 1 << 16


def resolve_path(path: Path) -> Path:
    """The path from the root, without links: what is confined finds real places only."""
    return Path(os.path.realpath(path))


def is_directory(path: Path) -> bool:
    """Whether it is a directory that can be looked at."""
    return os.path.isdir(path)


class Repository(Struct, frozen=True):
    """A repository, as a directory in it leads to it.

    Attributes:
        root: the directory that holds ``.git``; of a bare repository, itself.
        work_tree: ``root``, unless the repository is bare or the directory lies in ``git_dir``.
    """

    root: Path
    git_dir: Path
    work_tree: Path | None = None


def find_repository(place: Path) -> Repository | None:
    """The repository that a directory lies in; None when there is none.

    It is that of the nearest ``.git``. A directory that is a git directory itself counts only where
    there is no ``.git`` above it: in a work tree it is part of what is reviewed. From now on, no
    program of ours is taken from there.

    Raises:
        InputError: ``.git`` names the repository of another directory.
    """
    place = resolve_path(place)
    for folder in (place, *place.parents):
        if os.path.lexists(folder / ".git"):
            distrust(os.fspath(folder))
            git_dir = _own_git_dir(folder)
            work_tree = None if place.is_relative_to(git_dir) else folder
            return Repository(folder, git_dir, work_tree)
    if not is_git_dir(place):
        return None
    distrust(os.fspath(place))
    return Repository(place, place)


def _own_git_dir(folder: Path) -> Path:
    """The git directory of a directory with ``.git``, which may be no valid one."""
    entry = folder / ".git"
    named = _read_path_file(folder, ".git", b"gitdir:")
    git_dir = resolve_path(named or entry)
    if os.path.lexists(git_dir / "commondir"):  # of a linked work tree: git makes it so
        back = _read_path_file(git_dir, "gitdir", b"")
        below = git_dir.parent.name == "worktrees" and _common_directory(git_dir)
        own = below == git_dir.parent.parent and back and resolve_path(back) == entry
    else:
        own = git_dir == entry or (git_dir.name != ".git" and _may_serve(git_dir, folder))
    if not own:
        raise InputError(
            f"{entry} names {git_dir}, which is the repository of another directory; if this is a "
            "linked work tree that was moved, run git worktree repair there"
        )
    return git_dir


def _may_serve(git_dir: Path, folder: Path) -> bool:
    """Whether a git directory elsewhere may be that of a directory which names it.

    That of a submodule names the directory, and one that was made with ``--separate-git-dir`` names
    none. Another one belongs to another work tree, or to nobody: a bare repository.
    """
    if git_dir.is_relative_to(folder):
        return True
    try:
        settings = os.fsdecode(read_safely(git_dir, "config", _MAX_BYTES))
    except OSError:
        return True  # git says what is wrong
    named = re.findall(r"(?im)^\s*worktree\s*=\s*\"?([^\"\n]*?)\"?\s*$", settings)
    if named:
        return resolve_path(git_dir / named[-1]) == folder
    return not re.search(r"(?im)^\s*bare\s*(=\s*(true|yes|on|1)\s*)?$", settings)


def repository_directories(place: Path) -> tuple[Path, ...]:
    """The directories of the repository that a directory lies in; none when there is none."""
    found = find_repository(place)
    if found is None:
        return ()
    return tuple(dict.fromkeys((found.root, *git_directories(found.git_dir))))


def git_directories(git_dir: Path) -> tuple[Path, ...]:
    """A git directory, the one it is a further work tree of, and the stores they borrow from."""
    real = git_dir.resolve()
    common = _common_directory(real)
    stores = [common / "objects"]
    for store in stores:
        if len(stores) < _MAX_STORES:
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
        line = read_safely(folder, name, _MAX_BYTES).split(b"\n")[0].rstrip(b"\r")
    except OSError:
        return None
    if not line.startswith(mark) or b"\0" in line:
        return None
    return Path(os.path.normpath(folder / os.fsdecode(line.removeprefix(mark).strip())))


def _alternates(store: Path) -> list[Path]:
    try:
        lines = read_safely(store, "info/alternates", _MAX_BYTES).split(b"\n")
    except OSError:
        return []
    named = [os.fsdecode(_unquote(line)) for line in lines if line and not line.startswith(b"#")]
    paths = [Path(os.path.normpath(store / path)) for path in named if "\0" not in path]
    return [path for path in paths if os.path.isdir(path / "pack")]


def _unquote(line: bytes) -> bytes:
    if not (line.startswith(b'"') and line.endswith(b'"') and len(line) > 1):
        return line
    return line[1:-1].replace(b"\\n", b"\n").replace(b'\\"', b'"').replace(b"\\\\", b"\\")


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
