"""Assigns files to agents: all to one agent, or to specialists where a change is risky or large.

The pattern ``auto`` is decided by code after the analyzers have run, from the change's tier and the
size of what agents read first. The decision is in the journal and in the verdict.
"""

import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil

from msgspec import convert, to_builtins
from msgspec.structs import replace

from diffchecks.check_io import decode_text
from diffchecks.python.imported_files import ModuleIndex, scan_imports
from orchestrator.code_review.agent_report_contracts import PlannedSkip, PlannedTask, ReviewPlan
from orchestrator.code_review.agents.effort_tiers import (
    decide_tier,
    has_public_names,
    limit_beside,
    shrink,
)
from orchestrator.code_review.agents.names_across_files import SEAMS, Neighbors, find_seams
from orchestrator.code_review.change import history
from orchestrator.code_review.change.numbered_diff import FileDiffs, NumberedFileDiff
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.findings.evidence_from_journal import AnalyzerCall
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.lead_tools import by_risk, kind_of, risk
from orchestrator.code_review.verdict.document_parts import AgentShare, Assignment
from orchestrator.engine.untrusted_text import frame
from orchestrator.wording import count_noun

Diffs = dict[str, NumberedFileDiff]

CHARACTERS_PER_TOKEN = 3
"""Of a numbered diff, which is denser than prose."""

DIFFS_SHARE = 0.6
"""Of the longest text that a model is shown, what diffs may take; code and findings follow."""

NOTE = "intake/assignment"
"""Where the decision stands in the journal."""


def count_tokens(characters: int) -> int:
    """The tokens of a numbered diff of this many characters."""
    return ceil(characters / CHARACTERS_PER_TOKEN)


async def diffs_by_path(state: ReviewState) -> FileDiffs:
    """Path → the numbered diff of each changed file; reviewable files first, by risk."""
    if state.diffs is not None:
        return state.diffs
    workspace = state.given.workspace
    parts = _with_paths(workspace.change, await history.diff(workspace.change))
    files = sorted(
        (file for file in workspace.change.files if file.path in parts),
        key=lambda file: (workspace.left_out(file) is not None, -risk(file), file.path),
    )
    state.diffs = {file.path: parts[file.path] for file in files}
    return state.diffs


def _with_paths(change: Change, parts: Iterable[NumberedFileDiff]) -> dict[str, NumberedFileDiff]:
    """The parts by path; files whose names git quotes are identified by their blobs."""
    by_header = {
        f"diff --git a/{file.old_path or file.path} b/{file.path}": file.path
        for file in change.files
    }
    found: dict[str, NumberedFileDiff] = {}
    unnamed: list[NumberedFileDiff] = []
    for part in parts:
        if path := by_header.get(part.lines[0]):
            found[path] = max(found.get(path, part), part, key=size_of)  # two where a link is made
        else:
            unnamed.append(part)
    rest = [file for file in change.files if file.path not in found]
    for part in unnamed:
        old, new = part.blobs or ("", "")
        blobs = (old.strip("0") and old, new.strip("0") and new)
        same = (f for f in rest if (f.old_blob or "", f.new_blob or "") == blobs)
        if file := next(same, None):
            found[file.path] = part
            rest.remove(file)
    return found


def size_of(part: NumberedFileDiff) -> int:
    """Characters of a part as it is shown."""
    return sum(len(line) + 1 for line in part.lines)


async def assign(
    state: ReviewState, diffs: FileDiffs, findings: str, calls: Sequence[AnalyzerCall]
) -> None:
    """Assign files to agents, or return the assignment that the run began with.

    Args:
        diffs: of the changed files, see ``diffs_by_path``.
        findings: the analyzers' findings, as agents are shown them.
    """
    noted = state.journal.noted(NOTE)
    decided = convert(noted, Assignment) if noted is not None else None
    # A path that the journal redacted matches no file; the assignment is then computed again.
    if decided is None or not all(
        path in state.given.workspace.files for share in decided.shares for path in share.paths
    ):
        decided = await _decide(state, diffs, findings, calls)
        state.journal.note(NOTE, to_builtins(decided))
    state.assignment = decided
    state.focus.shares = {share.agent: share.paths for share in state.assignment.shares}
    if not decided.shares:
        state.focus.concerned = _concerns(state, diffs, _reviewed(state))
    if decided.tier == "trivial":
        shrink(state, responds=any(call.result.findings for call in calls) or bool(state.carried))
    limit_beside(state)
    if len({share.role for share in decided.shares}) < len(decided.shares):
        texts = await _texts_of(state, diffs)
        state.seams = find_seams(decided.shares, diffs, texts, find_neighbors(texts))


async def _decide(
    state: ReviewState, diffs: FileDiffs, findings: str, calls: Sequence[AnalyzerCall]
) -> Assignment:
    settings = state.given.settings
    bound, reviewed = settings.auto.tokens_per_agent, _reviewed(state)
    sizes = {path: count_tokens(size_of(diffs[path])) if path in diffs else 0 for path in reviewed}
    found = count_tokens(len(findings))
    tokens = sum(sizes.values()) + found
    measured = f"the diff and the analyzers' findings have {tokens:,} tokens"
    reads = f"one agent reads up to {bound:,} at once"
    tier, reasons = await decide_tier(state, diffs, calls, tokens)
    chosen = settings.effort.level != "auto"
    if settings.pattern != "auto":
        reason = f"the settings or --pattern name {settings.pattern}; {measured}"
        if tier == "trivial" and not (chosen and settings.pattern == "single"):
            tier, reasons = "ordinary", ["who reads is chosen"]
        return Assignment(settings.pattern, False, tokens, bound, reason, tier, tuple(reasons))
    if tokens > bound and (tier == "trivial" or (tier == "ordinary" and not chosen)):
        # An effort that a person chose holds, but one call cannot show more than it shows.
        tier = "ordinary" if chosen else "risky"
        reasons = ["it is larger than one agent reads at once"]
    reason = f"{measured}; {reads}"
    if tier != "risky" or not reviewed:
        alone = (AgentShare(settings.single, settings.single, tokens, tuple(reviewed)),)
        return Assignment("single", True, tokens, bound, reason, tier, tuple(reasons), alone)
    shares = await _share_out(state, diffs, sizes)
    if [share.agent for share in shares] == [settings.single]:
        return Assignment("single", True, tokens, bound, reason, tier, tuple(reasons), shares)
    reason += f"; {count_noun(len(shares), 'agent')} read it"
    if large := sum(share.tokens > bound for share in shares):
        reason += f", {large} of them more than that, by page"
    return Assignment("team", True, tokens, bound, reason, tier, tuple(reasons), shares)


def _reviewed(state: ReviewState) -> list[str]:
    """The files whose diffs agents read, riskiest first: of lock files none has to."""
    workspace = state.given.workspace
    files = [file for file in workspace.change.files if not workspace.left_out(file)]
    return [file.path for file in by_risk(files)]


async def _share_out(
    state: ReviewState, diffs: FileDiffs, sizes: Mapping[str, int]
) -> tuple[AgentShare, ...]:
    """Each agent's files, in shards of a role if one agent cannot read them at once."""
    auto, neighbors = state.given.settings.auto, await find_neighbors_of(state, sizes)
    concerned, room = _concerns(state, diffs, sizes), auto.tokens_per_agent
    if sum(sizes.values()) <= room * SLACK:
        concerned = _join(state, concerned, sizes)
    while True:
        shards = {
            role: split({path: sizes[path] for path in paths}, neighbors, room)
            for role, paths in concerned.items()
        }
        if sum(map(len, shards.values())) <= max(auto.max_agents, len(shards)):
            break
        room += room // 4 + 1
    order = {path: at for at, path in enumerate(sizes)}
    return tuple(
        AgentShare(
            _member_name(state, role, number, len(parts)),
            role,
            sum(sizes[path] for path in part),
            tuple(sorted(part, key=order.__getitem__)),
        )
        for role, parts in shards.items()
        for number, part in enumerate(parts, 1)
    )


def _concerns(state: ReviewState, diffs: FileDiffs, paths: Iterable[str]) -> dict[str, list[str]]:
    """Specialist → its files; a file that concerns no specialist goes to all."""
    specialists = {
        name: state.given.catalog.agents[name].concerns for name in state.given.settings.specialists
    }
    found: dict[str, list[str]] = {name: [] for name in specialists}
    for path in paths:
        kinds = {kind_of(path)}
        if "code" in kinds and path in diffs and has_public_names(diffs[path]):
            kinds.add("interface")
        concerned = [n for n, those in specialists.items() if not those or kinds & {*those}]
        for name in concerned or specialists:
            found[name].append(path)
    return {name: files for name, files in found.items() if files}


def _join(
    state: ReviewState, concerned: dict[str, list[str]], paths: Iterable[str]
) -> dict[str, list[str]]:
    """Give the files to the single agent, and to specialists beside it or with other playbooks."""
    settings, agents = state.given.settings, state.given.catalog.agents
    known = {skill.name for skill in agents[settings.single].skills}
    own = {name: {skill.name for skill in agents[name].skills} for name in concerned}
    apart = {
        name: files
        for name, files in concerned.items()
        if name != settings.single
        and (name in settings.auto.beside or not own[name] or not own[name] <= known)
    }
    return apart if apart == concerned else {settings.single: [*paths], **apart}


def _member_name(state: ReviewState, role: str, number: int, parts: int) -> str:
    """``security-1`` of several shards, ``security`` of one."""
    if parts == 1:
        return role
    name = f"{role}-{number}"
    return name if name not in state.given.catalog.agents else f"{role}-shard-{number}"


async def find_neighbors_of(state: ReviewState, paths: Iterable[str]) -> Neighbors:
    """Path → the files among these that it imports or that import it."""
    return find_neighbors(await _texts_of(state, paths))


async def _texts_of(state: ReviewState, paths: Iterable[str]) -> dict[str, str]:
    """Path → the text in head, of those of these files that head has."""
    workspace = state.given.workspace
    return {
        path: decode_text(await workspace.contents.read(blob))
        for path in paths
        if (blob := workspace.files[path].new_blob) and workspace.files[path].in_head
    }


def apply_shares(plan: ReviewPlan, shares: Sequence[AgentShare]) -> ReviewPlan:
    """The lead's plan with the shares as its tasks, and the lead's questions to each agent.

    The lead may skip files with a reason, which is a gap, but not reassign them.
    """
    assigned = {path for share in shares for path in share.paths}
    planned = {path for task in plan.tasks for path in task.paths}
    skips: list[PlannedSkip] = [
        skip for skip in plan.skips if skip.path in assigned - planned and skip.why.strip()
    ]
    skipped = {skip.path for skip in skips}
    tasks: list[PlannedTask] = []
    for share in shares:
        whole = [path for path in share.paths if path not in skipped]
        asked = [
            replace(task, agent=share.agent, paths=[path for path in task.paths if path in whole])
            for task in plan.tasks
            if task.agent in {share.agent, share.role}
        ]
        last = max((task.priority for task in asked), default=PlannedTask("", []).priority)
        tasks += [*asked, PlannedTask(agent=share.agent, paths=whole, priority=last)]
    return replace(plan, tasks=tasks, skips=skips)


def show_rest(state: ReviewState, paths: Iterable[str]) -> str:
    """The diffs of an agent's files that the opening has no room for, to append to its task.

    As many as one agent reads at once are shown whole; the others are named, to be read by page.
    """
    fitting, others = fit_rest(state, paths)
    lines = ["Diff of your files that the opening does not show:"] if fitting else []
    lines += list_diffs(fitting, others)
    return "\n" + frame("\n".join(lines), state.runtime.executor.nonce) if lines else ""


def list_diffs(shown: FileDiffs, left: FileDiffs) -> list[str]:
    """Diffs, and the names of those that are too long."""
    lines = [line for part in shown.values() for line in part.lines]
    names = [f"- {path}: {len(part.lines)} lines" for path, part in left.items()]
    heading = "Left out for length; read with git_diff what does not follow:"
    return [*lines, heading, *names] if left else lines


def show_seams(state: ReviewState, agent: str) -> str:
    """What an agent's files and those of others of its role share, to append to its task."""
    seams = state.seams.get(agent)
    return "\n" + frame("\n".join([SEAMS, *seams]), state.runtime.executor.nonce) if seams else ""


def fit_rest(state: ReviewState, paths: Iterable[str]) -> tuple[Diffs, Diffs]:
    """Split an agent's diffs outside the opening into those that its task shows, and the rest."""
    rest = state.not_in_opening.keys() - optional_tests(state) if state.shares else set[str]()
    return fit(state, {path: state.not_in_opening[path] for path in paths if path in rest})


def note_shown(state: ReviewState, agent: str, paths: Iterable[str]) -> None:
    """Note which diffs the first message of an agent with these files has."""
    if state.runtime.opening and state.diffs:
        left = state.not_in_opening.keys() - fit_rest(state, paths)[0].keys()
        shown = [part.lines[0] for path, part in state.diffs.items() if path not in left]
        state.focus.diffs_shown[agent] = frozenset(shown)


def optional_tests(state: ReviewState) -> set[str]:
    """The tests that one agent need not read: beside code, and beyond the bound for tests."""
    if len(state.shares) > 1 or not any(kind_of(path) == "code" for path in state.diffs or ()):
        return set()
    return {path for path in state.not_in_opening if kind_of(path) == "test"}


def fit(state: ReviewState, parts: FileDiffs) -> tuple[Diffs, Diffs]:
    """Split diffs into those that one agent reads at once, in their order, and the rest.

    Beside code, tests have no more room than ``config/effort.yaml`` gives them.
    """
    fitting, others = Diffs(), Diffs()
    room = state.assignment.bound * CHARACTERS_PER_TOKEN if state.assignment else 0
    # A guard would cut what is longer in its middle, and nobody would know what was not read.
    shown = state.given.catalog.guards.limits.characters
    room = min(room, int(shown * DIFFS_SHARE))
    has_code = any(kind_of(path) == "code" for path in parts)
    tests = state.given.catalog.effort.test_tokens * CHARACTERS_PER_TOKEN if has_code else room
    for path, part in parts.items():
        is_test = kind_of(path) == "test"
        if (size := size_of(part)) <= (min(room, tests) if is_test else room):
            room -= size
            tests -= size * is_test
            fitting[path] = part
        else:
            others[path] = part
    return fitting, others


_RELATIVE = re.compile(r"""["'](\.{1,2}/[^"'\n]{1,200}|[^"'\n/ ]{1,200}\.h(?:h|pp)?)["']""")
"""What JavaScript, TypeScript and C name of their own: a path relative to the importing file."""

SLACK = 1.1
"""How much of its limit an agent reads rather than that another agent shares the files."""

_ENDINGS = (
    *("", ".ts", ".tsx", ".js", ".jsx", ".mjs", ".vue"),
    *("/index.ts", "/index.tsx", "/index.js"),
)


def find_neighbors(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Path → the files among these that it imports or that import it.

    Args:
        texts: path → the file's text. Imports are found by pattern; nothing is parsed.
    """
    index = ModuleIndex(texts)
    neighbors: dict[str, set[str]] = {path: set() for path in texts}
    for path, text in texts.items():
        if path in index.files:
            targets = [to for one in scan_imports(text) for to in index.targets(path, one)]
        else:
            targets = list(_relative_targets(path, text, texts))
        for target in targets:
            neighbors[path].add(target)
            neighbors[target].add(path)
    return {path: sorted(found - {path}) for path, found in neighbors.items()}


def _relative_targets(path: str, text: str, known: Mapping[str, str]) -> Iterator[str]:
    folder = posixpath.dirname(path)
    for match in _RELATIVE.finditer(text):
        stem = posixpath.normpath(posixpath.join(folder, match[1]))
        names = (stem + end for end in _ENDINGS)
        plain = posixpath.splitext(stem)[0]  # TypeScript names the file that it compiles to
        found = next((name for name in (*names, f"{plain}.ts") if name in known), None)
        if found is not None:
            yield found


def split(sizes: Mapping[str, int], neighbors: Neighbors, room: int) -> list[list[str]]:
    """Shards of files, neighbors together, each within the limit unless one file exceeds it.

    They are as few as the limit allows, and as even as so few can be. Each further agent reads the
    whole opening again, so one may exceed the limit by a tenth.

    Args:
        sizes: path → tokens, of the files to split.
    """
    total = sum(sizes.values())
    components = list(_components(sizes, neighbors))
    most = room if total > room * SLACK else total
    shards = partial(_fill, components, sizes, max(room, most))
    fewest = len(shards(most))
    return shards(bisect_left(range(most), True, key=lambda limit: len(shards(limit)) <= fewest))


def _fill(
    components: Iterable[Sequence[str]], sizes: Mapping[str, int], room: int, most: int
) -> list[list[str]]:
    """Shards of at most so many tokens; only a neighborhood of more than ``room`` is cut."""
    shards: list[list[str]] = []
    used = 0
    for component in components:
        size = sum(sizes[path] for path in component)
        parts = [component] if size <= room else [[path] for path in component]
        if used + size > most:
            used = most + 1
        for part in parts:
            size = sum(sizes[path] for path in part)
            if not shards or used + size > most:
                shards.append([])
                used = 0
            shards[-1] += part
            used += size
    return shards


def _components(paths: Iterable[str], neighbors: Neighbors) -> Iterator[list[str]]:
    """The connected components, by their first path, each a walk along imports."""
    left = dict.fromkeys(sorted(paths))
    while left:
        walk = [next(iter(left))]
        del left[walk[0]]
        for path in walk:
            for other in neighbors.get(path, ()):
                if other in left:
                    del left[other]
                    walk.append(other)
        yield walk
