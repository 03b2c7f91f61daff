"""What the two sides of a change hold: bytes, text, listings, and files on disk for analyzers."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

import anyio
from anyio import to_thread
from msgspec import Struct

from diffchecks.packed_files import Place, append_contents, write_index
from diffchecks.safe_paths import unsafe_path_reason
from orchestrator.code_review.change.file_export import write_files, writing
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.git.objects import MAX_LISTED, Objects, Tree, list_tree
from orchestrator.code_review.change.types import Change

SideName = Literal["base", "head"]
SIDES: tuple[SideName, ...] = ("base", "head")
MAX_KNOWN_BYTES = 64 << 20
"""Of blobs, before what is kept of them begins anew."""


def split_lines(text: str) -> list[str]:
    """The lines of a file's text; the line end at its end begins no further line.

    An empty file has one empty line, unlike one that cannot be read.
    """
    return text.removesuffix("\n").split("\n")


class _Known(Struct):
    """What was read of a repository, by id, and is what that says."""

    trees: dict[str, Tree] = {}
    blobs: dict[str, bytes] = {}
    size: int = 0  # of the blobs, in bytes
    indexes: dict[str, tuple[bytes, dict[bytes, bytes]]] = {}  # git's file, entry → path


@lru_cache(maxsize=1)
def known_of(git_dir: Path) -> _Known:
    """What this process has read of a repository; threads may share it."""
    return _Known()


class Contents:
    """Reads both sides of a change; use it as an async context manager.

    Safe for concurrent callers. Its one git process ends with it.

    Args:
        objects: what reads the objects, where that is not the change's git.
    """

    def __init__(self, change: Change, objects: Objects | None = None) -> None:
        self.objects = objects or Objects(Git.of(change))
        self.known = known_of(self.objects.git.git_dir)
        if sum(map(len, [*self.known.trees.values()])) > MAX_LISTED:
            self.known.trees = {}
        self.objects.trees = self.known.trees
        self._trees: dict[SideName, str] = {"base": change.base_tree, "head": change.head_tree}
        self._listings: dict[SideName, dict[str, tuple[str, str]]] = {}
        self._listing: dict[SideName, anyio.Lock] = {side: anyio.Lock() for side in SIDES}

    async def __aenter__(self) -> "Contents":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.objects.__aexit__(*error)

    async def read(self, blob: str) -> bytes:
        """The bytes of one blob."""
        return await self.objects.read(blob)

    async def paths(self, side: SideName) -> dict[str, tuple[str, str]]:
        """Every entry of a side's tree: path → (mode, object id). Read once; do not alter it."""
        async with self._listing[side]:
            if side not in self._listings:
                self._listings[side] = await list_tree(self.objects, self._trees[side])
            return self._listings[side]

    async def regular(self, side: SideName) -> dict[str, str]:
        """Path → blob of the regular files of a side."""
        listed = await self.paths(side)
        return {path: blob for path, (mode, blob) in listed.items() if mode.startswith("100")}

    async def export(
        self, side: SideName, entries: Mapping[str, str], root: Path
    ) -> dict[str, str]:
        """Write files of one side below ``root``, as regular files with mode 0644.

        Args:
            side: whose files these are; an entry that is a link or submodule there is not written.
            entries: path → blob id.
            root: a directory of ours, made when it is not there; no link below it is followed.

        Returns:
            Path → why it could not be written.
        """
        listed = await self.paths(side)
        refused: dict[str, str] = {}
        paths_of_blob: dict[str, list[str]] = {}
        for path in sorted(entries):
            why = unsafe_path_reason(path)
            if why is None and not listed.get(path, ("100644",))[0].startswith("100"):
                why = "it is not a regular file"
            if why:
                refused[path] = why
            else:
                paths_of_blob.setdefault(entries[path], []).append(path)

        async def write(blobs: Sequence[tuple[str, bytes]]) -> None:
            files = [(path, data) for blob, data in blobs for path in paths_of_blob[blob]]
            with writing(root):
                refused.update(await to_thread.run_sync(write_files, root, files))

        await self.objects.in_batches(list(paths_of_blob), write)
        return refused


class FilePacking:
    """Packs files beside the directories of the sides; see ``diffchecks/packed_files.py``.

    Args:
        root: holds a directory for each side.
    """

    def __init__(self, contents: Contents, root: Path) -> None:
        self._contents, self._root = contents, root
        self._lock = anyio.Lock()
        self._of_blob: dict[str, Place] = {}
        self._of_path: dict[SideName, dict[str, Place]] = {side: {} for side in SIDES}

    async def add(self, side: SideName, paths: Iterable[str]) -> None:
        """Pack files of a side; what is no regular file, or must not be written, is left out."""
        async with self._lock:
            tree, places = await self._contents.paths(side), self._of_path[side]
            blobs = {
                path: tree[path][1]
                for path in paths
                if path not in places and tree.get(path, ("",))[0].startswith("100")
                if unsafe_path_reason(path) is None
            }
            if not blobs:
                return
            await self._write(dict.fromkeys(blobs.values()))
            places.update((path, self._of_blob[blob]) for path, blob in blobs.items())
            with writing(self._root):
                await to_thread.run_sync(write_index, self._root / side, places)

    async def _write(self, blobs: Iterable[str]) -> None:
        """Append the contents of what is not packed yet."""
        known = self._contents.known

        async def append(files: Sequence[tuple[str, bytes]]) -> None:
            contents = [data for _, data in files]
            with writing(self._root):
                at = await to_thread.run_sync(append_contents, self._root / SIDES[0], contents)
            for blob, data in files:
                self._of_blob[blob] = (at, len(data))
                at += len(data)

        async def keep(files: Sequence[tuple[str, bytes]]) -> None:
            if known.size > MAX_KNOWN_BYTES:
                known.blobs, known.size = {}, 0
            known.blobs.update(files)
            known.size += sum(len(data) for _, data in files)
            await append(files)

        missing, have = [blob for blob in blobs if blob not in self._of_blob], known.blobs
        await append([(blob, have[blob]) for blob in missing if blob in have])
        await self._contents.objects.in_batches(
            [blob for blob in missing if blob not in self._of_blob], keep
        )
