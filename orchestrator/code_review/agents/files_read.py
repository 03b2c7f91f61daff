"""Which changed files, and which of their hunks, agents with a model have read."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from orchestrator.code_review.agents import reviewer_assignment
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.change.numbered_diff import FileDiffs, NumberedFileDiff
from orchestrator.code_review.review_state import Iteration, ReviewState
from orchestrator.code_review.verdict.document_parts import Checked, HunkReaders
from orchestrator.code_review.verdict.model import Skipped
from orchestrator.engine.tool_call_guards import RateGuard
from orchestrator.engine.tool_call_records import ToolCallRecord, calls_under
from orchestrator.engine.tool_registry import NAVIGATION
from orchestrator.errors import BudgetExhausted

READING_TOOLS = frozenset({"read_file", "git_diff"})

_NUMBERED = re.compile(r"([-+ ])(\d+): ")
_PAGE_OF_FILE = re.compile(r".* \((head|base)\), lines (\d+) to (\d+) of \d+")
_FOUND = re.compile(r"(\d+)[:-] ")
_CONTINUED = "[continued: "


class _Lines(Struct):
    """Numbers of lines in head and in base."""

    head: set[int] = field(default_factory=set)
    base: set[int] = field(default_factory=set)

    def add(self, line: str) -> str:
        """Add the number of a line of a diff; returns its sign: + - or space."""
        found = _NUMBERED.match(line)
        if found is None:
            return ""
        (self.base if found[1] == "-" else self.head).add(int(found[2]))
        return found[1]


class _Hunk(Struct):
    """What a hunk adds and takes away."""

    added: set[int] = field(default_factory=set)
    removed: set[int] = field(default_factory=set)

    def within(self, seen: _Lines) -> bool:
        """Whether all added lines were seen, or all removed ones if it adds none."""
        return self.added <= seen.head if self.added else self.removed <= seen.base


def files_read(state: ReviewState) -> dict[str, set[str]]:
    """Path → the agents that read it; offline there are none.

    An agent has read a file of its task if the opening or the task showed its diff, or if the agent
    called ``read_file`` or ``git_diff`` for it. Only agents that ended with a report count.
    """
    found: dict[str, set[str]] = {}
    for done, agent in _reports(state):
        shown, given = shown_diffs(state, done, agent)
        called = {str(call.arguments.get("path", "")) for call in _calls(state, done, agent)}
        for path in shown | (called & given):
            found.setdefault(path, set()).add(agent)
    return found


async def hunks_read(state: ReviewState) -> dict[str, tuple[HunkReaders, ...]]:
    """Path → the hunks of the reviewable files, with the agents that read each; offline none."""
    if not state.given.settings.has_model:
        return {}
    diffs = await reviewer_assignment.diffs_by_path(state)
    everything: set[tuple[str, str]] = set()
    seen: dict[tuple[str, str], _Lines] = defaultdict(_Lines)
    for done, agent in _reports(state):
        everything |= {(path, agent) for path in shown_diffs(state, done, agent)[0]}
        for call in _calls(state, done, agent):
            for path, lines in lines_shown(call, diffs):
                seen[path, agent].head |= lines.head
                seen[path, agent].base |= lines.base
    agents = sorted({agent for _, agent in (*everything, *seen)})
    files = state.given.workspace.files
    return {
        path: tuple(
            _readers(
                hunk,
                [
                    agent
                    for agent in agents
                    if (path, agent) in everything
                    or ((path, agent) in seen and hunk.within(seen[path, agent]))
                ],
            )
            for hunk in _hunks(part)
        )
        for path, part in diffs.items()
        if path in files and not state.given.workspace.left_out(files[path])
    }


def _reports(state: ReviewState) -> Iterator[tuple[Iteration, str]]:
    """The agents with a model that ended an iteration with a report."""
    if state.given.settings.has_model:
        for done in state.iterations:
            for agent in sorted({r.agent for r in done.results if r.status == "ok"}):
                yield done, agent


def shown_diffs(state: ReviewState, done: Iteration, agent: str) -> tuple[set[str], set[str]]:
    """The files whose whole diff an agent was shown, and all files of its task."""
    given = {path: None for task in done.plan.tasks if task.agent == agent for path in task.paths}
    in_task, _ = reviewer_assignment.fit_rest(state, given)
    return {path for path in given if path not in state.not_in_opening} | set(in_task), set(given)


def _calls(state: ReviewState, done: Iteration, agent: str) -> Iterator[ToolCallRecord]:
    for task in done.tasks:
        if task.spec.name == agent:
            for call in calls_under(state.journal, task.key):
                if call.tool in READING_TOOLS and call.ok:
                    yield call


def lines_looked_up(state: ReviewState) -> dict[tuple[SideName, str], set[int]]:
    """Side and path → the lines that examiners read, or found by a search."""
    found: dict[tuple[SideName, str], set[int]] = defaultdict(set)
    for done in state.iterations:
        for call in (one for task in done.tasks for one in calls_under(state.journal, task.key)):
            if not call.ok:
                continue
            if call.tool == "read_file":
                for path, lines in lines_shown(call, {}):
                    found["head", path] |= lines.head
                    found["base", path] |= lines.base
            elif call.tool == "search":
                side: SideName = "base" if call.arguments.get("side") == "base" else "head"
                path = ""
                for line in call.content.split("\n"):
                    if number := _FOUND.match(line):
                        found[side, path].add(int(number[1]))
                    elif line.endswith(":"):
                        path = line[:-1]
    return {place: numbers for place, numbers in found.items() if numbers}


def refusals(state: ReviewState, done: Iteration) -> dict[str, tuple[str, str]]:
    """Key → agent and words, of an iteration's look-ups that a limit of whatever kind refused."""
    specs = state.runtime.executor.registry.specs()
    return {
        call.key: (call.agent, f"could not look further with {call.tool}: {why.reason}")
        for call in calls_under(state.journal, str(done.number))
        if (why := call.refusal) and call.tool in specs and NAVIGATION in specs[call.tool].tags
        if why.code == BudgetExhausted.code or why.guard == RateGuard.name
    }


def cut_short(state: ReviewState, checked: Iterable[Checked]) -> Iterable[Skipped]:
    """Files with hunks that nobody read, of agents whose look-ups a limit refused."""
    unread = {one.path for one in checked if not all(hunk.read_by for hunk in one.hunks)}
    return dict.fromkeys(
        Skipped(path=path, why=f"not read whole: {refused[task.agent]}", tool=task.agent, gap=True)
        for done in state.iterations
        for refused in [dict(refusals(state, done).values())]
        for task in done.plan.tasks
        if task.agent in refused
        for path in unread.intersection(task.paths)
    )


def lines_shown(call: ToolCallRecord, diffs: FileDiffs) -> Iterator[tuple[str, _Lines]]:
    """The lines that a call of ``read_file`` showed, or of ``git_diff`` by the diffs of files."""
    lines = call.content.split("\n")
    path = str(call.arguments.get("path", ""))
    if call.tool == "read_file":
        for line in lines:
            if page := _PAGE_OF_FILE.fullmatch(line.partition("; continue")[0]):
                numbers = set(range(int(page[2]), int(page[3]) + 1))
                is_head = page[1] == "head"
                yield path, _Lines(numbers if is_head else set(), set() if is_head else numbers)
                return
        return
    headers = {part.lines[0]: path for path, part in diffs.items() if part.lines}
    current, found = "", _Lines()
    for line in lines:
        header = line.removeprefix(_CONTINUED).removesuffix("]")
        if header in headers:
            yield current, found
            current, found = headers[header], _Lines()
        else:
            found.add(line)
    yield current, found


def _hunks(part: NumberedFileDiff) -> Iterable[_Hunk]:
    """The hunks of a file's numbered diff; none of a file without text."""
    hunks: list[_Hunk] = []
    for line in part.lines:
        if line.startswith("@@ "):
            hunks.append(_Hunk())
        elif hunks:
            numbers = _Lines()
            kind = numbers.add(line)
            hunks[-1].added |= numbers.head if kind == "+" else set()
            hunks[-1].removed |= numbers.base if kind == "-" else set()
    return hunks


def _readers(hunk: _Hunk, agents: Iterable[str]) -> HunkReaders:
    numbers = hunk.added or hunk.removed
    return HunkReaders(
        first=min(numbers, default=1),
        last=max(numbers, default=1),
        side="head" if hunk.added else "base",
        read_by=tuple(agents),
    )
