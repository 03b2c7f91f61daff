"""Dismissals: recognizes a finding that a person dismissed, even if it is worded differently.

It stays dismissed while the code around it is unchanged. If the change alters that code, adds a new
way into it, or proves the finding to be worse, it is open again and says why.
See docs/decisions/0017.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec.structs import asdict, replace

from orchestrator.catalog.repository_memory import Dismissal, DismissedFinding
from orchestrator.catalog.shared_literals import SEVERE, SEVERITIES, is_as_severe
from orchestrator.catalog.verdict_policy import VerdictPolicy
from orchestrator.code_review.findings.agent_reports import read_reports
from orchestrator.code_review.findings.carried_findings import as_located
from orchestrator.code_review.findings.citations import read_lines
from orchestrator.code_review.findings.evidence_from_journal import AnalyzerCall, Work
from orchestrator.code_review.findings.finding_context import ContextBlock, find_block
from orchestrator.code_review.findings.located_findings import (
    LocatedFinding,
    names_other_weakness,
    names_same_weakness,
)
from orchestrator.code_review.findings.merging import (
    FindingReport,
    default_rule,
    overlaps,
    quotes_same,
    same_rule_or_title,
)
from orchestrator.code_review.findings.quote_location import find_quote
from orchestrator.code_review.findings.waivers import PlacedDismissal
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.verdict.model import Finding
from orchestrator.engine.field_types import shared_fields

MORE_LINES = 5
"""How many more or fewer lines than what was dismissed a claim of the same defect quotes."""


def reported_paths(
    calls: Iterable[AnalyzerCall], team: Iterable[Work], carried: Iterable[FindingReport]
) -> frozenset[str]:
    """The paths in which analyzers, agents and an earlier review report findings."""
    found = {finding.path for call in calls for finding in call.result.findings}
    found |= {report.finding.path for report in carried}
    for report in read_reports(team):
        for claim in report.form.findings:
            found |= {claim.path, claim.path.removeprefix("./"), claim.path.removeprefix("b/")}
    return frozenset(found)


async def place_dismissals(
    workspace: ReviewWorkspace, policy: VerdictPolicy, reported: Collection[str]
) -> VerdictPolicy:
    """The policy with each dismissal placed at the present lines of its finding.

    Args:
        reported: the paths that analyzers and agents report findings in.
    """
    if not any(isinstance(one, Dismissal) and one.about for one in policy.waivers):
        return policy
    renamed = {f.old_path: f.path for f in workspace.change.files if f.old_path}
    known = {*reported, *workspace.files, *renamed}
    waivers = [
        await _place(workspace, one, one.about, renamed, known)
        if isinstance(one, Dismissal) and one.about
        else one
        for one in policy.waivers
    ]
    return replace(policy, waivers=tuple(waivers))


async def _place(
    workspace: ReviewWorkspace,
    dismissal: Dismissal,
    about: DismissedFinding,
    renamed: Mapping[str, str],
    known: Collection[str],
) -> Dismissal:
    """One dismissal, placed at lines of this change if they can be found."""
    path = about.path if about.side == "base" else renamed.get(about.path, about.path)
    placed = PlacedDismissal(
        **asdict(dismissal), means=_means(dismissal, about, None), added=workspace.added
    )
    if path not in known:
        return placed
    file = workspace.files.get(path)
    places = _find_places(await read_lines(workspace, about.side, path), about)
    before = _find_places(
        await read_lines(workspace, "base", (file and file.old_path) or path), about
    )
    place = _choose_place(places, before, about)
    if place is None:
        if places:
            return replace(placed, means=_means(dismissal, about, None, several=True))
        if not about.scope or about.side == "base":
            return placed
        return replace(placed, means=_was_like(about, path), path=path, is_edited=True)
    start, end, block = place
    shown = {**shared_fields(about, LocatedFinding), "path": path}
    at = LocatedFinding(
        **shown,
        fingerprint=dismissal.fingerprint or "",
        confidence=1.0,
        start_line=start,
        end_line=end,
    )
    in_base = frozenset(block.digest for _, _, block in before)
    means = _means(dismissal, about, at)
    return replace(placed, means=means, path=path, now=block, in_base=in_base)


_Place = tuple[int, int, ContextBlock]
"""First and last line of a quotation, and what it stands in."""


def _find_places(lines: Sequence[str], about: DismissedFinding) -> list[_Place]:
    """The places of a dismissed finding's text in a file."""
    found = find_quote(lines, about.quote) if about.quote else []
    return [(start, end, find_block(lines, start, end)) for start, end in found]


def _choose_place(
    places: Sequence[_Place], before: Sequence[_Place], about: DismissedFinding
) -> _Place | None:
    """The place of a dismissed finding: of equal quotations, the one in the same block.

    If the change copies the block, the copy is not dismissed, and which one it is is unknown.

    Args:
        before: where the text stands in base.
    """

    def alike(one: ContextBlock) -> tuple[bool, bool]:
        return one.digest == about.context, bool(about.scope) and one.scope == about.scope

    for way in (0, 1):
        same = [place for place in places if alike(place[2])[way]]
        if same:
            new = len({block.start for _, _, block in same})
            old = len({block.start for _, _, block in before if alike(block)[way]})
            nearest = min(same, key=lambda place: abs(place[0] - about.line))
            return nearest if new <= max(1, old) else None
    return places[0] if len(places) == 1 else None


def _was_like(about: DismissedFinding, path: str) -> Callable[[LocatedFinding | Finding], bool]:
    """Whether a finding is the dismissed one at another line of its function."""

    def means(finding: LocatedFinding | Finding) -> bool:
        if not isinstance(finding, Finding) or finding.path != path or not finding.context:
            return False
        known = replace(as_located(finding), rule=about.rule, title=about.title)
        same_function = finding.context.scope == about.scope
        return same_function and same_rule_or_title(known, as_located(finding))

    return means


def _means(
    dismissal: Dismissal,
    about: DismissedFinding,
    at: LocatedFinding | None,
    *,
    several: bool = False,
) -> Callable[[LocatedFinding | Finding], bool]:
    """Whether a finding is the one that was dismissed, as a function of it."""

    def means(finding: LocatedFinding | Finding) -> bool:
        names = {finding.fingerprint}
        if isinstance(finding, Finding):
            names.add(finding.identity)
            analyzed = finding.support == "proven" or any(one.proved for one in finding.reports)
            severities = [finding.severity, *(report.severity for report in finding.reports)]
            claim = replace(as_located(finding), severity=min(severities, key=SEVERITIES.index))
        else:
            analyzed, claim = False, finding
        if dismissal.fingerprint in names:
            if several:  # an analyzer's fingerprint numbers equal texts, an agent's does not
                return analyzed
            return at is None or not about.quote or overlaps(at, claim)
        if at is None or not _same_place(at, claim):
            return False
        return (_same_proof if analyzed else _same_claim)(at, claim)

    return means


def _same_place(at: LocatedFinding, claim: LocatedFinding) -> bool:
    """Whether a claim is about roughly the same lines as the dismissed finding."""
    more = claim.end_line - claim.start_line - (at.end_line - at.start_line)
    return overlaps(at, claim) and abs(more) <= MORE_LINES


def _same_proof(at: LocatedFinding, claim: LocatedFinding) -> bool:
    """Whether an analyzer's finding has the text, and the rule or weakness, of another."""
    same_weakness = bool(claim.cwe) and claim.cwe[:1] == at.cwe[:1]
    return quotes_same(at, claim) and (claim.rule == at.rule or same_weakness)


def _same_claim(at: LocatedFinding, claim: LocatedFinding) -> bool:
    """Whether an agent reports the dismissed finding, in whatever words.

    If neither rule, weakness nor words agree, an equal quotation decides, provided that the claim
    is not more severe than the dismissed finding or is below high, and names no other weakness.
    """
    if names_other_weakness(at, claim):
        return False
    if names_same_weakness(at, claim) or same_rule_or_title(at, claim):
        return True
    if "docs" in {at.category, claim.category} and at.category != claim.category:
        return False
    worse = claim.severity in SEVERE and not is_as_severe(at.severity, claim.severity)
    own_rules = {at.rule, claim.rule} - {default_rule(one.category) for one in (at, claim)}
    return quotes_same(at, claim) and not worse and len(own_rules) < 2
