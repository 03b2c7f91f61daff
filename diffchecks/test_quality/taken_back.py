"""Takes back what a change does at one place: a test that then still fails shows something else."""

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from diffchecks.check_io import read
from diffchecks.enclosing_scopes import run as scopes_of

NEAR = 3
_STORED = re.compile(r"(?m)^\s*(?:(?:export|const|let|var)\s+)*(\w+)\s*(?::[^=\n]*)?=(?!=)")


def run(job: Mapping[str, Any]) -> str:
    """A file of head with base's lines at a place, a byte a character; empty: none differ there.

    The place is what lies near the cited lines or in their function, and the functions and
    variables that these lines name.

    Args:
        job: ``roots`` of base and head, ``path``, and ``first`` and ``last`` of the cited lines,
            which are base's if ``removed``.
    """
    sides = [read(root, job["path"]).decode("latin-1").split("\n") for root in job["roots"]]
    first, last, cited = job["first"], job["last"], 0 if job["removed"] else 1
    changes = [
        ends for kind, *ends in SequenceMatcher(None, *sides).get_opcodes() if kind != "equal"
    ]
    scopes = _functions(job, 1, [min(ends[2] + 1, len(sides[1])) for ends in changes])
    words = re.findall(r"\w+", "\n".join(sides[cited][first - 1 : last]))
    names = {*words, *_functions(job, cited, [first])} - {""}
    found = False
    for ends, scope in reversed(list(zip(changes, scopes, strict=True))):
        old, new = sides[0][ends[0] : ends[1]], sides[1][ends[2] : ends[3]]
        start, end = ends[2 * cited : 2 * cited + 2]
        is_near = start - NEAR < last and first <= max(end, start + 1) + NEAR
        if is_near or names & {scope, *_STORED.findall("\n".join([*old, *new]))}:
            sides[1][ends[2] : ends[3]] = old
            found = True
    return "\n".join(sides[1]) if found else ""


def _functions(job: Mapping[str, Any], side: int, lines: list[int]) -> list[str]:
    """The bare name of the innermost function or class around each line; empty: none."""
    path = job["path"]
    given = {"root": job["roots"][side], "paths": [path], "lines": {path: lines}}
    return [scope.rpartition(".")[2] for scope in scopes_of(given).get(path, [""] * len(lines))]
