"""Functions that the change makes much harder to follow, by cyclomatic complexity.

Complexity is McCabe's, as linters count it: one, plus one for each branch, loop, handler, case,
conditional expression and comprehension filter. Nested functions count separately.
"""

import ast
from collections.abc import Iterator

from msgspec import Struct

from diffchecks.check_io import CheckReply, RawFinding
from diffchecks.jobs import ComparisonJob
from diffchecks.path_kinds import is_test
from diffchecks.python.source_definitions import (
    ChangedModule,
    FunctionNode,
    ParsedModule,
    find_definitions,
    gap_on_error,
    read_base_with,
    read_pairs,
)

LIMIT = 15
CROSSING = 3  # minimum growth that counts if the limit is crossed
GROWTH = 5  # minimum growth that counts above the limit

_BRANCHES = (
    ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.comprehension,
)  # fmt: skip
_OWN_COUNT = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class _Suspect(Struct):
    """A complex function that the change touches.

    Attributes:
        before: its complexity in base; None if base has no such name.
        eased: by how much the other functions of the file became simpler in total.
    """

    path: str
    dotted: str
    line: int
    complexity: int
    before: int | None
    eased: int


def cyclomatic(function: FunctionNode) -> int:
    """The function's cyclomatic complexity, without nested functions."""
    total = 1
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _OWN_COUNT):
            continue
        if isinstance(node, _BRANCHES):
            total += 1
        elif isinstance(node, ast.Match):
            total += sum(
                case.guard is not None or getattr(case.pattern, "pattern", case) is not None
                for case in node.cases  # of all but those that take anything
            )
        waiting += ast.iter_child_nodes(node)
    return total


def run(job: ComparisonJob) -> CheckReply:
    """Report functions that cross the limit, and complex ones that grew much more."""
    gaps: dict[str, str] = {}
    suspects: list[_Suspect] = []
    examined = []
    for pair in read_pairs(job, gaps):
        with gap_on_error(gaps, pair.path):
            suspects += _suspects(pair)
            examined.append(pair.path)
    moved = _complexity_of_moved(
        job, {suspect.dotted for suspect in suspects if suspect.before is None}
    )
    found = [finding for suspect in suspects if (finding := _judge(suspect, moved))]
    return CheckReply(found, examined, gaps)


def _suspects(pair: ChangedModule) -> list[_Suspect]:
    """The functions of head over the limit that contain an added line."""
    if pair.head is None or is_test(pair.path):
        return []
    complex_ones = []
    for dotted, node in _functions(pair.head):
        own = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if not pair.added.isdisjoint(own) and (complexity := cyclomatic(node)) > LIMIT:
            complex_ones.append((dotted, node.lineno, complexity))
    if not complex_ones:
        return []
    before, after = _complexities(pair.base()), _complexities(pair.head)
    eased = sum(max(0, old - after.get(dotted, 0)) for dotted, old in before.items())
    return [
        _Suspect(pair.path, dotted, line, complexity, before.get(dotted), eased)
        for dotted, line, complexity in complex_ones
    ]


def _functions(source: ParsedModule) -> Iterator[tuple[str, FunctionNode]]:
    for definition in find_definitions(source.tree):
        if not isinstance(definition.node, ast.ClassDef):
            yield definition.dotted, definition.node


def _complexities(source: ParsedModule | None) -> dict[str, int]:
    """Dotted name → complexity; the highest if several have the same name."""
    found: dict[str, int] = {}
    for dotted, node in _functions(source) if source else ():
        found[dotted] = max(cyclomatic(node), found.get(dotted, 0))
    return found


def _complexity_of_moved(job: ComparisonJob, dotted_names: set[str]) -> dict[str, int]:
    """Function name → its highest complexity in base, over all changed files."""
    found: dict[str, int] = {}
    for source in read_base_with(job, (name.rpartition(".")[2] for name in dotted_names)):
        for dotted, complexity in _complexities(source).items():
            name = dotted.rpartition(".")[2]
            found[name] = max(complexity, found.get(name, 0))
    return found


def _judge(suspect: _Suspect, moved: dict[str, int]) -> RawFinding | None:
    name = suspect.dotted.rpartition(".")[2]
    before = suspect.before if suspect.before is not None else moved.get(name, 0)
    if not before and suspect.eased >= suspect.complexity:
        return None  # split off from a more complex function
    if before and suspect.complexity - before < (GROWTH if before > LIMIT else CROSSING):
        return None
    subject = suspect.dotted if before else f"new function {suspect.dotted}"
    how = f"went from {before} to {suspect.complexity}" if before else f"is {suspect.complexity}"
    return RawFinding(
        "jump",
        suspect.path,
        suspect.line,
        f"The cyclomatic complexity of {subject} {how} (limit {LIMIT})",
        key=suspect.dotted,
        scope=suspect.dotted,
    )
