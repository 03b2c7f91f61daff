"""Tells agents what changed since an earlier review of the same change, and what that affects."""

from collections.abc import Mapping, Sequence

from orchestrator.code_review.agents import reviewer_assignment
from orchestrator.code_review.agents.briefs import PROMPTS
from orchestrator.code_review.change.changed_files import ChangedSince
from orchestrator.code_review.change.numbered_diff import NumberedFileDiff
from orchestrator.code_review.findings.located_findings import LocatedFinding
from orchestrator.code_review.findings.settled_places import SettledPlaces
from orchestrator.code_review.review_state import ReviewState
from orchestrator.wording import name_rest

SHOWN_FILES = 100
SHOWN_RANGES = 20
SHOWN_NEIGHBORS = 5

NEAR_LINES = 5
"""How near to a finding a line has to change for agents to be told."""


def rules_for_known_lines(state: ReviewState) -> str:
    """The rules for lines that an earlier review has settled; empty without one."""
    own = any(not report.refers_to for report in state.carried)
    parts = [PROMPTS["carried"] if own else "", PROMPTS["settled"] if state.settled else ""]
    if not any(parts):
        return ""
    return f"An earlier push of this change was reviewed\n{''.join(parts)}\n"


def changed_near(settled: SettledPlaces | None, finding: LocatedFinding) -> bool:
    """Whether lines of a finding, or near them, changed since an earlier review."""
    since = settled.changed.get(finding.path) if settled and finding.side == "head" else None
    return since is not None and any(
        first - NEAR_LINES <= finding.end_line and finding.start_line <= last + NEAR_LINES
        for first, last in since.added
    )


def newest_first(
    diffs: Mapping[str, NumberedFileDiff], settled: SettledPlaces | None
) -> dict[str, NumberedFileDiff]:
    """The diffs, with files that changed since an earlier review first."""
    changed = settled.changed if settled else {}
    return dict(sorted(diffs.items(), key=lambda entry: entry[0] not in changed))


async def list_changed_since(state: ReviewState) -> list[str]:
    """The files of the change that changed since an earlier review, with lines and neighbors."""
    if state.settled is None:
        return []
    files = {file.path: file for file in state.given.workspace.change.files}
    changed = [since for path, since in state.settled.changed.items() if path in files]
    count = f"{len(changed)} of {len(files)} files"
    lines = [
        "",
        f"Changed since the complete review of {state.settled.head[:12]}: {count}",
        *(f"- {_describe(since)}" for since in changed[:SHOWN_FILES]),
    ]
    lines += name_rest(len(changed) - SHOWN_FILES)
    return [*lines, *await _list_reached(state, {since.path for since in changed})]


def _describe(since: ChangedSince) -> str:
    if since.old_path is None:
        return f"{since.path}: new"
    ranges = [f"{a}-{b}" if a != b else str(a) for a, b in since.added[:SHOWN_RANGES]]
    shown = ", ".join([*ranges, *name_rest(len(since.added) - SHOWN_RANGES)])
    moved = f" (was {since.old_path})" if since.old_path != since.path else ""
    return f"{since.path}{moved}: " + (f"lines {shown}" if shown else "no line added")


async def _list_reached(state: ReviewState, changed: set[str]) -> list[str]:
    """The other files of the change that import one of these, or that one of these imports."""
    paths = state.given.workspace.open_paths
    neighbors: Mapping[str, Sequence[str]] = (
        await reviewer_assignment.find_neighbors_of(state, paths) if changed else {}
    )
    reached = {
        path: near
        for path, all_near in neighbors.items()
        if path not in changed and (near := [one for one in all_near if one in changed])
    }
    if not reached:
        return []
    return [
        "Files of the change that these reach by imports:",
        *(
            f"- {path}: {', '.join(near[:SHOWN_NEIGHBORS])}"
            for path, near in list(reached.items())[:SHOWN_FILES]
        ),
    ]
