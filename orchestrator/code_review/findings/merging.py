"""Merges reports: one defect is one finding, regardless of who reports it and how often.

Analyzers that report the same weakness at the same line report the same defect. An agent reports a
known defect if the lines overlap and it names the fingerprint, or has the same rule, weakness or
title.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import combinations
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from diffchecks.new_findings import remove_white_space
from orchestrator.catalog.shared_literals import SEVERITIES, is_as_severe
from orchestrator.catalog.verdict_policy import VerdictPolicy
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.findings.citations import changed_lines
from orchestrator.code_review.findings.located_findings import (
    Carried,
    LocatedFinding,
    Verification,
    names_other_weakness,
)
from orchestrator.code_review.findings.waivers import matches_finding, matching_waivers
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.verdict.decision import weight
from orchestrator.code_review.verdict.model import Finding
from orchestrator.data_directories import read_table

SIMILAR_SHARE, MIN_SHARED = 0.75, 4
"""Share of the shorter title's words that titles of one defect share; how many at two places."""

SHARED_STEMS, STEM, MIN_STEMS = 0.32, 6, 12
"""Share of the shorter text's words, by so many characters, that two texts on one defect have in
common if both have so many words: 40 of 40 pairs in real reviews had, on two defects 0 of 7."""
SURE_SHARE, MIN_SURE = 0.45, 10
"""Share and number of words from which on they are of one defect, whatever they quote or call it:
of 36 pairs at shared lines that were told twice, all 8 duplicates had, and no other had .33."""

_PLACE = ("path", "side", "start_line", "end_line", "quote")
_WORD = re.compile(r"\w+")
_ENGLISH = frozenset(read_table(__file__, "common_names.yaml")["english"].split())


class FindingReport(Struct, frozen=True):
    """One reporter's version of a finding.

    Attributes:
        reporter: an analyzer's name, or an agent's.
        from_analyzer: an analyzer reports it; False: an agent does.
        call_refs: journal keys of the tool calls that showed it.
        called_by: the agents that made these calls.
        shown_to_all: code made the calls, and every agent was shown the results.
        refers_to: fingerprint of the finding that an agent takes up; empty for its own finding.
        confirms: it confirms the defect independently, with valid evidence.
        lowers: an agent shows that an arguable finding is less severe.
        reason: why an agent confirms or refines the finding.
        arguable: the policy lets agents dispute the rule of an analyzer's report.
        is_fact: its rule states a fact, which no objection outweighs.
        carried: of a report of an earlier review, what that recorded; None: of this review.
        settled: why an earlier review has settled an agent's report; empty: it has not.
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
    reason: str = ""
    arguable: bool = False
    is_fact: bool = False
    carried: Carried | None = None
    settled: str = ""


class _FileReports(Struct):
    """All reports on one file, by kind of reporter."""

    analyzers: list[FindingReport] = field(default_factory=list)
    agents: list[FindingReport] = field(default_factory=list)


class MergedFinding(Struct):
    """The reports of one defect.

    Attributes:
        reports: the first defines the finding; it is an analyzer's if there is one.
        file: all reports on its file.
        repeated_by: agents that repeat an analyzer's report without adding anything.
        duplicates: findings that an agent or the verifier calls the same defect.
        verified: fingerprint of a report → what the verifier says of it.
    """

    reports: list[FindingReport]
    file: _FileReports = field(default_factory=_FileReports)
    repeated_by: set[str] = field(default_factory=set)
    duplicates: "list[MergedFinding]" = field(default_factory=list)
    verified: Mapping[str, Verification] = field(default_factory=dict)

    @property
    def finding(self) -> LocatedFinding:
        """The first reporter's version of the finding."""
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
        before = [report.carried.reported_by for report in self.all_reports if report.carried]
        return frozenset(agents).union(*before, *(part.repeated_by for part in self.parts))

    @property
    def is_carried(self) -> bool:
        """Whether it is open because an earlier review reported it."""
        return any(report.carried for report in self.all_reports)

    def confidence(self, report: FindingReport) -> float:
        """The confidence of one of its reports; each agreeing reporter halves the doubt.

        Agreement is between two reports, whatever they are merged with, so that another report
        cannot remove it.
        """
        if report.carried:  # it includes those who agreed then
            return report.finding.confidence
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
    """The independent reporters that rate the defect at least as severe.

    Independent are analyzers, and agents that report their own finding and made none of the calls
    that showed it.
    """
    agreeing = list(agreeing)
    callers = frozenset[str]().union(*(entry.called_by for entry in agreeing))
    shown = any(entry.shown_to_all for entry in agreeing)
    severity = report.finding.severity
    as_severe = [entry for entry in agreeing if is_as_severe(entry.finding.severity, severity)]
    return {
        entry.reporter
        for entry in as_severe
        if entry.from_analyzer or not (shown or entry.refers_to or entry.reporter in callers)
    }


class _Index(Struct):
    """The known defects, by the fingerprints of their reports and by file."""

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
        if equal := self.by_fingerprint.get(finding.fingerprint):
            return equal
        for candidate in candidates:
            if _alike(candidate.finding, finding):
                return candidate
        return max(
            (candidate for candidate in candidates if _tells_same(candidate, report)),
            key=lambda candidate: _shared_words(candidate, finding),
            default=None,
        )


def merge(
    reports: Iterable[FindingReport], policy: VerdictPolicy, losses: Set[str] = frozenset()
) -> list[MergedFinding]:
    """Merge the reports of the same defect.

    Analyzers' reports come first, then carried-over ones; the first defines the finding. A waived
    report of an agent is not merged with others, which would be waived together with it.
    ``losses`` are the rules whose findings say what was lost (``RuleTable.losses``).
    """

    def rank(report: FindingReport) -> tuple[Any, ...]:
        finding = report.finding
        weighs = weight(finding.severity, finding.confidence, policy)
        kind = not report.from_analyzer, not report.carried, finding.rule in losses
        fullest = *report_order(finding), -len(finding.detail)
        return *kind, -weighs, *fullest, report.reporter, finding.fingerprint

    merged_findings: list[MergedFinding] = []
    counted, waived = _Index(), _Index()
    by_weakness: dict[tuple[Any, ...], MergedFinding] = {}
    at_place: dict[tuple[Any, ...], LocatedFinding] = {}
    files: dict[str, _FileReports] = {}
    for report in sorted(reports, key=rank):
        finding = report.finding
        file = files.setdefault(finding.path, _FileReports())
        if report.from_analyzer:
            file.analyzers.append(report)
            indexes = [counted, waived]
            first = at_place.setdefault(_weakness(finding)[:4], finding)
            allowed = finding.rule in losses and _weighs_as(first, finding, policy)
            key = _weakness(first if allowed else finding)
            merged = by_weakness.setdefault(key, MergedFinding([], file))
        else:
            file.agents.append(report)
            indexes = [waived if matching_waivers(policy, finding) else counted]
            found = indexes[0].find(report)
            if found is None or (report.carried and found.reports[0].carried):
                found = MergedFinding([], file)  # the earlier review distinguished two carried ones
            merged = found
        if not merged.reports:
            merged_findings.append(merged)
        merged.reports.append(report)
        for index in indexes:
            index.add(report, merged)
    return merged_findings


def join_duplicates(
    findings: list[MergedFinding], pairs: Iterable[tuple[str, str]], policy: VerdictPolicy
) -> list[MergedFinding]:
    """Join the findings that an agent or the verifier calls duplicates.

    An analyzer's finding is kept, else the one that weighs most, else the second of a pair, of
    which the first is a duplicate. Two findings of analyzers both stay, and so do two of which one
    is waived.
    """
    remaining = list(findings)

    def rank(merged: MergedFinding, duplicate: str) -> tuple[bool, int, int, bool]:
        finding = merged.finding
        weighs = weight(finding.severity, finding.confidence, policy)
        order = SEVERITIES.index(finding.severity)
        return not merged.from_analyzer, -weighs, order, reports_it(merged, duplicate)

    def reports_it(merged: MergedFinding, *fingerprints: str) -> bool:
        return any(one.finding.fingerprint in fingerprints for one in merged.all_reports)

    for pair in pairs:
        found = [merged for merged in remaining if reports_it(merged, *pair)]
        if len(found) != 2 or all(merged.from_analyzer for merged in found):
            continue
        main, other = sorted(found, key=partial(rank, duplicate=pair[0]))
        waived = [bool(matching_waivers(policy, one.finding)) for one in (main, other)]
        if waived[0] == waived[1]:
            main.duplicates += other.parts
            other.duplicates = []
            remaining.remove(other)
    return remaining


def _reports_same_defect(left: FindingReport, right: FindingReport) -> bool:
    """Whether two reports, at least one of them an agent's, are of the same defect.

    A reference of ``left`` to the other's finding does not count: it is not independent.
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
    """A key that is equal for two analyzers' findings of the same defect."""
    place = finding.path, finding.side, finding.start_line
    return *place, finding.category, finding.cwe[:1] or finding.rule


def _weighs_as(known: LocatedFinding, lost: LocatedFinding, policy: VerdictPolicy) -> bool:
    """Whether what stands where a protection went is as severe, and its rule no more waived."""
    # A decision on this very finding was made of both.
    of_rules = [waiver for waiver in policy.waivers if waiver.rule]
    same = all(matches_finding(one, known) == matches_finding(one, lost) for one in of_rules)
    return is_as_severe(known.severity, lost.severity) and same


def _alike(known: LocatedFinding, claim: LocatedFinding) -> bool:
    """Whether an agent's finding is a known one, by rule, weakness or title."""
    return overlaps(known, claim) and (
        bool(set(known.cwe) & set(claim.cwe)) or same_rule_or_title(known, claim)
    )


def same_rule_or_title(one: LocatedFinding, other: LocatedFinding) -> bool:
    """Whether two findings name the same rule, or have much the same title."""
    same_rule = one.rule == other.rule != default_rule(other.category)
    return same_rule or _titles_similar(one.title, other.title)


def _tells_same(merged: MergedFinding, report: FindingReport) -> bool:
    """Whether an agent speaks of a known defect: much of the same, or of what it quotes too.

    Two findings of one agent in one review are two defects; different weaknesses may be.
    """
    agents = [known for known in merged.reports if not known.from_analyzer]
    if any(known.reporter == report.reporter and not known.carried for known in agents):
        return False
    known, finding = [one.finding for one in agents], report.finding
    other = any(names_other_weakness(one, finding) for one in known)
    return any(
        _speaks_of_same(one, finding, surely=other or not quotes_same(one, finding))
        for one in known
        if overlaps(one, finding)
    )


def quotes_same(first: LocatedFinding, second: LocatedFinding) -> bool:
    """Whether the quotation of one of two findings at the same lines contains the other's."""
    quotes = sorted((remove_white_space([each.quote]) for each in (first, second)), key=len)
    return overlaps(first, second) and quotes[0] in quotes[1]


def _speaks_of_same(first: LocatedFinding, second: LocatedFinding, *, surely: bool) -> bool:
    """Whether the texts of two findings, unless short, share words beyond the quoted code's."""
    quoted = _stems(f"{first.quote} {second.quote}")
    one, other = (_stems(f"{each.title} {each.detail}") - quoted for each in (first, second))
    fewest, shared = min(len(one), len(other)), len(one & other)
    if surely:
        return shared >= max(MIN_SURE, SURE_SHARE * fewest)
    return fewest < MIN_STEMS or shared >= SHARED_STEMS * fewest


def _stems(text: str) -> set[str]:
    return {word[:STEM] for word in _words_in(text)}


def _shared_words(merged: MergedFinding, finding: LocatedFinding) -> int:
    """The number of words that a finding shares with the reports of a defect."""
    reported = [one.finding for one in merged.reports]
    known = _words_in(" ".join(text for one in reported for text in (one.title, one.detail)))
    return len(known & _words_in(f"{finding.title} {finding.detail}"))


def at_place_of(known: LocatedFinding, claim: LocatedFinding) -> LocatedFinding:
    """An agent's text for an analyzer's finding, at the analyzer's place."""
    place = {name: getattr(known, name) for name in _PLACE}
    return replace(claim, **place, because_of=None, cause_quote="")


def overlaps(first: LocatedFinding, second: LocatedFinding) -> bool:
    """Whether two findings share a line."""
    return (
        (first.path, first.side) == (second.path, second.side)
        and first.start_line <= second.end_line
        and second.start_line <= first.end_line
    )


def default_rule(category: str) -> str:
    """The rule of an agent's finding without one."""
    return f"{category}.reported"


def _titles_similar(left: str, right: str) -> bool:
    first, second = _words_in(left), _words_in(right)
    shared = len(first & second)
    equal = bool(shared) and first == second
    return equal or (shared > 1 and shared >= SIMILAR_SHARE * min(len(first), len(second)))


def _words_in(text: str) -> set[str]:
    return {*_WORD.findall(text.casefold())} - _ENGLISH


def low_pairs(findings: Iterable[MergedFinding]) -> Iterator[tuple[str, str]]:
    """The fingerprints of low claims of different agents that say the same, wherever they are."""
    claims = (one for one in findings if not one.from_analyzer)
    low = [one for one in claims if not is_as_severe(one.finding.severity, "medium")]
    for one, other in combinations(low, 2):
        first, second = _stems(one.finding.title), _stems(other.finding.title)
        least = max(MIN_SHARED, SIMILAR_SHARE * min(len(first), len(second)))
        if len(first & second) >= least and not one.supporters & other.supporters:
            yield other.fingerprint, one.fingerprint


MAX_OFFSET = 5
"""Lines between a removed line and its replacement, counted from the start of the block."""


def replacement_pairs(
    workspace: ReviewWorkspace, findings: Sequence[MergedFinding]
) -> Iterator[tuple[str, str]]:
    """The fingerprints of findings in base and head of the same defect, the first of them last.

    Both are in one block of replaced lines, near each other, in the same category, and agree in
    rule or title.
    """
    placed = [(one.finding, at) for one in findings if (at := _place(workspace, one.finding))]
    for (one, (block, offset)), (other, (same, there)) in combinations(placed, 2):
        if (
            one.side != other.side
            and one.category == other.category
            and block == same
            and abs(offset - there) <= MAX_OFFSET
            and same_rule_or_title(one, other)
        ):
            yield other.fingerprint, one.fingerprint


def _place(
    workspace: ReviewWorkspace, finding: LocatedFinding
) -> tuple[tuple[str, int], int] | None:
    """The block of a finding's first changed line, or of the one that causes it, and its line.

    A block is the file and its unchanged lines before it, the same number on both sides; its line
    is counted from its start.
    """
    side, path = finding.side, finding.path
    first, last = finding.start_line, finding.end_line
    if (cause := finding.because_of) is not None:
        side, path = ("base" if cause.removed else "head"), cause.path
        first = last = cause.line
    changed = changed_lines(workspace, side, path)
    line = min((line for line in changed if first <= line <= last), default=None)
    if line is None:
        return None
    start = line
    while start - 1 in changed:
        start -= 1
    before = sum(one < start for one in changed)
    return (_head_path(workspace, side, path), start - 1 - before), line - start


def _head_path(workspace: ReviewWorkspace, side: SideName, path: str) -> str:
    """The name in head of a file that was renamed."""
    if side == "head":
        return path
    files = workspace.change.files
    return next((file.path for file in files if (file.old_path or file.path) == path), path)
