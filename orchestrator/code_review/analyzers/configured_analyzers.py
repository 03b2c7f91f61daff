"""Analyzers of a team's own, run as base's configuration says, on both sides of the change.

Each runs confined in a tree that it cannot write, with base's version of its configuration. What it
reports is read as an imported report is; what base has too is not the change's.
"""

import os
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from msgspec import to_builtins

from orchestrator.catalog.catalog import SETTINGS
from orchestrator.catalog.data_file_layers import Layer, locate_text
from orchestrator.catalog.settings import FILES, REPORT, ConfiguredProgram, Imports
from orchestrator.checks.check_io import CheckReply, RawFinding
from orchestrator.code_review.analyzer_types import AnalyzerReport, Needs, Side
from orchestrator.code_review.analyzers.analyzed_trees import (
    CONFIG_FILES,
    AnalyzedTree,
    analyzed_tree,
)
from orchestrator.code_review.analyzers.imported_reports import ImportedReport
from orchestrator.code_review.analyzers.installed_programs import InstalledProgram, find_installed
from orchestrator.code_review.analyzers.one_side_checks import call_check
from orchestrator.code_review.analyzers.program_execution import batches, one_line
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.rule_table import CONFIGURED_ANALYZERS
from orchestrator.code_review.tools.path_globs import path_matcher
from orchestrator.errors import ConfigError, InputError, SandboxError
from orchestrator.sandbox import bubblewrap, scratch_directory
from orchestrator.sandbox.level_and_launchers import SANDBOX
from orchestrator.sandbox.private_paths import require_shareable
from orchestrator.sandbox.program_permissions import Limits, Permissions
from orchestrator.sandbox.run_program import CompletedProgram, run
from orchestrator.sandbox.safe_paths import SafeDirectory, read_safely, unsafe_path_reason
from orchestrator.sandbox.worker_pool import WorkerPool

LARGEST = 64 << 20  # bytes of one report
SECONDS = 100.0  # for reading a report
DATA = 4 << 30  # bytes of memory that one process may write
_REPORT_NAME = "report"
_ERROR_BYTES = 8000
_NAMED_ERROR = re.compile(r"(?:error|fatal|exception)\b[^:]{0,20}:\s", re.IGNORECASE)
_OURS = {".diffcourt": "it holds the state of reviews"}
NOT_ALLOWED = (
    "not run: whoever runs the review has not allowed the analyzers that base configures; allow "
    "them with --run-analyzers or DIFFCOURT_RUN_ANALYZERS=1"
)
NO_SANDBOX = (
    "not run: no sandbox; run it yourself and give its report with --import, or get one: "
    f"{bubblewrap.RUNNERS_HINT}"
)


class ConfiguredAnalyzer:
    """A program of base's configuration, as a ``SideAnalyzer``.

    Args:
        program_name: its name in the configuration.
        imports: which results count for how much, as for imported reports.
        allowed: whoever runs the review allows it.
        private: absolute paths that it may not read, besides those of the system.
        checkout: the repository's directory, where dependencies are installed.
    """

    name = CONFIGURED_ANALYZERS
    needs: Needs = "tree"
    identity: str | None = None  # it may read every file of the tree

    def __init__(
        self,
        program_name: str,
        program: ConfiguredProgram,
        imports: Imports,
        *,
        allowed: bool,
        private: Sequence[Path],
        checkout: Path | None,
        pool: WorkerPool,
        workspace: ReviewWorkspace,
    ) -> None:
        self._name, self._program, self._imports = program_name, program, imports
        self._allowed, self._private, self._checkout = allowed, private, checkout
        self._pool, self._workspace = pool, workspace
        self._files = [path_matcher(pattern) for pattern in program.files]
        names = any(pattern.strip("*/") for pattern in program.files)
        self._reads_code = names  # a pattern for every file names no language
        self._config = [path_matcher(glob) for glob in (*CONFIG_FILES, *program.config_files)]
        self._trees: dict[SideName, AnalyzedTree] = {}
        self._lock = anyio.Lock()

    def wants(self, path: str) -> bool:
        """Whether one of its globs matches."""
        return any(matches(path) for matches in self._files)

    def files_read(self, report: AnalyzerReport) -> frozenset[str]:
        """What it examined, unless it is for every file, whatever its language."""
        return frozenset(path for path in report.examined if self._reads_code and self.wants(path))

    async def run(self, side: Side, paths: Sequence[str]) -> AnalyzerReport:
        """Run it on a side; where it fails, that is a gap under its name."""
        if not paths:
            return AnalyzerReport(self.name, "")
        try:
            return await self._run(side.name, paths)
        except SandboxError as error:
            why = str(error)
        except OSError as error:
            why = f"not run: cannot write to {tempfile.gettempdir()}: {error.strerror}"
        if side.name == "head":
            return AnalyzerReport(self.name, "", gaps={self._name: why})
        why = f"on base: {why}; so only results at added lines count"
        return AnalyzerReport(self.name, "", gaps={self._name: why, **dict.fromkeys(paths, why)})

    async def _run(self, side: SideName, paths: Sequence[str]) -> AnalyzerReport:
        if not self._allowed:
            raise SandboxError(NOT_ALLOWED)
        if SANDBOX.level == "none":
            raise SandboxError(NO_SANDBOX)
        contents = self._workspace.contents
        tracked = {*await contents.paths("head"), *await contents.paths("base")}
        installed = find_installed(self._program.command[0], tracked.__contains__)
        reads = [Path(path) for path in self._program.reads]
        refusal = f"not run: analyzers.{self._name}.reads names"
        await anyio.to_thread.run_sync(
            partial(require_shareable, reads, self._private, refusal=refusal)
        )
        links = self._dependencies(tracked)
        tree = await self._tree(side, links)
        given = [path for path in paths if path not in tree.from_base]
        findings: dict[RawFinding, None] = {}
        gaps: dict[str, str] = {}
        for part in self._parts(given):
            reply = await self._run_once(installed, tree, side, part)
            findings |= dict.fromkeys(reply.findings)
            if side == "head":  # what cannot be placed in base cannot be in head either
                gaps |= reply.gaps
        examined = frozenset[str]() if gaps else frozenset(given)
        return AnalyzerReport(self.name, "", tuple(findings), examined, gaps)

    async def _tree(self, side: SideName, links: Mapping[str, Path]) -> AnalyzedTree:
        async with self._lock:
            if side not in self._trees:
                self._trees[side] = await analyzed_tree(
                    self._workspace,
                    side,
                    self._is_config,
                    links=links,
                    name=f"{side}-for-{self._name}",
                )
            return self._trees[side]

    def _dependencies(self, tracked: Collection[str]) -> dict[str, Path]:
        """Path in the tree → the directory of the checkout that stands there."""
        links = {}
        for path in self._program.dependencies:
            named = f"not run: {path}, which analyzers.{self._name}.dependencies names,"
            if any(other == path or other.startswith(f"{path}/") for other in tracked):
                raise SandboxError(f"{named} is committed; name directories that are not")
            try:
                with SafeDirectory(self._checkout or "") as checkout:
                    os.close(checkout.open_directory(path))
            except OSError:
                raise SandboxError(f"{named} is no directory of the checkout; install it") from None
            links[path] = Path(self._checkout or "") / path
        return links

    def _is_config(self, path: str) -> bool:
        """Whether a file configures it: by its name, or since the command names it."""
        if any(matches(path) for matches in self._config):
            return True
        named = (argument.rpartition("=")[2] for argument in self._program.command[1:])
        places = [name.removeprefix("./").rstrip("/") for name in named]
        below = any(place and (path == place or path.startswith(f"{place}/")) for place in places)
        return below and not self.wants(path)

    def _parts(self, given: Sequence[str]) -> list[list[str]]:
        """The files of each run: all in one, unless a command line cannot hold them."""
        if FILES not in self._program.command:
            return [list(given)] if given else []
        # A name must not look like an option, or like a file of options.
        return list(batches(f"./{path}" if path[0] in "-@" else path for path in given))

    async def _run_once(
        self, installed: InstalledProgram, tree: AnalyzedTree, side: SideName, part: Sequence[str]
    ) -> CheckReply:
        """One run, and what its report says."""
        with scratch_directory.temporary_directory() as directory:
            done = await self._execute(installed, tree, directory, part)
            written = any(REPORT in argument for argument in self._program.command)
            data = (
                await anyio.to_thread.run_sync(_read, directory, done) if written else done.stdout
            )
        reply = await self._read_report(data, tree, side)
        if side == "base" and reply.gaps and not reply.facts["results"]:
            raise SandboxError("; ".join(reply.gaps.values()))
        if done.code and not reply.facts.get("results") and not reply.gaps:
            raise SandboxError(
                f"ended with exit code {done.code} and reports no result, as if it had failed: "
                f"{_error_of(done)}"
            )
        return reply

    async def _execute(
        self, installed: InstalledProgram, tree: AnalyzedTree, directory: Path, part: Sequence[str]
    ) -> CompletedProgram:
        """Run it; ``directory`` is the only one that it may write."""
        program, argv = self._program, [installed.path]
        for argument in program.command[1:]:
            report = str(directory / _REPORT_NAME)
            argv += part if argument == FILES else [argument.replace(REPORT, report)]
        places = {"HOME": directory / "home", "TMPDIR": directory / "tmp"}
        for place in places.values():
            place.mkdir()
        done = await run(
            argv,
            permissions=Permissions(
                reads=(tree.root, *map(Path, program.reads)),
                writes=(directory,),
                executes=(*installed.needs, *tree.links),
            ),
            cwd=tree.root,
            env={"PATH": installed.search, **{name: str(path) for name, path in places.items()}},
            limits=Limits(seconds=program.timeout, memory=0, data=DATA),
            recorded=True,
        )
        if done.code not in program.exit_codes:
            how = f"exit code {done.code}" if done.code >= 0 else f"signal {-done.code}"
            raise SandboxError(f"ended with {how}: {_error_of(done)}")
        return done

    async def _read_report(self, data: bytes, tree: AnalyzedTree, side: SideName) -> CheckReply:
        """What a report says of the changed files, in a worker: in base, of all of their lines."""
        place = self._workspace.root / f"report-of-{self._name}-{side}"
        await anyio.to_thread.run_sync(place.write_bytes, data)
        form = "" if self._program.format == "auto" else self._program.format
        report = ImportedReport(
            self._name, str(place), form, tool=self._name, made_in=str(tree.root)
        )
        in_head = side == "head"
        job: Mapping[str, Any] = {
            "head_root": str(tree.root),
            "head_tree": sorted(tree.paths),
            "head_commit": "",
            "files": [
                {
                    "path": file.path if in_head else file.old_path or file.path,
                    "status": "modified",
                    "added": list(file.added) if in_head else [],
                }
                for file in self._workspace.change.files
                if (file.in_head and file.path not in tree.from_base if in_head else file.in_base)
            ],
            "lines": (self._program.lines or self._imports.lines) if in_head else "file",
            "severities": self._imports.severities,
            "reports": [to_builtins(report)],
        }
        function = "imported_reports.changed_results:run"
        return await call_check(self._pool, function, job, SECONDS, CheckReply)


def _error_of(done: CompletedProgram) -> str:
    """The last line of what a program printed that names an error, else the last of all."""
    printed = done.stderr.strip() or done.stdout.strip()
    lines = printed[-_ERROR_BYTES:].decode(errors="replace").splitlines()
    named = [line for line in lines if _NAMED_ERROR.search(line)]
    return one_line((named or lines or ["it printed no error"])[-1])


def check_analyzers(programs: Mapping[str, ConfiguredProgram], layers: Sequence[Layer]) -> None:
    """Check the policy's globs and paths for analyzers.

    Raises:
        ConfigError: a glob that can match nothing, or a path that may not be named.
    """
    for name, program in programs.items():
        for path in program.dependencies:
            if why := unsafe_path_reason(path) or _OURS.get(path.partition("/")[0]):
                place = locate_text(layers, SETTINGS, path)
                raise ConfigError(f"analyzers.{name}.dependencies: {path}: {why}", *place)
        for glob in (*program.files, *program.config_files):
            try:
                path_matcher(glob)
            except InputError as error:
                place = locate_text(layers, SETTINGS, glob)
                raise ConfigError(f"analyzers.{name}: {error}", *place) from None


def _read(directory: Path, done: CompletedProgram) -> bytes:
    """The report that a program wrote; no link is followed."""
    try:
        data = read_safely(directory, _REPORT_NAME, LARGEST + 1)
    except FileNotFoundError:
        raise SandboxError(f"wrote no report to {REPORT}: {_error_of(done)}") from None
    except OSError as error:
        raise SandboxError(f"its report cannot be read: {error.strerror}") from None
    if len(data) > LARGEST:
        raise SandboxError(f"its report is larger than {LARGEST >> 20} MiB")
    return data


def configured_analyzers(
    programs: Mapping[str, ConfiguredProgram],
    imports: Imports,
    *,
    allowed: bool,
    private: Sequence[Path],
    checkout: Path | None,
    pool: WorkerPool,
    workspace: ReviewWorkspace,
) -> list[ConfiguredAnalyzer]:
    """The analyzers that base configures."""
    return [
        ConfiguredAnalyzer(
            name,
            program,
            imports,
            allowed=allowed,
            private=private,
            checkout=checkout,
            pool=pool,
            workspace=workspace,
        )
        for name, program in programs.items()
    ]
