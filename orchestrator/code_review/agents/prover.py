"""The prover: an agent that writes a test for each finding that only agents report.

It has one attempt and one correction, in which it is shown why code did not accept a test. Claim
and prediction of the first attempt stay: a test that fails otherwise proves something else. Code
runs the tests, and it alone decides what they prove.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from posixpath import commonprefix

from msgspec import convert, to_builtins
from msgspec.structs import replace

from diffchecks.test_quality.proof_ends import BY_ITSELF, HEAD_PASSES, LACKS
from orchestrator.code_review.agent_report_contracts import ProofReport, WrittenTest, as_form
from orchestrator.code_review.agents.briefs import ask_about, describe, severe_findings
from orchestrator.code_review.analyzers.run_tests import NOT_ALLOWED, NOT_RUN
from orchestrator.code_review.findings.agent_reports import MAX_DETAIL
from orchestrator.code_review.findings.citations import read_lines
from orchestrator.code_review.findings.verdict_findings import Synthesis
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.prove_finding import PROVE_FINDING, Place, PlacedTest
from orchestrator.code_review.tools.test_runners import RUNNERS, Runner, SingleTest, single_test
from orchestrator.code_review.verdict.document_parts import BASE_FAILS, DOUBTED, Proof
from orchestrator.code_review.verdict.model import Finding, Rejected
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.field_types import shared_fields
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.types import AgentSpec, Bounds
from orchestrator.sandbox import bubblewrap
from orchestrator.sandbox.isolated_run import NO_SANDBOX
from orchestrator.sandbox.level_and_launchers import SANDBOX

MAX_TESTS = 3
"""Of one finding."""
PROVEN_CONFIDENCE = 0.95
LINES_AROUND = 40
EXAMPLE_LINES = 40
GONE = "the quoted lines are gone, and no test shows the finding any more"
DROPPED = "a second test of {} was not run: no first one of that finding is left to correct"
FIXED = "the test that showed it passes on head now"
CODE = AgentSpec("proofs", "runs tests of findings", "", (PROVE_FINDING,), bounds=Bounds())
"""In whose name code calls the tool."""


async def prove_findings(state: ReviewState) -> None:
    """Run the tests of an earlier review again, and have the prover write what is missing."""
    earlier = _earlier_tests(state)
    due = findings_to_prove(state)
    if not (due or earlier):
        return
    why = _why_not(state)
    quotes = {one.fingerprint: one.evidence.quote for one in state.given.handed_over.claims}
    for finding, proofs in earlier:
        again = [
            await _prove(
                state, PlacedTest(finding.fingerprint, **shared_fields(proof, WrittenTest))
            )
            for proof in proofs
            if not why
        ]
        moved = finding.carried_over and quotes[finding.fingerprint] != finding.evidence.quote
        if moved and not any(proof.is_reproduced for proof in again):
            again = [replace(proof, state="inconclusive", reason=GONE) for proof in proofs]
        if again:
            state.proofs[finding.fingerprint] = tuple(again)
    if why:
        state.proof_note = f"no finding was proven by a test: {why}"
    elif due := [finding for finding in due if finding.fingerprint not in state.proofs]:
        await _write_tests(state, due)
    state.synthesis = with_proofs(state.synthesis, state.proofs)


def _earlier_tests(state: ReviewState) -> list[tuple[Finding, Sequence[Proof]]]:
    """The findings that are carried over, with the tests that showed them in an earlier review."""
    known = {  # what the verifier doubted of an earlier head says nothing of this one
        claim.fingerprint: [
            replace(proof, not_shown=proof.not_shown.replace(DOUBTED, "").strip("; "))
            for proof in claim.proofs
            if proof.is_reproduced
        ][:MAX_TESTS]
        for claim in state.given.handed_over.claims
    }
    return [
        (finding, proofs)
        for finding in state.synthesis.findings
        if finding.state == "open" and finding.fingerprint not in state.proofs
        if (proofs := known.get(finding.fingerprint))
    ]


async def _write_tests(state: ReviewState, due: Sequence[Finding]) -> None:
    """Have the prover write tests, and correct once those that prove nothing yet."""
    single, path, lines = await _nearest_test(state)
    if why := await _base_lacks(state, single.runner, path, lines):
        state.proof_note = f"no finding was proven by a test: {why}"
        return
    facts = {
        "runner": single.runner.name,
        "command": single.argv("TEST_FILE", "REPORT"),
        "file_name": single.runner.example,
        "exception": single.runner.exception,
        "example": {"path": path, "lines": lines[:EXAMPLE_LINES]} if path else None,
    }
    first = await _ask(state, "prove", due, {}, facts)
    if lacking := [one.reason for some in first.values() for one in some if LACKS in one.reason]:
        state.proof_note = f"tests of findings did not run: {lacking[0]}"
    unproven = {
        fingerprint: [proof for proof in proofs if proof.state == "inconclusive"]
        for fingerprint, proofs in first.items()
        if not any(LACKS in proof.reason for proof in proofs)  # no other test would run either
    }
    again = [one for one in due if unproven.get(one.fingerprint)]
    if again:
        await _ask(state, "prove_again", again, unproven, facts)


def findings_to_prove(state: ReviewState) -> list[Finding]:
    """Open findings of at least medium severity that no analyzer proved and no test has tried."""
    settings = state.given.settings.proofs
    if settings.agent is None or not state.given.settings.has_model:
        return []
    return [
        finding
        for finding in severe_findings(state)
        if finding.support not in {"proven", "refuted"} and finding.fingerprint not in state.proofs
    ][: settings.findings]


def _why_not(state: ReviewState) -> str:
    """Why no test can be run, and what to do; empty: one can."""
    tests = state.given.settings.tests
    if tests is None:
        return "base configures no tests"
    if single_test(tests) is None:
        why = f"tests.command names none of {', '.join(runner.name for runner in RUNNERS)}"
        return f"{why}; set tests.single to the command that runs one file"
    if PROVE_FINDING not in state.runtime.executor.registry.specs():
        return NOT_ALLOWED.removeprefix(NOT_RUN)
    if SANDBOX.level != "bubblewrap" or bubblewrap.find_bwrap() is None:
        return NO_SANDBOX
    return ""


async def _ask(
    state: ReviewState,
    part: str,
    findings: Sequence[Finding],
    earlier: Mapping[str, Sequence[Proof]],
    facts: Mapping[str, object],
) -> Mapping[str, Sequence[Proof]]:
    """Run one task of the prover and its tests; the new proofs, by the finding's fingerprint."""
    spec = state.agent(str(state.given.settings.proofs.agent))
    shown = [_shown(finding, earlier.get(finding.fingerprint, ())) for finding in findings]
    result = await ask_about(state, spec, part, findings, LINES_AROUND, tests=facts, findings=shown)
    if result.status != "ok":
        return {}
    known = {key: one for one in findings for key in (one.id, one.fingerprint)}
    found: dict[str, list[Proof]] = {}
    tests, left = as_form(ProofReport, result.report).tests, {k: [*v] for k, v in earlier.items()}
    tried = {proof.claim for proofs in earlier.values() for proof in proofs}
    for test in sorted(tests, key=lambda one: one.claim not in tried):
        tested = known.get(test.finding)
        if tested is None or len(found.get(tested.fingerprint, ())) >= MAX_TESTS:
            continue
        before = left.get(tested.fingerprint, [])
        if earlier and not before:
            state.proof_note = state.proof_note or DROPPED.format(tested.id)
            continue
        named = replace(_with_prediction(test, before), finding=tested.fingerprint)
        placed = PlacedTest(**shared_fields(named, WrittenTest), place=_place_of(tested))
        proof = await _prove(state, placed)
        found.setdefault(tested.fingerprint, []).append(proof)
    for finding in findings:  # one that the prover leaves out is not asked again
        state.proofs.setdefault(finding.fingerprint, ())
    for fingerprint, proofs in found.items():
        claims = {proof.claim for proof in proofs}
        kept = [one for one in state.proofs.get(fingerprint, ()) if one.claim not in claims]
        state.proofs[fingerprint] = (*kept, *proofs)
    return found


def _with_prediction(test: WrittenTest, before: list[Proof]) -> WrittenTest:
    """The test with what a first attempt at its claim, else at its finding, said before it was run.

    Each attempt is taken out of ``before``: it is corrected once.
    """
    if not before:
        return test
    first = next((proof for proof in before if proof.claim == test.claim), before[0])
    before.remove(first)
    if not (first.head or first.base) or first.reason == BY_ITSELF:
        return test
    same = {name: getattr(first, name) for name in ("exception", "value", "oracle")}
    return replace(test, **same, not_shown=first.not_shown or test.not_shown)


_NAME = re.compile(r"\w+_\w*|_\w+|\w+(?=\()|(?<=\w\.)[A-Za-z]\w*|[A-Z]{3,}")


def _place_of(finding: Finding) -> Place:
    """Where the change causes a finding, and what its text calls by name."""
    names = [*dict.fromkeys(_NAME.findall(f"{finding.title} {finding.detail}"))]
    if cause := finding.because_of:
        return Place(cause.path, cause.line, cause.line, cause.removed, names)
    is_of_base = finding.evidence.side == "base"
    return Place(finding.path, finding.start_line, finding.end_line, is_of_base, names)


async def _prove(state: ReviewState, test: PlacedTest) -> Proof:
    """Have the tool run a test; the executor journals it like any call."""
    arguments = to_builtins(test)
    key = Key("proofs", name=digest(arguments)[:16]).in_turn(1).tool_call(1, PROVE_FINDING)
    result = await state.call_tool(CODE, key, arguments)
    if result.refusal or not result.ok or result.data is None:
        why = result.refusal.reason if result.refusal else result.code
        why = f"it was not run: {why}"
        return Proof(**shared_fields(test, Proof), state="inconclusive", reason=why, command=())
    return convert(result.data, Proof)


async def _nearest_test(state: ReviewState) -> tuple[SingleTest, str, Sequence[str]]:
    """How tests are run here, and a test of base near the change: path and lines, else empty."""
    tests = state.given.settings.tests
    assert tests is not None
    single = single_test(tests)
    assert single is not None
    workspace = state.given.workspace
    listed = await workspace.contents.paths("base")
    tops = [file.path.split("/") for file in workspace.change.files]
    stems = [PurePosixPath(file.path).stem for file in workspace.change.files]

    def nearness(path: str) -> tuple[int, bool, int]:
        parts = path.split("/")
        near = max((len(commonprefix([parts[:-1], top[:-1]])) for top in tops), default=0)
        return -near, not any(stem in parts[-1] for stem in stems), len(parts)

    examples = sorted(filter(single.is_test, listed), key=nearness)
    lines = await read_lines(workspace, "base", examples[0]) if examples else []
    return single, examples[0] if examples else "", lines


async def _base_lacks(state: ReviewState, runner: Runner, path: str, lines: Sequence[str]) -> str:
    """Why no test would run: what a test of base imports and the environment lacks; else empty."""
    if not (path and runner.rest):
        return ""
    text = "\n".join(re.findall(runner.imports, "\n".join(lines))) + runner.rest
    own = str(PurePosixPath(path).with_name(PurePosixPath(runner.example).name))
    words = ("base", "base's tests run", own, text, "AssertionError", "none")
    proof = await _prove(state, PlacedTest(*words, only_imports=True))
    return proof.reason if LACKS in proof.reason else ""


def _shown(finding: Finding, earlier: Sequence[Proof]) -> Mapping[str, object]:
    """A finding, and what became of its tests."""
    names = ("claim", "path", "test", "exception", "value", "oracle", "reason", "base", "head")
    tried = [{name: getattr(proof, name) for name in names} for proof in earlier]
    shown = describe(finding, longest=MAX_DETAIL, quoted=False)
    return {**shown, "tried": tried} if tried else shown


def with_proofs(found: Synthesis, proofs: Mapping[str, Sequence[Proof]]) -> Synthesis:
    """The synthesis with what tests show: a finding is proven, or its earlier test passes now."""
    findings: list[Finding] = []
    rejected = list(found.rejected)
    for at, one in enumerate(rejected):
        tried = proofs.get(one.finding.fingerprint, ())
        if one.cause == "older" and any(proof.state == "not_introduced" for proof in tried):
            rejected[at] = replace(one, reason=f"{one.reason}; {BASE_FAILS}")
    for finding in found.findings:
        own = tuple(proofs.get(finding.fingerprint, ()))
        rest = {one.claim for one in own} - {one.claim for one in own if one.is_reproduced}
        if finding.support == "refuted":
            rest.add(DOUBTED)
        own = tuple(one.without(*sorted(rest)) if one.is_reproduced else one for one in own)
        shown = replace(finding, proofs=own)
        # Where head passes each test that was to show it, nobody's word outweighs that.
        head_passes = own and all(one.reason.startswith(HEAD_PASSES) for one in own)
        if shown.is_tested:
            confidence = max(finding.confidence, PROVEN_CONFIDENCE)
            shown = replace(shown, support="proven", confidence=confidence)
        elif finding.carried_over and own and {one.reason for one in own} <= {HEAD_PASSES, GONE}:
            closed = replace(shown, state="rejected")
            reason = GONE if own[0].reason == GONE else FIXED
            rejected.append(Rejected(finding=closed, reason=reason, cause="fixed"))
            continue
        elif head_passes and finding.support in {"verified", "agreed"}:
            shown = replace(shown, support="claimed")
        findings.append(shown)
    return replace(found, findings=tuple(findings), rejected=tuple(rejected))
