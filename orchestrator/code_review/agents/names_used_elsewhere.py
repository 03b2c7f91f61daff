"""Names that the change removes or redefines, and files that it does not touch but that use them.

Callers and guides that a change breaks are not in its diff. Each agent would search for them; code
does it once, in any language, for the opening. A name only counts if it is telling.
"""

import re
from collections.abc import Iterable, Mapping

from orchestrator.code_review.change.numbered_diff import NumberedFileDiff
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.lead_tools import kind_of

SHOWN_NAMES = 15
SHOWN_FILES = 4
MAX_FILES = 30
"""Files that use a name; one that more use is too common to tell anything."""

SEARCHED_FILES = 5_000
"""Files of head; in a larger tree agents search for themselves."""

USED = "Removed or redefined names, and where files that the change does not touch use them:"

DEFINES = re.compile(
    r"\b(?:def|class|func|function|fn|fun|interface|struct|trait|enum|type)\s+(\w+)", re.ASCII
)
TELLING = re.compile(r"\b(?:[A-Za-z][A-Za-z0-9]*_\w+|[A-Za-z]+[a-z0-9][A-Z]\w+)\b", re.ASCII)
"""snake_case or CamelCase: a plain word may mean something else elsewhere."""

_NAME = re.compile(rb"[A-Za-z_]\w+")


async def list_used_elsewhere(
    state: ReviewState, diffs: Mapping[str, NumberedFileDiff]
) -> list[str]:
    """The lines of the opening; none if no such name is used elsewhere.

    Args:
        diffs: of the changed files, the riskiest first.
    """
    names = await _removed_names(state, diffs)
    places = await _places(state, names) if names else {}
    shown = [
        f"- {name} ({names[name]}): {', '.join(_describe(places[name]))}"
        for name in names
        if 0 < len(places.get(name, ())) <= MAX_FILES
    ]
    more = len(shown) - SHOWN_NAMES
    rest = [f"and {more} more names"] if more > 0 else []
    return ["", USED, *shown[:SHOWN_NAMES], *rest] if shown else []


async def _removed_names(
    state: ReviewState, diffs: Mapping[str, NumberedFileDiff]
) -> dict[str, str]:
    """The telling names on lines that the change removes from code → ``removed`` or ``redefined``.

    Removed is a name that no changed file of head has any more, redefined one whose definition has
    a removed line.
    """
    workspace = state.given.workspace
    named, defined = dict[str, None](), set[str]()
    for path, part in diffs.items():
        if kind_of(path) == "code" and not workspace.left_out(workspace.files[path]):
            for text in (line.text for line in part.hunk_lines if line.sign == "-"):
                named.update(dict.fromkeys(TELLING.findall(text)))
                defined.update(DEFINES.findall(text))
    blobs = {file.new_blob: file.path for file in workspace.change.files if file.new_blob}
    still = set[str]()

    async def keep(blob: str, data: bytes) -> None:
        still.update(name.decode("ascii", "replace") for name in _NAME.findall(data))

    if named:
        await workspace.contents.objects.each(list(blobs), keep, missing_ok=True)
    removed = {name: "removed" for name in named if name not in still}
    return removed | {name: "redefined" for name in named if name in still & defined}


async def _places(state: ReviewState, names: Iterable[str]) -> dict[str, dict[str, list[int]]]:
    """Name → path of an unchanged file of head → the numbers of the lines that have the name."""
    workspace = state.given.workspace
    tree = await workspace.contents.paths("head")
    paths: dict[str, list[str]] = {}
    for path, (mode, blob) in tree.items():
        if mode.startswith("100") and path not in workspace.files:
            paths.setdefault(blob, []).append(path)
    if len(paths) > SEARCHED_FILES:
        return {}
    pattern = re.compile(rb"\b(?:" + b"|".join(name.encode() for name in names) + rb")\b")
    found: dict[str, dict[str, list[int]]] = {}

    async def keep(blob: str, data: bytes) -> None:
        if b"\0" in data[:8000]:
            return
        line, counted = 1, 0
        for match in pattern.finditer(data):
            line += data.count(b"\n", counted, match.start())
            counted = match.start()
            for path in paths[blob]:
                places = found.setdefault(match[0].decode(), {}).setdefault(path, [])
                if line not in places[-1:]:
                    places.append(line)

    await workspace.contents.objects.each(list(paths), keep, missing_ok=True)
    return found


def _describe(places: Mapping[str, list[int]]) -> list[str]:
    """The first use in each file, those in tests last."""
    ordered = sorted(places, key=lambda path: (kind_of(path) == "test", path))
    shown = [
        f"{path}:{lines[0]}" + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else "")
        for path in ordered[:SHOWN_FILES]
        for lines in [places[path]]
    ]
    more = len(ordered) - SHOWN_FILES
    return [*shown, f"{more} more files"] if more > 0 else shown
