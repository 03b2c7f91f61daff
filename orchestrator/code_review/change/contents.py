"""What the two sides of a change hold: bytes, text, listings, and files on disk for analyzers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import anyio
from anyio import to_thread

from diffchecks.safe_paths import unsafe_path_reason
from orchestrator.code_review.change.file_export import write_files, writing
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.git.objects import Objects
from orchestrator.code_review.change.git.trees import list_tree
from orchestrator.code_review.change.types import Change

SideName = Literal["base", "head"]
SIDES: tuple[SideName, ...] = ("base", "head")


def split_lines(text: str) -> list[str]:
    """The lines of a file's text; the line end at its end begins no further line.

    An empty file has one empty line, unlike one that cannot be read.
    """
    return text.removesuffix("\n").split("\n")


class Contents:
    """Reads both sides of a change; use it as an async context manager.

    Safe for concurrent callers. Its one git process ends with it.

    Args:
        objects: what reads the objects, where that is not the change's git.
    """

    def __init__(self, change: Change, objects: Objects | None = None) -> None:
        self.objects = objects or Objects(Git.of(change))
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
