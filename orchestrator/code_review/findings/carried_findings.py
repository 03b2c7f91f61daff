"""Findings that agents reported in the previous review of the same change, carried over.

An agent's finding stays open until the text that it quotes is gone or an agent refutes it with
evidence: a model that does not repeat it refutes nothing. It is checked against the change and
merged like any claim of this review. See docs/decisions/0016.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.catalog.shared_literals import SEVERE, SEVERITIES
from orchestrator.code_review.change.changed_files import ChangedSince, find_changed_since
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.findings.agent_reports import (
    MAX_DETAIL,
    MAX_TITLE,
    MAX_WEIGHTY,
    shorten,
)
from orchestrator.code_review.findings.citations import (
    MAX_SHOWN_QUOTE,
    changed_lines,
    keep_guideline,
    read_lines,
    with_cause,
    with_cause_quote,
)
from orchestrator.code_review.findings.located_findings import (
    Carried,
    FindingTarget,
    LocatedFinding,
)
from orchestrator.code_review.findings.merging import FindingReport, MergedFinding, at_place_of
from orchestrator.code_review.findings.previous_review import passed_review, policy_digest
from orchestrator.code_review.findings.quote_location import find_whole_lines
from orchestrator.code_review.findings.settled_places import SettledPlaces, settled_places
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.verdict.document_parts import Objection, PassedReview, Reported
from orchestrator.code_review.verdict.model import Cause, Finding, Verdict
from orchestrator.engine.field_types import shared_fields

MAX_CLAIMS = 200
"""Findings that are carried over, the most severe; a review has far fewer."""
MAX_LISTED = 20
"""Reporters, weaknesses and objections of a finding that is carried over."""
MAX_SEARCHED = 100
"""Files in which the quotation of a finding is looked for whose own file is gone."""

NONE_COMPLETE = "no complete review in which agents read files"
OTHER_POLICY = "it had other agents, rules or configuration"

NOT_REFUTED = "it did not set the finding aside in an earlier review"


class HandedOver(Struct, frozen=True):
    """What this review takes over from the previous one.

    Attributes:
        claims: its open findings that agents reported.
        passed: the newest complete review; None without one.
        changed: what changed since ``passed``.
        why_unsettled: why lines that it read are not settled; empty if they are.
    """

    claims: tuple[Finding, ...] = ()
    passed: PassedReview | None = None
    changed: tuple[ChangedSince, ...] = ()
    why_unsettled: str = ""


NOTHING_HANDED_OVER = HandedOver()


async def hand_over(verdict: Verdict, change: Change) -> HandedOver:
    """What the next review of the same change takes over from a review.

    A repeated review of the same head does not settle what that review read.
    """
    same_head = verdict.change.head == change.head
    claims = [
        finding
        for finding in verdict.findings
        if finding.state != "rejected"
        # A test of theirs may show what only agents report.
        and (finding.support != "proven" or finding.is_tested)
        and finding.reported_by
    ]
    before = verdict.previous.passed if verdict.previous else None
    passed = before if same_head else passed_review(verdict)
    most_severe = sorted(claims, key=lambda one: one.rank)[:MAX_CLAIMS]
    handed = HandedOver(tuple(map(_bounded, most_severe)), passed)
    if passed is None:
        return replace(handed, why_unsettled=NONE_COMPLETE)
    changed, unknown = await find_changed_since(change, passed.base, passed.head)
    return replace(handed, changed=changed, why_unsettled=unknown)


def _bounded(claim: Finding) -> Finding:
    """A claim with its texts cut to the limits of an agent's; a given file may exceed them."""
    return replace(
        claim,
        fingerprint=claim.fingerprint[:MAX_TITLE],
        rule=claim.rule[:MAX_TITLE],
        category=claim.category[:MAX_TITLE],
        title=shorten(claim.title, MAX_TITLE),
        detail=shorten(claim.detail, MAX_DETAIL),
        fix_suggestion=shorten(claim.fix_suggestion, MAX_DETAIL),
        cwe=claim.cwe[:MAX_LISTED],
        reported_by=_bounded_names(claim.reported_by),
        confirmed_by=_bounded_names(claim.confirmed_by),
        objections=tuple(map(_bounded_objection, claim.objections[:MAX_LISTED])),
        steps=(),
        runs=(),
        context=None,
    )


def _bounded_names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name[:MAX_TITLE] for name in names[:MAX_LISTED])


def _bounded_objection(objection: Objection) -> Objection:
    evidence = tuple(shorten(text, MAX_DETAIL) for text in objection.evidence[:MAX_LISTED])
    return replace(
        objection,
        by=objection.by[:MAX_TITLE],
        reason=shorten(objection.reason, MAX_DETAIL),
        why_not=shorten(objection.why_not, MAX_DETAIL),
        evidence=evidence,
    )


def settled_by(
    handed: HandedOver, change: Change, digests: Mapping[str, str]
) -> tuple[SettledPlaces | None, str]:
    """The settled places, or None and why there are none.

    Args:
        digests: of this review's policy.
    """
    passed = handed.passed
    if passed is None or handed.why_unsettled:
        return None, handed.why_unsettled
    if passed.policy != policy_digest(digests):
        return None, OTHER_POLICY
    return settled_places(change, passed.head, passed.read, handed.changed), ""


async def place_claims(
    workspace: ReviewWorkspace, claims: Iterable[Finding]
) -> tuple[FindingReport, ...]:
    """The claims that still apply to this change, at the present lines of their quotations.

    A claim about an analyzer's finding counts only if an analyzer reports that again.
    """

    def gravest(report: Reported) -> tuple[int, float]:
        return SEVERITIES.index(report.severity), -report.confidence

    reports: list[FindingReport] = []
    for claim in claims:
        by_agents = [report for report in claim.reports if not report.proved]
        on_analyzers = len(by_agents) < len(claim.reports)
        words = min(by_agents, key=gravest) if on_analyzers and by_agents else None
        if on_analyzers and words is None:
            continue
        finding: LocatedFinding | None = as_located(claim, words)
        if not on_analyzers:
            finding = await _place_again(workspace, as_located(claim))
            if finding is None and claim.is_tested:
                finding = await _place_at_change(workspace, as_located(claim))
        if finding is None:
            continue
        author = words.by if words else (by_agents[0].by if by_agents else claim.reported_by[0])
        reports.append(
            FindingReport(
                author,
                finding,
                from_analyzer=False,
                refers_to=claim.fingerprint if on_analyzers else "",
                carried=Carried(
                    (author,) if on_analyzers else claim.reported_by,
                    claim.confirmed_by,
                    tuple(replace(one, earlier=True) for one in claim.objections),
                ),
            )
        )
    return tuple(_raise_again(reports))


def _raise_again(reports: Sequence[FindingReport]) -> list[FindingReport]:
    """The claims at their own severity, also where the verifier saw other code stop them then.

    Those beyond their authors' weightiest are raised only where graver ones left a place.
    """
    taken = Counter(one.reporter for one in reports if one.finding.severity != "info")
    found = list(reports)
    lowered = [
        (SEVERITIES.index(one.finding.lowered_from), -one.finding.confidence, place)
        for place, one in enumerate(reports)
        if one.finding.lowered_from
    ]
    for severity, _, place in sorted(lowered):
        report = reports[place]
        stopped = report.finding.severity != "info"
        if stopped or taken[report.reporter] < MAX_WEIGHTY:
            taken[report.reporter] += not stopped
            own = replace(report.finding, severity=SEVERITIES[severity], lowered_from=None)
            found[place] = replace(report, finding=own)
    return found


def targets_of(reports: Sequence[FindingReport]) -> dict[str, FindingTarget]:
    """Fingerprint → the target of responses to a carried-over finding."""
    return {
        report.finding.fingerprint: FindingTarget(
            frozenset(report.carried.reported_by), carried=True
        )
        for report in reports
        if report.carried and not report.refers_to
    }


def hold_to_analyzers(
    carried: Iterable[FindingReport], proved: Mapping[str, FindingReport]
) -> list[FindingReport]:
    """The carried-over claims without those about findings that no analyzer reports any more.

    Args:
        proved: fingerprint → an analyzer's report.
    """
    held: list[FindingReport] = []
    for report in carried:
        if not report.refers_to:
            held.append(report)
        elif known := proved.get(report.refers_to):
            held.append(replace(report, finding=at_place_of(known.finding, report.finding)))
    return held


def earlier_objections(merged: MergedFinding) -> list[Objection]:
    """The earlier review's objections to a finding.

    They do not refute a finding that an agent of this review reports as severe.
    """
    own = [report for report in merged.all_reports if not report.carried]
    severe = any(report.finding.severity in SEVERE for report in own)
    return [
        replace(one, refutes=one.refutes and not severe, why_not=one.why_not or NOT_REFUTED)
        for report in merged.all_reports
        if report.carried
        for one in report.carried.objections
    ]


def as_located(claim: Finding, words: Reported | None = None) -> LocatedFinding:
    """A verdict's finding in the form that agents' findings have before they are merged.

    Args:
        words: an agent's response to an analyzer's finding; None: the finding is an agent's.
    """
    shown = shared_fields(claim, LocatedFinding)
    shown |= {"start_column": 0, "steps": ()}  # of the head that the earlier review saw
    if words is not None:
        replaced = {
            name: getattr(words, name) for name in ("severity", "confidence", "title", "detail")
        }
        shown |= {**replaced, "lowered_from": None}
    return LocatedFinding(**shown, quote=claim.evidence.quote, side=claim.evidence.side)


async def _place_again(
    workspace: ReviewWorkspace, finding: LocatedFinding
) -> LocatedFinding | None:
    """The finding at the nearest lines with its quotation; None if there are none."""
    finding = keep_guideline(workspace, finding)
    if finding.path in await workspace.contents.paths(finding.side):
        return await _place_in(workspace, finding, finding.path)
    if finding.side == "head":
        for path in _may_hold(workspace.change, finding.path):
            if placed := await _place_in(workspace, finding, path):
                return placed
    return None


def _may_hold(change: Change, path: str) -> list[str]:
    """Changed files to which a removed file may have been moved, the most likely first."""
    folder, _, name = path.rpartition("/")
    ending = name.rpartition(".")[2]
    same_ending = [f.path for f in change.files if f.in_head and f.path.endswith(ending)]

    def rank(other: str) -> tuple[bool, bool, str]:
        into, _, other_name = other.rpartition("/")
        return other_name != name, into != folder, other

    return sorted(same_ending, key=rank)[:MAX_SEARCHED]


async def _place_in(
    workspace: ReviewWorkspace, finding: LocatedFinding, path: str
) -> LocatedFinding | None:
    lines = await read_lines(workspace, finding.side, path)
    if not lines:  # it cannot be read, so it is not known to be fixed
        return finding if path == finding.path else None
    changed = changed_lines(workspace, finding.side, path)
    places = find_whole_lines(lines, finding.quote)
    for start, end in sorted(places, key=lambda place: abs(place[0] - finding.start_line)):
        located = replace(finding, path=path, start_line=start, end_line=end)
        cause = await _cause_again(workspace, located)
        if held := with_cause(workspace, replace(located, because_of=cause), changed):
            return await with_cause_quote(workspace, held)
    return None


async def _place_at_change(
    workspace: ReviewWorkspace, finding: LocatedFinding
) -> LocatedFinding | None:
    """The finding at the nearest changed line, whose test decides whether the defect only moved."""
    if finding.side != "head" or finding.path not in await workspace.contents.paths("head"):
        return None
    lines = await read_lines(workspace, "head", finding.path)
    changed = [
        n
        for n in changed_lines(workspace, "head", finding.path)
        if "".join(lines[n - 1 : n]).strip()
    ]
    if not changed:
        return None
    line = min(changed, key=lambda number: (abs(number - finding.start_line), number))
    quote = lines[line - 1]
    return replace(finding, start_line=line, end_line=line, quote=quote, because_of=None)


async def _cause_again(workspace: ReviewWorkspace, finding: LocatedFinding) -> Cause | None:
    """The changed line with the text of the finding's cause; None if there is none."""
    cause, text = finding.because_of, finding.cause_quote
    if cause is None or not text:
        return cause
    side: SideName = "base" if cause.removed else "head"
    lines = await read_lines(workspace, side, cause.path)
    equal = [
        number
        for number in changed_lines(workspace, side, cause.path)
        if number <= len(lines) and lines[number - 1].strip()[:MAX_SHOWN_QUOTE] == text
    ]
    if not equal:
        return None
    return replace(cause, line=min(equal, key=lambda number: (abs(number - cause.line), number)))
