"""Compare a verdict with the previous one of the same change: new, open, reopened, fixed.

A finding is the same if its fingerprint is equal or, if its file was renamed or an equal line was
added before it, if rule and cited text are equal. One whose line was edited, such as to fix another
finding there, is open as before: of the same rule and file, no more severe, with a similar text.
This affects neither the outcome nor the digest: the same change has the same verdict, whatever was
reviewed before.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from diffchecks.new_findings import remove_white_space
from orchestrator.catalog.shared_literals import SEVERITIES
from orchestrator.code_review.change.path_limits import is_in_scope
from orchestrator.code_review.findings.quote_location import find_whole_lines
from orchestrator.code_review.verdict.document_parts import (
    PassedReview,
    PreviousFinding,
    PreviousReview,
    SincePrevious,
)
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.data_directories import MEMORY
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.field_types import Strict, shared_fields

SIMILAR = 0.6  # of the characters of a line that was edited and is still the same finding
CANDIDATES = 20  # earlier findings that one is compared with
COMPARED = 400  # characters of a cited text

ReadHead = Callable[[str], Awaitable[Sequence[str]]]
"""Path → its lines in head; none where it is not there or cannot be read."""


class RememberedFinding(Strict, frozen=True):
    """A finding of the previous review.

    Attributes:
        text: the cited text without white space; empty if it was withheld or is in base.
        open: whether it counted.
        first_fingerprint: in the first review that had it; empty: its fingerprint.
        whole_lines: the text is that of whole lines, as agents' quotations are.
        in_base: the change removed the cited text.
    """

    finding: PreviousFinding
    text: str
    open: bool
    first_fingerprint: str = ""
    whole_lines: bool = False
    in_base: bool = False


class RememberedReview(Strict, frozen=True):
    """What a run needs of the previous review."""

    review: PreviousReview
    findings: tuple[RememberedFinding, ...]


def remember_review(verdict: Verdict) -> RememberedReview:
    """The parts of this verdict that a later review needs."""
    before = verdict.previous
    fixed = () if before is None else before.fixed_before
    review = PreviousReview(
        run_id=verdict.run_id,
        head=verdict.change.head,
        status=verdict.status,
        fixed_before=fixed,
        passed=passed_review(verdict),
    )
    # A finding that it did not report again may return in the next review and is not new then.
    silent = () if before is None else before.not_reported
    return RememberedReview(
        review,
        (
            *map(_remember, verdict.findings),
            *(RememberedFinding(finding, "", open=False) for finding in silent),
        ),
    )


def passed_review(verdict: Verdict) -> PassedReview | None:
    """The verdict's own review if it is complete and agents took part, else the one before."""
    read = [
        entry.path
        for entry in verdict.checked
        if entry.read_by and all(hunk.read_by for hunk in entry.hunks)
    ]
    if verdict.status == "complete" and read:
        policy = policy_digest(verdict.provenance.digests)
        return PassedReview(verdict.change.head, verdict.change.base, policy, tuple(sorted(read)))
    return None if verdict.previous is None else verdict.previous.passed


def policy_digest(digests: Mapping[str, str]) -> str:
    """The digest of a policy without dismissals, which change no agent or rule."""
    return digest({name: one for name, one in digests.items() if name != MEMORY})


def _remember(finding: Finding) -> RememberedFinding:
    return RememberedFinding(
        PreviousFinding(**shared_fields(finding, PreviousFinding)),
        _cited(finding),
        open=finding.state == "open",
        first_fingerprint=finding.first_fingerprint,
        whole_lines=finding.support != "proven",
        in_base=finding.evidence.side == "base",
    )


def _cited(finding: Finding) -> str:
    """The text that a finding cites in head, without white space."""
    if finding.evidence.side == "base":
        return ""
    return remove_white_space([finding.evidence.quote])


async def compare_with_previous(
    verdict: Verdict,
    known: RememberedReview,
    read_head: ReadHead,
    why_unsettled: str = "",
    paths: Sequence[str] = (),
) -> Verdict:
    """The verdict with what is new, open or reopened in it, and what was fixed.

    Args:
        read_head: also reads the work tree, if the previous review did and this one does not.
        why_unsettled: why nothing is settled by the previous review.
        paths: to which the review is limited; none: it is not.
    """
    findings, missing = _match(verdict.findings, known)
    fixed: list[PreviousFinding] = []
    silent: list[PreviousFinding] = []
    rejected = {entry.finding.fingerprint for entry in verdict.rejected}
    for earlier in missing:
        if not earlier.open or earlier.finding.fingerprint in rejected:
            continue
        looked = is_in_scope(earlier.finding.path, paths)
        gone = looked and not await _still_there(earlier, verdict, read_head)
        (fixed if gone else silent).append(earlier.finding)
    after = {finding.fingerprint for finding in findings}
    fixed_before = {*known.review.fixed_before, *(finding.fingerprint for finding in fixed)} - after
    previous = replace(
        known.review,
        fixed=tuple(fixed),
        not_reported=tuple(silent),
        fixed_before=tuple(sorted(fixed_before)),
        settles_nothing=why_unsettled,
    )
    return replace(verdict, findings=findings, previous=previous)


def _match(
    findings: Sequence[Finding], known: RememberedReview
) -> tuple[tuple[Finding, ...], list[RememberedFinding]]:
    """The findings with their state, and the previous findings that match none of them."""
    fingerprints = {finding.fingerprint for finding in findings}
    earlier = {one.finding.fingerprint: one for one in known.findings}
    rest = [one for one in known.findings if one.finding.fingerprint not in fingerprints]
    moved = Counter((one.finding.rule, one.text) for one in rest if one.text)
    marked: list[Finding] = []
    for finding in findings:
        same = finding.rule, _cited(finding)
        since: SincePrevious = "new"
        first = ""
        if finding.fingerprint in earlier:
            since, first = "open", earlier[finding.fingerprint].first_fingerprint
        elif moved[same]:
            found = next(one for one in rest if (one.finding.rule, one.text) == same)
            since, first = "open", found.first_fingerprint or found.finding.fingerprint
            moved[same] -= 1
            rest.remove(found)
        elif finding.fingerprint in known.review.fixed_before:
            since = "reopened"
        marked.append(replace(finding, since_previous=since, first_fingerprint=first))
    for at, finding in enumerate(marked):
        if finding.since_previous == "new" and (edited := _edited(finding, rest)):
            # It keeps its own identity: what people said of the line before may not hold now.
            marked[at] = replace(finding, since_previous="open")
            rest.remove(edited)
    return tuple(marked), rest


def _edited(finding: Finding, rest: Iterable[RememberedFinding]) -> RememberedFinding | None:
    """The earlier finding whose line became this one's; each is taken once."""
    from difflib import SequenceMatcher  # noqa: PLC0415 - few reviews need it

    text, severity = _cited(finding)[:COMPARED], SEVERITIES.index(finding.severity)
    near = [
        one
        for one in rest
        if (one.finding.rule, one.finding.path) == (finding.rule, finding.path)
        and one.text
        and one.open
        and SEVERITIES.index(one.finding.severity) <= severity
    ][:CANDIDATES]
    ratios = [SequenceMatcher(None, one.text[:COMPARED], text).ratio() for one in near]
    best = max(ratios, default=0.0)
    return near[ratios.index(best)] if best >= SIMILAR else None


async def _still_there(earlier: RememberedFinding, verdict: Verdict, read_head: ReadHead) -> bool:
    """Whether head still has the text that a finding cited, or was not examined there."""
    path = earlier.finding.path
    if any(skip.gap and skip.path in {path, "*"} for skip in verdict.skipped):
        return True
    if earlier.in_base:
        return False
    lines = await read_head(path)
    if not earlier.text:  # a secret, perhaps: only a look at the file says that it is gone
        return bool(lines) and all(entry.path != path for entry in verdict.checked)
    if earlier.whole_lines:
        return bool(find_whole_lines(lines, earlier.text))
    return earlier.text in remove_white_space(lines)
