"""The verifier: an agent that did not make a claim, and confirms or refutes it by quotations.

It has one request for all claims. It is shown place, claim and code, and not the finder's argument,
confidence, severity or name. Code decides what its verdicts are worth.
"""

import re
from collections.abc import Iterable

from msgspec.structs import replace

from orchestrator.catalog.shared_literals import Severity, is_as_severe
from orchestrator.code_review.agent_report_contracts import VerifierReport, as_form
from orchestrator.code_review.agents.briefs import (
    MIN_SEVERITY,
    ask_about,
    number_runs,
    severe_findings,
)
from orchestrator.code_review.agents.code_looked_up import choose_looked_up
from orchestrator.code_review.agents.participants import has_verifier, named_vendors
from orchestrator.code_review.agents.prover import LINES_AROUND
from orchestrator.code_review.findings.agent_reports import MAX_DETAIL, shorten
from orchestrator.code_review.findings.located_findings import Verification
from orchestrator.code_review.findings.verification import as_evidence, check_verdicts
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.verdict.model import Finding
from orchestrator.engine.types import AgentSpec

_SENTENCE = re.compile(r"(?<=[.!?])(?<!\.\.)(?<!e\.g\.)(?<!i\.e\.)\s(?![a-z])")


async def verify_findings(state: ReviewState) -> None:
    """Have the verifier look at what only agents claim, and store what counts."""
    due = findings_to_verify(state)
    if not due:
        return
    state.focus.asked = {finding.id: finding for finding in due}
    spec = choose_verifier(state, {name for finding in due for name in finding.reported_by})
    ran, numbers = number_runs(due)
    claims = [_shown(finding) | numbers[finding.id] for finding in due]
    seen = await choose_looked_up(state, due, LINES_AROUND)
    result = await ask_about(
        state, spec, "verify", due, LINES_AROUND, seen, claims=claims, runs=ran
    )
    state.verifier_note = ""
    if result.status != "ok":
        ids = ", ".join(state.focus.asked)
        state.verifier_note = f"{ids} not verified: the verifier {result.status}: {result.detail}"
        return
    report = as_form(VerifierReport, result.report)
    valid, errors = await check_verdicts(state.given.workspace, report, state.focus.asked)
    whys = dict(error.removeprefix("verdict on ").split(": ", 1) for error in errors)
    found: dict[str, Verification] = {}
    for finding in due:
        made = Verification("cannot_tell", whys.get(finding.id, ""), finding.severity)
        if given := valid.get(finding.id):
            other = state.focus.asked.get(given.duplicate_of)
            made = Verification(
                given.verdict,
                shorten(given.reason, MAX_DETAIL),
                finding.severity,
                as_evidence(given.quotes),
                other.fingerprint if other else "",
            )
        # It was told the claims of all reports that are this finding now, and of no later one.
        names = [name for name, kept in state.synthesis.ids.items() if kept == finding.id]
        found.update(dict.fromkeys(names, made))
    state.iteration.verified, state.iteration.verdict_errors = found, errors


def findings_to_verify(state: ReviewState) -> list[Finding]:
    """Open findings of at least medium severity that nothing proves, and none has been asked about.

    One that has become more severe is asked about again. An analyzer's finding is asked about where
    an agent disputes it with evidence, and an argument can outweigh it.
    """
    settings = state.given.settings
    if not has_verifier(settings):
        return []
    asked: dict[str, Severity] = {
        name: one.severity for done in state.iterations for name, one in done.verified.items()
    }
    return [
        finding
        for finding in severe_findings(state)
        if finding.context is not None  # its file can be read
        and (finding.support in {"claimed", "agreed"} or _is_disputed(state, finding))
        and not is_as_severe(asked.get(finding.fingerprint, "info"), finding.severity)
    ][: settings.verify.findings]


def _is_disputed(state: ReviewState, finding: Finding) -> bool:
    """Whether an agent disputes what an analyzer reports and an argument can outweigh."""
    return (
        finding.severity == MIN_SEVERITY
        and finding.category != "security"
        and any(one.refutes for one in finding.objections)
        and not any(proof.is_reproduced for proof in finding.proofs)
        and not state.given.workspace.rules.is_fact(finding.rule)
    )


def choose_verifier(state: ReviewState, finders: Iterable[str] = ()) -> AgentSpec:
    """Who verifies: at a provider of the review that no finder's model is at, if there is one."""
    catalog, settings = state.given.catalog, state.given.settings
    spec = state.agent(str(settings.verify.agent))
    theirs = {state.family_of(name) for name in finders}
    vendors = [name for name, agents in named_vendors(catalog, settings).items() if agents]
    other = next((name for name in vendors if name not in theirs), "")
    named = catalog.models.split(spec.model)[0]
    return spec if named or not other else replace(spec, model=f"{other}:{spec.model}")


def _shown(finding: Finding) -> dict[str, object]:
    """A claim with its place; of its detail the first sentence, what is wrong.

    Not its severity and argument, nor who makes it.
    """
    titles = [finding.title, *(one.title for one in finding.reports if not one.proved)]
    return {
        **{name: getattr(finding, name) for name in ("id", "path", "start_line", "end_line")},
        "side": finding.evidence.side,
        "claim": "; ".join(dict.fromkeys(titles)),
        "goes_wrong": _SENTENCE.split(finding.detail, maxsplit=1)[0][:MAX_DETAIL],
    }
