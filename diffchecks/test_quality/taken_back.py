"""Takes back what a change does at one place: a test that then still fails shows something else."""

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from diffchecks.check_io import read

NEAR = 3
CLOSURE = 3
"""How often what base's lines name is looked up in turn."""
_DEFINES = re.compile(
    r"(?m)^\s*(?:(?:export|async)\s+)*(?:def|class|function|func(?: \(.*?\))?) (\w+)"
)
_STORES = re.compile(
    r"(?m)^\s*(?:(?:export|const|let|var)\s+)*(?:\w+\.)*(\w+)\s*(?::[^=\n]*)?=(?!=)"
)


def run(job: Mapping[str, Any]) -> list[dict[str, str]]:
    """Files of head with base's lines at a place, a byte a character, by path.

    Three times: those of the cited lines and of what these name; also of what the finding names in
    any file; also those that are near or in the same function. Empty: the cited lines are base's.

    Args:
        job: ``roots`` of base and head; ``path``, and ``first`` and ``last`` of the cited lines,
            which are base's if ``removed``; ``names`` in the finding; ``paths`` of all files.
    """
    lines = _read(job, 0 if job["removed"] else 1, job["path"])
    names = {*re.findall(r"\w+", "\n".join(lines[job["first"] - 1 : job["last"]]))}
    exact = _taken_back(job, job["path"], names, 0)
    named = names | {*job["names"]}
    function = _DEFINES.findall("\n".join(lines[: job["first"]]))[-1:]
    found = [{job["path"]: exact}]
    for wider, near in ((named, 0), (named | {*function}, NEAR)):
        texts = {path: _taken_back(job, path, wider, near) for path in job["paths"]}
        found.append({path: text for path, text in texts.items() if text})
    return found if exact else []


def _taken_back(job: Mapping[str, Any], path: str, names: set[str], near: int) -> str:
    old, new = (_read(job, side, path) for side in (0, 1))
    changes = [
        ends for kind, *ends in SequenceMatcher(None, old, new).get_opcodes() if kind != "equal"
    ]
    blocks = [part for ends in changes for part in _split(*ends)]
    named: list[set[str]] = []
    for a, b, c, d in blocks:
        start, end = (a, b) if job["removed"] else (c, d)
        is_near = start - near < job["last"] and job["first"] <= max(end, start + 1) + near
        defined = _DEFINES.findall("\n".join(new[: c + 1]))[-1:]
        defined += _STORES.findall("\n".join([*old[a:b], *new[c:d]]))
        defined += _DEFINES.findall("\n".join(old[a:b]))
        named.append({*defined, *(names if is_near and path == job["path"] else ())})
    for (a, b, _, _), defines in [*zip(blocks, named, strict=True)] * CLOSURE:
        if names & defines:
            names = {*names, *re.findall(r"\w+", "\n".join(old[a:b]))}
    taken = list(new)
    for (a, b, c, d), defines in reversed([*zip(blocks, named, strict=True)]):
        if names & defines:
            taken[c:d] = old[a:b]
    return "\n".join(taken) if taken != new else ""


def _read(job: Mapping[str, Any], side: int, path: str) -> list[str]:
    return read(job["roots"][side], path).decode("latin-1").split("\n")


def _split(a: int, b: int, c: int, d: int) -> list[tuple[int, int, int, int]]:
    """Changed lines, each of its own where as many stand for them."""
    if b - a != d - c:
        return [(a, b, c, d)]
    return [(a + n, a + n + 1, c + n, c + n + 1) for n in range(b - a)]
