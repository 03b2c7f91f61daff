"""Takes back what a change does at one place: a test that then still fails shows something else."""

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

from diffchecks.check_io import read

NEAR = 3
_STORED = re.compile(
    r"(?m)^\s*(?:(?:export|const|let|var)\s+)*(?:\w+\.)*(\w+)\s*(?::[^=\n]*)?=(?!=)"
)
_FUNCTION = re.compile(
    r"(?m)^\s*(?:(?:export|async)\s+)*(?:def|class|function|func(?: \(.*?\))?) (\w+)"
)


def run(job: Mapping[str, Any]) -> list[str]:
    """A file of head with base's lines at a place, a byte a character.

    First with those of the cited lines and of what these name; then, in case the code does not run
    without the rest, also with those that are near or in the same function. None: none differ.

    Args:
        job: ``roots`` of base and head, ``path``, and ``first`` and ``last`` of the cited lines,
            which are base's if ``removed``.
    """
    return list(dict.fromkeys(_taken_back(job)))


def _taken_back(job: Mapping[str, Any]) -> Iterator[str]:
    old, new = (read(root, job["path"]).decode("latin-1").split("\n") for root in job["roots"])
    first, last, removed = job["first"], job["last"], job["removed"]
    lines = old if removed else new
    names = {*re.findall(r"\w+", "\n".join(lines[first - 1 : last]))}
    blocks = [
        part for block in SequenceMatcher(None, old, new).get_opcodes() for part in _split(*block)
    ]
    for near, also in ((0, []), (NEAR, _functions(lines[:first]))):
        names |= {*also}
        taken = list(new)
        for a, b, c, d in reversed(blocks):
            start, end = (a, b) if removed else (c, d)
            is_near = start - near < last and first <= max(end, start + 1) + near
            stored = _STORED.findall("\n".join([*old[a:b], *new[c:d]]))
            if is_near or names & {*stored, *_functions(new[: c + 1])}:
                taken[c:d] = old[a:b]
        if taken == new:
            return
        yield "\n".join(taken)


def _split(kind: str, a: int, b: int, c: int, d: int) -> Iterator[tuple[int, int, int, int]]:
    """A block of changed lines; each of its own where as many lines stand for them."""
    if kind == "replace" and b - a == d - c:
        yield from ((a + n, a + n + 1, c + n, c + n + 1) for n in range(b - a))
    elif kind != "equal":
        yield a, b, c, d


def _functions(lines: list[str]) -> list[str]:
    """The function or class that is defined last, if any."""
    return _FUNCTION.findall("\n".join(lines))[-1:]
