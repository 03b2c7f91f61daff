"""The change's tests, run where the configuration of base says how; else there is nothing to do."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from orchestrator.catalog.settings import Tests
from orchestrator.errors import SandboxError
from orchestrator.review.analyzers.comparison_checks import ComparisonCheck
from orchestrator.review.change.contents import SideName
from orchestrator.review.change.types import Change
from orchestrator.review.session import Session
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.isolated_run import run_code
from orchestrator.sandbox.program_policy import Limits
from orchestrator.sandbox.safe_paths import read_beneath

LARGEST_REPORT = 8 << 20
ORDER: tuple[SideName, ...] = ("head", "head", "base")
"""What is run until a run passes: a failure again, and what was before it."""


class RunTests(ComparisonCheck):
    """The check ``run_tests`` over runs of the configured command, each in a room of its own.

    Args:
        patterns: names of files that tests may depend on.
        tests: the command; None: nothing is run.
    """

    def __init__(
        self, patterns: Sequence[str], tests: Tests | None, *, pool: Any, session: Session
    ) -> None:
        named = patterns if tests else ()
        super().__init__(
            "run_tests", "test_quality.failed_tests", named, pool=pool, session=session
        )
        self._tests = tests
        self._known: Mapping[str, Any] | None = None

    async def more(self, change: Change) -> Mapping[str, Any]:
        """The runs; one question is asked of them however many files are asked about."""
        if self._known is None and self._tests is not None:
            self._known = await self._ran(self._tests)
        return self._known or {}

    async def _ran(self, tests: Tests) -> Mapping[str, Any]:
        runs: list[dict[str, Any]] = []
        unwritten: dict[str, str] = {}
        try:
            for side in ORDER:
                runs.append(await self._run(tests, side, len(runs), unwritten))
                if runs[-1]["code"] == 0:
                    break
        except SandboxError as why:
            return {"refused": str(why), "runs": [], "unwritten": {}}
        return {"refused": "", "runs": runs, "unwritten": unwritten}

    async def _run(
        self, tests: Tests, side: SideName, number: int, unwritten: dict[str, str]
    ) -> dict[str, Any]:
        listed = await self._session.contents.paths(side)
        regular = [path for path, (mode, _) in listed.items() if mode.startswith("100")]
        exported, failed = await self._session.side(side, regular)
        if side == "head":
            unwritten |= failed
        runnable = [path for path in regular if listed[path][0] == "100755" and path not in failed]
        with tempfile.TemporaryDirectory(
            dir=scratch_directory.folder(), ignore_cleanup_errors=True
        ) as folder:
            tree = Path(folder) / "tree"
            copy = partial(_copy, exported.root, tree, regular, runnable, tests.report)
            await anyio.to_thread.run_sync(copy)
            limits = Limits(seconds=tests.seconds)
            reads = [Path(path) for path in tests.reads]
            code = await run_code(tests.command, tree, reads=reads, limits=limits)
            keep = self._session.root / f"run_tests-{number}.xml"
            fault = await anyio.to_thread.run_sync(_take, tree, tests.report, keep)
        report = str(keep) if tests.report and not fault else ""
        return {"code": code, "name": tests.report, "report": report, "fault": fault}


def _copy(
    root: Path, tree: Path, paths: Sequence[str], runnable: Sequence[str], report: str
) -> None:
    """A tree of its own for one run, without a report that the change brings along."""
    for path in paths:
        source = root / path
        if path != report and source.is_file():
            place = tree / path
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place)
    tree.mkdir(exist_ok=True)
    for path in runnable:
        if path != report:
            (tree / path).chmod(0o755)


def _take(tree: Path, report: str, keep: Path) -> str:
    """Copy the report to where a confined worker can read it; why not, where that fails.

    Everything that ran has ended by now, so it is what it will be. No link is followed.
    """
    if not report:
        return ""
    try:
        data = read_beneath(tree, report, LARGEST_REPORT + 1)
    except OSError as fault:
        return f"could not be read: {fault.strerror}"
    if len(data) > LARGEST_REPORT:
        return f"larger than {LARGEST_REPORT >> 20} MiB"
    keep.write_bytes(data)
    return ""
