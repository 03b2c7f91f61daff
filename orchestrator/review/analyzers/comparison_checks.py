"""Checks that look at both sides at once; they run in a worker process, like all of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator import __version__
from orchestrator.checks import PREFIX
from orchestrator.errors import SandboxError
from orchestrator.review.analysis import Needs, Report, Side
from orchestrator.review.analyzers.side_checks import named, raws
from orchestrator.review.change.contents import SIDES
from orchestrator.review.change.skipped_files import LINK
from orchestrator.review.change.types import Change, ChangedFile
from orchestrator.review.session import Session
from orchestrator.sandbox.worker_pool import WorkerPool

SECONDS = 100.0


class CompareCheck:
    """A check module that compares two sides, as a ``ChangeAnalyzer``.

    Args:
        name: the tool's name in the rule table.
        module: the check's module below ``orchestrator.checks``.
        patterns: file names it wants.
        whole_tree: every file of those names is put on disk, not only the changed ones.
    """

    needs: Needs = "tree"

    def __init__(
        self,
        name: str,
        module: str,
        patterns: Sequence[str],
        *,
        pool: WorkerPool,
        session: Session,
        whole_tree: bool = False,
    ) -> None:
        self.name, self._module, self._patterns = name, module, tuple(patterns)
        self._pool, self._session, self._whole_tree = pool, session, whole_tree

    def wants(self, path: str) -> bool:
        """By name."""
        return named(path, self._patterns)

    async def more(self, change: Change) -> Mapping[str, Any]:
        """Further parts of the check's job."""
        return {}

    async def run(
        self, change: Change, base: Side, head: Side, files: Sequence[ChangedFile]
    ) -> Report:
        """Run the check; see ``ChangeAnalyzer``."""
        if not files:
            return Report(self.name, __version__)
        trees = {side: await self._session.contents.paths(side) for side in SIDES}
        if self._whole_tree:
            for side, paths in trees.items():
                await self._session.side(side, [path for path in paths if self.wants(path)])
        job = {
            "base_root": str(base.root),
            "head_root": str(head.root),
            # A link is in the tree and not on disk: what it leads to is read where it stands.
            **{f"{side}_tree": list(tree) for side, tree in trees.items()},
            **{
                f"{side}_links": [path for path, (mode, _) in tree.items() if mode == LINK]
                for side, tree in trees.items()
            },
            "files": [_as_job(file) for file in files],
            **await self.more(change),
        }
        try:
            reply = await self._pool.call(f"{PREFIX}{self._module}:run", job, seconds=SECONDS)
        except SandboxError as fault:
            return Report(self.name, __version__, error=str(fault))
        return _as_report(self.name, reply)


def _as_job(file: ChangedFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "old_path": file.old_path,
        "status": file.status,
        "added": list(file.added),
        "removed": list(file.removed),
    }


def _as_report(name: str, reply: dict[str, Any]) -> Report:
    return Report(
        name,
        __version__,
        raws(name, reply),
        frozenset(reply["examined"]),
        reply["gaps"],
        facts=reply.get("facts", {}),
    )
