"""What the next iteration asks of each agent, and what it shows of earlier ones."""

import re
from collections.abc import Iterable, Mapping, Sequence

from orchestrator.code_review.agents.briefs import MAX_TEXT, describe, describe_rejected
from orchestrator.code_review.findings.agent_reports import shorten
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.verdict.document_parts import Objection
from orchestrator.code_review.verdict.model import Finding

SHOWN = 60
"""Findings, and rejected findings, of which an agent is reminded."""

_ID = re.compile(r"\b[FR]\d+\b")


def find_requests(state: ReviewState, *, rejected: bool = True) -> dict[str, list[str]]:
    """What the next iteration asks of each agent about single findings.

    Args:
        rejected: include rejected findings, which were sent back to their agents before.
    """
    requests: dict[str, list[str]] = {}

    def ask(agents: Iterable[str], text: str) -> None:
        for agent in agents:
            if agent in state.examiners:
                requests.setdefault(agent, []).append(text)

    for entry in state.synthesis.rejected if rejected else ():
        if entry.cause in {"unverified", "outside"}:
            finding = entry.finding
            text = f"{finding.id} was rejected: {entry.reason}. Report it again with a correct "
            ask(finding.reported_by, text + "quotation, or drop it.")
    for finding in state.synthesis.findings:
        if finding.support == "proven" or finding.state != "open":
            continue
        for objection in _raised_now(finding):
            verb = "refutes" if objection.refutes else "doubts"
            text = f"{objection.by} {verb} {finding.id}: {objection.reason} Refine {finding.id}, "
            ask(finding.reported_by, text + "with evidence, or withdraw it.")
    return requests


def _raised_now(finding: Finding) -> list[Objection]:
    """The objections of this review; the earlier review asked about its own."""
    return [objection for objection in finding.objections if not objection.earlier]


def concerned_agents(state: ReviewState, missing: Iterable[str]) -> list[str]:
    """Agents whose findings are doubted, rejected, or named in evidence that the judge misses."""
    named = set(_ID.findall(" ".join(missing)))
    findings = [*state.synthesis.findings, *(entry.finding for entry in state.synthesis.rejected)]
    about = [one for one in findings if one.id in named]
    about += [f for f in state.synthesis.findings if f.support != "proven" and _raised_now(f)]
    about += [one.finding for one in state.synthesis.rejected if one.cause == "unverified"]
    wanted = {name for finding in about for name in finding.reported_by}
    return [name for name in state.examiners if name in wanted]


def paths_of_requests(state: ReviewState, agent: str) -> list[str]:
    """The changed files of the findings about which an agent is asked."""
    named = set(_ID.findall(" ".join(state.focus.requests.get(agent, ()))))
    findings = [*state.synthesis.findings, *(entry.finding for entry in state.synthesis.rejected)]
    about = [finding for finding in findings if finding.id in named]
    paths = {one.path for one in about} | {f.because_of.path for f in about if f.because_of}
    return [path for path in state.given.workspace.files if path in paths]


def earlier_rounds(state: ReviewState, agent: str = "") -> dict[str, object]:
    """What a brief says about earlier iterations; nothing in the first one.

    Args:
        agent: whose brief it is; empty: the lead's, with the requests to all agents.
    """
    if state.focus.retry is None:
        return {}
    synthesis, requests = state.synthesis, state.focus.requests
    facts: dict[str, object] = {
        "findings": [_remind(state, finding) for finding in synthesis.findings[:SHOWN]],
        "rejected": [describe_rejected(entry) for entry in synthesis.rejected[:SHOWN]],
    }
    if agent:
        return {**facts, "asked_of_you": list(requests.get(agent, ()))}
    first = state.iterations[0].plan.summary
    requested: Mapping[str, Sequence[str]] = {name: list(texts) for name, texts in requests.items()}
    return {**facts, "asked": requested, "first_plan": shorten(first, MAX_TEXT)}


def _remind(state: ReviewState, finding: Finding) -> dict[str, object]:
    """A finding as an agent is reminded of it, without what the opening says of it."""
    shown = describe(finding)
    opening = state.runtime.opening
    if finding.fingerprint in opening and finding.detail.replace("\n", " ") in opening:
        del shown["detail"], shown["quote"]
    return shown
