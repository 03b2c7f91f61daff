"""Source changes without an entry in the project's changelog."""

import ast
import re
from collections.abc import Iterator
from posixpath import basename

from diffchecks.check_io import CheckReply, Gap, RawFinding, Source, nothing_to_compare, read
from diffchecks.data_files import read_patterns
from diffchecks.jobs import ComparisonJob
from diffchecks.path_kinds import is_product
from diffchecks.python.source_definitions import (
    DefinitionNode,
    find_docstring,
    gap_on_error,
    read_pairs,
)
from diffchecks.python.syntax_tree_cache import walk

CHANGED_LINES = 10  # of product source; fewer are rarely worth an entry

_LOG = re.compile(r"(?:CHANGELOG|CHANGES|HISTORY|NEWS)(?:\.(?:md|rst|txt))?", re.IGNORECASE)
_UNRELEASED = read_patterns("changelog")["unreleased"]
_FRAGMENTS = re.compile(r"(?:^|/)(?:changes|changelog|changelog\.d|changes\.d|newsfragments|news)/")


def run(job: ComparisonJob) -> CheckReply:
    """Report the heading under which an entry is missing."""
    files = job.files
    both = set(job.base_tree) & set(job.head_tree)
    new = set(job.head_tree) - set(job.base_tree)
    examined = [file.path for file in files if file.status != "deleted"]
    names = (basename(file.path) for file in files)
    if any(map(_LOG.fullmatch, names)) or any(map(_FRAGMENTS.search, new)):
        return CheckReply(examined=examined)
    logs = sorted(path for path in both if _LOG.fullmatch(path) and path not in job.head_links)
    if not logs:
        return nothing_to_compare("the project keeps no changelog in its root directory")
    changed = sum(
        len(file.added) + len(file.removed)
        for file in files
        if file.path.endswith(".py") and is_product(file.path)
    )
    if changed < CHANGED_LINES or not _changes_behavior(job):
        return CheckReply(examined=examined)
    for path in logs:
        try:
            line = _heading(job.base_root, path) and _heading(job.head_root, path)
        except Gap as why:
            return CheckReply(examined=examined, gaps={path: str(why)})
        if line:
            message = f"{changed} lines of source changed, and {path} has no entry for it"
            found = RawFinding("missing", path, line, message, key=path)
            return CheckReply([found], examined)
    return nothing_to_compare(f"{logs[0]} has no heading for unreleased changes")


def _changes_behavior(job: ComparisonJob) -> bool:
    """Whether public names, signatures, constants or texts change, not only where they are.

    What is moved or rearranged inside is no news to users.
    """
    gaps: dict[str, str] = {}
    before, after = set[str](), set[str]()
    for pair in read_pairs(job, gaps):
        if is_product(pair.path):
            with gap_on_error(gaps, pair.path):
                base = pair.base()
                before.update(_surface(base.tree) if base else ())
                after.update(_surface(pair.head.tree) if pair.head else ())
    return bool(gaps) or before != after


def _surface(tree: ast.Module) -> Iterator[str]:
    docstrings = set[int]()
    yield from (ast.dump(each) for each in tree.body if isinstance(each, ast.Assign))
    for node in walk(tree):
        if isinstance(node, ast.Module | DefinitionNode):
            docstrings.add(id(find_docstring(node)))
        if isinstance(node, DefinitionNode) and node.name[0] != "_":
            yield f"{node.name} {ast.dump(node.args) if hasattr(node, 'args') else ''}"
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield repr(node.value)


def _heading(root: str, path: str) -> int:
    """The line of the heading for unreleased changes; 0 if there is none."""
    lines = enumerate(Source(path, read(root, path)).lines, 1)
    return next((number for number, line in lines if _UNRELEASED.match(line)), 0)
