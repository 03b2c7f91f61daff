"""Takes back what a change does at one place: a test that then still fails shows something else."""

import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from typing import Any

from diffchecks.check_io import read
from diffchecks.data_files import read_yaml

NEAR = 3
CLOSURE = 3
"""How often what base's code names is looked up in turn."""
_TEXTS = read_yaml("taken_back.yaml")
_DEFINES, _STORES, _ASSIGNS = (re.compile(_TEXTS[n]) for n in ("defines", "stores", "assigns"))
_KEYWORDS = {*_TEXTS["keywords"].split()}


def run(job: Mapping[str, Any]) -> list[dict[str, str]]:
    """Files of head with base's lines at a place, a byte a character, by path.

    Five times: those of the cited lines and of what these name; also of what the finding names in
    any file; also those in the same function; the cited lines alone; those of the second, and what
    their function names and is near. Empty: the cited lines are base's.

    Args:
        job: ``roots`` of base and head; ``path``, and ``first`` and ``last`` of the cited lines,
            which are base's if ``removed``; ``names`` in the finding; ``paths`` of all files.
    """
    files = {path: _File(job, path) for path in {job["path"], *job["paths"]}}
    cited = files[job["path"]].sides[0 if job["removed"] else 1][job["first"] - 1 : job["last"]]
    names = _words(line for line, _ in cited)
    named = names | {*job["names"]}
    function = set[str]().union(*(own for _, own in cited)) - _KEYWORDS
    exact, wide, widest = (
        _reached([*files.values()], some - _KEYWORDS) for some in (names, named, named | function)
    )
    found = []
    for reached, near in ((exact, 0), (wide, 0), (wide | function, 0), (set(), 0), (widest, NEAR)):
        texts = {path: file.taken_back(job, reached, near) for path, file in files.items()}
        found.append({path: text for path, text in texts.items() if text})
    own = found[0].get(job["path"])
    return [{job["path"]: own}, *found[1:]] if own else []


class _File:
    """Both sides of a file: lines, with what the part defines that each is in; and changes."""

    def __init__(self, job: Mapping[str, Any], path: str) -> None:
        texts = [read(root, path).decode("latin-1").split("\n") for root in job["roots"]]
        self.path, self.sides = path, [[*zip(text, _owners(text), strict=True)] for text in texts]
        codes = SequenceMatcher(None, texts[0], texts[1]).get_opcodes()
        self.blocks = [one for kind, *ends in codes if kind != "equal" for one in _split(*ends)]

    def taken_back(self, job: Mapping[str, Any], names: set[str], near: int) -> str:
        """Head with base's lines where these define a name, or are near; empty: as head."""
        old, new = self.sides
        taken = [line for line, _ in new]
        for a, b, c, d in reversed(self.blocks):
            start, end = (a, b) if job["removed"] else (c, d)
            is_near = start - near < job["last"] and job["first"] <= max(end, start + 1) + near
            lines = [one for one in (*old[a:b], *new[c:d]) if one[0].strip()]
            defined = {*_STORES.findall("\n".join(line for line, _ in lines))}.union(
                *(own | _words([line] if "import" in own else []) for line, own in lines)
            )
            if names & defined or (is_near and self.path == job["path"]):
                taken[c:d] = [line for line, _ in old[a:b]]
        return "\n".join(taken) if taken != [line for line, _ in new] else ""


def _owners(lines: Iterable[str]) -> list[set[str]]:
    """What the function, class or statement of a module defines that a line is in."""
    owners, own, is_decorator = list[set[str]](), set[str](), False
    for line in lines:
        defines = _DEFINES.match(line)
        if defines or re.match(r"\w|\s*@", line):
            own = own if is_decorator else set()
            is_decorator = line.lstrip()[:1] == "@"
            text = "" if is_decorator else _ASSIGNS.split(line)[0]
            own.update(filter(None, defines.groups()) if defines else re.findall(r"\w+", text))
            own.update({"class"} & {*line.split()})
        elif "class" in own:
            own.update(_STORES.findall(line))
        owners.append(own)
    return owners


def _reached(files: Iterable[_File], names: set[str]) -> set[str]:
    """Names, and what base's code names that defines them, in turn."""
    parts = [(own, _words([line])) for file in files for line, own in file.sides[0]]
    known = {name for own, _ in parts for name in own} - _KEYWORDS
    for _ in range(CLOSURE):
        names = names.union(*(words & known for own, words in parts if own & names))
    return names


def _words(lines: Iterable[str]) -> set[str]:
    return {*re.findall(r"\w+", "\n".join(lines))} - _KEYWORDS


def _split(a: int, b: int, c: int, d: int) -> list[tuple[int, int, int, int]]:
    """Changed lines, each of its own where as many stand for them."""
    each = [(a + n, a + n + 1, c + n, c + n + 1) for n in range(b - a)]
    return each if b - a == d - c else [(a, b, c, d)]
