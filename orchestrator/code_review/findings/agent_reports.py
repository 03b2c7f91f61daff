"""Agents' reports: new findings in them, and responses to existing ones, held to their limits.

Agents may confirm, refine, dispute and join findings, and withdraw their own. A finding that an
analyzer proved keeps its weight regardless. See docs/decisions/0005.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from math import ceil

from msgspec import Struct, field
from msgspec.structs import replace

from diffchecks.new_findings import remove_white_space
from diffchecks.rules import RuleTable
from orchestrator.catalog.shared_literals import SEVERE, SEVERITIES, Severity
from orchestrator.code_review.agent_report_contracts import (
    FindingResponse,
    ReportedFinding,
    SpecialistReport,
    as_form,
)
from orchestrator.code_review.findings.citations import CitableSources, format_citation
from orchestrator.code_review.findings.evidence_from_journal import Work
from orchestrator.code_review.findings.located_findings import (
    FindingTarget,
    LocatedFinding,
    Verification,
)
from orchestrator.code_review.findings.merging import FindingReport, MergedFinding, default_rule
from orchestrator.code_review.verdict.document_parts import Objection, SnippetRun
from orchestrator.engine.canonical_json import digest

MAX_TITLE = 160
MAX_DETAIL = 2_000
"""Characters; what is longer is cut, with a mark."""
LONGEST_WORD = 40
"""Characters; within a longer run without a blank a text is cut anywhere."""
MAX_WEIGHTY, TOKENS_FOR_THEM = 10, 40_000
"""Findings above info that an agent may report, for so many tokens of the change that it reads."""

_AS_GIVEN = ("path", "start_line", "end_line", "quote", "because_of", "guideline", "patch", "older")
_DOCS = re.compile(r"doc(?:s|umentation)?\b")
_SHARD = re.compile(r"(-shard)?-\d+$")
"""The end of the name of an agent that shares its role with others."""
_SPELLING = re.compile(r"\b(typo\w*|spelling|misspell\w*|misspelt)\b", re.IGNORECASE)


class IterationReport(Struct, frozen=True):
    """One agent's report of one iteration."""

    agent: str
    iteration: int
    form: SpecialistReport


def read_reports(team: Iterable[Work]) -> Iterable[IterationReport]:
    """Each agent's reports that fit their contract."""
    for entry in team:
        if entry.result.status == "ok":
            form = as_form(SpecialistReport, entry.result.report)
            yield IterationReport(entry.result.agent, entry.iteration, form)


def claim_fingerprint(claim: ReportedFinding) -> str:
    """16 hex digits, equal for the same claim of whatever agent."""
    return digest([claim.rule, remove_white_space([claim.quote]), claim.path, claim.title])[:16]


def read_claim(claim: ReportedFinding, agent: str) -> LocatedFinding:
    """An agent's finding in the form that analyzers' findings have."""
    category = claim.category.strip().casefold() or _SHARD.sub("", agent)
    if _DOCS.match(category):
        category = "docs"
    return LocatedFinding(
        fingerprint=claim_fingerprint(claim),
        rule=claim.rule or default_rule(category),
        severity=limit_severity(claim.severity, category, claim.title),
        category=category,
        cwe=tuple(int(str(weakness).removeprefix("CWE-")) for weakness in claim.cwe),
        confidence=claim.confidence,
        title=shorten(claim.title, MAX_TITLE),
        detail=shorten(claim.detail, MAX_DETAIL),
        fix_suggestion=shorten(claim.fix_suggestion, MAX_DETAIL),
        **{name: getattr(claim, name) for name in _AS_GIVEN},
    )


def limit_severity(severity: Severity, category: str, title: str) -> Severity:
    """The severity that an agent's finding has at most: documentation alone never weighs much."""
    if category != "docs":
        return severity
    most: Severity = "info" if _SPELLING.search(title) else "medium"
    return max(severity, most, key=SEVERITIES.index)


def shorten(text: str, limit: int) -> str:
    """A text of at most ``limit`` characters, cut between words; the end says how long it was."""
    if len(text) <= limit:
        return text
    mark = f"... [cut: {len(text)} characters]"
    kept, blank, last = text[: limit - len(mark) + 1].rpartition(" ")
    return (kept if blank and len(last) <= LONGEST_WORD else text[: limit - len(mark)]) + mark


EVIDENCE_SOURCES = ("file", "diff", "tool")
"""What a response may cite. Citing a finding would support one claim with another."""

BOTH_STAY = "analyzers report both, so both stay"
OWN_CLAIM = "it is your own finding; somebody else must confirm it"
NO_REFUTATION = "the repository's guidance says nothing about what code does; cite code or a tool"


def most_findings(parts: Iterable[int]) -> int:
    """How many findings above info an agent may report, by the tokens that each of them reads."""
    return MAX_WEIGHTY * max(1, ceil(max(parts) / TOKENS_FOR_THEM))


class References(Struct, frozen=True):
    """The findings that ids in reports refer to, and what the verifier says of them.

    Attributes:
        shown: iteration → id → fingerprint, as its agents were shown them.
        verified: fingerprint of a report → what the verifier says of its finding.
        ids: fingerprint → the id that a finding keeps.
        carried: findings of the previous review.
        why_settled: why an earlier review has settled an agent's finding; empty: it has not.
        family_of: agent → the family of the model that answers it; empty: the review's own.
        most: findings above info that an agent may report.
        run_of: agent and a text → its snippet that printed this; None: none did.
    """

    shown: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    verified: Mapping[str, Verification] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    carried: Sequence[FindingReport] = ()
    why_settled: Callable[[LocatedFinding], str] = lambda _: ""
    family_of: Callable[[str], str] = lambda _: ""
    most: int = MAX_WEIGHTY
    run_of: Callable[[str, str], SnippetRun | None] = lambda *_: None


class Responses(Struct):
    """The responses of all agents, checked.

    Attributes:
        reports: responses that support another reporter's finding, each as a report.
        refined: (agent, fingerprint) → the agent's own finding in its present form.
        withdrawn: (agent, fingerprint) → the iteration and the reason.
        duplicates: pairs of fingerprints of the same defect.
        disputes: fingerprint → (agent, reason) → the response, and why its evidence is invalid.
        notes: (iteration, agent) → responses that do not count, and why.
    """

    reports: list[FindingReport] = field(default_factory=list)
    refined: dict[tuple[str, str], LocatedFinding] = field(default_factory=dict)
    withdrawn: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    duplicates: list[tuple[str, str]] = field(default_factory=list)
    disputes: dict[str, dict[tuple[str, str], tuple[FindingResponse, str]]] = field(
        default_factory=dict
    )
    notes: dict[tuple[int, str], list[str]] = field(default_factory=dict)


async def response_error(
    sources: CitableSources,
    agent: str,
    response: FindingResponse,
    find: Callable[[str], FindingTarget | None],
) -> str:
    """Why a response has no effect, for its agent and the reader; empty if it has one."""
    target, action = find(response.finding), response.action
    if target is None:
        return f"there is no finding {response.finding!r}"
    if action == "withdraw" and agent not in target.agents:
        return "it is not a finding of yours; dispute it, with evidence"
    if action == "withdraw" and target.carried:
        return "an earlier review reported it; dispute it, with evidence"
    if action == "duplicate":
        other = find(response.duplicate_of)
        if other is None or response.duplicate_of == response.finding:
            return f"there is no other finding {response.duplicate_of!r}"
        return BOTH_STAY if target.proved and other.proved else ""
    if action in {"confirm", "refine"} and target.why_rejected:
        return (
            f"it is rejected ({target.why_rejected}); report it as a finding, with a "
            "correct quotation"
        )
    if action == "confirm" and target.agents == {agent} and not target.proved:
        return OWN_CLAIM
    return await _evidence_error(sources, response)


async def _evidence_error(sources: CitableSources, response: FindingResponse) -> str:
    evidence, action = response.evidence, response.action
    if action in {"dispute", "refine"} and sources.rest_on_guidance(evidence):
        return NO_REFUTATION
    if action in {"confirm", "dispute"} or (action == "refine" and evidence):
        return await sources.check(evidence, EVIDENCE_SOURCES)
    return ""


async def collect_responses(
    sources: CitableSources,
    reports: Iterable[IterationReport],
    shown: Mapping[int, Mapping[str, str]],
    known: Mapping[str, MergedFinding],
    rejected: Mapping[str, FindingTarget],
) -> Responses:
    """Check all responses against the findings that they refer to.

    Args:
        known: fingerprint of any report → its finding.
        rejected: fingerprint → a report that does not count.
    """
    found = Responses()
    for report in reports:
        names = shown.get(report.iteration, {})

        def find(name: str, names: Mapping[str, str] = names) -> FindingTarget | None:
            fingerprint = names.get(name, name)
            if merged := known.get(fingerprint):
                return FindingTarget(
                    merged.supporters, merged.from_analyzer, carried=merged.is_carried
                )
            return rejected.get(fingerprint)

        for response in report.form.responses:
            error = await response_error(sources, report.agent, response, find)
            merged = known.get(names.get(response.finding, response.finding))
            if response.action == "dispute" and merged:
                key = report.agent, response.reason
                found.disputes.setdefault(merged.fingerprint, {})[key] = response, error
            elif error:
                text = f"{response.action} of {response.finding}: {error}"
                found.notes.setdefault((report.iteration, report.agent), []).append(text)
            elif merged:
                other = known.get(names.get(response.duplicate_of, response.duplicate_of))
                _count(found, report, response, merged, other)
    return found


def _count(
    found: Responses,
    report: IterationReport,
    response: FindingResponse,
    merged: MergedFinding,
    other: MergedFinding | None,
) -> None:
    """Add a response that has an effect."""
    agent = report.agent
    own = [
        report
        for report in merged.reports
        if report.reporter == agent and not (report.from_analyzer or report.carried)
    ]
    match response.action:
        case "withdraw":
            for own_report in own:
                found.withdrawn[agent, own_report.finding.fingerprint] = (
                    report.iteration,
                    response.reason,
                )
            if agent in merged.repeated_by:
                found.withdrawn[agent, merged.fingerprint] = report.iteration, response.reason
        case "duplicate":
            if other and other is not merged:
                found.duplicates.append((merged.fingerprint, other.fingerprint))
        case "confirm" | "refine":
            for own_report in own:
                found.refined[agent, own_report.finding.fingerprint] = replace(
                    _reworded(own_report.finding, response),
                    refined_because=shorten(response.reason, MAX_DETAIL),
                )
            if not own:
                made = FindingReport(
                    agent,
                    _reworded(merged.finding, response),
                    from_analyzer=False,
                    refers_to=merged.fingerprint,
                    confirms=response.action == "confirm",
                    lowers=response.action == "refine" and bool(response.evidence),
                    reason=shorten(response.reason, MAX_DETAIL),
                )
                found.reports = [
                    each
                    for each in found.reports
                    if (each.reporter, each.refers_to) != (agent, merged.fingerprint)
                ]
                found.reports.append(made)


def _reworded(finding: LocatedFinding, response: FindingResponse) -> LocatedFinding:
    """A finding with the texts of a response; fields that the response omits stay."""
    severity = finding.severity
    if response.severity is not None:
        severity = limit_severity(
            response.severity, finding.category, response.title or finding.title
        )
    stated = response.confidence
    return replace(
        finding,
        severity=severity,
        confidence=finding.confidence if stated is None else stated,
        title=shorten(response.title, MAX_TITLE) or finding.title,
        detail=shorten(response.detail, MAX_DETAIL) or finding.detail,
        fix_suggestion=shorten(response.fix_suggestion, MAX_DETAIL) or finding.fix_suggestion,
    )


def judge_disputes(
    disputes: Mapping[str, Mapping[tuple[str, str], tuple[FindingResponse, str]]],
    rules: RuleTable,
    known: Mapping[str, MergedFinding],
    team: Container[str],
) -> dict[str, list[Objection]]:
    """The agents' disputes as objections, each with why it does not set its finding aside."""
    found: dict[str, list[Objection]] = {}
    for fingerprint, made in disputes.items():
        merged = known.get(fingerprint)
        if merged is None:
            continue
        objecting = {agent for (agent, _), (_, error) in made.items() if not error}
        upheld = _why_upheld(merged, objecting, rules, team)
        found.setdefault(merged.fingerprint, []).extend(
            Objection(
                by=agent,
                reason=reason,
                evidence=tuple(map(format_citation, response.evidence)),
                why_not=error or upheld,
                refutes=not error,
            )
            for (agent, reason), (response, error) in made.items()
        )
    return found


def _why_upheld(
    merged: MergedFinding, objecting: Set[str], rules: RuleTable, team: Container[str]
) -> str:
    """Why a finding is upheld against agents with valid objections; empty if it is not.

    A reporter of an earlier review that takes no part in this one cannot be asked: that upholds a
    severe finding only.
    """
    for report in merged.all_reports:
        rule = report.finding.rule
        if report.from_analyzer and not rules.is_arguable(rule):
            return f"{report.reporter} proved it, and {rule} is not a matter of judgment"
    severe = any(report.finding.severity in SEVERE for report in merged.all_reports)
    others = sorted(one for one in merged.supporters - objecting if severe or one in team)
    return f"{', '.join(others)} said that it is a defect" if others else ""
