"""Documentation that still mentions a public name or an option that the change removed.

A name, or an option of a command line, counts as removed if base defined it in product source and
no Python, stub or Cython file of head contains it, whether the file parses or not. Plain words are
ignored, since they may mean something else.
"""

from collections.abc import Iterator

from diffchecks.check_io import CheckReply, Gap, RawFinding, Source
from diffchecks.check_io import read as read_bytes
from diffchecks.data_files import read_patterns
from diffchecks.jobs import ComparisonJob
from diffchecks.path_kinds import is_product, path_kinds
from diffchecks.python.source_definitions import find_definitions, gap_on_error, read

_PATTERNS = read_patterns("stale_references")


def run(job: ComparisonJob) -> CheckReply:
    """Report the first mention of each removed name in each page."""
    gaps: dict[str, str] = {}
    examined = [file.path for file in job.files if file.status != "deleted"]
    gone = _without_used(_removed(job, gaps), job, gaps)
    found: list[RawFinding] = []
    for page in job.head_tree if gone else ():
        prose = page.endswith((".md", ".rst")) and page not in job.head_links
        if prose and not _PATTERNS["history"].search(page):
            try:
                found += _mentions(page, Source(page, read_bytes(job.head_root, page)), gone)
            except Gap as why:
                gaps[page] = str(why)
    examined = [path for path in examined if path not in gaps]
    return CheckReply(found, examined, gaps)


def _removed(job: ComparisonJob, gaps: dict[str, str]) -> set[str]:
    """Distinctive public names, and options, that a changed file defined in base."""
    gone: set[str] = set()
    for file in job.files:
        path, old = file.path, file.old_path
        if old and old.endswith(".py") and (is_product(old) or "tooling" in path_kinds(old)):
            with gap_on_error(gaps, path):
                module = read(job.base_root, old)
                before = {definition.node.name for definition in find_definitions(module.tree)}
                gone |= set(filter(_PATTERNS["telling"].fullmatch, before))
                gone |= set(_PATTERNS["option"].findall(module.text))
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
                    _PATTERNS["word"].findall(read_bytes(job.head_root, path).decode("latin-1"))
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
        code = [line] if fenced else _PATTERNS["code"].findall(line)
        own, foreign = _PATTERNS["word"].findall, _PATTERNS["foreign"].match
        words = {word for part in code for word in own(part) if word[0] != "-" or not foreign(part)}
        for name in sorted(left & words):
            left.discard(name)
            message = f"The page refers to {name}, which was removed"
            yield RawFinding("gone", page, number, message, key=f"{page}: {name}")
