"""Patches for the findings of a review: collected, proven once each, and put into the verdict."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import anyio
from msgspec import convert, to_builtins
from msgspec.structs import replace

from diffchecks.check_io import Edit, decode_text
from diffchecks.fixes.patches import apply_edits, byte_order_mark, write_patch
from diffchecks.secrets.redaction import REDACTED
from diffchecks.unified_diff import PatchRefused
from orchestrator.code_review.agent_report_contracts import WrittenPatch
from orchestrator.code_review.analyzers.own_checks import call_check_in_batches
from orchestrator.code_review.findings.evidence_from_journal import AnalyzerCall
from orchestrator.code_review.findings.located_findings import ProposedFix
from orchestrator.code_review.fixes.fix_targets import FixFocus, FixTarget, ToolReport
from orchestrator.code_review.fixes.proof import PROGRAMS, ProofResult, is_content
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.prove_finding import PROVE_FINDING
from orchestrator.code_review.tools.prove_fixes import PROVE_FIXES
from orchestrator.code_review.verdict.document_parts import TEMPLATE, Fix
from orchestrator.code_review.verdict.model import Finding
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.types import AgentSpec, Bounds

TESTS = "run_tests"
_NOTHING = re.compile(
    r"(?:pass|\.\.\.|return(?: (?:None|null|nil|undefined))?|[{}()\[\]])?;?(?:\s*(?:#|//).*)?"
)
MAX_PROPOSALS = 4
"""For one finding; the first that is verified is taken."""
AT_ONCE = 2
TEMPLATES = "fixes.template_edits:run"
TEMPLATE_SECONDS = 20.0
CODE = AgentSpec("fixes", "proves patches", "", (PROVE_FIXES,), bounds=Bounds())
"""In whose name code calls the tool."""


async def prove_fixes(state: ReviewState) -> None:
    """Prove the proposed patches of open findings, and add the results to the synthesis.

    The journal has each proof under its contents, so an earlier proof is only looked up.
    """
    if not state.given.settings.fixes.proofs:
        return
    state.focus.fixes, state.fixes = make_focus(state), {}
    proposed = await _collect(state)
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def fix(fingerprint: str) -> None:
        async with limiter:
            await _prove_first(state, fingerprint, proposed[fingerprint][:MAX_PROPOSALS])

    async with task_group() as group:
        for fingerprint in islice(proposed, state.given.settings.fixes.proofs):
            group.start_soon(fix, fingerprint)
    held = [
        (finding, proved)
        for finding in state.synthesis.findings
        if (proved := state.fixes.get(finding.fingerprint)) and proved.is_verified
    ]
    # All of them have to hold together; one that does not excludes earlier ones. Base's tests and
    # type checks run here, over all patches: a run costs more than all analyzers.
    if len(held) > 1 or (held and state.focus.fixes.programs):
        await _accept(state, [], held)
    state.synthesis = replace(
        state.synthesis, findings=with_fixes(state.synthesis.findings, state.fixes)
    )


async def _collect(state: ReviewState) -> dict[str, tuple[ProposedFix, ...]]:
    """Fingerprint → proposals for open findings, in the order of the findings.

    The order is: the fixer's, an earlier review's, analyzers' edits, templates, those of agents.
    """
    due = [
        finding
        for finding in state.synthesis.findings
        if finding.state == "open"
        if state.given.patches is None or finding.fingerprint in state.given.patches
    ]
    templates = await _from_templates(state, due)
    earlier = {
        one.fingerprint: [ProposedFix(one.fix.source, one.path, patch=one.fix.patch)]
        for one in state.given.handed_over.claims
        if one.fix and one.fix.patch and one.fix.state != "refused"
    }
    found: dict[str, tuple[ProposedFix, ...]] = {}
    for finding in due:
        name = finding.fingerprint
        reported = state.synthesis.proposals.get(name, ())
        proposals = (
            *state.written.get(name, ()),
            *earlier.get(name, ()),
            *(one for one in reported if one.edits),
            *templates.get(name, ()),
            *(one for one in reported if not one.edits),
        )
        if proposals:
            found[name] = proposals
    return found


async def _from_templates(
    state: ReviewState, due: Iterable[Finding]
) -> Mapping[str, Sequence[ProposedFix]]:
    """The proposals of rules' templates, made in a worker because files of head are parsed."""
    in_head = {one.fingerprint: one for one in due if one.evidence.side == "head"}
    paths = sorted({finding.path for finding in in_head.values()})
    if not paths or not state.given.fix_templates:
        return {}
    side, failed = await state.given.workspace.side("head", paths)
    job = {
        "root": str(side.root),
        "templates": list(state.given.fix_templates),
        "findings": [
            {
                "fingerprint": name,
                "path": finding.path,
                "rule": finding.rule,
                "line": finding.start_line,
                "end_line": finding.end_line,
                "column": finding.start_column or 0,
            }
            for name, finding in in_head.items()
        ],
    }
    files = [path for path in paths if path not in failed]
    replies, _ = await call_check_in_batches(
        state.given.pool, TEMPLATES, job, files, TEMPLATE_SECONDS, dict[str, list[list[Edit]]]
    )
    return {
        name: [ProposedFix(TEMPLATE, in_head[name].path, tuple(edits)) for edits in proposals]
        for reply in replies
        for name, proposals in reply.items()
        if name in in_head
    }


def make_focus(state: ReviewState) -> FixFocus:
    """The data that proofs compare with, from the review's calls and findings so far."""
    calls = [call for call in state.calls() if not call.why]
    reports: dict[str, ToolReport] = {}
    for call in calls:
        known = reports.get(call.tool, ToolReport())
        reports[call.tool] = ToolReport(
            tuple(dict.fromkeys((*known.findings, *call.result.findings))),
            known.read.union(call.result.read),
        )
    targets = {
        name: target
        for finding in state.synthesis.findings
        if finding.state == "open"
        for target in [_target(finding, state.synthesis.ids, calls)]
        for name in (finding.id, finding.fingerprint)
    }
    programs = {call.tool for call in calls if call.tool in PROGRAMS and is_content(call.result)}
    return FixFocus(targets, reports, frozenset(programs))


def _target(finding: Finding, ids: Mapping[str, str], calls: Iterable[AnalyzerCall]) -> FixTarget:
    own = {fingerprint for fingerprint, name in ids.items() if name == finding.id}
    words = [finding.title, finding.detail, finding.fix_suggestion]
    words += [step.path for step in finding.steps]
    return FixTarget(
        frozenset({*own, finding.fingerprint}),
        finding.path,
        frozenset(
            call.tool
            for call in calls
            if any(report.fingerprint in own for report in call.result.findings)
        ),
        finding.because_of.path if finding.because_of else "",
        "\n".join(words),
        tuple(proof for proof in finding.proofs if proof.is_reproduced),
    )


async def _prove_first(
    state: ReviewState, fingerprint: str, proposals: Iterable[ProposedFix]
) -> None:
    """Prove the proposals for one finding until one is verified."""
    best: Fix | None = None
    given = {one.patch for one in state.written.get(fingerprint, ())}
    for proposal in proposals:
        try:
            patch = proposal.patch or await _as_patch(state, proposal)
        except PatchRefused as refusal:
            made = Fix(state="refused", patch="", source=proposal.source, reason=str(refusal))
        else:
            if state.given.patches is not None and patch not in given:
                continue
            proof = await _prove(state, [WrittenPatch(fingerprint, patch)])
            made = _as_fix(proof, patch, proposal.source)
            if proposal.patch:
                made = _as_written_by_agent(made, state.focus.fixes)
        best = made if best is None or _rank(made) < _rank(best) else best
        if best.is_verified:
            break
    if best is not None:
        state.fixes[fingerprint] = best


def _rank(fix: Fix) -> int:
    return ("verified", "applies", "refused").index(fix.state)


async def _as_patch(state: ReviewState, proposal: ProposedFix) -> str:
    """An analyzer's edits as a patch."""
    contents, path = state.given.workspace.contents, proposal.path
    listed = await contents.paths("head")
    if path not in listed:
        raise PatchRefused(f"{path} is not a file of head")
    before = await contents.read(listed[path][1])
    after = apply_edits(decode_text(before), proposal.edits).encode("utf-8", "surrogateescape")
    return write_patch({path: before}, {path: byte_order_mark(before) + after})


def _as_fix(proof: ProofResult, proposed: str, source: str) -> Fix:
    patch = proof.patch or proposed
    if REDACTED in patch:
        return Fix(state="refused", patch="", source=source, reason="the patch would show a secret")
    return Fix(
        state=proof.state, patch=patch, source=source, proved_by=proof.tools, reason=proof.reason
    )


def _as_written_by_agent(fix: Fix, focus: FixFocus) -> Fix:
    """The fix, with the state ``applies`` if only analyzers support it.

    A model can satisfy an analyzer without fixing the defect: remove the code, never run it, or
    hide the pattern. So tests must pass with its patch as well: base's, or that of the finding.
    """
    if not fix.is_verified:
        return fix
    why = ""
    if only_removes(fix.patch):
        why = "it removes code, and only the author can tell whether that is intended"
    elif TESTS not in focus.programs and PROVE_FINDING not in fix.proved_by:
        why = (
            "an agent wrote it, and base's tests did not run on it: only analyzers have checked it"
        )
    return replace(fix, state="applies", reason=why) if why else fix


def only_removes(patch: str) -> bool:
    """Whether the lines that a patch adds have no effect."""
    added = (row[1:].strip() for row in patch.split("\n") if row.startswith("+"))
    return all(_NOTHING.fullmatch(row) for row in added if not row.startswith("++ "))


async def _prove(
    state: ReviewState, patches: Sequence[WrittenPatch], *, tests: bool = False
) -> ProofResult:
    """Have the tool prove patches together; the executor journals it like any call."""
    arguments = {"fixes": to_builtins(patches), **({"tests": True} if tests else {})}
    focus = state.focus.fixes
    targets = [focus.targets[patch.finding] for patch in patches]
    known = [[sorted(one.fingerprints), sorted(one.tools), one.tests] for one in targets]
    compared = [to_builtins(known), sorted(focus.reported), sorted(focus.programs)]
    key = Key("fixes", name=digest([arguments, compared])[:16])
    key = key.in_turn(1).tool_call(1, PROVE_FIXES)
    result = await state.call_tool(CODE, key, arguments)
    if result.refusal or not result.ok or result.data is None:
        why = result.refusal.reason if result.refusal else result.code
        return ProofResult("refused", reason=f"it could not be proven: {why}")
    return convert(result.data, ProofResult)


Held = list[tuple[Finding, Fix]]


async def _accept(state: ReviewState, accepted: Held, more: Held) -> Held:
    """The accepted patches plus those of the others that hold together with them.

    Few do not hold, so these are found by bisection.
    """
    trial = [*accepted, *more]
    tests = bool(state.focus.fixes.programs)
    proof = await _prove(state, _patches(trial), tests=tests)
    if proof.state != "refused":
        return trial
    if len(more) > 1:
        middle = len(more) // 2
        accepted = await _accept(state, accepted, more[:middle])
        return await _accept(state, accepted, more[middle:])
    finding, fix = more[0]
    if accepted:
        others = await _conflicts(state, accepted, (finding, fix)) or accepted
        names = tuple(other.fingerprint for other, _ in others)
        state.fixes[finding.fingerprint] = replace(fix, excludes=names)
    else:
        refused = replace(fix, state="refused", reason=proof.reason)
        state.fixes[finding.fingerprint] = refused
    return accepted


async def _conflicts(state: ReviewState, accepted: Held, one: tuple[Finding, Fix]) -> Held:
    """The accepted patches with which this one does not hold."""
    path = one[0].path
    found: Held = []
    for other in accepted:
        if other[0].path == path:
            proof = await _prove(state, _patches([other, one]))
            found += [other] if proof.state == "refused" else []
    return found


def _patches(held: Iterable[tuple[Finding, Fix]]) -> list[WrittenPatch]:
    return [WrittenPatch(finding.fingerprint, fix.patch) for finding, fix in held]


def with_fixes(findings: Iterable[Finding], fixes: Mapping[str, Fix]) -> tuple[Finding, ...]:
    """The findings with their patches, which refer to other findings by id."""
    listed = tuple(findings)
    ids = {finding.fingerprint: finding.id for finding in listed}

    def add(finding: Finding) -> Finding:
        fix = fixes.get(finding.fingerprint)
        if fix is None:
            return finding
        excludes = tuple(ids[name] for name in fix.excludes if name in ids)
        return replace(finding, fix=replace(fix, excludes=excludes))

    return tuple(map(add, listed))
