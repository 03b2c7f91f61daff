"""Takes back what a change does at one place: a test that then still fails shows something else."""

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from diffchecks.check_io import read

NEAR = 3
_DEFINES = re.compile(
    r"(?m)^\s*(?:(?:export|async)\s+)*(?:def|class|function|func(?: \(.*?\))?) (\w+)"
)
_STORES = re.compile(
    r"(?m)^\s*(?:(?:export|const|let|var)\s+)*(?:\w+\.)*(\w+)\s*(?::[^=\n]*)?=(?!=)"
)


def run(job: Mapping[str, Any]) -> list[str]:
    """A file of head with base's lines at a place, a byte a character.

    First with those of the cited lines and of what these name; then, in case the code does not run
    without the rest, also with those that are near or in the same function. None: none differ.

    Args:
        job: ``roots`` of base and head, ``path``, and ``first`` and ``last`` of the cited lines,
            which are base's if ``removed``.
    """
    old, new = (read(root, job["path"]).decode("latin-1").split("\n") for root in job["roots"])
    first, last, removed = job["first"], job["last"], job["removed"]
    lines = old if removed else new
    names = {*re.findall(r"\w+", "\n".join(lines[first - 1 : last]))}
    function = {*_DEFINES.findall("\n".join(lines[:first]))[-1:]}
    changes = [
        ends for kind, *ends in SequenceMatcher(None, old, new).get_opcodes() if kind != "equal"
    ]
    found: dict[str, None] = {}
    for near, named in ((0, names), (NEAR, names | function)):
        taken = list(new)
        for a, b, c, d in reversed([part for ends in changes for part in _split(*ends)]):
            start, end = (a, b) if removed else (c, d)
            defined = _DEFINES.findall("\n".join(new[: c + 1]))[-1:]
            defined += _STORES.findall("\n".join([*old[a:b], *new[c:d]]))
            if (start - near < last and first <= max(end, start + 1) + near) or named & {*defined}:
                taken[c:d] = old[a:b]
        if taken == new:
            break
        found["\n".join(taken)] = None
    return list(found)


def _split(a: int, b: int, c: int, d: int) -> list[tuple[int, int, int, int]]:
    """Changed lines, each of its own where as many stand for them."""
    if b - a != d - c:
        return [(a, b, c, d)]
    return [(a + n, a + n + 1, c + n, c + n + 1) for n in range(b - a)]
