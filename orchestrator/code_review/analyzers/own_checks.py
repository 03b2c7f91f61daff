"""Our own checks, in worker processes: of one side at a time, or comparing two."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
from msgspec import ValidationError, convert, to_builtins

from diffchecks import PREFIX
from diffchecks.check_io import CheckReply, RawFinding
from diffchecks.declarations import CHECKS, Check
from diffchecks.jobs import AnyJob, ChangedFile, FlowJob, PatternsJob
from diffchecks.rules import shipped_rules
from orchestrator import __version__
from orchestrator.code_review.analyzer_types import (
    AnalyzerReport,
    ChangeAnalyzer,
    Side,
    SideAnalyzer,
    time_limit,
)
from orchestrator.code_review.change.contents import SIDES
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.review_workspace import ReviewWorkspace, open_review_workspace
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.task_groups import run_both
from orchestrator.errors import DiffcourtError, SandboxError
from orchestrator.sandbox.worker_pool import WorkerPool

SECONDS = 60.0
FILE_SECONDS = 5.0
"""Processor time that a check may take for one file."""
BATCH = 200
WHOLE_TREE_BATCH = 500  # each call reads the whole tree again
PATTERNS_BATCH = 50  # the longest of all checks; small shares let no worker be idle at the end
"""Files per call: a file that breaks its parser costs no more than its batch."""

T = TypeVar("T")
Replies = tuple[list[T], dict[str, str]]


async def call_check(
    pool: WorkerPool,
    function: str,
    job: AnyJob | Mapping[str, Any],
    seconds: float,
    reply_type: type[T],
    *,
    shared: str = "",
) -> T:
    """Run a check in a worker and convert its reply.

    Args:
        function: ``module:function`` below ``diffchecks``.
        shared: as ``WorkerPool.call`` takes it.

    Raises:
        SandboxError: the check failed, or its reply has another shape.
    """
    name = f"{PREFIX}{function}"
    reply = await pool.call(name, to_builtins(job), seconds=seconds, shared=shared)
    try:
        return convert(reply, reply_type)
    except ValidationError as error:
        raise SandboxError(f"{function} sent a malformed reply: {error}") from None


async def call_check_in_batches(
    pool: WorkerPool,
    function: str,
    job: Mapping[str, Any],
    paths: Sequence[str],
    seconds: float,
    reply_type: type[T],
    *,
    size: int = BATCH,
) -> Replies[T]:
    """Run a check over files, many in one call; a batch that fails is split to find the culprit.

    It is split into single files at once, so that a file that breaks the check costs its time
    twice; one of ``WHOLE_TREE_BATCH`` into halves, as each call reads the whole tree.

    Args:
        job: all parts of the job but ``paths``.
        size: how many files go into one call.

    Returns:
        The replies, and path → error for each file that the check cannot handle.
    """
    replies: list[T] = []
    errors: dict[str, str] = {}
    batches = [list(paths[at : at + size]) for at in range(0, len(paths), size)]
    while batches:
        batch = batches.pop()
        try:
            whole = {**job, "paths": batch, "file_seconds": FILE_SECONDS}
            replies.append(await call_check(pool, function, whole, seconds, reply_type))
        except SandboxError as error:
            if len(batch) == 1:
                errors[batch[0]] = str(error)
            else:
                part = len(batch) // 2 if size == WHOLE_TREE_BATCH else 1
                batches += [batch[at : at + part] for at in range(0, len(batch), part)]
    return replies, errors


def _without_moved_copies(findings: Sequence[RawFinding]) -> list[RawFinding]:
    """Findings without those on the way to a sink that another batch reports at the sink itself.

    One that names its function stands where the text was built, for a sink that many share.
    """
    places = {(raw.code, raw.path, raw.line) for raw in findings}
    kept = []
    for raw in findings:
        place = (raw.code, raw.path, raw.line)
        sink = (raw.code, raw.steps[-1].path, raw.steps[-1].line) if raw.steps else place
        if raw.scope or sink == place or sink not in places:
            kept.append(raw)
    return kept


class DeclaredCheck:
    """What the declaration of a check says of its analyzer."""

    def __init__(self, check: Check) -> None:
        self.check, self.name, self.needs = check, check.reporter, check.needs
        self.vendored, self.lock_files = check.vendored, check.lock_files

    def wants(self, path: str) -> bool:
        """Whether the check examines files of this name."""
        return path in self.check.files

    def files_read(self, report: AnalyzerReport) -> frozenset[str]:
        """What it examined and could read, where it reads such files as code."""
        broken = {raw.path for raw in report.findings if raw.code in self.check.unread}
        return frozenset(path for path in report.examined if path in self.check.code) - broken


class SideCheck(DeclaredCheck, SideAnalyzer):
    """One of our checks of a side.

    Args:
        options: further parts of its job.
        depends: stands for ``options`` in the identity: digests of contents instead of paths.
    """

    def __init__(
        self,
        check: Check,
        pool: WorkerPool,
        workspace: ReviewWorkspace,
        *,
        options: Mapping[str, Any] | None = None,
        depends: str = "",
    ) -> None:
        super().__init__(check)
        self._pool, self._workspace = pool, workspace
        self._options, self._depends = dict(options or {}), depends
        self._found: dict[str, list[str]] = {}

    @property
    def identity(self) -> str | None:
        """The check and its settings; None where its job holds other files."""
        return None if self.needs_tree else f"{self.check.name} {self._depends}"

    async def tree_identity(self, side: Side, paths: Sequence[str]) -> str | None:
        """What its report depends on, where it reads the tree; all files included."""
        if self.needs != "tree":
            return None
        listed = await self._workspace.contents.paths(side.name)
        parts: list[Any] = [self.check.name, self._depends, sorted(paths)]
        parts += [[name, *listed[name]] for name in await self._tree_files(side)]
        if self.check.job is FlowJob:
            there = await self._workspace.contents.paths("base" if side.name == "head" else "head")
            parts += [[*pair, there.get(pair[1] or "")] for pair in self._changed_files(side)]
        return digest(parts)

    async def run(self, side: Side, paths: Sequence[str]) -> AnalyzerReport:
        """Run the check over the paths; a file that breaks it is a gap, the others go on."""
        job = {"root": str(side.root), **self._options}
        if paths and self.check.job is FlowJob:
            job |= await self._change(side)
        if paths and self.needs_tree:
            if self.needs == "tree":
                names = await self._tree_files(side)
                await self._workspace.packing.add(side.name, names)
            else:
                names = list(await self._workspace.contents.paths(side.name))
            job["tree"] = names
        facts: dict[str, list[Any]] = {}
        replies, gaps = await self._ask(side, job, paths)
        for reply in replies:
            gaps.update(reply.gaps)
            for name, more in reply.facts.items():
                facts.setdefault(name, []).extend(more)
        findings = _without_moved_copies([raw for reply in replies for raw in reply.findings])
        ordered = sorted(findings, key=lambda raw: (raw.path, raw.line, raw.code))
        examined = [path for reply in replies for path in reply.examined]
        whole = CheckReply(ordered, examined, gaps, facts)
        return AnalyzerReport.of(self.name, __version__, whole)

    async def _ask(
        self, side: Side, job: Mapping[str, Any], paths: Sequence[str]
    ) -> Replies[CheckReply]:
        """As ``call_check_in_batches``."""
        size = WHOLE_TREE_BATCH if self.needs == "tree" else BATCH
        seconds = time_limit(SECONDS, min(size, len(paths)))
        function = self.check.function
        return await call_check_in_batches(
            self._pool, function, job, paths, seconds, CheckReply, size=size
        )

    async def _tree_files(self, side: Side) -> list[str]:
        """Those of a side's files that it reads, found once: a tree may have very many."""
        if side.name not in self._found:
            names = filter(self.wants, await self._workspace.contents.paths(side.name))
            self._found[side.name] = self._workspace.nearest([*names], self.check.most)
        return self._found[side.name]

    def _changed_files(self, side: Side) -> list[tuple[str | None, str | None]]:
        """Each changed file's path on this side and on the other one."""
        files: list[tuple[str | None, str | None]] = []
        for file in self._workspace.change.files:
            base = (file.old_path or file.path) if file.in_base else None
            head = file.path if file.in_head else None
            if any(self.wants(path) for path in (base, head) if path):
                files.append((head, base) if side.name == "head" else (base, head))
        return files

    async def _change(self, side: Side) -> Mapping[str, Any]:
        """The other side's directory, and each changed file's path here and there."""
        files = self._changed_files(side)
        other, _ = await self._workspace.side(
            "base" if side.name == "head" else "head", [there for _, there in files if there]
        )
        await self._workspace.side(side.name, [here for here, _ in files if here])
        return {"other_root": str(other.root), "changed": files}


PATTERN_CHECKS = tuple(check.name for check in CHECKS if check.job is PatternsJob)


class PatternsCheck(SideCheck):
    """One of the checks that search for patterns; one pass over a file serves all of them.

    The ``codes`` of its job are those of each, in the order of ``PATTERN_CHECKS``.
    """

    @property
    def turn(self) -> AbstractAsyncContextManager[None]:
        """The same for all of them: the next one is given what this one has been told."""
        return self._workspace.pattern_passes.turn

    async def _ask(
        self, side: Side, job: Mapping[str, Any], paths: Sequence[str]
    ) -> Replies[CheckReply]:
        """As ``call_check_in_batches``, from replies to the other checks where they have them."""
        asked, known = self._workspace.pattern_passes.of[side.name]
        missing = [path for path in paths if path not in asked]
        seconds, size = time_limit(SECONDS, min(PATTERNS_BATCH, len(missing))), PATTERNS_BATCH
        ask = partial(call_check_in_batches, self._pool, "patterns:run_for_all", job, size=size)
        halves = (partial(ask, missing[n::2], seconds, list[CheckReply]) for n in range(2))
        (replies, errors), (more, other) = await run_both(*halves)
        asked.update(path for path in missing if path not in errors | other)
        known += [*replies, *more]
        wanted, number = {*paths}, PATTERN_CHECKS.index(self.check.name)
        own = [
            CheckReply(
                [raw for raw in reply.findings if raw.path in wanted],
                [path for path in reply.examined if path in wanted],
                {path: why for path, why in reply.gaps.items() if path in wanted},
            )
            for reply in (replies[number] for replies in known)
        ]
        return own, errors | other


COMPARISON_SECONDS = 100.0

MakesOptions = Callable[[Sequence[ChangedFile]], Awaitable[Mapping[str, Any] | None]]
"""The further parts of a check's job; None where there is nothing to check."""


class ComparisonCheck(DeclaredCheck, ChangeAnalyzer):
    """One of our checks that compare two sides."""

    def __init__(
        self,
        check: Check,
        pool: WorkerPool,
        workspace: ReviewWorkspace,
        options: MakesOptions | None = None,
        *,
        seconds: float | None = None,
    ) -> None:
        super().__init__(check)
        self.seconds = seconds
        self._pool, self._workspace, self._options = pool, workspace, options

    @property
    def needs_tree(self) -> bool:
        """True: a patch alone does not have the two sides."""
        return True

    async def run(
        self, change: Change, base: Side, head: Side, files: Sequence[ChangedFile]
    ) -> AnalyzerReport:
        """Run the check over the changed files."""
        options: Mapping[str, Any] | None = {} if files else None
        if files and self._options is not None:
            options = await self._options(files)
        if options is None:
            return AnalyzerReport(self.name, __version__)
        for side in SIDES if self.needs == "tree" else ():
            names = (*self.check.files.names, *self.check.reads.names)
            await self._workspace.pack_matching(side, names, self.check.most)
        job = {"base_root": str(base.root), "head_root": str(head.root), "files": files, **options}
        shared = str(await self._workspace.path_listing())
        function, seconds = self.check.function, time_limit(COMPARISON_SECONDS, len(files))
        try:
            reply = await call_check(self._pool, function, job, seconds, CheckReply, shared=shared)
        except SandboxError as error:
            return AnalyzerReport(self.name, __version__, error=str(error))
        return AnalyzerReport.of(self.name, __version__, reply)


async def warm_up(pool: WorkerPool, repo: Path) -> None:
    """Read HEAD, and have workers read its imports: nearly all that a changed file needs."""
    with suppress(DiffcourtError), anyio.move_on_after(20):
        git = await Git.open(repo)
        tree = await git.line("rev-parse", "--verify", "HEAD^{tree}")
        change = Change("", "", tree, tree, str(git.git_dir))
        async with pool, open_review_workspace(change, shipped_rules(), {}, cores=1) as workspace:
            base, head = (Side(side, workspace.root / side) for side in SIDES)
            paths = await workspace.contents.paths("head")
            for check in (one for one in CHECKS if one.needs == "tree"):
                await workspace.packing.add("head", (path for path in paths if path in check.files))
                if check.name in {"import_graph", "api_breakage"}:
                    run = ComparisonCheck(check, pool, workspace).run
                    asked = partial(run, change, base, head, [ChangedFile("", "deleted")])
                    await run_both(asked, asked)
