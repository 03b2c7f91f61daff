"""One test of the project, run by itself in the sandbox: for ``doctor`` and ``fix --with-test``."""

import os
from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from diffchecks.safe_paths import SafeDirectory
from diffchecks.test_quality.proof_runs import TestEnd
from orchestrator.app.check_worker_startup import new_pool
from orchestrator.app.configuration_consent import decide_consent, private_paths
from orchestrator.app.policy_sources import read_base_layers
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.settings import Tests
from orchestrator.code_review.analyzers.run_tests import NOT_ALLOWED, NOT_RUN
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.git.objects import Commits, Objects, list_tree
from orchestrator.code_review.policy_loading import read_catalog
from orchestrator.code_review.tools.prove_finding import run_test
from orchestrator.code_review.tools.test_runners import SingleTest, single_test
from orchestrator.errors import SandboxError
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.private_paths import require_shareable

NO_TESTS = "base configures no tests; run diffcourt init --tests"


class ProjectTests(Struct, frozen=True):
    """How one test file of a repository is run.

    Attributes:
        files: path → mode and blob of each regular file of the commit.
    """

    __test__ = False

    repo: Path | None
    tests: Tests
    single: SingleTest
    files: Mapping[str, tuple[str, str]]

    def smallest(self) -> str:
        """A test file, with the shortest path; empty: there is none."""
        return min(filter(self.single.is_test, self.files), key=len, default="")

    async def run(self, path: str, more: Mapping[str, bytes]) -> tuple[TestEnd, int]:
        """Run a test file on the commit: how it ended, and the runner's exit status.

        Args:
            more: files that are added to the commit's, or replace them.

        Raises:
            SandboxError: it cannot be run; says why.
        """
        reads = [Path(one) for one in self.tests.reads]
        private = private_paths(self.repo, os.environ)
        await anyio.to_thread.run_sync(require_shareable, reads, private)
        with scratch_directory.temporary_directory() as directory:
            tree = directory / "tree"
            tree.mkdir()
            await self._write(tree, more)
            async with new_pool() as pool:
                keep = directory / "report"
                end, _, code = await run_test(self.tests, self.single, pool, tree, path, keep)
        return end, code

    async def _write(self, tree: Path, more: Mapping[str, bytes]) -> None:
        paths: dict[str, list[str]] = {}
        for path, (_, blob) in self.files.items():
            paths.setdefault(blob, []).append(path)
        with SafeDirectory(tree) as target:

            async def write(blob: str, data: bytes) -> None:
                for path in paths[blob]:
                    target.write(path, data, int(self.files[path][0], 8) & 0o777)

            async with Objects(await Git.open(self.repo or Path())) as objects:
                await objects.each(list(paths), write)
            for path, data in more.items():
                target.write(path, data, 0o644)


async def project_tests(repo: Path | None, commit: str, tests: Tests | None) -> ProjectTests:
    """The tests of a commit.

    Raises:
        SandboxError: they cannot be run here; says why and what to do.
    """
    single = single_test(tests) if tests else None
    if tests is None or single is None:
        why = "tests.command names no known runner; set tests.single" if tests else NO_TESTS
        raise SandboxError(why)
    if not decide_consent(ReviewOptions(repo=repo), os.environ).run_tests:
        raise SandboxError(NOT_ALLOWED.removeprefix(NOT_RUN))
    async with Objects(await Git.open(repo or Path())) as objects:
        listed = await list_tree(objects, await Commits(objects).tree(commit))
    files = {path: entry for path, entry in listed.items() if entry[0].startswith("100")}
    return ProjectTests(repo, tests, single, files)


async def tests_of(repo: Path | None, commit: str) -> Tests | None:
    """What the configuration of a commit says of tests."""
    async with Objects(await Git.open(repo or Path())) as objects:
        return read_catalog(await read_base_layers(objects, commit)).settings.tests
