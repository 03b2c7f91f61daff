"""Documentation that still mentions a public name that the change removed.

A name counts as removed if base defined it in product source and no Python, stub or Cython file of
head contains it, whether the file parses or not. Plain words are ignored, since they may mean
something else.
"""

import re
from collections.abc import Iterator

from diffchecks.check_io import CheckReply, Gap, RawFinding, Source
from diffchecks.check_io import read as read_bytes
from diffchecks.jobs import ComparisonJob
from diffchecks.path_kinds import is_product
from diffchecks.python.source_definitions import find_definitions, gap_on_error, read

_TELLING = re.compile(r"[A-Za-z]+(?:_\w+|[a-z0-9]+[A-Z]\w*)")  # snake_case or CamelCase
_WORD = re.compile(r"[A-Za-z_]\w*")
_CODE = re.compile(r"`+([^`\n]+)`+")
_HISTORY = re.compile(r"change|history|news|release|migrat|upgrad|decision|adr\b", re.IGNORECASE)


def run(job: ComparisonJob) -> CheckReply:
    """Report the first mention of each removed name in each page."""
    gaps: dict[str, str] = {}
    examined = [file.path for file in job.files if file.status != "deleted"]
    gone = _without_used(_removed(job, gaps), job, gaps)
    found: list[RawFinding] = []
    for page in job.head_tree if gone else ():
        prose = page.endswith((".md", ".rst")) and page not in job.head_links
        if prose and not _HISTORY.search(page):
            try:
                found += _mentions(page, Source(page, read_bytes(job.head_root, page)), gone)
            except Gap as why:
                gaps[page] = str(why)
    examined = [path for path in examined if path not in gaps]
    return CheckReply(found, examined, gaps)


def _removed(job: ComparisonJob, gaps: dict[str, str]) -> set[str]:
    """Distinctive public names that a changed file defined in base and not in head."""
    gone: set[str] = set()
    for file in job.files:
        path, old = file.path, file.old_path
        if old and old.endswith(".py") and is_product(old):
            with gap_on_error(gaps, path):
                before = {
                    definition.node.name
                    for definition in find_definitions(read(job.base_root, old).tree)
                }
                gone |= {name for name in before if name[0] != "_" and _TELLING.fullmatch(name)}
            if path in gaps:
                gaps[path] = f"the base version {gaps[path]}"
    return gone


def _without_used(names: set[str], job: ComparisonJob, gaps: dict[str, str]) -> set[str]:
    """The names that no Python file of head contains: a name that is still used is not removed.

    Most are still where they were, so the changed files are searched first.
    """
    left = set(names)
    links = frozenset(job.head_links)  # the target of a symbolic link is read at its own path
    changed = [file.path for file in job.files if file.status != "deleted"]
    for path in dict.fromkeys((*changed, *job.head_tree)) if left else ():
        if path not in links and path.endswith((".py", ".pyi", ".pyx", ".pxd")):
            try:
                # Any encoding works for finding names, which are mostly ASCII.
                left.difference_update(
                    _WORD.findall(read_bytes(job.head_root, path).decode("latin-1"))
                )
            except Gap as why:
                gaps.setdefault(path, str(why))
        if not left:
            break
    return left


def _mentions(page: str, source: Source, gone: set[str]) -> Iterator[RawFinding]:
    left, fenced = set(gone), False
    for number, line in enumerate(source.lines, 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        code = [line] if fenced else _CODE.findall(line)
        for name in sorted(left & {word for part in code for word in _WORD.findall(part)}):
            left.discard(name)
            message = f"The page refers to {name}, which was removed"
            yield RawFinding("gone", page, number, message, key=f"{page}: {name}")
