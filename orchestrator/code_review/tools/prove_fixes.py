"""The tool that proves patches: with them, head lacks the findings and has no new ones.

The patched change has the same base. Nothing is written to a repository and git is not called for
it: that would take longer than the analyzers of a proof.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Annotated

from msgspec import Meta, Struct, convert, to_builtins
from msgspec.structs import replace

from diffchecks.file_patterns import file_names, matches
from diffchecks.fixes.patches import (
    FileHunks,
    LineReplacement,
    apply_replacements,
    find_replacements,
    read_patch,
    write_patch,
)
from diffchecks.jobs import ChangedFile
from diffchecks.path_kinds import path_kinds
from diffchecks.secrets.redaction import REDACTED
from diffchecks.unified_diff import PatchRefused
from orchestrator.code_review.agent_report_contracts import WrittenPatch
from orchestrator.code_review.analyzers.own_checks import call_check
from orchestrator.code_review.change.contents import Contents
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.git.objects import Kind, Objects
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.fixes.fix_targets import FixTarget
from orchestrator.code_review.fixes.proof import MakeTools, ProofResult, prove, prove_by_programs
from orchestrator.code_review.json_schema_generation import inlined
from orchestrator.code_review.review_workspace import (
    IterationFocus,
    ReviewWorkspace,
    open_review_workspace,
)
from orchestrator.data_directories import OVERLAY, read_table
from orchestrator.engine.field_types import Strict
from orchestrator.engine.ports import CallContext
from orchestrator.engine.types import Json, Observation, ToolSpec
from orchestrator.errors import DiffcourtError
from orchestrator.sandbox.worker_pool import WorkerPool

PROVE_FIXES = "prove_fixes"
MAX_FIXES = 1_000
"""Patches in one call."""
REDACTION_SECONDS = 10.0
SECONDS = 300.0

_SUPPRESSION = re.compile(
    "|".join(read_table(__file__, "suppressions.yaml")).encode(), re.IGNORECASE
)


def require_no_suppression(file: FileHunks, lost: Iterable[bytes] = ()) -> None:
    """Check that a patch adds no suppression comment to a file that it does not also remove.

    Args:
        lost: base's lines at its place, of which it may restore what they suppress.

    Raises:
        PatchRefused: it adds such a comment, or one that suppresses something else.
    """
    found = Counter(match[0].strip() for text in lost for match in _SUPPRESSION.finditer(text))
    found = Counter({text: -count for text, count in found.items()})
    for hunk in file.hunks:
        for marker, text in hunk.lines:
            if marker in {b"+", b"-"}:
                step = 1 if marker == b"+" else -1
                for match in _SUPPRESSION.finditer(text):
                    found[match[0].strip()] += step
    if added := next((text for text, count in found.items() if count > 0), None):
        shown = added[:60].decode("utf-8", "replace")
        raise PatchRefused(f"it silences an analyzer in {file.path} with {shown!r}")


class PatchedFile(Struct, frozen=True):
    """A file of head, and its replaced lines."""

    before: bytes
    replacements: tuple[LineReplacement, ...]

    @property
    def data(self) -> bytes:
        """What it holds with them."""
        return apply_replacements(self.before, self.replacements)


class _PatchedObjects(Objects):
    """The objects of a change, plus some that are in memory only."""

    def __init__(self, contents: Contents, git: Git, blobs: Mapping[str, bytes]) -> None:
        super().__init__(git)
        self._contents, self._blobs = contents, blobs

    async def each(
        self,
        oids: Sequence[str],
        consume: Callable[[str, bytes], Awaitable[None]],
        kind: Kind = "blob",
        *,
        missing_ok: bool = False,
    ) -> None:
        """Hand every object to ``consume``, those in memory first."""
        for oid in (oid for oid in oids if oid in self._blobs):
            await consume(oid, self._blobs[oid])
        others = [oid for oid in oids if oid not in self._blobs]
        await self._contents.objects.each(others, consume, kind, missing_ok=missing_ok)


class PatchedContents(Contents):
    """The contents of both sides, with other contents of some files of head."""

    @classmethod
    async def of(
        cls, change: Change, contents: Contents, files: Mapping[str, bytes]
    ) -> "PatchedContents":
        """The contents of a change with these files of head."""
        blobs = {_blob_id(change, data): data for data in files.values()}
        patched = cls(change, _PatchedObjects(contents, Git.of(change), blobs))
        head = dict(await contents.paths("head"))
        for path, data in files.items():
            head[path] = (head[path][0], _blob_id(change, data))
        patched._listings |= {"base": await contents.paths("base"), "head": head}
        return patched


async def with_patches(
    change: Change, contents: Contents, files: Mapping[str, PatchedFile]
) -> tuple[Change, PatchedContents]:
    """The change and the contents of its sides, with patches of regular files of head.

    Raises:
        PatchRefused: two of them change the same lines.
    """
    data = {path: file.data for path, file in files.items()}
    patched = await PatchedContents.of(change, contents, data)
    listed, known = await contents.paths("head"), {file.path: file for file in change.files}
    for path, file in files.items():
        mode, blob = listed[path]
        before = known.get(path) or ChangedFile(
            path, "modified", "text", path, mode, mode, blob, blob
        )
        known[path] = _with_patch(before, file, _blob_id(change, data[path]), len(data[path]))
    changed = (known[path] for path in sorted(known))
    # A file that equals base with its patch is not part of the change.
    kept = tuple(
        file
        for file in changed
        if file.path not in files
        or (file.old_path, file.old_mode, file.old_blob)
        != (file.path, file.new_mode, file.new_blob)
    )
    return replace(change, files=kept, notes=()), patched


def _with_patch(before: ChangedFile, file: PatchedFile, blob: str, size: int) -> ChangedFile:
    """A changed file whose head is patched."""
    added, removed = set(before.added), set(before.removed)
    base_lines = _base_lines(len(file.before.split(b"\n")), added, removed)
    replaced = {n + 1 for part in file.replacements for n in range(part.start, part.end)}
    removed |= {base_lines[line] for line in replaced if line in base_lines}
    return replace(
        before,
        new_blob=blob,
        size=size,
        added=tuple(_added(file, added)),
        removed=tuple(sorted(removed)),
    )


def _base_lines(lines: int, added: set[int], removed: set[int]) -> dict[int, int]:
    """Unchanged line of head → its number in base."""
    base = (number for number in count(1) if number not in removed)
    return {line: next(base) for line in range(1, lines + 1) if line not in added}


def _added(file: PatchedFile, added: Iterable[int]) -> Iterator[int]:
    """The lines of the patched file that base does not have."""
    own, parts = set(added), dict[int, list[LineReplacement]]()
    for part in sorted(set(file.replacements)):
        parts.setdefault(part.start, []).append(part)
    number, skip_to = 0, 0
    for line in range(len(file.before.split(b"\n")) + 1):
        for part in parts.get(line, ()):
            for _ in part.lines:
                number += 1
                yield number
            skip_to = max(skip_to, part.end)
        if line >= skip_to:
            number += 1
            if line + 1 in own:
                yield number


def _blob_id(change: Change, data: bytes) -> str:
    """The id that git gives to a file's contents in the change's repository."""
    new = hashlib.sha1 if len(change.head_tree) == 40 else hashlib.sha256
    digest = new(b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


class ProposedPatches(Strict, frozen=True):
    """What the tool is given: patches that are proven together."""

    fixes: Annotated[list[WrittenPatch], Meta(min_length=1, max_length=MAX_FIXES)]
    tests: Annotated[
        bool, Meta(description="also run the tests and type checks of base, if head passes them")
    ] = False


class ProveFixes:
    """Applies patches to head in a scratch tree and runs analyzers on it."""

    spec: ToolSpec = ToolSpec(
        PROVE_FIXES,
        "Whether patches fix their findings: applies them to head and runs the analyzers again.",
        inlined(ProposedPatches),
        timeout=SECONDS,
    )

    def __init__(
        self,
        workspace: ReviewWorkspace,
        pool: WorkerPool,
        focus: IterationFocus,
        make_tools: MakeTools,
    ) -> None:
        self._workspace, self._pool, self._focus = workspace, pool, focus
        self._make_tools = make_tools

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Prove the patches together; one that does not hold is refused with the reason."""
        proposed = convert(arguments, ProposedPatches)
        try:
            result = await self._prove(proposed.fixes, proposed.tests, context)
        except (PatchRefused, DiffcourtError) as error:
            result = ProofResult("refused", reason=" ".join(str(error).split()))
        shown = {"state": result.state, "reason": result.reason, "checked_by": result.tools}
        return Observation(json.dumps(shown), to_builtins(result))

    async def _prove(
        self, fixes: Sequence[WrittenPatch], tests: bool, context: CallContext
    ) -> ProofResult:
        targets = [self._target(fix.finding) for fix in fixes]
        if len(fixes) > 1:  # each has passed its finding's tests, and all would take too long
            targets = [replace(target, tests=()) for target in targets]
        before: dict[str, bytes] = {}
        parts: dict[str, list[LineReplacement]] = {}
        for fix, target in zip(fixes, targets, strict=True):
            for file in read_patch(fix.patch):
                blob = await self._require_allowed(file.path, target)
                before[file.path] = await self._workspace.contents.read(blob)
                found = find_replacements(file, before[file.path])
                require_no_suppression(file, await self._lost(file.path, before[file.path], found))
                parts.setdefault(file.path, []).extend(found)
        patched = {path: PatchedFile(before[path], tuple(parts[path])) for path in parts}
        after = {path: file.data for path, file in patched.items()}
        after = {path: data for path, data in after.items() if data != before[path]}
        if not after:
            raise PatchRefused("the patch does not change head")
        patch = write_patch(before, after)
        job = {"text": patch}
        shown = await call_check(
            self._pool, "redacted_text:redact_output", job, REDACTION_SECONDS, str
        )
        if shown != patch or REDACTED in patch:
            raise PatchRefused("the patch or the lines around it contain a secret")
        patched = {path: patched[path] for path in after}
        return await self._run_analyzers(patch, targets, patched, tests, context)

    async def _run_analyzers(
        self,
        patch: str,
        targets: Sequence[FixTarget],
        files: Mapping[str, PatchedFile],
        tests: bool,
        context: CallContext,
    ) -> ProofResult:
        workspace, focus = self._workspace, self._focus.fixes
        change, contents = await with_patches(workspace.change, workspace.contents, files)
        async with open_review_workspace(
            change,
            workspace.rules,
            workspace.excluded,
            cores=int(workspace.slots.total_tokens),
            max_bytes=workspace.max_bytes,
            contents=contents,
        ) as patched:
            proof = await prove(targets, patched, files, self._make_tools, focus, context)
            if proof.state != "refused" and tests:
                why = await prove_by_programs(patched, self._make_tools, focus, context)
                if why:
                    proof = replace(proof, state="refused", reason=why)
        return replace(proof, patch=patch)

    def _target(self, name: str) -> FixTarget:
        target = self._focus.fixes.targets.get(name)
        if target is None:
            raise PatchRefused(f"{name[:60]} is not an open finding of this review")
        return target

    async def _lost(
        self, path: str, data: bytes, parts: Iterable[LineReplacement]
    ) -> Iterable[bytes]:
        """The lines of base that the change removes where a patch replaces lines of head."""
        file = self._workspace.files.get(path)
        if file is None or file.old_blob is None:
            return ()
        base = (await self._workspace.contents.read(file.old_blob)).split(b"\n")
        kept = _base_lines(len(data.split(b"\n")), {*file.added}, {*file.removed})
        lost = set[int]()
        for part in parts:
            first = max((kept[n] for n in kept if n <= part.start), default=0)
            last = min((kept[n] for n in kept if n > part.end), default=len(base) + 1)
            lost.update(number for number in file.removed if first < number < last)
        return [base[number - 1] for number in lost]

    async def _require_allowed(self, path: str, target: FixTarget) -> str:
        """Check that a patch for a finding may touch a file; returns its object's id."""
        listed = await self._workspace.contents.paths("head")
        if path not in listed:
            raise PatchRefused(f"{path} is not a file of head")
        if not listed[path][0].startswith("100"):
            raise PatchRefused(f"{path} is not a regular file")
        if path not in {target.path, target.cause_path}:
            if path not in self._workspace.files and not target.names(path, listed):
                why = "is no file of the change, and the finding does not name it"
                raise PatchRefused(f"{path} {why}")
            if kind := _protected_kind(path):
                raise PatchRefused(f"{path} is {kind}, and the finding is not in it")
        return listed[path][1]


def _protected_kind(path: str) -> str:
    """The kind of a file that only patches of its own findings may touch; else empty."""
    if path == OVERLAY or path.startswith(f"{OVERLAY}/"):
        return "part of the review's policy"
    if matches(path, file_names("lock_files")):
        return "a lock file"
    if "ci" in path_kinds(path):
        return "run by CI"
    return ""
