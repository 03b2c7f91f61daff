"""A tree object of the work tree, made without touching the repository's index or objects."""

import hashlib
import os
import re
import stat
from pathlib import Path

from anyio import to_thread
from msgspec.structs import replace

from orchestrator.code_review.change.file_export import make_directory, temporary_directory
from orchestrator.code_review.change.git.commands import LIMITS, Git, discover, git_error, shorten
from orchestrator.code_review.change.git.objects import Objects, look_up_objects
from orchestrator.code_review.change.git.repository_layout import STATE, resolve_path
from orchestrator.errors import InputError, StoreError
from orchestrator.sandbox.safe_paths import SafeDirectory

_SUBMODULE = b"160000"
_FILES = {b"100644", b"100755"}
_LEFT_OUT = b"S"  # git's letter for a file outside of a sparse checkout
_DIRTY_SECONDS = 20.0
_LFS_BYTES = 1024
_LFS = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize [0-9]+\n"
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
    """The work tree that a directory lies in."""
    found = await discover(repo, "--show-toplevel")
    if found.code:
        raise InputError(f"{shorten(str(repo))} is not in a work tree; name two commits instead")
    top = Path(os.fsdecode(found.stdout.removesuffix(b"\n")))
    if not _holds_its_repository(top, resolve_path(repo)):
        raise InputError(
            f"core.worktree of {shorten(str(repo))} is {shorten(str(top))}; "
            "unset core.worktree there, or name two commits"
        )
    return top


def _holds_its_repository(top: Path, place: Path) -> bool:
    """Whether a work tree is the directory in which its repository was found from a place."""
    found = next((up for up in (place, *place.parents) if os.path.lexists(up / ".git")), top)
    return top.resolve() == found.resolve()


async def _checkout(git: Git, top: Path) -> Git:
    """The same repository with its work tree, and with every filter driver emptied."""
    listed = await git.attempt("config", "--null", "--name-only", "--get-regexp", r"^filter\.")
    names = {os.fsdecode(key).rpartition(".")[0] for key in listed.stdout.split(b"\0") if key}
    ends = ("clean", "smudge", "process", "required")
    drivers = tuple(f"{name}.{end}" for name in sorted(names) for end in ends)
    return replace(git, work_tree=top, drivers=drivers)


async def is_dirty(git: Git, repo: Path, top: Path | None) -> bool:
    """Whether tracked files differ from HEAD; False as well when there is no work tree.

    Args:
        repo: a directory inside the work tree.
        top: the work tree, None when it is not known yet.
    """
    try:
        work = await _checkout(git, top or await _find_top(repo))
    except InputError:
        return False
    # Without optional locks it writes nothing, and its permissions would not let it.
    own = replace(work, index=git.git_dir / "index")
    diff = await own.attempt(
        "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty",
        "--no-renames", limits=replace(LIMITS, seconds=_DIRTY_SECONDS),
    )  # fmt: skip
    if diff.code or diff.stdout:
        return True
    listed = await own.run("ls-files", "-z", "-v")
    flagged = [record[2:] for record in listed.split(b"\0") if record and record[:1] != b"H"]
    if not await to_thread.run_sync(_any_exists, work.cwd, flagged):
        return False
    # git does not look at files with these flags. All are hashed only here: it can take seconds.
    with temporary_directory() as folder:
        return bool(await _hash_tracked_files(git, replace(work, index=folder / "index")))


def _any_exists(root: Path, paths: list[bytes]) -> bool:
    return any(os.path.lexists(os.path.join(os.fsencode(root), path)) for path in paths)


async def _hash_tracked_files(git: Git, work: Git) -> dict[bytes, bytes]:
    """Fill the index of ``work`` with what the repository's names, and hash all files of it.

    Flags, sizes and times of the repository's own index are not taken over: they can say of any
    file that it is unchanged.

    Returns:
        Tracked files that differ on disk: path → the mode on disk, ``000000`` when gone. A file
        that a sparse checkout leaves out does not differ.
    """
    listed = await replace(git, index=git.git_dir / "index").run("ls-files", "-z", "-t", "--stage")
    records = [record.partition(b"\t") for record in listed.split(b"\0") if record]
    tracked = {path: about.split(b" ") for about, _, path in records}
    entries = b"".join(b"%s\t%s\0" % (about[2:], path) for about, _, path in records)
    await work.run("update-index", "-z", "--index-info", stdin=entries)
    refreshed = await work.attempt("update-index", "-q", "--unmerged", "--refresh")
    if refreshed.code not in {0, 1}:  # 1: there are files that differ
        raise git_error("reading the work tree", refreshed)
    output = await work.run(
        "diff-files", "-z", "--raw", "--no-ext-diff", "--no-textconv", "--no-renames",
        "--ignore-submodules=dirty",
    )  # fmt: skip
    fields = output.split(b"\0")
    touched: dict[bytes, bytes] = {}
    for about, path in zip(fields[0::2], fields[1::2], strict=False):
        mode, letter = about.split(b" ")[1], about[-1:]
        if letter != b"D":
            touched[path] = mode
        elif tracked[path][0] != _LEFT_OUT:
            touched[path] = b"000000"
    return await _without_unchanged_lfs(git, work.cwd, touched, tracked)


async def _without_unchanged_lfs(
    git: Git, root: Path, touched: dict[bytes, bytes], tracked: dict[bytes, list[bytes]]
) -> dict[bytes, bytes]:
    """The paths without files whose contents are those that a Git LFS pointer in the index names.

    Git LFS itself is not run.
    """
    oid_of = {path: tracked[path][2].decode() for path, mode in touched.items() if mode in _FILES}
    found = await look_up_objects(git, list(dict.fromkeys(oid_of.values())))
    short = [oid for oid, seen in found.items() if seen.kind == "blob" and seen.size < _LFS_BYTES]
    pointers: dict[str, str] = {}

    async def keep(oid: str, data: bytes) -> None:
        if match := _LFS.fullmatch(data):
            pointers[oid] = match[1].decode()

    if short:
        async with Objects(git) as objects:
            await objects.each(short, keep)
    named = {path: pointers[oid] for path, oid in oid_of.items() if oid in pointers}
    same = await to_thread.run_sync(_files_with_digests, root, named) if named else set()
    return {path: mode for path, mode in touched.items() if path not in same}


def _files_with_digests(root: Path, digests: dict[bytes, str]) -> set[bytes]:
    same = set()
    with SafeDirectory(root) as tree:
        for path, digest in digests.items():
            try:
                with open(tree.open(os.fsdecode(path)), "rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() == digest:
                        same.add(path)
            except OSError:
                continue  # it differs, and reading it tells why
    return same


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
    touched = await _hash_tracked_files(git, work)
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
        hint = "; make it readable, or run again when nothing writes there"
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
