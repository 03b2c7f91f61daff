"""Which lines of head a unified diff shows."""

import re
from collections.abc import Iterator, Mapping

from orchestrator.code_review.change.hunk_lines import HunkLine, number_hunk_lines

_FILE = "+++ b/"


def lines_of_patch(patch: str) -> frozenset[int]:
    """The lines of head, added or context, in the hunks of one file, 1-based."""
    return frozenset(line.new for line in _lines(patch))


def added_lines_of_patch(patch: str) -> frozenset[int]:
    """The lines that the hunks of one file add, 1-based."""
    return frozenset(line.new for line in _lines(patch) if line.sign == "+")


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


def _lines(patch: str) -> Iterator[HunkLine]:
    """The lines of head that are shown."""
    for line in number_hunk_lines(patch.split("\n")):
        if isinstance(line, HunkLine) and line.new:
            yield line
