"""Trees in which tests of findings run: written once for a side, and put back after each run.

Writing thousands of files takes longer than most tests. A test and the code under it may do to a
tree what they like, but all processes of a run have ended before it is put back.

A build cache is filled by compiling alone, which runs no code of the project; runs only read it. So
none can write what a later one believes. Head's begins as a copy of base's, never the reverse.
"""

import os
import posixpath
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from diffchecks.safe_paths import read_safely
from orchestrator.code_review.analyzers.run_tests import SideFiles, copy_files
from orchestrator.sandbox.scratch_directory import remove_tree

Ran = TypeVar("Ran")


class ProofTree:
    """The files of a side, where one test runs after the other; callers wait for each other.

    Args:
        parts: the side's files; later ones replace earlier ones.
        root: a directory of ours, in which it is made.
        report: the name of the runner's report.
    """

    def __init__(self, parts: Sequence[SideFiles], root: Path, report: str) -> None:
        self._sources = {path: part.root / path for part in parts for path in part.paths}
        self._parts, self._root, self._report = parts, root, report
        self._tree, self._more = Path(), dict[str, bytes]()
        self._is_clean, self._lock = False, anyio.Lock()
        self.cache: Path | None = None

    async def run(
        self, more: Mapping[str, bytes], test: Callable[[Path], Awaitable[Ran]]
    ) -> tuple[Ran, str]:
        """Run a test in the tree with these files over the side's.

        Returns:
            What it returned, and a file of the side that it changed, empty for none.
        """
        async with self._lock:
            ran = await test(await to_thread.run_sync(self._prepare, more))
            return ran, await to_thread.run_sync(self._put_back)

    async def fill_cache(
        self,
        more: Mapping[str, bytes],
        compiling: Callable[[Path, Path], Awaitable[object]],
        first: Path | None,
    ) -> None:
        """Compile in the tree with these files, and keep what that leaves in ``cache``.

        Args:
            compiling: given the tree, and the cache in it under a name that no change knows.
            first: what an empty cache begins as.
        """

        async def compile_and_keep(tree: Path) -> None:
            own = await to_thread.run_sync(self._take_cache, tree, first)
            await compiling(tree, own)
            await to_thread.run_sync(self._keep_cache, own)

        await self.run(more, compile_and_keep)

    def _take_cache(self, tree: Path, first: Path | None) -> Path:
        own, cache = Path(tempfile.mkdtemp(dir=tree)), self.cache
        self.cache = None
        if cache:
            cache.rename(own)
        elif first:
            shutil.copytree(first, own, symlinks=True, dirs_exist_ok=True)
        return own

    def _keep_cache(self, own: Path) -> None:
        if own.is_dir() and not own.is_symlink():
            self.cache = own.rename(tempfile.mkdtemp(dir=self._root))

    def _prepare(self, more: Mapping[str, bytes]) -> Path:
        if not self._is_clean:
            if self._tree.name:
                remove_tree(self._tree.parent)
            self._tree = Path(tempfile.mkdtemp(dir=self._root)) / "tree"
            copy_files(self._parts, self._tree, self._report)
        self._is_clean, self._more = False, {**more}
        for path, data in more.items():
            (self._tree / path).parent.mkdir(parents=True, exist_ok=True)
            (self._tree / path).write_bytes(data)
        return self._tree

    def _put_back(self) -> str:
        tree, more = self._tree, self._more
        sources = {path: file for path, file in self._sources.items() if file.is_file()}
        for path, source in sources.items():
            before = more[path] if path in more else source.read_bytes()
            try:
                if read_safely(tree, path, len(before) + 1) != before:
                    return path
            except OSError:
                return path
        for path in more.keys() & sources.keys():
            shutil.copyfile(sources[path], tree / path)
        self._is_clean = _remove_others(tree, sources)
        return ""


def _remove_others(tree: Path, paths: Iterable[str]) -> bool:
    """Remove all but these files and the directories above them; whether all of it is gone.

    No link is followed, and no other directory is looked into.
    """
    kept, left = {*paths}, False
    for path in [*kept]:
        while (path := posixpath.dirname(path)) and path not in kept:
            kept.add(path)
    for folder, directories, files in os.walk(tree):
        above = os.path.relpath(folder, tree)
        for name in [*directories, *files]:
            file = os.path.join(folder, name)
            is_kept = posixpath.normpath(posixpath.join(above, name)) in kept
            if is_kept and not os.path.islink(file):
                continue
            with suppress(OSError):
                os.unlink(file)
            remove_tree(Path(file))
            left |= os.path.lexists(file)
            directories[:] = [one for one in directories if one != name]
    return not left
