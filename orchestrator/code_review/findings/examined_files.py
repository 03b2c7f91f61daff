"""Which files and parts of the review were not examined, and why."""

from collections.abc import Iterable, Mapping, Sequence

from orchestrator.code_review.change.skipped_files import LOCK_FILE
from orchestrator.code_review.findings.evidence_from_journal import AnalyzerCall, Work, gaps
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.verdict.model import Skipped

WHOLE_CHANGE = "*"
"""The path of a gap that concerns the whole change and no file of it."""

UNEXAMINED = "no tool looked at it"
"""Why a file is skipped that nobody left out on purpose."""


def list_skipped(
    workspace: ReviewWorkspace,
    calls: Sequence[AnalyzerCall],
    team: Iterable[Work],
    withheld: Mapping[str, tuple[str, bool]],
    left_out: Mapping[str, str],
) -> tuple[Skipped, ...]:
    """The files, and the parts of the review, that were left out or could not be examined.

    Args:
        withheld: analyzer → why no agent was given it, and whether that is a gap.
        left_out: path → why the lead assigned it to no agent; required checks examine it anyway.
    """
    skipped: list[Skipped] = []
    examined = {path for call in calls for path in call.result.examined}
    for file in workspace.change.files:
        if file.skip == LOCK_FILE and file.path in examined:
            continue
        if why := workspace.left_out(file):
            skipped.append(Skipped(path=file.path, why=why, gap=workspace.unread(file)))
        elif file.path not in examined:
            skipped.append(Skipped(path=file.path, why=UNEXAMINED, gap=True))
    skipped += _list_gaps(calls)
    skipped += _list_known_gaps(calls)
    skipped += [
        Skipped(path=path, why=f"the lead left it out: {why}", gap=True)
        for path, why in left_out.items()
    ]
    last = {call.tool: call for call in calls}
    skipped += [
        Skipped(path=WHOLE_CHANGE, why=call.why, tool=call.tool, gap=True)
        for call in last.values()
        if call.why
    ]
    skipped += [
        Skipped(path=WHOLE_CHANGE, why=why, tool=tool, gap=gap)
        for tool, (why, gap) in withheld.items()
        if tool not in last
    ]
    ended = {entry.result.agent: entry.result for entry in team}
    skipped += [
        Skipped(path=WHOLE_CHANGE, why=f"{r.status}: {r.detail}", tool=r.agent, gap=True)
        for r in ended.values()
        if r.status != "ok"
    ]
    return tuple(sorted(skipped, key=lambda skip: (skip.path, skip.tool)))


def _list_gaps(calls: Sequence[AnalyzerCall]) -> list[Skipped]:
    """Files that analyzers could not examine; tools of one analyzer count once."""
    analyzer = {call.tool: call.result.tool or call.tool for call in calls}
    unique: dict[tuple[str, str, str], Skipped] = {}
    for (tool, path), why in sorted(gaps(calls).items()):
        skip = Skipped(path=path, why=why, tool=tool, gap=True)
        unique.setdefault((analyzer[tool], path, why), skip)
    return list(unique.values())


def _list_known_gaps(calls: Sequence[AnalyzerCall]) -> list[Skipped]:
    """Files that analyzers could not read in base, at least: no gap of this review."""
    found = {
        (path, call.result.tool): Skipped(path=path, why=why, tool=call.tool, gap=False)
        for call in calls
        for path, why in call.result.known_gaps.items()
    }
    return [skip for _, skip in sorted(found.items())]
