"""Builds a verdict's finding from the reports that were merged."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

from msgspec.structs import replace

from orchestrator.catalog.shared_literals import (
    OUTCOMES,
    SEVERE,
    SEVERITIES,
    Severity,
    Support,
    is_as_severe,
)
from orchestrator.catalog.verdict_policy import VerdictPolicy
from orchestrator.code_review.findings.located_findings import LocatedFinding, Verification
from orchestrator.code_review.findings.merging import FindingReport, MergedFinding, overlaps
from orchestrator.code_review.verdict.decision import outcome_for, weight
from orchestrator.code_review.verdict.document_parts import Objection, Remark, Reported
from orchestrator.code_review.verdict.model import Evidence, Finding
from orchestrator.engine.field_types import shared_fields

VERIFIER = "verifier"
"""Whoever verifies, in objections, remarks and confirmations."""
# A verdict of the verifier → the action of the remark that a finding has of it.
_ACTIONS: Mapping[str, Any] = {
    "confirmed": "confirms",
    "cannot_tell": "cannot tell of",
    **dict.fromkeys(("stopped", "intended", "minor"), "limits"),
}
_LIMITS = {verdict for verdict, action in _ACTIONS.items() if action == "limits"}


def build_finding(
    merged: MergedFinding,
    policy: VerdictPolicy,
    objections: Iterable[Objection] = (),
    family_of: Callable[[str], str] = lambda _: "",
) -> Finding:
    """The verdict's finding, without an id.

    Its severity and confidence are those of the report that, with the reporters that agree, weighs
    most under the policy. So a report of an agent makes only an arguable finding weigh less.

    Args:
        family_of: agent → the family of its model.
    """
    first, objections = merged.finding, _up_to_date(merged, objections)
    disputed = any(one.refutes for one in objections)
    against = {one.by for one in objections if one.refutes and not one.earlier}

    def supported(severity: Severity, part: MergedFinding) -> tuple[Support, tuple[str, ...]]:
        support, names = _support(merged, part, severity, policy, family_of)
        if support == "proven" and _is_outweighed(merged, severity, against):
            return "refuted", names
        return "claimed" if disputed and support in {"verified", "agreed"} else support, names

    rated = [
        (report.finding.severity, part.confidence(report), part)
        for part in merged.parts
        for report in _counting(part.reports)
    ]

    def counts(rating: tuple[Severity, float, MergedFinding]) -> tuple[int, int, int, float]:
        severity, confidence, part = rating
        support, _ = supported(severity, part)
        outcome, _ = outcome_for(severity, confidence, support, policy, "")
        level = weight(severity, confidence, policy)
        return OUTCOMES.index(outcome), level, -SEVERITIES.index(severity), confidence

    severity, confidence, decides = max(rated, key=counts)
    # It is told itself if it weighs as much as its surest duplicate.
    told = max(rated, key=lambda one: (*counts(one)[:-1], one[-1] is merged))[-1]
    words, reports = _words(merged, told, policy), merged.all_reports
    refs = {ref for report in reports for ref in report.call_refs}
    reporters = {name for report in reports for name in (report.reporter, *report.called_by)}
    support, confirmed_by = supported(severity, decides)
    severity, support, lowered_from = _lowered(merged, severity, support)
    return Finding(
        id="",
        **_shown(first, words, reports),
        severity=severity,
        confidence=confidence,
        lowered_from=lowered_from,
        evidence=Evidence(quote=first.quote, tool_calls=tuple(sorted(refs)), side=first.side),
        reported_by=tuple(sorted(reporters | merged.supporters)),
        carried_over=merged.is_carried,
        reports=tuple(_report_of(each, first) for each in reports if len(reports) > 1),
        objections=_objections(merged, objections, support),
        remarks=_remarks(merged),
        support=support,
        confirmed_by=confirmed_by,
    )


def _lowered(
    merged: MergedFinding, severity: Severity, support: Support
) -> tuple[Severity, Support, Severity | None]:
    """Its severity and support, and from which severity it was lowered: to low where limited."""
    if support == "refuted" and _LIMITS & {one.verdict for one in verifications(merged)}:
        return "low", "claimed", severity
    return severity, support, merged.finding.lowered_from if severity == "info" else None


def _up_to_date(merged: MergedFinding, given: Iterable[Objection]) -> tuple[Objection, ...]:
    """Objections without what the verifier said of an earlier push, where it decides again."""
    again = any(one.verdict != "cannot_tell" for one in verifications(merged))
    return tuple(one for one in given if one.by != VERIFIER or not again)


def _shown(
    first: LocatedFinding, words: LocatedFinding, reports: Sequence[FindingReport]
) -> dict[str, Any]:
    """The fields of a finding that one report gives, or the first that has them."""
    rated = {"severity", "confidence", "lowered_from"}
    fields = {name: it for name, it in shared_fields(first, Finding).items() if name not in rated}
    return {
        **fields,
        "title": words.title or first.title,
        "detail": _detail(first, words),
        "start_column": first.start_column or None,
        "fix_suggestion": words.fix_suggestion or first.fix_suggestion,
        "cwe": next((cwe for one in reports if (cwe := one.finding.cwe)), ()),
        "guideline": next((g for one in reports if (g := one.finding.guideline)), None),
        "runs": tuple(dict.fromkeys(run for one in reports for run in one.finding.runs)),
        "steps": next((steps for one in reports if (steps := one.finding.steps)), ()),
    }


def _is_outweighed(merged: MergedFinding, severity: Severity, against: Set[str]) -> bool:
    """Whether agents dispute an analyzer's finding, none supports it, and the verifier refutes it.

    None outweighs what is above medium, concerns security, or states a fact.
    """
    fixed = any(one.is_fact or one.finding.category == "security" for one in merged.all_reports)
    refuted = {one.verdict for one in verifications(merged)} == {"refuted"}
    disputed = bool(against) and merged.supporters <= against
    return disputed and refuted and not fixed and severity not in SEVERE


def verifications(merged: MergedFinding) -> list[Verification]:
    """What the verifier says of its reports."""
    found = (merged.verified.get(report.finding.fingerprint) for report in merged.all_reports)
    return list(dict.fromkeys(filter(None, found)))


def _objections(
    merged: MergedFinding, given: Iterable[Objection], support: Support
) -> tuple[Objection, ...]:
    """The agents' objections and the verifier's refutations, with why the finding is kept."""
    found = list(given)
    why = "other reports speak for it"
    found += [
        Objection(VERIFIER, one.reason, one.evidence, why, refutes=True)
        for one in verifications(merged)
        if one.verdict == "refuted"
    ]
    if support != "refuted":
        return tuple(found)
    shown = "it is shown all the same"
    return tuple(replace(one, why_not=shown) if one.refutes else one for one in found)


def _remarks(merged: MergedFinding) -> tuple[Remark, ...]:
    """Why the verifier confirms it or cannot tell, and why its authors changed it."""
    found = [
        Remark(report.reporter, "refined", report.finding.refined_because)
        for report in merged.all_reports
        if report.finding.refined_because
    ]
    found += [
        Remark(VERIFIER, _ACTIONS[one.verdict], one.reason, one.evidence)
        for one in verifications(merged)
        if one.verdict in _ACTIONS
    ]
    return tuple(dict.fromkeys(found))


def _counting(reports: list[FindingReport]) -> list[FindingReport]:
    """The reports that rate a finding; evidence can lower the severity of an arguable rule."""
    if any(report.lowers for report in reports):
        return [report for report in reports if not report.arguable]
    return reports


def _support(
    merged: MergedFinding,
    decides: MergedFinding,
    severity: Severity,
    policy: VerdictPolicy,
    family_of: Callable[[str], str],
) -> tuple[Support, tuple[str, ...]]:
    """Who supports a finding at this severity, and who other than its author confirms it.

    An agent that is less than half sure, or rates it less severe, does not confirm the severity. A
    verdict of the verifier is on the reports of which it was told, as severe as they were then.
    """
    as_severe = [
        report for report in merged.all_reports if is_as_severe(report.finding.severity, severity)
    ]
    proved = any(report.from_analyzer and report in decides.reports for report in as_severe)
    author = min(as_severe, key=lambda report: (not report.from_analyzer, bool(report.refers_to)))
    names = {
        report.reporter
        for report in as_severe
        if report.confirms
        and (report.from_analyzer or report.finding.confidence >= policy.needs_changes_confidence)
    }
    verdicts = [
        known.verdict if known and is_as_severe(known.severity, severity) else ""
        for report in as_severe
        for known in [merged.verified.get(report.finding.fingerprint)]
    ]
    before = {
        name for report in as_severe if report.carried for name in report.carried.confirmed_by
    }
    verifier = {VERIFIER} if "confirmed" in verdicts else before & {VERIFIER}
    confirmed_by = tuple(sorted((names | before | verifier) - {author.reporter}))
    if proved or verifier:
        return "proven" if proved else "verified", confirmed_by
    if verdicts and {*verdicts} <= {"refuted", "older", *_LIMITS}:
        return "refuted", confirmed_by
    analyzers = {report.reporter for report in as_severe if report.from_analyzer}
    reporters = {author.reporter, *confirmed_by}
    families = {name if name in analyzers else family_of(name) for name in reporters}
    return "agreed" if len(families) > 1 else "claimed", confirmed_by


def _words(merged: MergedFinding, decides: MergedFinding, policy: VerdictPolicy) -> LocatedFinding:
    """The report whose text is shown: that of the agent that took the finding up.

    A duplicate that decides the severity explains it. An analyzer's finding keeps its place, rule
    and quotation. Of several agents, the report that weighs most is shown.
    """

    def words(finding: LocatedFinding) -> tuple[str, str, str]:
        return finding.title, finding.detail, finding.fix_suggestion

    agents = [
        report.finding
        for report in decides.reports
        if (report.refers_to and words(report.finding) != words(merged.finding))
        or (decides is not merged and not report.from_analyzer)
    ]
    return max(
        agents,
        key=lambda one: (weight(one.severity, one.confidence, policy), one.confidence),
        default=merged.finding,
    )


def _detail(first: LocatedFinding, words: LocatedFinding) -> str:
    """An agent's explanation, after the analyzer's message if its title is kept."""
    if not words.detail or words.detail == first.detail:
        return first.detail
    return words.detail if words.title != first.title else f"{first.detail}\n{words.detail}".strip()


def _report_of(report: FindingReport, first: LocatedFinding) -> Reported:
    finding = report.finding
    path, line = ("", 0) if overlaps(first, finding) else (finding.path, finding.start_line)
    return Reported(
        by=report.reporter,
        proved=report.from_analyzer,
        severity=finding.severity,
        confidence=finding.confidence,
        title=finding.title,
        detail=finding.detail,
        path=path,
        start_line=line,
        reason=report.reason,
    )
