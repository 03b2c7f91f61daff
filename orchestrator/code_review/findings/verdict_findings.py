"""From the reports of analyzers and agents to the findings of a verdict, without a model.

Nothing is dropped: findings that do not count are in ``rejected``, with the reason.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import count

from msgspec import Struct, field
from msgspec.structs import replace

from diffchecks.rules import CONFIGURED_ANALYZERS, IMPORTED_RESULTS, RuleTable
from orchestrator.catalog.shared_literals import SEVERITIES
from orchestrator.catalog.verdict_policy import VerdictPolicy
from orchestrator.code_review.findings.agent_reports import (
    IterationReport,
    References,
    Responses,
    collect_responses,
    judge_disputes,
    read_claim,
    read_reports,
)
from orchestrator.code_review.findings.carried_findings import earlier_objections, hold_to_analyzers
from orchestrator.code_review.findings.citations import (
    NOT_INTRODUCED,
    CitableSources,
    keep_guideline,
    locate_finding,
)
from orchestrator.code_review.findings.evidence_from_journal import BY_CODE, AnalyzerCall, Work
from orchestrator.code_review.findings.finding_assembly import build_finding, verifications
from orchestrator.code_review.findings.located_findings import (
    FindingTarget,
    LocatedFinding,
    ProposedFix,
    Rejection,
)
from orchestrator.code_review.findings.merging import (
    FindingReport,
    MergedFinding,
    at_place_of,
    join_duplicates,
    low_pairs,
    merge,
    overlaps,
    replacement_pairs,
    report_order,
)
from orchestrator.code_review.findings.settled_places import limit_responses, set_settled_aside
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.verdict.document_parts import Checked, MemoryUse, WaiverUse
from orchestrator.code_review.verdict.model import Finding, Rejected, Skipped

NO_REFERENCES = References()

RejectedReport = tuple[FindingReport, Rejection]


class Synthesis(Struct, frozen=True):
    """The result of a review so far, from which the verdict is made.

    Attributes:
        ids: fingerprint, of a finding or of any report of it → the finding's id.
        shown: id → fingerprint of the finding.
        targets: fingerprint → the finding as a target of responses.
        notes: (iteration, agent) → parts of its report that do not count, and why.
        waivers: the use of base's waivers.
        memory: the effects of the repository's memory.
        proposals: fingerprint of the finding → the fixes that its reporters propose.
    """

    findings: tuple[Finding, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    checked: tuple[Checked, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, FindingTarget] = field(default_factory=dict)
    notes: Mapping[tuple[int, str], Sequence[str]] = field(default_factory=dict)
    waivers: tuple[WaiverUse, ...] = ()
    memory: tuple[MemoryUse, ...] = ()
    proposals: Mapping[str, Sequence[ProposedFix]] = field(default_factory=dict)


async def build_findings(
    workspace: ReviewWorkspace,
    calls: Sequence[AnalyzerCall],
    team: Sequence[Work],
    answers: Callable[[str], Iterable[str]],
    policy: VerdictPolicy,
    references: References = NO_REFERENCES,
) -> Synthesis:
    """Merge all reports into findings, and set aside those that do not count."""
    found = [(call, finding) for call in calls for finding in call.result.findings]
    proved = _analyzer_reports(found, workspace.rules)
    versions: dict[str, list[LocatedFinding]] = {}
    for _, finding in found:
        versions.setdefault(finding.fingerprint, []).append(finding)
    harmless = _only_constants(proved, calls, workspace.rules)
    for fingerprint in harmless:
        del proved[fingerprint]
    reports = list(read_reports(team))
    refuted = {fingerprint: report for fingerprint, (report, _) in harmless.items()}
    claims = await _check_claims(workspace, reports, proved, versions, refuted, references)
    sources = CitableSources(workspace, {}, answers)
    refused = [*_unquotable(calls, workspace.rules), *harmless.values(), *claims.rejected]
    _, known, settled = _merge(workspace, proved, claims, Responses(), references, policy)
    targets = {
        report.finding.fingerprint: _rejected_target(report, why)
        for report, why in (*refused, *_settled(settled))
    }
    responses = await collect_responses(sources, reports, references.shown, known, targets)
    # A finding that an agent reports again after it withdrew it counts.
    again = {k for k, (done, _) in responses.withdrawn.items() if claims.last.get(k, 0) > done}
    for key in again:
        del responses.withdrawn[key]
    iterations = {report.agent: report.iteration for report in reports}
    _limit_number(claims, references.most, iterations, responses.withdrawn)
    merged, known, settled = _merge(workspace, proved, claims, responses, references, policy)
    refused += [*_withdrawn(claims, responses, known), *_settled(settled)]
    objections = judge_disputes(
        responses.disputes, workspace.rules, known, {report.agent for report in reports}
    )
    for carried in filter(earlier_objections, merged):  # also what the earlier review objected
        own = objections.get(carried.fingerprint, ())
        objections[carried.fingerprint] = [*earlier_objections(carried), *own]
    findings = [
        build_finding(entry, policy, objections.get(entry.fingerprint, ()), references.family_of)
        for entry in merged
    ]
    rejected = _set_aside(merged, findings)
    set_aside = {entry.finding.fingerprint for entry in rejected}
    rejected += [
        Rejected(build_finding(MergedFinding([report]), policy), why.reason, why.cause)
        for report, why in refused
    ]
    counted = [finding for finding in findings if finding.fingerprint not in set_aside]
    numbered = _number(counted, rejected, known, references.ids)
    notes = {
        key: (*claims.notes.get(key, ()), *responses.notes.get(key, ()))
        for key in {*claims.notes, *responses.notes}
    }
    return replace(numbered, notes=notes, proposals=_proposals(merged))


def _proposals(merged: Iterable[MergedFinding]) -> Mapping[str, Sequence[ProposedFix]]:
    """The fixes that the reporters of each finding propose, analyzers' edits first."""
    found: dict[str, Sequence[ProposedFix]] = {}
    for entry in merged:
        fixes = [
            ProposedFix(report.reporter, finding.path, finding.edits, finding.patch)
            for report in entry.all_reports
            if (finding := report.finding).edits or finding.patch
        ]
        if fixes:
            found[entry.fingerprint] = sorted(dict.fromkeys(fixes), key=lambda fix: not fix.edits)
    return found


def _merge(
    workspace: ReviewWorkspace,
    proved: Mapping[str, FindingReport],
    claims: "_Claims",
    responses: Responses,
    references: References,
    policy: VerdictPolicy,
) -> tuple[list[MergedFinding], Mapping[str, MergedFinding], list[MergedFinding]]:
    """The findings that count, an index by the fingerprints of their reports, and settled ones."""
    own = [
        replace(report, finding=finding, settled=references.why_settled(finding))
        for report in claims.valid
        if (key := (report.reporter, report.finding.fingerprint)) not in responses.withdrawn
        for finding in [responses.refined.get(key, report.finding)]
    ]
    carried = hold_to_analyzers(references.carried, proved)
    others = [*proved.values(), *carried]
    responded = limit_responses(responses.reports, others, references.why_settled)
    merged = merge([*others, *own, *responded], policy, workspace.rules.losses)
    merged, settled, repeated = set_settled_aside(merged, responded)
    verified = [
        (name, one.duplicate_of) for name, one in references.verified.items() if one.duplicate_of
    ]
    pairs = [*responses.duplicates, *verified, *replacement_pairs(workspace, merged)]
    pairs += low_pairs(merged)
    merged = join_duplicates(merged, pairs, policy)
    known = {report.finding.fingerprint: entry for entry in merged for report in entry.all_reports}
    known = {**repeated, **known}
    for one in merged:
        one.verified = references.verified
    for fingerprint, agent in claims.repeated:
        if (agent, fingerprint) not in responses.withdrawn:
            known[fingerprint].repeated_by.add(agent)
    return merged, known, settled


def _settled(findings: Iterable[MergedFinding]) -> list[RejectedReport]:
    """Findings that agents report on settled places only."""
    return [
        (report, Rejection("settled", report.settled))
        for entry in findings
        for report in entry.reports
    ]


def _rejected_target(report: FindingReport, why: Rejection) -> FindingTarget:
    agents = frozenset(() if report.from_analyzer else (report.reporter,))
    return FindingTarget(agents, report.from_analyzer, why.reason)


def _withdrawn(
    claims: "_Claims", responses: Responses, known: Mapping[str, MergedFinding]
) -> list[RejectedReport]:
    """Findings that their agents withdrew and no other reporter has."""
    return [
        (report, Rejection("withdrawn", f"{report.reporter} withdrew it: {withdrawn[1]}"))
        for report in claims.valid
        if (withdrawn := responses.withdrawn.get((report.reporter, report.finding.fingerprint)))
        and report.finding.fingerprint not in known
    ]


def _analyzer_reports(
    found: Iterable[tuple[AnalyzerCall, LocatedFinding]], rules: RuleTable
) -> dict[str, FindingReport]:
    """Analyzers' reports by fingerprint: each finding once, with all calls that reported it."""
    first: dict[str, tuple[str, LocatedFinding]] = {}
    calls: dict[str, list[AnalyzerCall]] = {}
    # Of an imported result that one of our analyzers reports as well, ours is kept.
    foreign = {CONFIGURED_ANALYZERS, IMPORTED_RESULTS}
    for call, finding in sorted(found, key=lambda entry: entry[0].result.tool in foreign):
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
            arguable=rules.is_arguable(finding.rule),
            is_fact=rules.is_fact(finding.rule),
        )
        for fingerprint, (analyzer, finding) in first.items()
    }


def _unquotable(calls: Sequence[AnalyzerCall], rules: RuleTable) -> list[RejectedReport]:
    """Analyzers' findings whose lines have no text to quote."""
    entries = [(call, entry) for call in calls for entry in call.result.rejected]
    reasons = {entry.finding.fingerprint: entry.reason for _, entry in reversed(entries)}
    reports = _analyzer_reports(((call, entry.finding) for call, entry in entries), rules)
    return [
        (report, Rejection("unverified", reasons[fingerprint]))
        for fingerprint, report in reports.items()
    ]


def _only_constants(
    proved: Mapping[str, FindingReport], calls: Iterable[AnalyzerCall], rules: RuleTable
) -> dict[str, RejectedReport]:
    """Reports of a pattern at a sink that only constants reach, as taint analysis proves."""
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
        valid: those whose quotation and place are valid.
        rejected: the others.
        repeated: (fingerprint, agent) if the agent adds nothing to an analyzer's finding.
        last: (agent, fingerprint) → the last iteration in which the agent reported it.
        notes: (iteration, agent) → how its report was changed.
    """

    valid: list[FindingReport] = field(default_factory=list)
    rejected: list[RejectedReport] = field(default_factory=list)
    repeated: list[tuple[str, str]] = field(default_factory=list)
    last: dict[tuple[str, str], int] = field(default_factory=dict)
    notes: dict[tuple[int, str], list[str]] = field(default_factory=dict)


async def _check_claims(
    workspace: ReviewWorkspace,
    reports: Iterable[IterationReport],
    proved: Mapping[str, FindingReport],
    versions: Mapping[str, Sequence[LocatedFinding]],
    refuted: Mapping[str, FindingReport],
    references: References,
) -> _Claims:
    """Locate the agents' own findings, and separate those that repeat an analyzer's."""
    claims = _Claims()
    repeats: set[tuple[str, str, str]] = set()
    held: set[tuple[str, str, str]] = set()
    refused: dict[tuple[str, str, str], RejectedReport] = {}
    for report in reports:
        agent, names = report.agent, references.shown.get(report.iteration, {})
        for claim in report.form.findings:
            runs = (references.run_of(agent, text) for text in claim.ran)
            finding = replace(read_claim(claim, agent), runs=tuple(filter(None, runs)))
            refers_to = names.get(claim.fingerprint, claim.fingerprint)
            if refers_to in refuted:
                continue
            if (known := proved.get(refers_to)) and not claim.older:
                if any(_adds_nothing(version, finding) for version in versions[refers_to]):
                    claims.repeated.append((refers_to, agent))
                    continue
                result: LocatedFinding | Rejection
                result = finding = await _place_claim(workspace, finding, known.finding)
            else:
                result = await locate_finding(workspace, finding)
            identity = agent, finding.path, finding.title.casefold()
            if isinstance(result, Rejection):
                made = FindingReport(agent, finding, from_analyzer=False, refers_to=refers_to)
                refused[identity] = made, result
                continue
            held.add(identity)
            claims.last[agent, result.fingerprint] = report.iteration
            repeated = agent, result.fingerprint, result.severity
            if repeated not in repeats:  # in a later iteration
                repeats.add(repeated)
                made = FindingReport(agent, result, from_analyzer=False, refers_to=refers_to)
                claims.valid.append(replace(made, settled=references.why_settled(result)))
    # A valid version replaces a refused one, in whatever order they were reported.
    claims.rejected.extend(made for identity, made in refused.items() if identity not in held)
    return claims


async def _place_claim(
    workspace: ReviewWorkspace, claim: LocatedFinding, known: LocatedFinding
) -> LocatedFinding:
    """An agent's version of an analyzer's finding: at its own place, if that is valid and another.

    Then it is a finding of its own: the analyzer shows nothing there.
    """
    own = await locate_finding(workspace, claim)
    if isinstance(own, LocatedFinding) and not overlaps(own, known):
        return own
    return at_place_of(known, keep_guideline(workspace, claim))


def _limit_number(
    claims: _Claims, most: int, iterations: Mapping[str, int], withdrawn: Container[tuple[str, str]]
) -> None:
    """Limit the number of an agent's findings: only those that weigh most keep their severity."""
    for agent, iteration in iterations.items():
        mine = [
            (SEVERITIES.index(report.finding.severity), -report.finding.confidence, place)
            for place, report in enumerate(claims.valid)
            if report.reporter == agent
            and not (report.refers_to or report.settled)
            and report.finding.severity != "info"
            and (agent, report.finding.fingerprint) not in withdrawn
        ]
        rest = sorted(mine)[most:]
        for *_, place in rest:
            report = claims.valid[place]
            own = report.finding.severity
            lowered = replace(report.finding, severity="info", lowered_from=own)
            claims.valid[place] = replace(report, finding=lowered)
        if rest:
            claims.notes[iteration, agent] = [
                f"{len(rest)} findings beyond its {most} most severe are shown as info"
            ]


def _adds_nothing(known: LocatedFinding, claim: LocatedFinding) -> bool:
    """Whether an agent repeats an analyzer's finding in its words, with no higher confidence."""
    words = (known.severity, known.title, known.detail, known.fix_suggestion)
    repeated = (claim.severity, claim.title, claim.detail, claim.fix_suggestion)
    more = claim.patch or claim.runs or claim.confidence > known.confidence
    return not more and words == repeated


def _set_aside(merged: Sequence[MergedFinding], findings: Sequence[Finding]) -> list[Rejected]:
    """The findings that an objection refutes, or that base has too."""
    pairs = zip(merged, findings, strict=True)
    return [found for one, f in pairs if (found := _argued_down(f) or _not_introduced(one, f))]


def _argued_down(finding: Finding) -> Rejected | None:
    """The finding as rejected, if an objection refutes it."""
    won = [objection for objection in finding.objections if not objection.why_not]
    if not won:
        return None
    by = tuple(dict.fromkeys(objection.by for objection in won))
    reason = f"argued down by {', '.join(by)}: {won[0].reason}"
    return Rejected(finding=finding, reason=reason, cause="argued", argued_by=by)


def _not_introduced(merged: MergedFinding, finding: Finding) -> Rejected | None:
    """The finding as rejected, if the verifier shows that base has it too."""
    why = next((one.reason for one in verifications(merged) if one.verdict == "older"), "")
    if finding.support != "refuted" or not why:
        return None
    return Rejected(finding=finding, reason=f"{NOT_INTRODUCED}: {why}", cause="older")


def _number(
    findings: Iterable[Finding],
    rejected: Iterable[Rejected],
    known: Mapping[str, MergedFinding],
    kept: Mapping[str, str],
) -> Synthesis:
    """All findings in the order of the report, with ids: F1, F2, ...; R1, R2, ... if rejected.

    Args:
        kept: fingerprint → the id that a finding keeps because reports refer to it; others are
            numbered past these.
    """
    new = count(1 + max((int(known_id[1:]) for known_id in kept.values()), default=0))
    counted = tuple(
        replace(finding, id=kept.get(finding.fingerprint) or f"F{next(new)}")
        for finding in sorted(
            findings, key=lambda f: (*f.rank, f.category != "security", *report_order(f)[1:])
        )
    )
    ordered = sorted(rejected, key=lambda entry: report_order(entry.finding))
    others = tuple(
        replace(entry, finding=replace(entry.finding, id=f"R{number}", state="rejected"))
        for number, entry in enumerate(ordered, 1)
    )
    ids = {
        finding.fingerprint: finding.id
        for finding in (*(entry.finding for entry in others), *counted)
    }
    reported = {fingerprint: ids[merged.fingerprint] for fingerprint, merged in known.items()}
    targets = {
        entry.finding.fingerprint: FindingTarget(
            frozenset(entry.finding.reported_by), why_rejected=entry.reason
        )
        for entry in others
    }
    for fingerprint, merged_finding in known.items():
        targets[fingerprint] = FindingTarget(
            merged_finding.supporters,
            merged_finding.from_analyzer,
            carried=merged_finding.is_carried,
        )
    every = (*counted, *(entry.finding for entry in others))
    return Synthesis(
        counted,
        others,
        ids={**ids, **reported},
        shown={finding.id: finding.fingerprint for finding in every},
        targets=targets,
    )
