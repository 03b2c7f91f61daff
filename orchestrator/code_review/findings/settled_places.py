"""Settled lines: read in an earlier complete review, so agents raise nothing minor there again.

Findings of analyzers and severe findings are never settled. See docs/decisions/0016.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.catalog.shared_literals import SEVERE, SEVERITIES, is_as_severe
from orchestrator.code_review.change.changed_files import ChangedSince
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.findings.located_findings import LocatedFinding
from orchestrator.code_review.findings.merging import FindingReport, MergedFinding


class SettledPlaces(Struct, frozen=True):
    """The places that a complete review read.

    Attributes:
        read: the files of the change that its agents read, as they were named then.
        changed: path in head → what changed in the file since.
        touched: all old and new names of files that changed since.
        names: path in base → path in head, of the files of the change.
    """

    head: str
    read: Collection[str]
    changed: Mapping[str, ChangedSince]
    touched: frozenset[str]
    names: Mapping[str, str]

    def why_settled(self, finding: LocatedFinding) -> str:
        """Why an agent's finding does not count; empty if it does."""
        if finding.severity in SEVERE:
            return ""
        cause = finding.because_of
        places = [(finding.path, finding.start_line, finding.end_line, finding.side == "base")]
        places += [(cause.path, cause.line, cause.line, cause.removed)] if cause else []
        if any(self._is_changed(*place) for place in places):
            return ""
        if not any(self._was_read(path, in_base) for path, _, _, in_base in places):
            return ""
        return f"the complete review of {self.head[:12]} passed these lines, and they are unchanged"

    def _is_changed(self, path: str, first: int, last: int, in_base: bool) -> bool:
        if in_base:
            return bool({path, self.names.get(path, path)} & self.touched)
        since = self.changed.get(path)
        return since is not None and any(a <= last and first <= b for a, b in since.added)

    def _was_read(self, path: str, in_base: bool) -> bool:
        name = self.names.get(path, path) if in_base else path
        since = self.changed.get(name)
        return (name if since is None else since.old_path) in self.read


def settled_places(
    change: Change, head: str, read: Iterable[str], changed: Iterable[ChangedSince]
) -> SettledPlaces:
    """The places of a change that a complete review of an earlier head settles."""
    since = {file.path: file for file in changed}
    names = {path for file in since.values() for path in (file.path, file.old_path) if path}
    in_base = {file.old_path: file.path for file in change.files if file.old_path}
    return SettledPlaces(head, frozenset(read), since, frozenset(names), in_base)


def set_settled_aside(
    merged: list[MergedFinding], responses: Iterable[FindingReport]
) -> tuple[list[MergedFinding], list[MergedFinding], dict[str, MergedFinding]]:
    """The findings that count, and the reports of agents on settled places.

    Reports that are merged with an analyzer's finding stay but do not make it more severe. A
    repetition of a carried-over finding has no effect unless it is more severe; only a response
    with evidence confirms it.

    Returns:
        The findings; those that are reported on settled places only; and fingerprint of a report
        that repeats a carried-over finding → that finding.
    """
    responded = {id(report) for report in responses}
    kept, aside = list[MergedFinding](), list[MergedFinding]()
    repeated: dict[str, MergedFinding] = {}
    for entry in merged:
        settled = [report for report in entry.reports if report.settled]
        if len(settled) == len(entry.reports):
            aside.append(entry)
            continue
        kept.append(entry)
        if entry.from_analyzer:
            first = entry.finding
            entry.reports = [_limit(one, first) if one.settled else one for one in entry.reports]
        elif entry.is_carried:
            repeats = [
                report
                for report in entry.reports
                if not (report.carried or id(report) in responded)
                and (
                    report.settled or is_as_severe(entry.finding.severity, report.finding.severity)
                )
            ]
            entry.reports = [report for report in entry.reports if report not in repeats]
            entry.repeated_by |= {report.reporter for report in repeats}
            repeated |= {report.finding.fingerprint: entry for report in repeats}
    return kept, aside, repeated


def limit_responses(
    responses: Iterable[FindingReport],
    known: Iterable[FindingReport],
    why_settled: Callable[[LocatedFinding], str],
) -> list[FindingReport]:
    """Responses to known findings: on settled places they make none more severe."""
    findings = {report.finding.fingerprint: report for report in known}
    return [
        _limit(response, findings[response.refers_to].finding)
        if response.refers_to in findings and why_settled(response.finding)
        else response
        for response in responses
    ]


def _limit(report: FindingReport, known: LocatedFinding) -> FindingReport:
    return replace(report, finding=limit_weight(report.finding, known))


def limit_weight(finding: LocatedFinding, known: LocatedFinding) -> LocatedFinding:
    """A finding that is at most as severe and as certain as a known one."""
    return replace(
        finding,
        severity=max(finding.severity, known.severity, key=SEVERITIES.index),
        confidence=min(finding.confidence, known.confidence),
    )
