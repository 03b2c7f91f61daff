"""Which lines of head a unified diff shows."""

import re
from collections.abc import Iterator, Mapping

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_FILE = "+++ b/"


def lines_of_patch(patch: str) -> frozenset[int]:
    """The lines of head, added or context, in the hunks of one file, 1-based."""
    return frozenset(number for number, _ in _lines(patch))


def added_lines_of_patch(patch: str) -> frozenset[int]:
    """The lines that the hunks of one file add, 1-based."""
    return frozenset(number for number, added in _lines(patch) if added)


def lines_of_diff(diff: str) -> Mapping[str, frozenset[int]]:
    """Path → the lines of head, added or context, of a diff of several files.

    A file whose name git quotes is left out: its comments are in the summary.
    """
    found: dict[str, frozenset[int]] = {}
    for part in re.split(r"^(?=diff --git )", diff, flags=re.MULTILINE):
        head, mark, rest = part.partition("\n@@ ")
        names = [line for line in head.split("\n") if line.startswith(_FILE)]
        if mark and len(names) == 1:
            name = names[0].removeprefix(_FILE).rstrip("\t")
            found[name] = lines_of_patch(f"@@ {rest}")
    return found


def _lines(patch: str) -> Iterator[tuple[int, bool]]:
    """Each line of head that is shown, and whether it is added."""
    number = removed = kept = 0
    for line in patch.split("\n"):
        if not (removed or kept):
            if hunk := _HUNK.match(line):
                removed, number, kept = int(hunk[1] or 1), int(hunk[2]), int(hunk[3] or 1)
        elif line[:1] == "-":
            removed -= 1
        elif line[:1] != "\\":
            yield number, line[:1] == "+"
            number += 1
            kept -= 1
            removed -= line[:1] != "+"
