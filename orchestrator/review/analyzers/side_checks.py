"""Checks that look at one side at a time; they run in a worker process, like all of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from orchestrator import __version__
from orchestrator.checks import PREFIX
from orchestrator.errors import SandboxError
from orchestrator.review.analysis import Needs, Raw, Report, Side
from orchestrator.review.session import Session
from orchestrator.sandbox.worker_pool import WorkerPool

SECONDS = 60.0
BATCH = 200
"""Files per call: one that breaks its parser takes no more than its batch down."""


def raws(tool: str, reply: Mapping[str, Any]) -> tuple[Raw, ...]:
    """A check's findings as the terms that all analyzers share."""
    return tuple(
        Raw(
            tool=tool,
            code=item["code"],
            path=item["path"],
            line=item["line"],
            end_line=item["end_line"],
            message=item["message"],
            key=item.get("key"),
            scope=item.get("scope"),
            detail=item.get("detail", ""),
            redact=tuple(item.get("redact", ())),
            confidence=item.get("confidence", 1.0),
        )
        for item in reply["findings"]
    )


def named(path: str, patterns: Sequence[str]) -> bool:
    """Whether a file's name matches one of the patterns."""
    name = path.rsplit("/", 1)[-1]
    return any(fnmatchcase(name, pattern) for pattern in patterns)


async def ask(
    pool: WorkerPool, function: str, job: Mapping[str, Any], paths: Sequence[str], seconds: float
) -> tuple[list[Any], dict[str, str]]:
    """Ask a check about files, many at once; one that breaks it does not take the others down.

    Args:
        function: ``module:function`` below ``orchestrator.checks``.
        job: what it is told besides ``paths``.
        seconds: for each call.

    Returns:
        The replies, and path → why for files that there is none about.
    """
    replies: list[Any] = []
    faults: dict[str, str] = {}
    waiting = [list(paths[at : at + BATCH]) for at in range(0, len(paths), BATCH)]
    while waiting:
        batch = waiting.pop()
        told = {**job, "paths": batch}
        try:
            replies.append(await pool.call(f"{PREFIX}{function}", told, seconds=seconds))
        except SandboxError as fault:
            if len(batch) == 1:
                faults[batch[0]] = str(fault)
            else:
                middle = len(batch) // 2
                waiting += [batch[:middle], batch[middle:]]
    return replies, faults


class Check:
    """A check module as a ``SideAnalyzer``.

    Args:
        name: the analyzer's name in the rule table.
        module: the check's module below ``orchestrator.checks``.
        patterns: file names it wants.
        tree: what it is told of the rest of the side: nothing, the names of all files, or that all
            files it wants are on disk as well.
        extra: further parts of its job.
        depends: what stands for them in its identity: the content of files, not their places.
    """

    def __init__(
        self,
        name: str,
        module: str,
        patterns: Sequence[str],
        needs: Needs,
        *,
        pool: WorkerPool,
        session: Session,
        tree: Literal["nothing", "names", "files"] = "nothing",
        extra: Mapping[str, Any] | None = None,
        depends: str = "",
    ) -> None:
        self.name, self.needs = name, needs
        self._function, self._patterns = f"{module}:run", tuple(patterns)
        self._pool, self._session = pool, session
        self._tree, self._extra, self._depends = tree, dict(extra or {}), depends

    @property
    def identity(self) -> str | None:
        """The check and what it was told; None where it is told of other files."""
        return f"{self._function} {self._depends}" if self._tree == "nothing" else None

    def wants(self, path: str) -> bool:
        """By name."""
        return named(path, self._patterns)

    async def run(self, side: Side, paths: Sequence[str]) -> Report:
        """Run the check over the paths; a file that breaks it is a gap, the others go on."""
        job = {"root": str(side.root), **self._extra}
        if paths and self._tree != "nothing":
            names = list(await self._session.contents.paths(side.name))
            if self._tree == "files":
                names = [name for name in names if self.wants(name)]
                await self._session.side(side.name, names)
            job["tree"] = names
        findings: list[Raw] = []
        examined: set[str] = set()
        facts: dict[str, list[Any]] = {}
        replies, gaps = await ask(self._pool, self._function, job, paths, SECONDS)
        for reply in replies:
            findings += raws(self.name, reply)
            examined.update(reply["examined"])
            gaps.update(reply["gaps"])
            for name, more in reply.get("facts", {}).items():
                facts.setdefault(name, []).extend(more)
        ordered = sorted(findings, key=lambda raw: (raw.path, raw.line, raw.code))
        return Report(
            self.name, __version__, tuple(ordered), frozenset(examined), gaps, facts=facts
        )
