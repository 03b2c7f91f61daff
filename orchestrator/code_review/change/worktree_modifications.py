"""Which tracked files differ on disk, found by hashing all of them.

Flags, sizes and times of the repository's index are not taken over: they can say of any file that
it is unchanged. Files are hashed by threads of this process; git, which knows filters, hashes only
those whose bytes are not those of the blob.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.code_review.change.git.commands import Git, git_error
from orchestrator.code_review.change.git.objects import Objects, look_up_objects
from orchestrator.engine.task_groups import run_both
from orchestrator.sandbox.safe_paths import SafeDirectory

_EXECUTABLE = b"100755"
_FILES = {b"100644", _EXECUTABLE}
_MERGED = b"0"
_LEFT_OUT = b"S"  # git's letter for a file outside of a sparse checkout
_LFS_BYTES = 1024
_LFS = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize [0-9]+\n"
)
_THREADS = 8
_PIECE = 1 << 20  # bytes read at once, and between two looks at whether to stop
_BATCH = 64  # files that a thread takes at once


class TrackedFile(Struct, frozen=True):
    """An entry of an index, or of a tree.

    Attributes:
        left_out: it lies outside of a sparse checkout.
    """

    path: bytes
    mode: bytes
    oid: bytes
    stage: bytes = _MERGED
    left_out: bool = False


async def list_index(git: Git) -> list[TrackedFile]:
    """The entries of the repository's own index."""
    own = replace(git, index=git.git_dir / "index")
    listed = await own.run("ls-files", "-z", "-t", "--stage")
    records = (record.partition(b"\t") for record in listed.split(b"\0") if record)
    return [
        TrackedFile(path, mode, oid, stage, letter == _LEFT_OUT)
        for about, _, path in records
        for letter, mode, oid, stage in [about.split(b" ")]
    ]


async def find_differing_files(
    git: Git, work: Git, tracked: Sequence[TrackedFile]
) -> dict[bytes, bytes]:
    """Fill the index of ``work`` with entries, and find those whose files differ on disk.

    Args:
        git: reads the repository's objects.
        work: the same with its work tree and an index that does not exist yet.
        tracked: the entries.

    Returns:
        Path → the mode on disk, ``000000`` when gone. A file that a sparse checkout leaves out does
        not differ.
    """
    lines = (b"%s %s %s\t%s\0" % (file.mode, file.oid, file.stage, file.path) for file in tracked)
    stop = Event()
    hashed = partial(
        to_thread.run_sync, _find_same, work.cwd, tracked, stop, abandon_on_cancel=True
    )
    filled = partial(work.run, "update-index", "-z", "--index-info", stdin=b"".join(lines))
    try:
        same, _ = await run_both(hashed, filled)
    finally:
        stop.set()
    if len(same) == len(tracked):
        return {}
    # git does not look at these again, not even where a file's time lies in the future.
    paths = b"".join(path + b"\0" for path in same)
    await work.run("update-index", "--assume-unchanged", "-z", "--stdin", stdin=paths)
    refreshed = await work.attempt("update-index", "-q", "--unmerged", "--refresh")
    if refreshed.code not in {0, 1}:  # 1: there are files that differ
        raise git_error("reading the work tree", refreshed)
    output = await work.run(
        "diff-files", "-z", "--raw", "--no-ext-diff", "--no-textconv", "--no-renames",
        "--ignore-submodules=dirty",
    )  # fmt: skip
    fields = output.split(b"\0")
    entry_of = {file.path: file for file in tracked}
    touched: dict[bytes, bytes] = {}
    for about, path in zip(fields[0::2], fields[1::2], strict=False):
        mode, letter = about.split(b" ")[1], about[-1:]
        if letter != b"D":
            touched[path] = mode
        elif not entry_of[path].left_out:
            touched[path] = b"000000"
    return await _without_unchanged_lfs(git, work.cwd, touched, entry_of)


def _find_same(root: Path, tracked: Sequence[TrackedFile], stop: Event) -> list[bytes]:
    """The paths of files whose bytes are those of their blob, with the same mode."""
    files = [file for file in tracked if file.mode in _FILES and file.stage == _MERGED]
    batches = [files[at : at + _BATCH] for at in range(0, len(files), _BATCH)]
    threads = min(_THREADS, os.cpu_count() or 1)
    with SafeDirectory(root) as tree, ThreadPoolExecutor(threads) as pool:
        found = pool.map(lambda batch: list(_same_of(tree, batch, stop)), batches)
        return [path for batch in found for path in batch]


def _same_of(tree: SafeDirectory, files: Sequence[TrackedFile], stop: Event) -> Iterator[bytes]:
    for file in files:
        if stop.is_set():
            return
        try:
            descriptor = tree.open(os.fsdecode(file.path))
        except OSError:
            continue  # git says what is there instead
        try:
            if _is_same(descriptor, file, stop):
                yield file.path
        except OSError:
            continue
        finally:
            os.close(descriptor)


def _is_same(descriptor: int, file: TrackedFile, stop: Event) -> bool:
    about = os.fstat(descriptor)
    if bool(about.st_mode & stat.S_IXUSR) != (file.mode == _EXECUTABLE):
        return False
    new = hashlib.sha1 if len(file.oid) == 40 else hashlib.sha256
    digest = new(b"blob %d\0" % about.st_size, usedforsecurity=False)
    rest = about.st_size
    while rest > 0 and not stop.is_set():
        piece = os.read(descriptor, min(rest, _PIECE))
        if not piece:
            break
        digest.update(piece)
        rest -= len(piece)
    return digest.hexdigest().encode() == file.oid and not os.read(descriptor, 1)


async def _without_unchanged_lfs(
    git: Git, root: Path, touched: dict[bytes, bytes], entry_of: dict[bytes, TrackedFile]
) -> dict[bytes, bytes]:
    """The paths without files whose contents are those that a Git LFS pointer in the index names.

    Git LFS itself is not run.
    """
    oid_of = {path: entry_of[path].oid.decode() for path, mode in touched.items() if mode in _FILES}
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
                with os.fdopen(tree.open(os.fsdecode(path)), "rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() == digest:
                        same.add(path)
            except OSError:
                continue  # it differs, and reading it tells why
    return same
