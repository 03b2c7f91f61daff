"""What the tools of a review share: the change, its files on disk, the rule table, the focus.

All of it can be recreated from the change, so nothing is journaled.
"""

import json
import tempfile
from bisect import bisect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct, field

from diffchecks.check_io import CheckReply, decode_text
from diffchecks.file_patterns import file_names, matches
from diffchecks.jobs import ChangedFile
from diffchecks.rules import RuleTable
from diffchecks.safe_paths import read_safely
from diffchecks.skipped_files import (
    BIG_FILE_BYTES,
    GENERATED,
    LINK,
    LOCK_FILE,
    VENDORED,
    describe_size_limit,
    is_settled,
)
from orchestrator.code_review.analyzer_types import Side
from orchestrator.code_review.change.contents import (
    SIDES,
    Contents,
    FilePacking,
    SideName,
    split_lines,
)
from orchestrator.code_review.change.file_export import link_files
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.findings.located_findings import FindingTarget
from orchestrator.code_review.fixes.fix_targets import FixFocus
from orchestrator.code_review.repository_guidance import Guidance
from orchestrator.code_review.verdict.model import Finding
from orchestrator.engine.agent_tasks import StageChange
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.types import Criterion
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.scratch_directory import remove_tree

TREES = "trees"
"""The directory below a workspace's own in which tests of findings run."""


class PatternPasses:
    """What was replied to the checks of patterns, which share a pass over each file.

    Attributes:
        turn: held by the check that asks.
        of: side → the files that were searched, and of each call the replies for all the checks.
    """

    def __init__(self) -> None:
        self.turn = anyio.Lock()
        self.of = {name: (set[str](), list[list[CheckReply]]()) for name in SIDES}


@dataclass
class ReviewWorkspace:
    """What the tools of a review share.

    Attributes:
        root: a directory outside any repository, removed when the review ends.
        excluded: path → why, for files that the policy excludes.
        max_bytes: a larger file is not examined, which is a gap.
        slots: limits how many of our checks compare two sides at a time.
        programs: limits how many programs analyze at a time; none waits for our longest checks.
        guidance: base's guidance for changes, for agents; none without a model.
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
        self._lock = anyio.Lock()  # one for both sides, which share files
        self.programs = anyio.CapacityLimiter(max(1, int(self.slots.total_tokens) // 2))
        self._written: dict[SideName, dict[str, str | None]] = {name: {} for name in SIDES}
        self._listing: Path | None = None
        self.pattern_passes = PatternPasses()
        self._packed: set[tuple[SideName, tuple[str, ...]]] = set()

    @cached_property
    def packing(self) -> FilePacking:
        """Packs whole trees for checks; programs need them on disk, which ``side`` does."""
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
        """Why no tool reads a file; None if tools do."""
        why = file.skip or self.excluded.get(file.path)
        if why is None and self.is_too_large(file):
            why = describe_size_limit(file.size, self.max_bytes)
        return why

    @property
    def open_paths(self) -> list[str]:
        """The changed files that every tool may read; lock files are excluded."""
        return [file.path for file in self.change.files if not self.left_out(file)]

    def reviewable(self, file: ChangedFile) -> bool:
        """Whether a tool reads a file; of lock files only their check does, not agents."""
        if file.skip == LOCK_FILE and matches(file.path, file_names("lock_files")):
            return file.path not in self.excluded  # its check bounds the size
        return self.left_out(file) is None

    def searched_only(self, file: ChangedFile) -> bool:
        """Whether a file is left out as others' code, and only searched for what does severe harm.

        A deleted one is not: there is nothing left in it that could do harm.
        """
        others = file.kind == "text" and (file.skip or "").startswith((GENERATED, VENDORED))
        wanted = file.in_head and file.path not in self.excluded
        return others and wanted and file.size <= self.max_bytes

    def unread(self, file: ChangedFile) -> bool:
        """Whether a file is left out without a decision that it need not be examined."""
        if file.path in self.excluded:
            return False
        return file.gap or (file.skip is None and self.is_too_large(file) and not is_settled(file))

    def is_too_large(self, file: ChangedFile) -> bool:
        """Whether a file is larger than the limit; a text for people may be."""
        return file.size > self.max_bytes and not matches(file.path, file_names("long_texts"))

    async def side(self, name: SideName, paths: Sequence[str]) -> tuple[Side, dict[str, str]]:
        """A side with the given paths on disk.

        Returns:
            The side, and path → why a file could not be written.
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
        """Link files that the other side has on disk with equal contents; returns their paths.

        Linking takes a fraction of the time of reading and writing, and in a check over the whole
        tree most files are equal on both sides.
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

    async def pack_matching(self, side: SideName, patterns: tuple[str, ...], most: int = 0) -> None:
        """Pack a side's ``nearest`` files whose names match; the same are looked up once."""
        if (side, patterns) not in self._packed:
            paths = [path for path in await self.contents.paths(side) if matches(path, patterns)]
            await self.packing.add(side, self.nearest(paths, most))
            self._packed.add((side, patterns))

    def nearest(self, paths: list[str], most: int) -> list[str]:
        """Of sorted paths, at most so many around the changed ones; 0: all."""
        changed = sorted(file.path for file in self.change.files)
        first = max(0, bisect(paths, changed[len(changed) // 2]) - most // 2) if most else 0
        return paths[first : first + (most or len(paths))]

    async def path_listing(self) -> Path:
        """A file with the paths of both sides, as parts of a job that many checks share.

        A link is in the tree and cannot be read: its target is read under its own path.
        """
        async with self._lock:
            if self._listing is None:
                parts: dict[str, list[str]] = {}
                for side in SIDES:
                    tree = await self.contents.paths(side)
                    parts[f"{side}_tree"] = list(tree)
                    parts[f"{side}_links"] = [path for path in tree if tree[path][0] == LINK]
                listing = self.root / "listed-paths.json"
                await anyio.to_thread.run_sync(listing.write_text, json.dumps(parts), "ascii")
                self._listing = listing
            return self._listing

    async def known_path(self, path: str) -> str:
        """The path in the tree, without a diff's prefix or ``./`` that an agent copied."""
        trees = [await self.contents.paths(side) for side in SIDES]
        forms = (path, *(path.removeprefix(prefix) for prefix in ("./", "a/", "b/")))
        return next((form for form in forms if any(form in tree for tree in trees)), path)

    async def read_head(self, path: str) -> list[str]:
        """The lines of a file of head; empty if it does not exist or cannot be written to disk."""
        side, _ = await self.side("head", [path])
        return self.read(side, path)

    def copy_report(self, path: str) -> str:
        """Copy a file that the review was given to a place that a confined worker may read.

        Returns:
            The path of the copy; of a file that cannot be read its own path, so that the check
            reports it.
        """
        copy = self.root / Path(path).name
        with suppress(OSError):
            copy.write_bytes(Path(path).read_bytes())
            return str(copy)
        return path

    def read(self, side: Side, path: str) -> list[str]:
        """The lines of an exported file; empty if it does not exist."""
        try:
            data = read_safely(side.root, path)
        except OSError:
            return []
        return split_lines(decode_text(data))


@asynccontextmanager
async def open_review_workspace(
    change: Change,
    rules: RuleTable,
    excluded: Mapping[str, str],
    *,
    cores: int,
    max_bytes: int = BIG_FILE_BYTES,
    contents: Contents | None = None,
) -> AsyncIterator[ReviewWorkspace]:
    """Open a change for the tools of a review; files that are written are removed at the end.

    Args:
        contents: of its sides, if not read from git.
    """
    with tempfile.TemporaryDirectory(
        dir=scratch_directory.work_directory(), ignore_cleanup_errors=True
    ) as folder:
        root = Path(folder)
        for name in (*SIDES, TREES):
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
                )
        finally:
            with anyio.CancelScope(shield=True):
                async with task_group() as group:  # in parallel takes half the time
                    for name in (*SIDES, TREES):
                        group.start_soon(anyio.to_thread.run_sync, remove_tree, root / name)


class IterationFocus(Struct):
    """What the present iteration is about: how the flow tells tools what its state does not.

    Tools are built before the flow begins and live as long as it does. The flow (``review_flow``,
    ``reviewer_assignment``, ``fixed_findings``) writes each field before an iteration's agents
    start. Plans, proofs of patches and the check of agents' reports read them. Only ``dropped``
    goes the other way: the check writes it, the verdict reads it.

    Attributes:
        number: 1 for the first iteration, 0 before it.
        retry: agent → paths to review again; None in the first iteration: all.
        missing_evidence: evidence that the judge found missing.
        answers: a person's answers to the lead's questions, by question.
        stage_changes: agent → its next stage, if the judge scored its work too low.
        requests: agent → requests to it about single findings.
        asked: id → finding, of the claims that the verifier is asked about.
        shown: id → fingerprint of the findings that agents have been shown.
        targets: fingerprint → the finding as a target of responses.
        shares: agent → the files that code assigns to it; empty: the lead assigns them.
        concerned: specialist → the files that concern it, where a model leads and assigns them.
        diffs_shown: agent → the first lines of the diffs that its first message has.
        fixes: the data that proofs of patches compare with.
        criteria: those that the judge is asked to score.
        dropped: (iteration, agent) → its findings that it left out when they were sent back.
    """

    number: int = 0
    retry: Mapping[str, Sequence[str]] | None = None
    missing_evidence: Sequence[str] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    stage_changes: Mapping[str, StageChange] = field(default_factory=dict)
    requests: Mapping[str, Sequence[str]] = field(default_factory=dict)
    asked: Mapping[str, Finding] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, FindingTarget] = field(default_factory=dict)
    shares: Mapping[str, Sequence[str]] = field(default_factory=dict)
    concerned: Mapping[str, Sequence[str]] = field(default_factory=dict)
    diffs_shown: dict[str, Set[str]] = field(default_factory=dict)
    fixes: FixFocus = field(default_factory=FixFocus)
    criteria: Sequence[Criterion] = ()
    dropped: dict[tuple[int, str], list[str]] = field(default_factory=dict)
