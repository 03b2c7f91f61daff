"""A tree object of the work tree, made without touching the repository's index or objects."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import anyio
from anyio import to_thread
from msgspec.structs import replace

from orchestrator.code_review.change.file_export import make_directory, temporary_directory
from orchestrator.code_review.change.git.commands import Git, discover, git_error, shorten
from orchestrator.code_review.change.git.objects import Objects
from orchestrator.code_review.change.git.repository_layout import STATE, resolve_path
from orchestrator.code_review.change.git.trees import list_tree
from orchestrator.code_review.change.worktree_modifications import (
    TrackedFile,
    find_differing_files,
    list_index,
)
from orchestrator.errors import InputError, StoreError

_SUBMODULE = b"160000"
NOTE_SECONDS = 5.0
"""For finding out whether there are changes that are not committed."""

_UNREVIEWED = "are not reviewed (--worktree)"
_UNCOMMITTED = f"the work tree has changes that are not committed; they {_UNREVIEWED}"
_NOT_COMPARED = (
    f"the work tree could not be compared with HEAD within {NOTE_SECONDS:g} s; changes in it that "
    f"are not committed {_UNREVIEWED}"
)
_NULL = "0" * 40  # of any length: an entry of mode 0 is removed, whatever its id


async def open_extra_store(git: Git, scratch: Path) -> Git:
    """The same repository, with new objects and an index written below ``scratch``.

    Raises:
        StoreError: ``scratch`` cannot be written.
    """
    own = Path(await git.line("rev-parse", "--path-format=absolute", "--git-path", "objects"))
    objects = resolve_path(scratch) / "objects"
    quoted = str(own).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    await to_thread.run_sync(_write_alternates, objects, os.fsencode(f'"{quoted}"\n'))
    return replace(git, object_dir=objects, index=objects.parent / "index")


def _write_alternates(objects: Path, line: bytes) -> None:
    make_directory(objects / "info")
    try:
        (objects / "info" / "alternates").write_bytes(line)
    except OSError as refused:
        raise StoreError(f"{objects} cannot be written: {refused.strerror}") from None


async def _find_top(repo: Path) -> Path:
    """The work tree that a directory lies in: never another one that ``core.worktree`` names."""
    found, done = await discover(repo, "--show-toplevel")
    if found.work_tree is None or done.code:
        raise InputError(f"{shorten(str(repo))} is not in a work tree; name two commits instead")
    named = os.fsdecode(done.stdout.removesuffix(b"\n"))
    if resolve_path(Path(named)) != found.work_tree:
        raise InputError(
            f"core.worktree of {shorten(str(repo))} is {shorten(named)}; "
            "unset core.worktree there, or name two commits"
        )
    return found.work_tree


async def _checkout(git: Git, top: Path) -> Git:
    """The same repository with its work tree, and with every filter driver emptied."""
    listed = await git.attempt("config", "--null", "--name-only", "--get-regexp", r"^filter\.")
    names = {os.fsdecode(key).rpartition(".")[0] for key in listed.stdout.split(b"\0") if key}
    ends = ("clean", "smudge", "process", "required")
    drivers = tuple(f"{name}.{end}" for name in sorted(names) for end in ends)
    return replace(git, work_tree=top, drivers=drivers)


async def note_uncommitted_changes(
    objects: Objects, repo: Path, top: Path | None, head_tree: str
) -> str | None:
    """A sentence when tracked files differ from HEAD, or when there was no time to find out.

    Args:
        objects: reads the repository.
        repo: a directory inside the work tree; there may be none.
        top: the work tree, None when it is not known yet.
        head_tree: the tree of HEAD.
    """
    with anyio.move_on_after(NOTE_SECONDS), suppress(InputError):
        dirty = await _is_dirty(objects, repo, top, head_tree)
        return _UNCOMMITTED if dirty else None
    return _NOT_COMPARED


async def _is_dirty(objects: Objects, repo: Path, top: Path | None, head_tree: str) -> bool:
    git = objects.git
    try:
        work = await _checkout(git, top or await _find_top(repo))
    except InputError:
        return False
    listed = await list_tree(objects, head_tree)  # bounded, where git's comparison with it is not
    # Without optional locks it writes nothing, and its permissions would not let it.
    status = await replace(work, index=git.git_dir / "index").attempt(
        "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty",
        "--no-renames",
    )  # fmt: skip
    if status.code or status.stdout:
        return True
    # The index can be made to say so; what HEAD holds and the files on disk can not.
    left_out = {file.path for file in await list_index(git) if file.left_out}
    tracked = [
        TrackedFile(
            os.fsencode(path), mode.encode(), oid.encode(), left_out=os.fsencode(path) in left_out
        )
        for path, (mode, oid) in listed.items()
    ]
    with temporary_directory() as folder:
        own = replace(work, index=folder / "index")
        return bool(await find_differing_files(git, own, tracked))


async def snapshot_worktree(
    git: Git, repo: Path, scratch: Path
) -> tuple[Git, str, tuple[str, ...]]:
    """Write the work tree as a tree object below ``scratch``.

    Args:
        git: the repository.
        repo: a directory inside its work tree.
        scratch: a directory of this run's own.

    Returns:
        The git that reads the tree, its id, and sentences on what is not in it.
    """
    store = await open_extra_store(git, scratch)
    work = await _checkout(store, await _find_top(repo))
    assert work.index is not None
    work.index.unlink(missing_ok=True)
    touched = await find_differing_files(git, work, await list_index(git))
    listed = await work.run("ls-files", "--others", "--exclude-standard", "-z")
    new = [path for path in listed.split(b"\0") if path and not path.startswith(STATE.encode())]
    gone, fresh, notes = await to_thread.run_sync(_sort_paths, work.cwd, touched, new)
    if gone:
        removed = b"".join(b"0 %s\t%s\0" % (_NULL.encode(), path) for path in gone)
        await work.run("update-index", "-z", "--index-info", stdin=removed)
    if fresh:
        paths = b"".join(path + b"\0" for path in fresh)
        await _add(work, paths)
    tree = (await work.run("write-tree", "--missing-ok")).decode().strip()
    return replace(store, index=None), tree, tuple(notes)


async def _add(work: Git, paths: bytes) -> None:
    done = await work.attempt("update-index", "--add", "--replace", "-z", "--stdin", stdin=paths)
    if done.code:
        hint = "; make it readable, or run again when nothing writes to it"
        raise git_error("reading the work tree", done, hint)


def _sort_paths(
    root: Path, touched: dict[bytes, bytes], new: list[bytes]
) -> tuple[list[bytes], list[bytes], list[str]]:
    """Part the paths into those to drop and those to add; the rest is noted."""
    gone, fresh, notes = [], [], []
    for path in [*touched, *new]:
        shown = shorten(os.fsdecode(path))
        if path.endswith(b"/"):
            notes.append(f"{shown} is a repository of its own and not part of this change")
            continue
        try:
            mode = os.lstat(os.path.join(os.fsencode(root), path)).st_mode
        except (FileNotFoundError, NotADirectoryError):
            gone.append(path)
            continue
        if touched.get(path) == b"000000":
            gone.append(path)
        elif stat.S_ISREG(mode) or stat.S_ISLNK(mode) or touched.get(path) == _SUBMODULE:
            fresh.append(path)
        else:
            gone.append(path)
            notes.append(f"{shown} is neither a file nor a link; it counts as deleted")
    return gone, fresh, notes
