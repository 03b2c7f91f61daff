"""Packs files of both sides of a change for checks that read whole trees."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import anyio
from anyio import to_thread

from diffchecks.packed_files import Place, append_contents, write_index
from diffchecks.safe_paths import unsafe_path_reason
from orchestrator.code_review.change.contents import SIDES, Contents, SideName
from orchestrator.code_review.change.file_export import writing


class FilePacking:
    """Packs files beside the directories of the sides; see ``checks/packed_files.py``.

    Args:
        root: holds a directory for each side.
    """

    def __init__(self, contents: Contents, root: Path) -> None:
        self._contents, self._root = contents, root
        self._lock = anyio.Lock()
        self._of_blob: dict[str, Place] = {}
        self._of_path: dict[SideName, dict[str, Place]] = {side: {} for side in SIDES}

    async def add(self, side: SideName, paths: Iterable[str]) -> None:
        """Pack files of a side; what is no regular file, or must not be written, is left out.

        Raises:
            StoreError: they cannot be written.
        """
        async with self._lock:
            tree, places = await self._contents.paths(side), self._of_path[side]
            blobs = {
                path: tree[path][1]
                for path in paths
                if path in tree
                and path not in places
                and tree[path][0].startswith("100")
                and unsafe_path_reason(path) is None
            }
            if not blobs:
                return
            await self._write(dict.fromkeys(blobs.values()))
            places.update((path, self._of_blob[blob]) for path, blob in blobs.items())
            with writing(self._root):
                await to_thread.run_sync(write_index, self._root / side, places)

    async def _write(self, blobs: Iterable[str]) -> None:
        """Append the contents of what is not packed yet."""

        async def append(files: Sequence[tuple[str, bytes]]) -> None:
            contents = [data for _, data in files]
            with writing(self._root):
                at = await to_thread.run_sync(append_contents, self._root / SIDES[0], contents)
            for blob, data in files:
                self._of_blob[blob] = (at, len(data))
                at += len(data)

        await self._contents.objects.in_batches(
            [b for b in blobs if b not in self._of_blob], append
        )
