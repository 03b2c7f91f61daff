"""From the reports of analyzers and agents to the findings of a verdict, all of it plain code.

Nothing is dropped: what does not count is kept in ``rejected``, with the reason.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from orchestrator.catalog.verdict_policy import VerdictPolicy
from orchestrator.code_review.findings.agent_reports import (
    AgentReport,
    collect_objections,
    read_claim,
    read_reports,
)
from orchestrator.code_review.findings.citations import Rejection, Sources, locate_finding
from orchestrator.code_review.findings.evidence_from_journal import BY_CODE, Call, Work
from orchestrator.code_review.findings.merging import (
    FindingReport,
    MergedFinding,
    build_finding,
    merge,
    report_order,
)
from orchestrator.code_review.findings.types import LocatedFinding
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.rule_table import RuleTable
from orchestrator.code_review.verdict.model import Checked, Finding, Rejected, Skipped

RejectedReport = tuple[FindingReport, Rejection]


class Synthesis(Struct, frozen=True):
    """What a verdict says about the change.

    Attributes:
        ids: fingerprint, of a finding or of any report of it → the finding's id.
    """

    findings: tuple[Finding, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    checked: tuple[Checked, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict)


async def build_findings(
    workspace: ReviewWorkspace,
    calls: Sequence[Call],
    team: Sequence[Work],
    answers: Callable[[str], Iterable[str]],
    policy: VerdictPolicy,
) -> Synthesis:
    """Merge all reports into findings, and set aside those that do not count."""
    proved = _analyzer_reports(
        (call, finding) for call in calls for finding in call.result.findings
    )
    harmless = _only_constants(proved, calls, workspace.rules)
    for fingerprint in harmless:
        del proved[fingerprint]
    reports = list(read_reports(team))
    refuted = {fingerprint: report for fingerprint, (report, _) in harmless.items()}
    claims = await _check_claims(workspace, reports, proved, refuted)
    merged = merge([*proved.values(), *claims.valid], policy)
    known = {report.finding.fingerprint: one for one in merged for report in one.reports}
    for fingerprint, agent in claims.repeated:
        known[fingerprint].repeated_by.add(agent)
    sources = Sources(workspace, {}, answers)
    objections = await collect_objections(sources, reports, workspace.rules, known)
    findings = [build_finding(one, policy, objections.get(one.fingerprint, ())) for one in merged]
    rejected = [entry for finding in findings if (entry := _argued_down(finding))]
    set_aside = {entry.finding.fingerprint for entry in rejected}
    rejected += [
        _reject(report, rejection, policy)
        for report, rejection in (*_unquotable(calls), *harmless.values(), *claims.rejected)
    ]
    counted = [finding for finding in findings if finding.fingerprint not in set_aside]
    return _number(counted, rejected, known)


def _analyzer_reports(found: Iterable[tuple[Call, LocatedFinding]]) -> dict[str, FindingReport]:
    """Analyzers' reports by fingerprint: each finding once, with all the calls that showed it."""
    first: dict[str, tuple[str, LocatedFinding]] = {}
    calls: dict[str, list[Call]] = {}
    for call, finding in found:
        first.setdefault(finding.fingerprint, (call.result.tool, finding))
        calls.setdefault(finding.fingerprint, []).append(call)
    return {
        fingerprint: FindingReport(
            analyzer,
            finding,
            from_analyzer=True,
            call_refs=tuple(call.ref for call in calls[fingerprint]),
            called_by=frozenset(call.agent for call in calls[fingerprint]) - {BY_CODE},
            shown_to_all=any(call.agent == BY_CODE for call in calls[fingerprint]),
        )
        for fingerprint, (analyzer, finding) in first.items()
    }


def _unquotable(calls: Sequence[Call]) -> list[RejectedReport]:
    """Analyzers' findings whose lines have no text to quote."""
    entries = [(call, entry) for call in calls for entry in call.result.rejected]
    reasons = {entry.finding.fingerprint: entry.reason for _, entry in reversed(entries)}
    reports = _analyzer_reports((call, entry.finding) for call, entry in entries)
    return [
        (report, Rejection("unverified", reasons[fingerprint]))
        for fingerprint, report in reports.items()
    ]


def _only_constants(
    proved: Mapping[str, FindingReport], calls: Iterable[Call], rules: RuleTable
) -> dict[str, RejectedReport]:
    """Reports of a pattern at a sink that, as taint tracking shows, only constants reach."""
    constant = {tuple(place) for call in calls for place in call.result.facts.get("constant", ())}
    why = Rejection("constant", "nothing but constants gets there, as following the values shows")
    found: dict[str, RejectedReport] = {}
    for fingerprint, report in proved.items():
        finding = report.finding
        rule = rules.rules.get(finding.rule)
        place = finding.path, finding.start_line, rule.not_constant if rule else ""
        if place in constant:
            found[fingerprint] = report, why
    return found


class _Claims(Struct):
    """The agents' findings, checked.

    Attributes:
        valid: those whose quotation and place hold.
        rejected: those whose do not.
        repeated: (fingerprint, agent) where an agent adds nothing to an analyzer's finding.
    """

    valid: list[FindingReport] = field(default_factory=list)
    rejected: list[RejectedReport] = field(default_factory=list)
    repeated: list[tuple[str, str]] = field(default_factory=list)


async def _check_claims(
    workspace: ReviewWorkspace,
    reports: Iterable[AgentReport],
    proved: Mapping[str, FindingReport],
    refuted: Mapping[str, FindingReport],
) -> _Claims:
    claims = _Claims()
    repeats: set[tuple[str, str, str]] = set()
    held: set[tuple[str, str, str]] = set()
    refused: dict[tuple[str, str, str], RejectedReport] = {}
    for agent, report in reports:
        for claim in report.findings:
            finding, refers_to = read_claim(claim, agent), claim.fingerprint
            if refers_to in refuted:
                continue
            if known := proved.get(refers_to):
                if _adds_nothing(known.finding, finding):
                    claims.repeated.append((refers_to, agent))
                    continue
                finding = _at_place_of(known.finding, finding)
                result: LocatedFinding | Rejection = finding
            else:
                result = await locate_finding(workspace, finding)
            identity = agent, finding.path, finding.title.casefold()
            if isinstance(result, Rejection):
                made = FindingReport(agent, finding, from_analyzer=False, refers_to=refers_to)
                refused[identity] = made, result
                continue
            held.add(identity)
            repeated = agent, result.fingerprint, result.severity
            if repeated not in repeats:  # by a later iteration
                repeats.add(repeated)
                made = FindingReport(agent, result, from_analyzer=False, refers_to=refers_to)
                claims.valid.append(made)
    # A version that holds replaces one that was refused, in whatever order they came.
    claims.rejected.extend(made for identity, made in refused.items() if identity not in held)
    return claims


def _adds_nothing(known: LocatedFinding, claim: LocatedFinding) -> bool:
    """Whether an agent repeats an analyzer's finding in its words, and no surer."""
    words = (known.severity, known.title, known.detail, known.fix_suggestion)
    repeated = (claim.severity, claim.title, claim.detail, claim.fix_suggestion)
    return words == repeated and claim.confidence <= known.confidence


def _at_place_of(known: LocatedFinding, claim: LocatedFinding) -> LocatedFinding:
    """An agent's words on an analyzer's finding, at the place that the analyzer proved."""
    return replace(
        claim,
        path=known.path,
        side=known.side,
        start_line=known.start_line,
        end_line=known.end_line,
        quote=known.quote,
        because_of=None,
    )


# --- what does not count ------------------------------------------------------------------------


def _argued_down(finding: Finding) -> Rejected | None:
    """The finding as rejected where an objection sets it aside."""
    won = [objection for objection in finding.objections if not objection.why_not]
    if not won:
        return None
    by = tuple(dict.fromkeys(objection.by for objection in won))
    reason = f"argued down by {', '.join(by)}: {won[0].reason}"
    return Rejected(finding=finding, reason=reason, cause="argued", argued_by=by)


def _reject(report: FindingReport, rejection: Rejection, policy: VerdictPolicy) -> Rejected:
    finding = build_finding(MergedFinding([report]), policy)
    return Rejected(finding=finding, reason=rejection.reason, cause=rejection.cause)


# --- ids ----------------------------------------------------------------------------------------


def _number(
    findings: Iterable[Finding], rejected: Iterable[Rejected], known: Mapping[str, MergedFinding]
) -> Synthesis:
    """Everything in the order of the report, with its id: F1, F2, ...; R1, R2, ... if rejected."""
    counted = tuple(
        replace(finding, id=f"F{number}")
        for number, finding in enumerate(sorted(findings, key=report_order), 1)
    )
    ordered = sorted(rejected, key=lambda entry: report_order(entry.finding))
    others = tuple(
        replace(entry, finding=replace(entry.finding, id=f"R{number}", state="rejected"))
        for number, entry in enumerate(ordered, 1)
    )
    ids = {one.fingerprint: one.id for one in (*(entry.finding for entry in others), *counted)}
    reported = {fingerprint: ids[merged.fingerprint] for fingerprint, merged in known.items()}
    return Synthesis(counted, others, ids={**ids, **reported})
