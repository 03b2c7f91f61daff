"""What the tools of one review share: the change, its files on disk, the rule table, the focus.

Everything here can be made again from the change alone, so nothing of it is journaled.
"""

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct, field

from orchestrator.code_review.analyzer_types import Side
from orchestrator.code_review.analyzers.file_patterns import LOCK_FILES, matches
from orchestrator.code_review.change.contents import SIDES, Contents, SideName, decode
from orchestrator.code_review.change.file_export import link_files
from orchestrator.code_review.change.file_packing import FilePacking
from orchestrator.code_review.change.git.hardening import BIG_FILE_BYTES
from orchestrator.code_review.change.skipped_files import LOCK_FILE, describe_size_limit
from orchestrator.code_review.change.types import Change, ChangedFile
from orchestrator.code_review.findings.located_findings import Target
from orchestrator.code_review.fixes.fix_targets import FixFocus
from orchestrator.code_review.repository_guidance import Guidance
from orchestrator.code_review.rule_table import RuleTable
from orchestrator.engine.escalation import StageChange
from orchestrator.engine.task_groups import run_both
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.safe_paths import read_safely


@dataclass
class ReviewWorkspace:
    """What the tools of a review share.

    Attributes:
        root: a directory outside any repository, gone when the review ends.
        excluded: path → why, for files that the policy leaves out.
        max_bytes: a larger file is not looked at, which is a gap.
        slots: how many programs may run at once.
        guidance: what base says of changes, for agents; none without a model.
    """

    change: Change
    rules: RuleTable
    contents: Contents
    root: Path
    excluded: Mapping[str, str]
    max_bytes: int
    slots: anyio.CapacityLimiter
    guidance: Sequence[Guidance] = ()

    def __post_init__(self) -> None:
        self._lock = anyio.Lock()  # one: what both sides share is written for the first alone
        self._written: dict[SideName, dict[str, str | None]] = {name: {} for name in SIDES}

    @cached_property
    def packing(self) -> FilePacking:
        """Gives whole trees to checks; programs need them on disk, as ``side`` writes them."""
        return FilePacking(self.contents, self.root)

    @cached_property
    def files(self) -> Mapping[str, ChangedFile]:
        """The changed files by path."""
        return {file.path: file for file in self.change.files}

    @cached_property
    def added(self) -> Callable[[str], frozenset[int]]:
        """Path in head → the lines that the change adds."""
        lines = {file.path: frozenset(file.added) for file in self.change.files}
        return lambda path: lines.get(path, frozenset())

    def left_out(self, file: ChangedFile) -> str | None:
        """Why no tool looks into a file, None when they do."""
        why = file.skip or self.excluded.get(file.path)
        if why is None and file.size > self.max_bytes:
            why = describe_size_limit(file.size, self.max_bytes)
        return why

    def reviewable(self, file: ChangedFile) -> bool:
        """Whether some tool looks into a file; agents do not into lock files, their check does."""
        if file.skip == LOCK_FILE and matches(file.path, LOCK_FILES):
            return file.path not in self.excluded  # its check bounds the size
        return self.left_out(file) is None

    def unread(self, file: ChangedFile) -> bool:
        """Whether a file is left out though nobody decided that it need not be looked at."""
        if file.path in self.excluded:
            return False
        return file.gap or (file.skip is None and file.size > self.max_bytes)

    async def side(self, name: SideName, paths: Sequence[str]) -> tuple[Side, dict[str, str]]:
        """A side with the given paths of it on disk.

        Returns:
            The side, and path → why for what could not be written.
        """
        async with self._lock:
            written = self._written[name]
            missing = [path for path in paths if path not in written]
            if missing:
                blobs = await self._blobs(name, missing)
                linked = await self._link_shared(name, blobs)
                blobs = {path: blob for path, blob in blobs.items() if path not in linked}
                failed = await self.contents.export(name, blobs, self.root / name)
                written.update({path: failed.get(path) for path in missing})
            return Side(name, self.root / name), {p: why for p in paths if (why := written[p])}

    async def _link_shared(self, name: SideName, blobs: Mapping[str, str]) -> set[str]:
        """Link files that the other side has on disk and shares; returns which.

        To link a file takes a fraction of the time of reading and writing it, and in a check over
        the whole tree most are the same on both sides.
        """
        other: SideName = "base" if name == "head" else "head"
        written = self._written[other]
        known = [path for path in blobs if path in written and written[path] is None]
        if not known:
            return set()
        here, there = await self.contents.paths(name), await self.contents.paths(other)
        same = [
            path
            for path in known
            if path in here and here[path] == there.get(path) and here[path][1] == blobs[path]
        ]
        link = partial(link_files, self.root / other, self.root / name, same)
        return await anyio.to_thread.run_sync(link) if same else set()

    async def _blobs(self, name: SideName, paths: Sequence[str]) -> dict[str, str]:
        files = self.change.files
        if name == "base":
            changed = ((file.old_path or file.path, file.old_blob) for file in files)
        else:
            changed = ((file.path, file.new_blob) for file in files)
        known = {path: blob for path, blob in changed if blob}
        if all(path in known for path in paths):
            return {path: known[path] for path in paths}
        tree = await self.contents.paths(name)
        return {path: tree[path][1] for path in paths if path in tree}

    async def read_head(self, path: str) -> list[str]:
        """The lines of a file of head; empty where it is not there or cannot be written out."""
        side, _ = await self.side("head", [path])
        return self.read(side, path)

    def copy_report(self, path: str) -> str:
        """Copy a file that the review was given to where a worker, which is confined, may read it.

        Returns:
            The path of the copy. A file that cannot be read keeps its path, and its check says so.
        """
        copy = self.root / Path(path).name
        with suppress(OSError):
            copy.write_bytes(Path(path).read_bytes())
            return str(copy)
        return path

    def read(self, side: Side, path: str) -> list[str]:
        """The lines of an exported file; empty when it does not stand there."""
        try:
            data = read_safely(side.root, path)
        except OSError:
            return []
        return decode(data).split("\n")


@asynccontextmanager
async def open_review_workspace(
    change: Change,
    rules: RuleTable,
    excluded: Mapping[str, str],
    *,
    cores: int,
    max_bytes: int = BIG_FILE_BYTES,
    guidance: Sequence[Guidance] = (),
    contents: Contents | None = None,
) -> AsyncIterator[ReviewWorkspace]:
    """Open a change to the tools of a review; what is written is removed at the end.

    Args:
        contents: what its sides hold, where they are not to be read from git.
    """
    with tempfile.TemporaryDirectory(
        dir=scratch_directory.work_directory(), ignore_cleanup_errors=True
    ) as folder:
        root = Path(folder)
        for name in SIDES:
            (root / name).mkdir()
        try:
            async with contents or Contents(change) as opened:
                yield ReviewWorkspace(
                    change=change,
                    rules=rules,
                    contents=opened,
                    root=root,
                    excluded=excluded,
                    max_bytes=max_bytes,
                    slots=anyio.CapacityLimiter(cores),
                    guidance=guidance,
                )
        finally:
            with anyio.CancelScope(shield=True):
                await run_both(*(partial(_remove, root / name) for name in SIDES))


async def _remove(side: Path) -> None:
    """Remove a side's files in a thread: waiting for the disk, two take half the time of one."""
    await anyio.to_thread.run_sync(partial(shutil.rmtree, side, ignore_errors=True))


class Focus(Struct):
    """What the present iteration works on. The flow sets it; the lead's tools read it.

    Attributes:
        number: 1 for the first iteration, 0 before it.
        retry: agent → paths to look at again; None in the first iteration: everything.
        missing_evidence: evidence that the judge found missing.
        answers: a person's answers to the lead's questions, by question.
        stage_changes: agent → its next stage, where the judge scored its work too low.
        requests: agent → what is asked of it about single findings.
        verify: fingerprints of what somebody else is asked to confirm or dispute.
        shown: id → fingerprint of the findings that agents have been shown.
        targets: fingerprint → what is known of the finding.
        shares: agent → the files that code gives it; empty: the lead shares them out.
        fixes: what proofs of patches compare with.
    """

    number: int = 0
    retry: Mapping[str, Sequence[str]] | None = None
    missing_evidence: Sequence[str] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    stage_changes: Mapping[str, StageChange] = field(default_factory=dict)
    requests: Mapping[str, Sequence[str]] = field(default_factory=dict)
    verify: Sequence[str] = ()
    shown: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, Target] = field(default_factory=dict)
    shares: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fixes: FixFocus = field(default_factory=FixFocus)
