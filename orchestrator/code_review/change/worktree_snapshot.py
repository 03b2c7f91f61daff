"""A tree object of the work tree, made without touching the repository's index or objects."""

import math
import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from msgspec.structs import replace

from diffchecks import name_some, shorten
from diffchecks.unified_diff import quote
from orchestrator.code_review.change.contents import known_of
from orchestrator.code_review.change.file_export import temporary_directory, write_files, writing
from orchestrator.code_review.change.git.commands import Git, discover, git_error
from orchestrator.code_review.change.git.objects import Objects, list_tree
from orchestrator.code_review.change.git.repository_layout import STATE, is_directory, resolve_path
from orchestrator.code_review.change.worktree_modifications import (
    GONE,
    LINK,
    OTHER,
    SUBMODULE,
    TrackedFile,
    WorkTree,
    list_index,
)
from orchestrator.engine.task_groups import run_both
from orchestrator.errors import InputError

NOTE_SECONDS = 5.0
"""For finding out whether there are changes that are not committed."""

_LIKELY = 128
"""So many of the newest files are looked at first: they tell soon that there are changes."""

_UNREVIEWED = "are not reviewed (--worktree)"
_UNCOMMITTED = f"the work tree has changes that are not committed; they {_UNREVIEWED}"
_NOT_COMPARED = (
    f"the work tree could not be compared with HEAD within {NOTE_SECONDS:g} s; changes in it that "
    f"are not committed {_UNREVIEWED}"
)


async def open_extra_store(git: Git, scratch: Path) -> Git:
    """The same repository, with new objects and an index written below ``scratch``."""
    own = Path(await git.line("rev-parse", "--path-format=absolute", "--git-path", "objects"))
    objects = resolve_path(scratch) / "objects"
    quoted = str(own).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    await to_thread.run_sync(_write_alternates, objects, os.fsencode(f'"{quoted}"\n'))
    return replace(git, object_dir=objects, index=objects.parent / "index")


def _write_alternates(objects: Path, line: bytes) -> None:
    with writing(objects):
        (objects / "info").mkdir(parents=True, exist_ok=True)
        (objects / "info" / "alternates").write_bytes(line)


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


async def note_uncommitted_changes(
    objects: Objects, repo: Path, top: Path | None, head_tree: str
) -> str | None:
    """A sentence when tracked files differ from HEAD, or when there was no time to find out.

    Args:
        objects: reads the repository.
        repo: a directory inside the work tree; there may be none.
        top: the work tree, None when it is not known yet.
    """
    with anyio.move_on_after(NOTE_SECONDS), suppress(InputError):
        dirty = await _is_dirty(objects, repo, top, head_tree)
        return _UNCOMMITTED if dirty else None
    return _NOT_COMPARED


async def _is_dirty(objects: Objects, repo: Path, top: Path | None, head_tree: str) -> bool:
    git = objects.git
    try:
        tree = await WorkTree.open(git, top or await _find_top(repo))
    except InputError:
        return False
    listed = await list_tree(objects, head_tree)  # bounded, where git's comparison with it is not
    index = await list_index(git)
    left_out = {file.path for file in index if file.left_out}
    tracked = [
        TrackedFile(path, mode.encode(), oid.encode(), left_out=path in left_out)
        for name, (mode, oid) in listed.items()
        for path in [os.fsencode(name)]
    ]
    staged = {(file.path, file.mode, file.oid) for file in index}
    if staged != {(file.path, file.mode, file.oid) for file in tracked}:
        return True
    # The index can be made to say so; what HEAD holds and the files on disk can not.
    tracked = await to_thread.run_sync(_newest_first, tree.top, tracked)
    for part in (tracked[:_LIKELY], tracked[_LIKELY:]):
        differing = await tree.find_differing(git, part)
        if differing.keys() - await tree.find_line_end_changes(part, differing):
            return True
    return await _has_moved_submodules(git, tree.top, tracked)


def _newest_first(top: Path, files: Sequence[TrackedFile]) -> list[TrackedFile]:
    """Files in the order in which a change of them is likely."""

    def age(file: TrackedFile) -> float:
        try:
            return -os.lstat(os.path.join(os.fsencode(top), file.path)).st_mtime
        except OSError:
            return -math.inf

    return sorted(files, key=age)


async def _has_moved_submodules(git: Git, top: Path, tracked: Sequence[TrackedFile]) -> bool:
    links = [file for file in tracked if file.mode == SUBMODULE and not file.left_out]
    if not links:
        return False
    with temporary_directory() as folder:
        work = replace(git, work_tree=top, index=folder / "index")
        await _write_entries(work, links)
        done = await work.attempt("diff-files", "--quiet", "--ignore-submodules=dirty")
    return bool(done.code)


async def _fill_index(work: Git, null: bytes, tracked: Sequence[TrackedFile]) -> bytes:
    """Make the index hold these entries and HEAD's trees, and list what is not in it.

    Of HEAD's trees git writes only those that differ.
    """
    have: dict[bytes, bytes] = {}
    with suppress(InputError):  # no commit, or trees that git would read without a bound
        tree = await work.line("rev-parse", "--verify", "HEAD^{tree}")
        have = await _read_tree(work, tree)
    wanted = {_entry(file): file for file in tracked}
    gone = [TrackedFile(have[one], b"0", null) for one in sorted({*have} - {*wanted})]
    await _write_entries(work, [*gone, *(wanted[one] for one in sorted({*wanted} - {*have}))])
    return await work.run("ls-files", "--others", "--exclude-standard", "-z")


async def _read_tree(work: Git, tree: str) -> dict[bytes, bytes]:
    """Make the index hold a tree; its entries, and their paths."""
    assert work.index is not None
    known = known_of(work.git_dir)
    if filled := known.indexes.get(tree):
        work.index.write_bytes(filled[0])
        return filled[1]
    async with Objects(work) as objects:  # hashes what git reads next
        listed = await list_tree(objects, tree)
    await work.run("read-tree", "--no-sparse-checkout", tree)
    pairs = ((os.fsencode(path), *entry) for path, entry in listed.items())
    have = {_entry(TrackedFile(p, mode.encode(), oid.encode())): p for p, mode, oid in pairs}
    known.trees.update(objects.trees)
    known.indexes = {tree: (work.index.read_bytes(), have)}
    return have


def _entry(file: TrackedFile) -> bytes:
    return b"%s %s %s\t%s" % (file.mode, file.oid, file.stage, file.path)


async def _write_entries(work: Git, files: Sequence[TrackedFile]) -> None:
    """Add entries to the index, or remove those of mode 0."""
    if files:
        lines = b"".join(b"%s\0" % _entry(file) for file in files)
        await work.run("update-index", "-z", "--index-info", stdin=lines)


async def snapshot_worktree(
    git: Git, repo: Path, scratch: Path
) -> tuple[Git, str, tuple[str, ...]]:
    """Write the work tree as a tree object below ``scratch``, with the bytes that are on disk.

    Args:
        repo: a directory inside its work tree.
        scratch: a directory of this run's own.

    Returns:
        The git that reads the tree, its id, and sentences on what is not in it, or surprises.
    """
    store, top = await run_both(partial(open_extra_store, git, scratch), partial(_find_top, repo))
    work = replace(store, work_tree=top)
    assert work.index is not None
    work.index.unlink(missing_ok=True)
    tree, tracked = await run_both(partial(WorkTree.open, git, top), partial(list_index, git))
    null = b"0" * (64 if tree.sha256 else 40)
    differing, listed = await run_both(
        partial(tree.find_differing, git, tracked), partial(_fill_index, work, null, tracked)
    )
    new = [path for path in listed.split(b"\0") if path and not path.startswith(STATE.encode())]
    files = [TrackedFile(path) for path in new if not path.endswith(b"/")]
    found = {**differing, **await tree.find_differing(git, files)}
    modes = {path: mode for path, mode in found.items() if mode not in {GONE, OTHER}}
    ids = await _store_contents(work, tree, modes, scratch)
    gone = [TrackedFile(path, b"0", null) for path in found if path not in modes]
    fresh = [TrackedFile(path, mode, ids[path]) for path, mode in modes.items()]
    await _write_entries(work, [*gone, *fresh])
    links = [file.path for file in tracked if file.mode == SUBMODULE and file.path not in found]
    present = [path for path in links if is_directory(top / os.fsdecode(path))]
    if present:  # git enters the commits that are checked out in them
        paths = b"".join(path + b"\0" for path in present)
        await work.run("update-index", "-z", "--stdin", stdin=paths)
    written = (await work.run("write-tree", "--missing-ok")).decode().strip()
    line_ends = await tree.find_line_end_changes(tracked, modes)
    return replace(store, index=None), written, tuple(_notes(new, found, line_ends))


async def snapshot_index(git: Git, index: Path, scratch: Path) -> tuple[Git, str, tuple[str, ...]]:
    """Write what an index holds as a tree object below ``scratch``, as a commit of it would.

    Returns:
        As ``snapshot_worktree``; there is nothing to say.

    Raises:
        InputError: the index cannot be read, or holds conflicts.
    """
    work = await open_extra_store(git, scratch)
    assert work.index is not None
    work.index.unlink(missing_ok=True)
    try:
        await to_thread.run_sync(shutil.copyfile, index, work.index)
    except FileNotFoundError:
        pass  # nothing is staged, not even what HEAD has
    except OSError as error:
        raise InputError(f"cannot read {shorten(str(index))}: {error.strerror}") from None
    done = await work.attempt("write-tree", "--missing-ok")
    if done.code:
        raise git_error("reading what is staged", done, "; resolve the conflicts, and stage again")
    return replace(work, index=None), done.stdout.decode().strip(), ()


async def _store_contents(
    work: Git, tree: WorkTree, modes: Mapping[bytes, bytes], scratch: Path
) -> dict[bytes, bytes]:
    """Write what is on disk at some paths as blobs; returns path → id.

    Raises:
        InputError: a file cannot be read.
        StoreError: the disk is full.
    """
    if not modes:
        return {}
    files = [path for path, mode in modes.items() if mode != LINK]
    links = [path for path, mode in modes.items() if mode == LINK]
    targets = await tree.read_links(links)
    folder = resolve_path(scratch) / "links"
    named = [(str(number), target) for number, target in enumerate(targets)]
    await to_thread.run_sync(write_files, folder, named)
    copies = [os.fsencode(folder / name) for name, _ in named]
    # git opens the files by their names and reads no attributes.
    done = await work.attempt(
        "hash-object", "-w", "--no-filters", "--stdin-paths",
        stdin=b"".join(quote(path) + b"\n" for path in [*files, *copies]),
    )  # fmt: skip
    ids = done.stdout.split()
    if done.code or len(ids) != len(modes):
        hint = "; make it readable, or run again when nothing writes to it"
        raise git_error("reading the work tree", done, hint)
    return dict(zip([*files, *links], ids, strict=True))


def _notes(
    new: Iterable[bytes], found: Mapping[bytes, bytes], line_ends: Collection[bytes]
) -> Iterator[str]:
    for path in new:
        if path.endswith(b"/"):
            shown = shorten(os.fsdecode(path))
            yield f"{shown} is a repository of its own and not part of this change"
    for path, mode in found.items():
        if mode == OTHER:
            shown = shorten(os.fsdecode(path))
            yield f"{shown} is neither a file nor a link; it counts as deleted"
    if line_ends:
        named = name_some([shorten(os.fsdecode(path)) for path in sorted(line_ends)], 3)
        yield f"on disk, lines end in CR LF instead of LF, which is the only change: {named}"
