"""Leads: added views without the words about callers or owners that the views beside them have.

No rule counts them: a guard may lie where the file does not show it, and a view may be meant for
everybody. Agents get them as places to look at.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from diffchecks.check_io import CheckReply, RawFinding
from diffchecks.data_files import read_patterns, vocabulary
from diffchecks.jobs import ComparisonJob
from diffchecks.path_kinds import is_test
from diffchecks.python.source_definitions import (
    ChangedModule,
    ParsedModule,
    find_definitions,
    first_line,
    gap_on_error,
    read_base_with,
    read_pairs,
)

MIN_NEIGHBORS, SHARE = 3, 0.75  # guarded views beside it, and their share

_OWNED = read_patterns("route_guards")["owned"]
_RIGHT = re.compile(r"(?i)check_|admin|staff|permission_required|can_|secret|owner|(?:pk|id)=\d")


class View(Struct, frozen=True):
    """A function or class that answers requests; ``line`` is that of its name."""

    name: str
    line: int
    text: str
    body: str


def run(job: ComparisonJob) -> CheckReply:
    """Look at the views that the change adds."""
    gaps: dict[str, str] = {}
    found: list[RawFinding] = []
    examined = []
    for pair in read_pairs(job, gaps):
        with gap_on_error(gaps, pair.path):
            if pair.head is not None and not is_test(pair.path):
                found += _look(pair, pair.head)
            examined.append(pair.path)
    names = {str(lead.key).rpartition(".")[2] for lead in found}
    old = {view.name for source in read_base_with(job, names) for view in find_views(source)}
    return CheckReply([lead for lead in found if lead.key not in old], examined, gaps)


def find_views(source: ParsedModule) -> list[View]:
    """The views of a module."""
    views = []
    for definition in find_definitions(source.tree):
        node, first = definition.node, first_line(definition.node)
        header = "\n".join(source.lines[first - 1 : node.body[0].lineno - 1])
        if vocabulary("view").search(header):
            text = "\n".join(source.lines[first - 1 : node.end_lineno])
            body = "\n".join(source.lines[node.body[0].lineno - 1 : node.end_lineno])
            views.append(View(definition.dotted, node.lineno, text, body))
    return views


def _look(pair: ChangedModule, head: ParsedModule) -> Iterator[RawFinding]:
    views = find_views(head)
    guarded = [view for view in views if vocabulary("asks_caller").search(view.text)]
    owned = [view for view in views if _OWNED.search(view.body)]
    usual = len(guarded) >= max(MIN_NEIGHBORS, SHARE * (len(views) - 1))
    asked = usual and not vocabulary("guards_router").search(head.text)
    reported: set[str] = set()
    for view in views:
        within = view.name.rpartition(".")[0] in reported
        if view.line not in pair.added or vocabulary("open_view").search(view.name) or within:
            continue
        bare = bool(owned) and view not in owned and vocabulary("loads_object").search(view.body)
        if asked and view not in guarded:
            code = "unguarded"
        elif bare and not _RIGHT.search(view.text):
            code = "unowned"
        else:
            continue
        reported.add(view.name)
        says = "Views beside it ask who calls or whose the object is, and this one does not"
        yield RawFinding(code, pair.path, view.line, says, key=view.name, scope=view.name)
