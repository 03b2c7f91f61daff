"""Names that the change defines or removes in one place, and their uses in another.

Callers and guides that a change breaks are not in its diff. Each agent would search for them; code
does it once, in any language, for the opening. A name only counts if it is telling.

Agents of one role see only their own files. Each is told the uses and the contract of an altered
definition that are in another's share, so that no caller is read without its callee.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import permutations

from orchestrator.code_review.change.numbered_diff import FileDiffs, NumberedFileDiff
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.lead_tools import kind_of
from orchestrator.code_review.verdict.document_parts import AgentShare
from orchestrator.data_directories import read_table
from orchestrator.wording import name_rest

SHOWN_NAMES = 15
SHOWN_FILES = 4
MAX_FILES = 30
"""Files that use a name; one that more use is too common to tell anything."""

SEARCHED_FILES = 5_000
"""Files of head; in a larger tree agents search for themselves."""

Neighbors = Mapping[str, Sequence[str]]
"""Path → the files that it imports or that import it."""

USED = "Removed or redefined names, and where files that the change does not touch use them:"

_TABLE = read_table(__file__, "defining.yaml")
_WORDS = {kind: "|".join(of.split()) for kind, of in _TABLE["words"].items()}
_DEFINES = re.compile("|".join(_TABLE["defines"]).format(**_WORDS), re.ASCII)
MAX_DEFINITION = 400
"""Characters of a line that may define something."""

TELLING = re.compile(r"\b(?:[A-Za-z][A-Za-z0-9]*_\w+|[A-Za-z]+[a-z0-9][A-Z]\w+)\b", re.ASCII)
"""snake_case or CamelCase: a plain word may mean something else elsewhere."""

_OTHERS = re.compile(_TABLE["others"], re.ASCII)
_NAME = re.compile(rb"[A-Za-z_]\w+")


def defined_in(line: str) -> list[str]:
    """The names of functions and types that a line of code defines, in any language."""
    found = _DEFINES.finditer(line) if len(line) <= MAX_DEFINITION else ()
    return [
        name
        for one in found
        for name in [one[one.lastindex or 0]]
        if not any(re.fullmatch(_WORDS["never"], word) for word in (name, *one[0].split()[:1]))
    ]


async def list_used_elsewhere(state: ReviewState, diffs: FileDiffs) -> list[str]:
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
    rest = name_rest(len(shown) - SHOWN_NAMES, "more names")
    return ["", USED, *shown[:SHOWN_NAMES], *rest] if shown else []


async def _removed_names(state: ReviewState, diffs: FileDiffs) -> dict[str, str]:
    """The telling names on lines that the change removes from code → ``removed`` or ``redefined``.

    Removed is a name that no changed file of head has any more, redefined one whose definition has
    a removed line.
    """
    workspace = state.given.workspace
    named, defined = dict[str, None](), set[str]()
    for path, part in diffs.items():
        if kind_of(path) == "code" and not workspace.left_out(workspace.files[path]):
            for text in (line.text for line in part.hunk_lines if line.sign == "-"):
                named.update(dict.fromkeys(TELLING.findall(_OTHERS.sub("", text))))
                defined.update(defined_in(text))
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


SEAMS = "Definitions that the change alters and that files in other agents' shares use or contain:"

SHOWN_SEAMS = 30
CONTRACT_LINES = 8
"""Of a definition of a type; of a function its first line."""

USES = 3
WIDTH = 160

_WORD = re.compile(r"[A-Za-z_]\w*")
_TYPE = re.compile(r"\b(?:class|interface|struct|trait|enum|type)\b")


def find_seams(
    shares: Sequence[AgentShare], diffs: FileDiffs, texts: Mapping[str, str], neighbors: Neighbors
) -> dict[str, list[str]]:
    """Agent → lines about definitions and uses that are in different shares of its role.

    Args:
        texts: path → text in head.
        neighbors: a telling name also counts where no import is seen.
    """
    lines = {path: text.splitlines() for path, text in texts.items()}
    altered = [(path, *one) for path in diffs for one in _altered(diffs[path], lines.get(path, []))]
    uses = _find_uses({name for _, name, *_ in altered}, lines)
    found: dict[str, dict[str, None]] = {}
    for path, name, line, contract in altered:
        for user, numbers in uses.get(name, {}).items():
            if user == path or not (TELLING.match(name) or user in neighbors.get(path, ())):
                continue
            used = f"{user}:{', '.join(map(str, numbers[:USES]))}"
            defined = f"{name} ({path}{f':{line}' if line else ', removed'})"
            for own, other in permutations(shares, 2):
                mine, theirs = {*own.paths} - {*other.paths}, {*other.paths} - {*own.paths}
                if own.role == other.role and path in mine and user in theirs:
                    seam = f"- {defined} is used in {used}, which {other.agent} reads"
                    found.setdefault(own.agent, {})[seam] = None
                    seam = f"- {used} uses {defined}, which {own.agent} reads:"
                    found.setdefault(other.agent, {})["\n".join([seam, *contract])] = None
    return {agent: list(seam)[:SHOWN_SEAMS] for agent, seam in found.items()}


def _find_uses(
    names: Set[str], lines: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, list[int]]]:
    """Name → path → the numbers of the lines that have it."""
    found: dict[str, dict[str, list[int]]] = {}
    for path, text in lines.items():
        for number, line in enumerate(text, 1):
            for name in names & set(_WORD.findall(line)):
                found.setdefault(name, {}).setdefault(path, []).append(number)
    return found


def _altered(
    part: NumberedFileDiff, text: Sequence[str]
) -> Iterator[tuple[str, int, Sequence[str]]]:
    """Name, line in head and contract of definitions with changed lines; line 0: removed."""
    removed = {
        name: f"    - {line.text.strip()[:WIDTH]}"
        for line in part.hunk_lines
        if line.sign == "-"
        for name in defined_in(line.text)
    }
    touched, at = set[int](), 0
    for line in part.hunk_lines:
        at = line.new or at
        touched |= {at} if line.sign in "+-" else set()
    name, start, seen = "", 0, set[str]()
    for number, written in enumerate(text, 1):
        if defined := defined_in(written):
            name, start = defined[0], number
        if number in touched and name and name not in seen:
            seen.add(name)
            size = CONTRACT_LINES if _TYPE.search(text[start - 1]) else 1
            shown = [
                f"    + {line.rstrip()[:WIDTH]}" for line in text[start - 1 : start - 1 + size]
            ]
            yield name, start, [*filter(None, [removed.get(name)]), *shown]
    yield from ((name, 0, [old]) for name, old in removed.items() if name not in seen)
