"""Running the change's tests, where the configuration of base says how."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from diffchecks.jobs import ChangedFile
from diffchecks.safe_paths import read_safely
from diffchecks.test_quality.test_run_influences import find_test_setup_files
from orchestrator.catalog.settings import Tests
from orchestrator.code_review.analyzers.configured_programs import DATA
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.errors import SandboxError
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.isolated_run import TimeUp, run_isolated
from orchestrator.sandbox.private_paths import require_shareable
from orchestrator.sandbox.program_permissions import ResourceLimits

MAX_REPORT_BYTES = 8 << 20
LIMITS = ResourceLimits(memory=0, data=DATA)
"""WebAssembly and Go reserve more address space than they use."""
NOT_RUN = "tests not run: "
NOT_ALLOWED = (
    f"{NOT_RUN}this repository's test command is not allowed here; allow it with "
    "--run-tests or DIFFCOURT_RUN_TESTS=1"
)
ORDER: tuple[SideName, ...] = ("head", "head", "base")
"""The sides to test until a run passes: a failure is repeated, then compared with base."""
MAX_RUNS = 4
"""Of one review: head twice, then base's tests over head's code and, where they fail, over base."""


class SideFiles(Struct, frozen=True):
    """Files of one side for a run: their directory, and which of them are executable."""

    root: Path
    paths: Sequence[str]
    executable: Sequence[str]


async def side_files(
    workspace: ReviewWorkspace,
    side: SideName,
    unwritten: dict[str, str],
    files: Callable[[str], bool] = lambda path: True,
) -> SideFiles:
    """The regular files of a side among these; files that head lacks go to ``unwritten``."""
    listed = await workspace.contents.paths(side)
    regular = [path for path, (mode, _) in listed.items() if mode.startswith("100")]
    regular = [path for path in regular if files(path)]
    exported, failed = await workspace.side(side, regular)
    if side == "head":
        unwritten |= failed
    runnable = [path for path in regular if listed[path][0] == "100755" and path not in failed]
    return SideFiles(exported.root, regular, runnable)


async def with_setup_of_base(
    workspace: ReviewWorkspace, tests: Tests
) -> tuple[Mapping[str, bool], Sequence[SideFiles]]:
    """The changed files that influence how tests end, and head with these as in base."""
    before = await workspace.contents.paths("base")
    own = find_test_setup_files(workspace.change.names, tests.command, before)
    parts = [
        await side_files(workspace, "head", {}, lambda path: path not in own),
        await side_files(workspace, "base", {}, lambda path: path in own),
    ]
    return own, parts


class TestRuns:
    """The runs of the configured tests, each in its own sandbox: a part of a check's job.

    Attributes:
        seconds: what all runs may take together.
    """

    __test__ = False

    def __init__(self, tests: Tests, inputs: ToolInputs) -> None:
        self._tests, self._inputs, self._workspace = tests, inputs, inputs.workspace
        self._job: Mapping[str, Any] | None = None
        self.seconds = MAX_RUNS * tests.seconds

    async def options(self, files: Sequence[ChangedFile]) -> Mapping[str, Any]:
        """The outcomes of the runs; the tests run once, however often the check is called."""
        if self._job is None:
            self._job = await self._run_all()
        return self._job

    async def _run_all(self) -> Mapping[str, Any]:
        tests = self._tests
        if not self._inputs.run_tests:
            return {"refused": NOT_ALLOWED}
        runs: list[dict[str, Any]] = []
        unwritten: dict[str, str] = {}
        job: dict[str, Any] = {"runs": runs, "unwritten": unwritten}
        try:
            reads = [Path(path) for path in tests.reads]
            await anyio.to_thread.run_sync(require_shareable, reads, self._inputs.private_paths)
            for side in ORDER:
                whole = await side_files(self._workspace, side, unwritten)
                runs.append(await self._run([whole], len(runs)))
                if runs[-1]["code"] == 0:
                    break
        except SandboxError as error:
            more = "; raise tests.seconds" if isinstance(error, TimeUp) else ""
            return {"refused": f"{NOT_RUN}{error}{more}"}
        own, mixed = await with_setup_of_base(self._workspace, tests)
        if len(runs) < len(ORDER) and own:
            job["infrastructure"] = [path for path, affects_all in own.items() if affects_all]
            job |= {"own_tests": list(own), **await self._run_tests_of_base(mixed, len(runs))}
        return job

    async def _run_tests_of_base(
        self, mixed: Sequence[SideFiles], number: int
    ) -> Mapping[str, Any]:
        """Run base's tests over head's code and, where they fail, over base's."""
        runs: list[dict[str, Any]] = []
        try:
            runs.append(await self._run(mixed, number))
            if runs[0]["code"] != 0:
                whole = await side_files(self._workspace, "base", {})
                runs.append(await self._run([whole], number + 1))
        except SandboxError as error:
            return {"base_refused": f"{NOT_RUN}{error}"}
        return {"base_runs": runs}

    async def _run(self, parts: Sequence[SideFiles], number: int) -> dict[str, Any]:
        tests = self._tests
        with scratch_directory.temporary_directory() as directory:
            tree = directory / "tree"
            await anyio.to_thread.run_sync(partial(copy_files, parts, tree, tests.report))
            link_packages(tests.reads, tree)
            limits = replace(LIMITS, seconds=tests.seconds)
            reads = [Path(path) for path in tests.reads]
            done = await run_isolated(tests.command, tree, reads=reads, limits=limits)
            keep = self._workspace.root / f"run_tests-{number}.xml"
            error = await anyio.to_thread.run_sync(save_report, tree, tests.report, keep)
            await anyio.to_thread.run_sync(scratch_directory.remove_tree, tree)  # it may be large
        report = str(keep) if tests.report and not error else ""
        return {"code": done.code, "name": tests.report, "report": report, "error": error}


def copy_files(parts: Sequence[SideFiles], tree: Path, report: str) -> None:
    """Copy files for one run, without a report that the change contains."""
    tree.mkdir()
    for part in parts:
        for path in part.paths:
            source = part.root / path
            if path != report and source.is_file():
                target = tree / path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        for path in part.executable:
            if path != report:
                (tree / path).chmod(0o755)


def link_packages(reads: Sequence[str], tree: Path) -> None:
    """Put the packages of a ``node_modules`` that base names at the top, where Node looks for them.

    The directory is the copy's own: Vite and others write into it.
    """
    for path in map(Path, reads):
        if path.name == "node_modules":
            shutil.rmtree(own := tree / path.name, ignore_errors=True)
            own.unlink(missing_ok=True)
            own.mkdir()
            for one in path.iterdir():
                if one.name == ".bin" or not one.name.startswith("."):
                    (own / one.name).symlink_to(one)


def save_report(tree: Path, report: str, keep: Path) -> str:
    """Copy the report to where a confined worker can read it; an error message, or empty.

    All processes of the run have ended, so the report is complete. No link is followed.
    """
    if not report:
        return ""
    try:
        data = read_safely(tree, report, MAX_REPORT_BYTES + 1)
    except OSError as error:
        return f"could not be read: {error.strerror}"
    if len(data) > MAX_REPORT_BYTES:
        return f"larger than {MAX_REPORT_BYTES >> 20} MiB"
    keep.write_bytes(data)
    return ""
