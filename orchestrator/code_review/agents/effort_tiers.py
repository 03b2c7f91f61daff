"""The tier of a change, by which code chooses the effort of its review; no model is asked.

It is computed from data (``config/effort.yaml``): paths and words of changed lines, analyzers'
findings, size, public names, earlier fixes of the files, and the author's tier. Each can only raise
it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from diffchecks import name_some
from diffchecks.jobs import ChangedFile
from orchestrator.catalog.effort import (
    TIER_OF,
    EffortFile,
    Measure,
    ReaderBounds,
    Tier,
    highest,
    word_finder,
)
from orchestrator.catalog.shared_literals import is_as_severe
from orchestrator.code_review.agent_report_contracts import contract_of_one
from orchestrator.code_review.change import history
from orchestrator.code_review.change.numbered_diff import LINE_AT_MOST, FileDiffs, NumberedFileDiff
from orchestrator.code_review.findings.evidence_from_journal import AnalyzerCall
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.lead_tools import kind_of
from orchestrator.code_review.tools.path_globs import path_matcher
from orchestrator.code_review.tools.registry import ANALYZERS
from orchestrator.data_directories import read_table
from orchestrator.engine.types import Bounds
from orchestrator.wording import count_noun

NAMED = 3
"""Files and words that a reason names."""

FIRST_GUIDANCE = "REVIEW.md"
"""Base's guidance for reviewers, which even the agent of a trivial change is shown."""

NOT_FOR_TRIVIAL = "a trivial change is shown only what concerns its files"

_MOVES = {"renamed", "mode", "type"}
_LINES: Mapping[str, str] = read_table(__file__, "defining.yaml")
_PUBLIC, _PROSE = re.compile(_LINES["public"]), re.compile(_LINES["prose"])
"""Lines by which a public name appears, changes or goes, and comments."""

Signal = tuple[Tier, str]


async def decide_tier(
    state: ReviewState, diffs: FileDiffs, calls: Sequence[AnalyzerCall], tokens: int
) -> tuple[Tier, list[str]]:
    """The tier that the settings name or the change has, at least base's minimum; and why.

    Args:
        calls: of analyzers, on the whole change.
        tokens: of the diff and the findings.
    """
    asked, files = state.given.settings.effort, state.given.workspace.change.files
    if asked.level == "auto":
        signals = await _signals(state, diffs, calls, tokens)
        changed = count_noun(_lines(files), "changed line")
        signals.append(("trivial", f"{changed}, and nothing that asks for more"))
    else:
        signals = [(TIER_OF[asked.level], f"the settings or --effort name {asked.level}")]
    signals.append((TIER_OF[asked.minimum], f"the settings' minimum is {asked.minimum}"))
    for glob, level in asked.paths.items():
        if any(map(path_matcher(glob), _names(files))):
            signals.append((TIER_OF[level], f"the settings' minimum of {glob} is {level}"))
    tier = highest(found for found, _ in signals)
    reasons = [why for found, why in signals if found == tier]
    return tier, reasons[:1] if tier == "trivial" else reasons


async def _signals(
    state: ReviewState, diffs: FileDiffs, calls: Sequence[AnalyzerCall], tokens: int
) -> list[Signal]:
    """What of the change, its files and its author asks for a tier."""
    given, workspace = state.given, state.given.workspace
    files = workspace.change.files
    read = [file for file in files if not workspace.left_out(file)]
    code = [line for path, part in diffs.items() if kind_of(path) == "code"
            for line in changed_lines(part) if not _PROSE.fullmatch(line[1])]  # fmt: skip
    # Definitions of public names that the change takes away, or writes otherwise.
    gone, new = (Counter(text.strip() for sign, text in code if sign == one) for one in "-+")
    measured: dict[Measure, int] = {
        "lines": _lines(read),
        "tokens": tokens,
        "files": len(read),
        "public names": sum(count for text, count in (gone - new).items() if _PUBLIC.match(text)),
        "earlier fixes": await history.count_fixes(workspace.change),
    }
    found = [*_areas(given.catalog.effort, _names(files), code), *_findings(state, calls)]
    for name, bounds in given.catalog.effort.measures.items():
        why = f"{measured[name]:,} {name}"
        found += [(tier, why) for tier, bound in bounds.items() if measured[name] >= bound]
    special = [f.path for f in files if f.kind in {"symlink", "submodule"} or f.status in _MOVES]
    lines = {file.path: changed_lines(diffs[file.path]) for file in read if file.path in diffs}
    cut = [path for path in lines if any(len(text) > LINE_AT_MOST for _, text in lines[path])]
    for what, paths in (("links, moves and modes", special), ("lines that are cut", cut)):
        if paths:
            found.append(("ordinary", f"{what}: {name_some(paths, NAMED)}"))
    if given.author_tier != given.catalog.guards.tiers[0]:
        found.append(("ordinary", f"its author is of the tier {given.author_tier}"))
    return found


def _lines(files: Iterable[ChangedFile]) -> int:
    return sum(len(file.added) + len(file.removed) for file in files)


def _names(files: Iterable[ChangedFile]) -> list[str]:
    """Paths in head and in base."""
    return list(dict.fromkeys(name for file in files for name in file.paths))


def changed_lines(part: NumberedFileDiff) -> list[tuple[str, str]]:
    """Sign and text of the lines that the change adds to a file or removes from it."""
    return [(line.sign, line.text) for line in part.hunk_lines if line.sign in "+-"]


def _areas(
    table: EffortFile, names: Sequence[str], code: Iterable[tuple[str, str]]
) -> Iterator[Signal]:
    """The areas of the changed files, and of the changed lines of code."""
    product = [name for name in names if kind_of(name) not in {"test", "docs"}]
    text = "\n".join(line for _, line in code)
    for name, area in table.areas.items():
        found = list(filter(word_finder(area.words), product))
        found += [path for matches in map(path_matcher, area.paths) for path in names
                  if matches(path.lower())]  # fmt: skip
        if named := list(dict.fromkeys(found)) or word_finder(area.lines)(text):
            yield area.tier, f"{name}: {name_some(named, NAMED)}"


def _findings(state: ReviewState, calls: Sequence[AnalyzerCall]) -> Iterator[Signal]:
    """The findings of each kind, leads, and analyzers that failed."""
    for name, kind in state.given.catalog.effort.findings.items():
        rules = {
            one.rule
            for call in calls
            for one in call.result.findings
            if is_as_severe(one.severity, kind.severity)
            and (not kind.tools or call.tool in kind.tools)
            and (not kind.categories or one.category in kind.categories)
        }
        if rules:
            yield kind.tier, f"{name}: {name_some(sorted(rules), NAMED)}"
    leads = {lead.code for call in calls for lead in call.result.leads}
    failed = {call.tool for call in calls if call.why}
    for what, those in (("leads", leads), ("analyzers that failed", failed)):
        if those:
            yield "ordinary", f"{what}: {name_some(sorted(those), NAMED)}"


def has_public_names(part: NumberedFileDiff) -> bool:
    """Whether a public name appears, changes or goes in a file."""
    return any(_PUBLIC.match(text) for _, text in changed_lines(part))


def limit_beside(state: ReviewState) -> None:
    """Limit the specialists that read beside the single agent, which covers what they leave."""
    given, agents = state.given, dict(state.given.catalog.agents)
    for name in state.beside:
        spec = agents[name]
        agents[name] = replace(spec, bounds=_within(spec.bounds, given.catalog.effort.beside))
    state.given = replace(given, catalog=replace(given.catalog, agents=agents))


def _within(bounds: Bounds, most: ReaderBounds) -> Bounds:
    fewer = {
        name: min(getattr(bounds, name), getattr(most, name))
        for name in ReaderBounds.__struct_fields__
    }
    return replace(bounds, **fewer)


def shrink(state: ReviewState, *, responds: bool) -> None:
    """Limit the review of a trivial change to one agent, which gets little beside the change.

    Only what it claims at medium or above is proven and verified, which costs nothing without one.
    """
    given, most = state.given, state.given.catalog.effort.trivial
    fixes = replace(given.settings.fixes, agent=None)
    settings = replace(given.settings, judge=False, fixes=fixes)
    spec = given.catalog.agents[settings.single]
    tools = tuple(name for name in spec.tools if name in {*most.tools, *ANALYZERS})
    bounds, contract = _within(spec.bounds, most), contract_of_one(responds=responds)
    spec = replace(spec, skills=(), tools=tools, bounds=bounds, contract=contract)
    agents = {**given.catalog.agents, settings.single: spec}
    state.given = replace(given, settings=settings, catalog=replace(given.catalog, agents=agents))
    state.given.workspace.guidance = [
        one
        if one.applies_to or one.path == FIRST_GUIDANCE or not one.shown
        else replace(one, shown=0, why_not=NOT_FOR_TRIVIAL)
        for one in state.given.workspace.guidance
    ]
