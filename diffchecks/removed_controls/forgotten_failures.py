"""Calls whose failure base lets through, and head forgets: ``tables/forgotten_failures.yaml``."""

import re
from collections.abc import Iterator
from functools import cache
from os.path import splitext

from diffchecks.check_io import RawFinding
from diffchecks.data_files import read_yaml
from diffchecks.removed_controls.lost_wrapping import (
    MAX_HUNK_CHARACTERS,
    SHOWN,
    ChangedText,
    strip_whitespace,
)

_TABLE = read_yaml("forgotten_failures.yaml")
_HANDLES, _EFFECT = re.compile(_TABLE["handles"]), re.compile(_TABLE["effect"])


@cache
def _patterns(suffix: str) -> list[tuple[re.Pattern[str], str]]:
    """What forgets a failure in files of a suffix, and what base had in its place."""
    names = {name for name, of in _TABLE["suffixes"].items() if suffix in of.split()}
    rows = (row for row in _TABLE["patterns"] if not names.isdisjoint(row["in"].split()))
    return [(re.compile(row["forgets"], re.MULTILINE), row.get("was", "{}")) for row in rows]


def find_forgotten_failures(file: ChangedText) -> Iterator[RawFinding]:
    """Report calls that stand where nobody learns of their failure any more."""
    patterns = _patterns(splitext(file.path)[1].lower())
    for hunk in file.hunks() if patterns and file.base else ():
        old, new = file.was(hunk), file.now(hunk) + "\n"
        if not old or max(len(old), len(new)) > MAX_HUNK_CHARACTERS or _HANDLES.search(old):
            continue
        before = strip_whitespace(old)
        for forgets, was in patterns:
            for match in forgets.finditer(new):
                call = strip_whitespace(match["call"]).rstrip(";")
                if call and re.search(was.replace("{}", re.escape(call)), before):
                    code = f"{'effect' if _EFFECT.search(match['call']) else 'failure'}-forgotten"
                    shown = " ".join(match["call"].split())[:SHOWN]
                    line = hunk.head.start + new.count("\n", 0, match.start("call"))
                    says = f"Base let a failure of this through, and it is ignored now: {shown}"
                    yield RawFinding(code, file.path, line, says, confidence=0.8)
