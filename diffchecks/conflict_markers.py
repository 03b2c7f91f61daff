"""Committed merge conflicts: complete groups of conflict markers, as git writes them.

Where a file parses all the same, its markers are in a string or a comment and are no conflict.
Nor is what a fenced block of Markdown shows, fences and all.
"""

from collections.abc import Iterator

from diffchecks.check_io import CheckReply, RawFinding, Source, check_files
from diffchecks.jobs import SideJob
from diffchecks.patterns import is_read_by_grammar

START, BASE, MIDDLE, END = "<<<<<<<", "|||||||", "=======", ">>>>>>>"


def _marker(line: str) -> str | None:
    """The conflict marker on this line, if any. The middle marker has no label."""
    head = line[:7]
    if head == MIDDLE:
        return MIDDLE if len(line) == 7 else None
    if head in {START, BASE, END}:
        return head if len(line) == 7 or line[7] == " " else None
    return None


def find_conflicts(source: Source) -> Iterator[RawFinding]:
    """Yield each complete group of markers; a lone row of equal signs is a heading's underline."""
    start = middle = 0
    is_parsed: bool | None = None
    fenced, markdown = False, source.path.lower().endswith((".md", ".mdx", ".markdown"))
    for number, line in enumerate(source.lines, 1):
        marker = _marker(line)
        if markdown and not start and line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif marker == START and not fenced:
            start, middle = number, 0
        elif marker == MIDDLE and start and not middle:
            middle = number
        elif marker == END and middle:
            is_parsed = is_read_by_grammar(source) if is_parsed is None else is_parsed
            if is_parsed:
                return
            yield RawFinding(
                "conflict-markers",
                source.path,
                start,
                "Merge conflict markers were left in the file",
                end_line=number,
                confidence=0.7 if source.is_illustrative else 1.0,
            )
            start = middle = 0


def run(job: SideJob) -> CheckReply:
    """Check the files of a job (see ``check_io``)."""
    return check_files(job, find_conflicts)
