"""Which lines of head a unified diff shows."""

import re

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def lines_of_patch(patch: str) -> frozenset[int]:
    """The lines of head, added or context, in the hunks of one file, 1-based."""
    shown: set[int] = set()
    number = 0
    for line in patch.split("\n"):
        if hunk := _HUNK.match(line):
            number = int(hunk[1])
        elif number and line[:1] in {"+", " "}:
            shown.add(number)
            number += 1
    return frozenset(shown)
