"""Helm charts: their values, and the parts of their templates that do not depend on values.

A template is not YAML until it is rendered. Actions that write a value are replaced with a marker,
control actions are removed, and the rest is parsed; if that fails, its lines are read one by one.
"""

import re
from collections.abc import Iterator

import yaml

from diffchecks.data_files import read_patterns
from diffchecks.infrastructure.value_patterns import InfrastructureObject
from diffchecks.path_kinds import is_helm_template
from diffchecks.yaml_tree import TEMPLATED, TreeNode, parse_documents

_OPEN, _CLOSE = "{{", "}}"
_STEERS = read_patterns("helm")["steers"]
_SHORT = 6  # lines from a condition to its end
_VALUES = re.compile(r"values(?:[._-].*)?\.ya?ml|.+[._-]values\.ya?ml", re.DOTALL)
_LINE = read_patterns("helm")["line"]


def is_template(path: str, text: str) -> bool:
    """Whether a file is a template of a chart, by its path and text."""
    return is_helm_template(path) and _OPEN in text


def is_values(path: str) -> bool:
    """Whether a file holds values of a chart, by its name."""
    return bool(_VALUES.fullmatch(path.rpartition("/")[2].lower()))


def parse_template(text: str) -> tuple[list[TreeNode], frozenset[int]]:
    """Parse the documents of a template as far as possible.

    Returns:
        The documents, and the lines that are only rendered if the user opts in: those in short
        conditions. A long condition enables a whole part of the chart.

    Raises:
        Gap: as ``parse_documents``.
    """
    plain, chosen = _without_actions(text)
    try:
        return parse_documents(plain), chosen
    except yaml.YAMLError:
        return [_read_lines(part, before) for part, before in _parts(plain)], chosen


def find_values(document: TreeNode, path: str) -> Iterator[InfrastructureObject]:
    """The values of a chart, as one object."""
    if is_values(path) and document.kind == "map" and document.find("apiVersion") is None:
        yield InfrastructureObject(path, "values", "", document)


def _without_actions(text: str) -> tuple[str, frozenset[int]]:
    """The template with a marker for each action that writes a value, and the optional lines.

    Every line stays where it is.
    """
    parts: list[str] = []
    branches: list[int] = []  # of each open block: the line where its branch begins
    chosen: set[int] = set()
    at, line = 0, 1
    while (start := text.find(_OPEN, at)) >= 0 and (end := text.find(_CLOSE, start + 2)) >= 0:
        action = text[start + 2 : end]
        line += text.count("\n", at, start)
        steers = _STEERS.match(action)
        word = steers["word"] if steers else None
        if word in {"else", "end"} and branches:
            begin = branches.pop()
            if line - begin <= _SHORT:
                chosen.update(range(begin, line + 1))
        if word and word != "end":
            branches.append(line)
        ends = "\n" * action.count("\n")
        line += len(ends)
        parts += [text[at:start], ends if steers else TEMPLATED + ends]
        at = end + 2
    parts.append(text[at:])
    # Of a line that consists of markers only, nothing is known.
    filled = re.compile(rf"[ \t-]*(?:{re.escape(TEMPLATED)}[ \t-]*)+")
    lines = ("" if filled.fullmatch(each) else each for each in "".join(parts).split("\n"))
    return "\n".join(lines), frozenset(chosen)


def _parts(text: str) -> Iterator[tuple[str, int]]:
    """The documents of a file, each with the number of lines above it."""
    before = 0
    for part in re.split(r"^---[^\n]*$", text, flags=re.MULTILINE):
        yield part, before
        before += part.count("\n")


def _read_lines(text: str, before: int) -> TreeNode:
    """A tree built by indentation from the lines with a key and a plain value."""
    root = TreeNode("map", before + 1, before + 1, 1)
    above: list[tuple[int, TreeNode]] = [(-1, root)]
    for number, line in enumerate(text.split("\n"), before + 1):
        found = _LINE.fullmatch(line[:1000])
        if found is None:
            continue
        indent = len(found["indent"])
        while above[-1][0] >= indent:
            above.pop()
        key = TreeNode("text", number, number, indent + 1, text=found["key"])
        if found["value"]:
            value = TreeNode("text", number, number, indent + 1, text=found["value"].strip("\"'"))
        else:
            value = TreeNode("map", number, number, indent + 1)
            above.append((indent, value))
        above[-1 if found["value"] else -2][1].pairs.append((key, value))
    return root
