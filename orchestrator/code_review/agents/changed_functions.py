"""The rest of the functions that a change touches, for the opening: what each agent reads first."""

from collections.abc import Iterator

from orchestrator.code_review.change.numbered_diff import FileDiffs, NumberedFileDiff
from orchestrator.code_review.findings.citations import read_lines
from orchestrator.code_review.findings.finding_context import find_block
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.lead_tools import kind_of

MAX_CHARACTERS = 9_000
"""Of all functions, those of the riskiest files first."""

MAX_LINES = 120
"""Of one function; agents read the parts of a longer one that they need."""

REST = "The other lines of changed functions, in head:"


async def list_changed_functions(state: ReviewState, diffs: FileDiffs) -> list[str]:
    """The lines of functions with changed lines that their diffs do not show, below their paths.

    Args:
        diffs: of the files whose diffs are in the opening, the riskiest first.
    """
    workspace, shown, room = state.given.workspace, list[str](), MAX_CHARACTERS
    for path, part in diffs.items():
        if kind_of(path) != "code" or workspace.left_out(workspace.files[path]):
            continue
        lines = await read_lines(workspace, "head", path)
        seen = {one.new for one in part.hunk_lines}
        before, file = 0, list[str]()
        for first, last in _functions(lines, part):
            rest = [n for n in range(first, last + 1) if n not in seen]
            if (size := sum(len(lines[n - 1]) + 6 for n in rest)) > room:
                continue
            room -= size
            for number in rest:
                file += ["--"] if before and number > before + 1 else []
                file.append(f"{number}: {lines[number - 1]}")
                before = number
        shown += [f"{path}:", *file] if file else []
    return ["", REST, *shown] if shown else []


def changed_code(lines: list[str], part: NumberedFileDiff) -> Iterator[str]:
    """The lines of a file's hunks, and those of the functions of head that they change."""
    yield from (line.text for line in part.hunk_lines)
    for first, last in _functions(lines, part):
        yield from lines[first - 1 : last]


def _functions(lines: list[str], part: NumberedFileDiff) -> Iterator[tuple[int, int]]:
    """First and last line of the functions in which lines are added or removed, each once."""
    end = at = 0
    for line in part.hunk_lines:
        at = line.new or at  # of head, before a removed one
        if line.sign in "+-" and end < at <= len(lines) and lines[at - 1].strip():
            block = find_block(lines, at, at)
            end = max(end, block.end if block.scope else at)
            if block.scope and block.end - block.start < MAX_LINES:
                yield block.start, block.end
