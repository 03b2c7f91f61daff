"""Packs files of both sides of a change for checks that read whole trees."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from diffchecks.packed_files import Place, append_contents, write_index
from diffchecks.safe_paths import unsafe_path_reason
from orchestrator.code_review.change.contents import SIDES, Contents, SideName
from orchestrator.errors import StoreError

_BYTES_AT_ONCE = 8 << 20

T = TypeVar("T")


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
            await self._run(partial(write_index, self._root / side, places))

    async def _write(self, blobs: Iterable[str]) -> None:
        """Append the contents of what is not packed yet."""
        pending: dict[str, bytes] = {}
        held = 0

        async def flush() -> None:
            nonlocal held
            root = self._root / SIDES[0]
            at = await self._run(partial(append_contents, root, pending.values()))
            for blob, data in pending.items():
                self._of_blob[blob] = (at, len(data))
                at += len(data)
            pending.clear()
            held = 0

        async def keep(blob: str, data: bytes) -> None:
            nonlocal held
            pending[blob] = data
            held += len(data)
            if held >= _BYTES_AT_ONCE:
                await flush()

        await self._contents.objects.each([b for b in blobs if b not in self._of_blob], keep)
        await flush()

    async def _run(self, write: Callable[[], T]) -> T:
        try:
            return await to_thread.run_sync(write)
        except OSError as error:
            raise StoreError(f"{self._root} cannot be written: {error.strerror}") from None
