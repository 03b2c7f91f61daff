"""What is on disk at the paths of an index or a tree, found by reading all of it.

Flags, sizes and times of the repository's index are not taken over: they can say of any file that
it is unchanged. git reads no file either: attributes (``ident``, ``eol``, ``filter``,
``working-tree-encoding``) and settings make it see other bytes than those on disk, which run.
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import TypeVar

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from diffchecks.safe_paths import SafeDirectory
from diffchecks.skipped_files import BIG_FILE_BYTES
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.git.objects import Objects, look_up_objects

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

GONE = b"000000"
SUBMODULE = b"160000"
OTHER = b""
"""The mode of what git does not know, such as a pipe."""

LINK = b"120000"
_EXECUTABLE, _FILE = b"100755", b"100644"
_FILES = {_FILE, _EXECUTABLE}
_MERGED = b"0"
_LEFT_OUT = b"S"  # git's letter for a file outside of a sparse checkout
_LFS_BYTES = 1024
_LFS = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize [0-9]+\n"
)
_PIECE = 1 << 20  # bytes read at once, and between two looks at whether to stop


class TrackedFile(Struct, frozen=True):
    """An entry of an index, or of a tree; a path alone is that of a new file.

    Attributes:
        left_out: it lies outside of a sparse checkout.
    """

    path: bytes
    mode: bytes = OTHER
    oid: bytes = b""
    stage: bytes = _MERGED
    left_out: bool = False


class WorkTree(Struct, frozen=True):
    """A work tree to read.

    Attributes:
        top: its directory.
        sha256: object ids are SHA-256, not SHA-1.
        modes: its file system keeps whether a file is executable (``core.fileMode``).
    """

    top: Path
    sha256: bool
    modes: bool

    @classmethod
    async def open(cls, git: Git, top: Path) -> "WorkTree":
        """The work tree of a repository, as its configuration describes it."""
        keys = r"^(core\.filemode|extensions\.objectformat)$"
        listed = await git.attempt("config", "--null", "--get-regexp", keys)
        pairs = (line.partition(b"\n") for line in listed.stdout.lower().split(b"\0"))
        known = {key: value for key, _, value in pairs}
        modes = known.get(b"core.filemode") not in {b"false", b"no", b"off", b"0"}
        return cls(top, known.get(b"extensions.objectformat") == b"sha256", modes)

    def hash_blob(self, size: int) -> "hashlib._Hash":
        """The hash of a blob of a size, to be updated with its bytes."""
        new = hashlib.sha256 if self.sha256 else hashlib.sha1
        return new(b"blob %d\0" % size, usedforsecurity=False)

    def blob_id(self, data: bytes) -> bytes:
        """The id of a blob."""
        hashed = self.hash_blob(len(data))
        hashed.update(data)
        return hashed.hexdigest().encode()

    async def find_differing(self, git: Git, tracked: Sequence[TrackedFile]) -> dict[bytes, bytes]:
        """The paths at which something else is on disk, with its mode.

        A file that a sparse checkout leaves out, or whose contents are those that a Git LFS pointer
        names, does not differ, and no directory differs from a submodule.

        Args:
            git: reads the repository's objects.
        """
        found = await self._each(tracked, self._look)
        differing = {
            file.path: mode
            for file, mode in zip(tracked, found, strict=True)
            if mode is not None and not (mode == GONE and file.left_out)
        }
        if not differing:
            return {}
        entry_of = {file.path: file for file in tracked}
        return await _without_unchanged_lfs(git, self.top, differing, entry_of)

    async def read_links(self, paths: Sequence[bytes]) -> list[bytes]:
        """The targets of symbolic links; empty where there is none any more."""
        return await self._each(paths, self._read_link)

    async def find_line_end_changes(
        self, tracked: Sequence[TrackedFile], modes: Mapping[bytes, bytes]
    ) -> set[bytes]:
        """Of the paths, those whose files would be as tracked if each CR LF were a LF."""
        same = [file for file in tracked if modes.get(file.path) == file.mode in _FILES]
        found = await self._each(same, self._differs_in_line_ends)
        return {file.path for file, only in zip(same, found, strict=True) if only}

    async def _each(
        self, items: Sequence[ItemT], work: Callable[[SafeDirectory, ItemT, Event], ResultT]
    ) -> list[ResultT]:
        """The results for all items, in a thread that ends with a cancellation."""
        stop = Event()  # more threads take twice as long: of each other they wait for Python's lock

        def run() -> list[ResultT]:
            with SafeDirectory(self.top) as tree:
                return [work(tree, item, stop) for item in items if not stop.is_set()]

        if not items:
            return []
        try:
            return await to_thread.run_sync(run, abandon_on_cancel=True)
        finally:
            stop.set()

    def _look(self, tree: SafeDirectory, file: TrackedFile, stop: Event) -> bytes | None:
        """The mode of what is on disk; None where it is as tracked."""
        try:
            descriptor = tree.open(os.fsdecode(file.path))
        except OSError:
            return self._look_at_no_file(tree, file)
        try:
            about = os.fstat(descriptor)
            mode = _EXECUTABLE if about.st_mode & stat.S_IXUSR else _FILE
            if not self.modes:
                mode = file.mode if file.mode in _FILES else _FILE
            if mode != file.mode or file.stage != _MERGED:
                return mode
            hashed = self.hash_blob(about.st_size)
            rest = about.st_size + 1  # one byte more: it may have grown
            while not stop.is_set() and (piece := os.read(descriptor, min(rest, _PIECE))):
                hashed.update(piece)
                rest -= len(piece)
            return None if hashed.hexdigest().encode() == file.oid else mode
        except OSError:
            return _FILE  # reading it again tells why
        finally:
            os.close(descriptor)

    def _look_at_no_file(self, tree: SafeDirectory, file: TrackedFile) -> bytes | None:
        try:
            mode = tree.mode(os.fsdecode(file.path))
        except OSError:
            return GONE
        if stat.S_ISLNK(mode):
            same = file.mode == LINK and file.stage == _MERGED
            target = self._read_link(tree, file.path, Event()) if same else b""
            return None if same and self.blob_id(target) == file.oid else LINK
        if stat.S_ISDIR(mode):
            return None if file.mode == SUBMODULE else GONE
        return _FILE if stat.S_ISREG(mode) else OTHER

    def _read_link(self, tree: SafeDirectory, path: bytes, _: Event) -> bytes:
        try:
            return os.fsencode(tree.read_link(os.fsdecode(path)))
        except OSError:
            return b""

    def _differs_in_line_ends(self, tree: SafeDirectory, file: TrackedFile, _: Event) -> bool:
        try:
            data = tree.read(os.fsdecode(file.path), BIG_FILE_BYTES)
        except OSError:
            return False
        return b"\r\n" in data and self.blob_id(data.replace(b"\r\n", b"\n")) == file.oid


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
