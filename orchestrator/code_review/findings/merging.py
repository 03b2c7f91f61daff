"""Merging of reports: one defect is one finding, whoever reports it and however often.

Analyzers that report the same weakness at the same line mean the same defect. An agent means a
defect whose lines overlap with its own and that it names by fingerprint, or whose rule, weakness or
title is the same.
"""

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from orchestrator.catalog.shared_literals import SEVERITIES, Severity
from orchestrator.catalog.unknown_name_checks import JUDGE
from orchestrator.catalog.verdict_policy import VerdictPolicy
from orchestrator.code_review.findings.located_findings import LocatedFinding
from orchestrator.code_review.findings.new_findings import remove_white_space
from orchestrator.code_review.findings.waivers import matching_waivers
from orchestrator.code_review.findings.weakness_kinds import names_other_weakness
from orchestrator.code_review.verdict.decision import weight
from orchestrator.code_review.verdict.model import Evidence, Finding, Objection, Reported

SIMILAR_SHARE = 0.75
"""Share of the shorter title's words that two titles of the same defect have in common."""

_WORD = re.compile(r"\w+")
_STOP_WORDS = frozenset(
    {"a", "an", "and", "at", "be", "by", "for", "from", "in", "is", "of", "on", "or", "the", "to"}
)


class FindingReport(Struct, frozen=True):
    """A finding as one reporter has it.

    Attributes:
        reporter: an analyzer's name, or an agent's.
        from_analyzer: an analyzer reports it; False: an agent does.
        call_refs: journal keys of the tool calls that showed it.
        called_by: the agents that made these calls.
        shown_to_all: code made the calls, and every agent was shown what they found.
        refers_to: fingerprint of the finding that an agent takes up; empty: it reports its own.
        confirms: it is an independent look at the defect, with evidence that stands.
        lowers: an agent shows that an arguable finding is less severe.
        arguable: the policy lets agents argue about the rule of an analyzer's report.
    """

    reporter: str
    finding: LocatedFinding
    from_analyzer: bool
    call_refs: tuple[str, ...] = ()
    called_by: frozenset[str] = frozenset()
    shown_to_all: bool = False
    refers_to: str = ""
    confirms: bool = True
    lowers: bool = False
    arguable: bool = False


class _FileReports(Struct):
    """All reports on one file, by kind of reporter."""

    analyzers: list[FindingReport] = field(default_factory=list)
    agents: list[FindingReport] = field(default_factory=list)


class MergedFinding(Struct):
    """The reports of one defect.

    Attributes:
        reports: the first says what the finding is: an analyzer's where there is one.
        file: all reports on its file.
        repeated_by: agents that repeat an analyzer's report and add nothing to it.
        duplicates: findings of the same defect, as an agent or the judge says.
        judge_confirms: the judge confirms it, with evidence that stands.
    """

    reports: list[FindingReport]
    file: _FileReports = field(default_factory=_FileReports)
    repeated_by: set[str] = field(default_factory=set)
    duplicates: "list[MergedFinding]" = field(default_factory=list)
    judge_confirms: bool = False

    @property
    def finding(self) -> LocatedFinding:
        """The finding as its first reporter has it."""
        return self.reports[0].finding

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the first report."""
        return self.finding.fingerprint

    @property
    def parts(self) -> "list[MergedFinding]":
        """It and its duplicates."""
        return [self, *self.duplicates]

    @property
    def all_reports(self) -> list[FindingReport]:
        """Its reports and those of its duplicates."""
        return [report for part in self.parts for report in part.reports]

    @property
    def from_analyzer(self) -> bool:
        """Whether an analyzer reports it."""
        return any(report.from_analyzer for report in self.all_reports)

    @property
    def supporters(self) -> frozenset[str]:
        """The agents that report it."""
        agents = {report.reporter for report in self.all_reports if not report.from_analyzer}
        return frozenset(agents).union(*(part.repeated_by for part in self.parts))

    def confidence(self, report: FindingReport) -> float:
        """The confidence of one of its reports: each agreeing reporter halves the doubt.

        Agreement is between two reports, wherever each of them is merged in the end: a report that
        changes what is merged takes none away.
        """
        if report.from_analyzer:
            agreeing = [other for other in self.reports if other.from_analyzer]
            others = self.file.agents
        else:
            agreeing, others = [report], [*self.file.analyzers, *self.file.agents]
        agreeing += [other for other in others if _reports_same_defect(other, report)]
        halvings = max(len(_independent_reporters(agreeing, report)) - 1, 0)
        doubt: float = (1 - report.finding.confidence) / 2**halvings
        return round(1 - doubt, 4)


def _independent_reporters(agreeing: Iterable[FindingReport], report: FindingReport) -> set[str]:
    """The reporters that agree independently and find the defect at least as severe.

    Independent are analyzers, and agents that report a finding of their own and made none of the
    calls that showed it.
    """
    agreeing = list(agreeing)
    callers = frozenset[str]().union(*(entry.called_by for entry in agreeing))
    shown = any(entry.shown_to_all for entry in agreeing)
    order = SEVERITIES.index(report.finding.severity)
    as_severe = [entry for entry in agreeing if SEVERITIES.index(entry.finding.severity) <= order]
    return {
        entry.reporter
        for entry in as_severe
        if entry.from_analyzer or not (shown or entry.refers_to or entry.reporter in callers)
    }


class _Index(Struct):
    """The defects that an agent can mean, by the fingerprints of their reports and by file."""

    by_fingerprint: dict[str, MergedFinding] = field(default_factory=dict)
    by_path: dict[str, list[MergedFinding]] = field(default_factory=dict)

    def add(self, report: FindingReport, merged: MergedFinding) -> None:
        """Add a report that was just merged."""
        self.by_fingerprint.setdefault(report.finding.fingerprint, merged)
        if len(merged.reports) == 1:
            self.by_path.setdefault(report.finding.path, []).append(merged)

    def find(self, report: FindingReport) -> MergedFinding | None:
        """The known defect that an agent reports, None when it is a new one."""
        finding = report.finding
        referred = self.by_fingerprint.get(report.refers_to)
        if referred is not None and overlaps(referred.finding, finding):
            return referred
        candidates = self.by_path.get(finding.path, ())
        equal = self.by_fingerprint.get(finding.fingerprint)
        if equal:
            return equal
        for candidate in candidates:
            if _alike(candidate.finding, finding):
                return candidate
        return max(
            (candidate for candidate in candidates if _same_quote(candidate, report)),
            key=lambda candidate: _shared_words(candidate, finding),
            default=None,
        )


def merge(reports: Iterable[FindingReport], policy: VerdictPolicy) -> list[MergedFinding]:
    """Merge the reports that mean the same defect.

    Analyzers' reports come first and give the finding its name. Agents' reports that a person has
    waived are not merged with others: under the fingerprint of a waived report, the report of
    another agent would be waived with it.
    """

    def rank(report: FindingReport) -> tuple[Any, ...]:
        finding = report.finding
        weighs = weight(finding.severity, finding.confidence, policy)
        order = report_order(finding)
        return not report.from_analyzer, -weighs, *order, report.reporter, finding.fingerprint

    merged_findings: list[MergedFinding] = []
    counted, waived = _Index(), _Index()
    by_weakness: dict[tuple[Any, ...], MergedFinding] = {}
    files: dict[str, _FileReports] = {}
    for report in sorted(reports, key=rank):
        finding = report.finding
        file = files.setdefault(finding.path, _FileReports())
        if report.from_analyzer:
            file.analyzers.append(report)
            indexes = [counted, waived]
            merged = by_weakness.setdefault(_weakness(finding), MergedFinding([], file))
        else:
            file.agents.append(report)
            waivers = matching_waivers(policy, finding.rule, finding.fingerprint, finding.path)
            indexes = [waived if waivers else counted]
            merged = indexes[0].find(report) or MergedFinding([], file)
        if not merged.reports:
            merged_findings.append(merged)
        merged.reports.append(report)
        for index in indexes:
            index.add(report, merged)
    return merged_findings


def join_duplicates(
    findings: list[MergedFinding], pairs: Iterable[tuple[str, str]], policy: VerdictPolicy
) -> list[MergedFinding]:
    """Join the findings that somebody calls duplicates of each other.

    The one that is kept is an analyzer's, else the one that weighs most. Two that analyzers report
    both stay, and so do two of which a person has waived one.
    """
    kept = list(findings)

    def rank(merged: MergedFinding) -> tuple[bool, int, int, float]:
        finding = merged.finding
        weighs = weight(finding.severity, finding.confidence, policy)
        order = SEVERITIES.index(finding.severity)
        return not merged.from_analyzer, -weighs, order, -finding.confidence

    def waived(merged: MergedFinding) -> bool:
        finding = merged.finding
        return bool(matching_waivers(policy, finding.rule, finding.fingerprint, finding.path))

    for pair in pairs:
        found = [
            merged
            for merged in kept
            if any(report.finding.fingerprint in pair for report in merged.all_reports)
        ]
        if len(found) != 2 or all(merged.from_analyzer for merged in found):
            continue
        main, other = sorted(found, key=rank)
        if waived(main) == waived(other):
            main.duplicates += other.parts
            other.duplicates = []
            kept.remove(other)
    return kept


def _reports_same_defect(left: FindingReport, right: FindingReport) -> bool:
    """Whether two reports, at least one of them an agent's, mean the same defect.

    That ``left`` takes up the other's finding does not count: such a report is not independent.
    """
    first, second = left.finding, right.finding
    if first.fingerprint == second.fingerprint:
        return True
    refers = first.fingerprint == right.refers_to
    return overlaps(first, second) and (refers or _alike(first, second))


def report_order(finding: LocatedFinding | Finding) -> tuple[int, str, int, float, str]:
    """The sort key of findings in a report, the most severe first."""
    order = SEVERITIES.index(finding.severity)
    return order, finding.path, finding.start_line, -finding.confidence, finding.rule


def _weakness(finding: LocatedFinding) -> tuple[Any, ...]:
    """Equal for the findings of two analyzers that mean the same defect."""
    return finding.path, finding.start_line, finding.category, finding.cwe[:1] or finding.rule


def _alike(known: LocatedFinding, claim: LocatedFinding) -> bool:
    """Whether an agent's finding means a known one: by rule, weakness or title."""
    return overlaps(known, claim) and (
        bool(set(known.cwe) & set(claim.cwe)) or same_rule_or_title(known, claim)
    )


def same_rule_or_title(one: LocatedFinding, other: LocatedFinding) -> bool:
    """Whether two findings name the same rule, or have much the same title."""
    same_rule = one.rule == other.rule != default_rule(other.category)
    return same_rule or _titles_similar(one.title, other.title)


def _same_quote(merged: MergedFinding, report: FindingReport) -> bool:
    """Whether an agent quotes the same text at the same lines as others: one defect, other words.

    An agent that reports twice means two defects, and so do different kinds of weakness.
    """
    agents = [known for known in merged.reports if not known.from_analyzer]
    return any(_quotes_same(known.finding, report.finding) for known in agents) and not any(
        known.reporter == report.reporter or names_other_weakness(known.finding, report.finding)
        for known in agents
    )


def _quotes_same(first: LocatedFinding, second: LocatedFinding) -> bool:
    quotes = sorted((remove_white_space([each.quote]) for each in (first, second)), key=len)
    return overlaps(first, second) and quotes[0] in quotes[1]


def _shared_words(merged: MergedFinding, finding: LocatedFinding) -> int:
    """How many words a finding has in common with the reports of a defect."""
    known = {word for report in merged.reports for word in _words_of(report.finding)}
    return len(known & _words_of(finding))


def _words_of(finding: LocatedFinding) -> set[str]:
    return _words_in(f"{finding.title} {finding.detail}")


def overlaps(first: LocatedFinding, second: LocatedFinding) -> bool:
    """Whether two findings share a line."""
    return (
        (first.path, first.side) == (second.path, second.side)
        and first.start_line <= second.end_line
        and second.start_line <= first.end_line
    )


def default_rule(category: str) -> str:
    """The rule of an agent's finding for which the agent names none."""
    return f"{category}.reported"


def _titles_similar(left: str, right: str) -> bool:
    first, second = _words_in(left), _words_in(right)
    shared = len(first & second)
    equal = bool(shared) and first == second
    return equal or (shared > 1 and shared >= SIMILAR_SHARE * min(len(first), len(second)))


def _words_in(text: str) -> set[str]:
    return {*_WORD.findall(text.casefold())} - _STOP_WORDS


# --- the finding of a verdict --------------------------------------------------------------------


def build_finding(
    merged: MergedFinding, policy: VerdictPolicy, objections: Iterable[Objection] = ()
) -> Finding:
    """The verdict's finding, still without an id.

    It is as severe and as certain as the report that, with all who agree, weighs most under the
    policy: no report of an agent makes the most severe finding count for less.
    """
    first, objections = merged.finding, tuple(objections)
    rated = [
        (report.finding.severity, part.confidence(report), part)
        for part in merged.parts
        for report in _counting(part.reports)
    ]
    severity, confidence, decides = max(
        rated,
        key=lambda rating: (
            weight(rating[0], rating[1], policy),
            -SEVERITIES.index(rating[0]),
            rating[1],
        ),
    )
    words, reports = _words(merged, decides, policy), merged.all_reports
    refs = {ref for report in reports for ref in report.call_refs}
    reporters = {name for report in reports for name in (report.reporter, *report.called_by)}
    proved, confirmed_by = _confirmations(merged, decides, severity, policy)
    refuted = any(objection.refutes for objection in objections)
    return Finding(
        id="",
        fingerprint=first.fingerprint,
        severity=severity,
        confidence=confidence,
        title=words.title or first.title,
        detail=_detail(first, words),
        category=first.category,
        rule=first.rule,
        cwe=first.cwe,
        path=first.path,
        start_line=first.start_line,
        end_line=first.end_line,
        start_column=first.start_column or None,
        evidence=Evidence(quote=first.quote, tool_calls=tuple(sorted(refs)), side=first.side),
        fix_suggestion=words.fix_suggestion or first.fix_suggestion,
        reported_by=tuple(sorted(reporters.union(*(part.repeated_by for part in merged.parts)))),
        because_of=first.because_of,
        cause_quote=first.cause_quote,
        guideline=next((one.finding.guideline for one in reports if one.finding.guideline), None),
        steps=next((one.finding.steps for one in reports if one.finding.steps), ()),
        reports=_several(reports),
        objections=objections,
        standing="proved"
        if proved
        else ("refuted" if refuted else ("confirmed" if confirmed_by else "unconfirmed")),
        confirmed_by=confirmed_by,
    )


def _counting(reports: list[FindingReport]) -> list[FindingReport]:
    """The reports that rate a finding: an arguable rule's severity is no floor against evidence."""
    if any(report.lowers for report in reports):
        return [report for report in reports if not report.arguable]
    return reports


def _confirmations(
    merged: MergedFinding, decides: MergedFinding, severity: Severity, policy: VerdictPolicy
) -> tuple[bool, tuple[str, ...]]:
    """Whether an analyzer reports it at this severity, and who confirms it besides its author.

    Who is less than half sure, or rates it less severe, does not confirm that it is as severe.
    """
    order = SEVERITIES.index(severity)
    as_severe = [
        report
        for report in merged.all_reports
        if SEVERITIES.index(report.finding.severity) <= order
    ]
    proved = any(report.from_analyzer and report in decides.reports for report in as_severe)
    author = min(as_severe, key=lambda report: (not report.from_analyzer, bool(report.refers_to)))
    names = {
        report.reporter
        for report in as_severe
        if report.confirms
        and (report.from_analyzer or report.finding.confidence >= policy.needs_changes_confidence)
    }
    judge = {JUDGE} if any(part.judge_confirms for part in merged.parts) else set[str]()
    return proved, tuple(sorted((names | judge) - {author.reporter}))


def _words(merged: MergedFinding, decides: MergedFinding, policy: VerdictPolicy) -> LocatedFinding:
    """Whose words people read: those of the agent that took the finding up, who read the code.

    A duplicate that decides how severe the finding is says why. An analyzer's finding keeps its
    place, rule and quotation. Of several agents, that one speaks whose report weighs most.
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
        key=lambda finding: (
            weight(finding.severity, finding.confidence, policy),
            finding.confidence,
        ),
        default=merged.finding,
    )


def _detail(first: LocatedFinding, words: LocatedFinding) -> str:
    """An agent's explanation, after what an analyzer says where its general title stays."""
    if not words.detail or words.detail == first.detail:
        return first.detail
    return words.detail if words.title != first.title else f"{first.detail}\n{words.detail}".strip()


def _several(reports: list[FindingReport]) -> tuple[Reported, ...]:
    """Each reporter's own words, where there are several."""
    if len(reports) == 1:
        return ()
    return tuple(
        Reported(
            by=report.reporter,
            proved=report.from_analyzer,
            severity=report.finding.severity,
            confidence=report.finding.confidence,
            title=report.finding.title,
            detail=report.finding.detail,
        )
        for report in reports
    )
