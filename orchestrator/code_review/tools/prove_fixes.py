"""The tool that proves patches: with them, head lacks the findings and has no new ones."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, convert, to_builtins

from diffchecks.file_patterns import LOCK_FILES, matches
from diffchecks.path_kinds import path_kinds
from diffchecks.secrets.redaction import REDACTED
from orchestrator.code_review.analyzers.one_side_checks import call_check
from orchestrator.code_review.fixes.fix_targets import FixTarget
from orchestrator.code_review.fixes.patched_change import PatchedFile, with_patches
from orchestrator.code_review.fixes.patches import (
    LineReplacement,
    PatchRefused,
    find_replacements,
    read_patch,
    write_patch,
)
from orchestrator.code_review.fixes.proof import MakeTools, prove, prove_by_programs
from orchestrator.code_review.fixes.suppressions import require_no_suppression
from orchestrator.code_review.review_workspace import (
    IterationFocus,
    ReviewWorkspace,
    open_review_workspace,
)
from orchestrator.code_review.verdict.finding_parts import FixState
from orchestrator.data_directories import OVERLAY
from orchestrator.engine.ports import CallContext
from orchestrator.engine.types import Json, Observation, ToolSpec
from orchestrator.errors import DiffcourtError
from orchestrator.sandbox.worker_pool import WorkerPool

PROVE_FIXES = "prove_fixes"
MAX_FIXES = 1_000
"""Patches in one call."""
REDACTION_SECONDS = 10.0
SECONDS = 300.0

SCHEMA: Mapping[str, Json] = {
    "type": "object",
    "properties": {
        "fixes": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_FIXES,
            "items": {
                "type": "object",
                "properties": {
                    "finding": {"type": "string", "description": "its id or fingerprint"},
                    "patch": {"type": "string", "description": "a unified diff against head"},
                },
                "required": ["finding", "patch"],
                "additionalProperties": False,
            },
        },
        "tests": {
            "type": "boolean",
            "description": "also run the tests and type checks of base, if head passes them",
        },
    },
    "required": ["fixes"],
    "additionalProperties": False,
}


class ProposedPatch(Struct, frozen=True):
    """A patch, and the finding that it is to fix."""

    finding: str
    patch: str


class ProofResult(Struct, frozen=True):
    """What came of a proof.

    Attributes:
        patch: all patches as one, as git writes it; empty where they do not apply.
        tools: those that looked at the patched files.
        reason: why it is refused, or no more than applies.
    """

    state: FixState
    patch: str = ""
    tools: tuple[str, ...] = ()
    reason: str = ""

    @classmethod
    def from_json(cls, data: Json) -> "ProofResult":
        """Read it back from the journal."""
        return convert(data, cls)


class ProveFixes:
    """Applies patches to head in a scratch tree and runs analyzers on it."""

    spec = ToolSpec(
        PROVE_FIXES,
        "Whether patches fix their findings: applies them to head and runs the analyzers again.",
        SCHEMA,
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
        fixes = convert(arguments["fixes"], list[ProposedPatch])
        try:
            result = await self._prove(fixes, bool(arguments.get("tests")), context)
        except (PatchRefused, DiffcourtError) as error:
            result = ProofResult("refused", reason=" ".join(str(error).split()))
        shown = {"state": result.state, "reason": result.reason, "checked_by": result.tools}
        return Observation(json.dumps(shown), to_builtins(result))

    async def _prove(
        self, fixes: Sequence[ProposedPatch], tests: bool, context: CallContext
    ) -> ProofResult:
        targets = [self._target(fix.finding) for fix in fixes]
        before: dict[str, bytes] = {}
        parts: dict[str, list[LineReplacement]] = {}
        for fix, target in zip(fixes, targets, strict=True):
            for file in read_patch(fix.patch):
                await self._require_allowed(file.path, target)
                require_no_suppression(file)
                before[file.path] = await self._read(file.path)
                found = find_replacements(file, before[file.path])
                parts.setdefault(file.path, []).extend(found)
        patched = {path: PatchedFile(before[path], tuple(parts[path])) for path in parts}
        after = {path: file.data for path, file in patched.items()}
        after = {path: data for path, data in after.items() if data != before[path]}
        if not after:
            raise PatchRefused("the patch does not change head")
        patch = write_patch(before, after)
        await self._require_no_secret(patch)
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
        """Run the analyzers on the patched files."""
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
            if not proof.refused and tests:
                why = await prove_by_programs(patched, self._make_tools, focus, context)
                if why:
                    return ProofResult("refused", patch, proof.tools, why)
        if proof.refused:
            return ProofResult("refused", patch, proof.tools, proof.refused)
        state: FixState = "applies" if proof.unproved else "verified"
        return ProofResult(state, patch, proof.tools, proof.unproved)

    def _target(self, name: str) -> FixTarget:
        target = self._focus.fixes.targets.get(name)
        if target is None:
            raise PatchRefused(f"{name[:60]} is not an open finding of this review")
        return target

    async def _require_allowed(self, path: str, target: FixTarget) -> None:
        """Check that a patch for a finding may touch a file."""
        listed = await self._workspace.contents.paths("head")
        if path not in listed:
            raise PatchRefused(f"{path} is not a file of head")
        if not listed[path][0].startswith("100"):
            raise PatchRefused(f"{path} is not a regular file")
        own = {target.path, target.cause_path}
        if path in own:
            return
        if path not in self._workspace.files and not target.names(path, listed):
            raise PatchRefused(f"{path} is no file of the change, and the finding does not name it")
        if kind := _protected_kind(path):
            raise PatchRefused(f"{path} is {kind}, and the finding is not in it")

    async def _read(self, path: str) -> bytes:
        blob = (await self._workspace.contents.paths("head"))[path][1]
        return await self._workspace.contents.read(blob)

    async def _require_no_secret(self, patch: str) -> None:
        """Check that the patch and its context lines contain no secret."""
        job: dict[str, Any] = {"text": patch}
        shown = await call_check(
            self._pool, "redacted_text:redact_output", job, REDACTION_SECONDS, str
        )
        if shown != patch or REDACTED in patch:
            raise PatchRefused("the patch or the lines around it contain a secret")


def _protected_kind(path: str) -> str:
    """The kind of a file that only patches of its own findings may touch; else empty."""
    if path == OVERLAY or path.startswith(f"{OVERLAY}/"):
        return "part of the review's policy"
    if matches(path, LOCK_FILES):
        return "a lock file"
    if "ci" in path_kinds(path):
        return "run by CI"
    return ""
