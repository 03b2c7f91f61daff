"""Data flow from requests to dangerous calls within a file, in languages other than Python.

Values are followed through assignments, branches, and the functions and callbacks of the file. A
flow is proven: the way from the source to the sink is its message. The languages are data, a file
each under ``data/flows``; ``flow_tables.py`` has their schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from diffchecks.check_io import FlowStep, RawFinding, Source
from diffchecks.flows.calls import TracedFlow
from diffchecks.flows.flow_tables import SAME_DEFECT, load_flows, words_of
from diffchecks.flows.tracing import Tracing
from diffchecks.path_kinds import without_package_names

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from diffchecks.patterns.pattern_loading import PatternFile

_SHOWN = 5  # steps in a message
_CODE = "flow-"


def find_flows(
    source: Source, root: SgNode, language: PatternFile, codes: frozenset[str]
) -> tuple[list[RawFinding], frozenset[tuple[int, str]]]:
    """The flows of a program, and the lines and classes of calls that are seen to be safe.

    Args:
        codes: those of the wanted classes, such as ``*-flow-sql``.
    """
    tables = load_flows(source.suffix)
    wanted = {code.partition(_CODE)[2] for code in codes if code.startswith(f"*-{_CODE}")}
    if (
        tables is None
        or not wanted
        or not any(each.search(source.text) for each in (tables.hint, tables.commands))
    ):
        return [], frozenset()
    tracing = Tracing(source, root, language, tables)
    found = tracing.run()
    path = without_package_names(source.path)
    flows = [
        _finding(tables.name, source, flow)
        for flow in found
        if flow.code in wanted
        if not (flow.taint.parameter and tables.own_programs.search(path))
    ]
    hit = {(line, flow.code) for flow in found for line in range(flow.line, flow.end_line + 1)}
    return flows, frozenset(tracing.safe - tracing.doubtful - hit)


def _finding(language: str, source: Source, flow: TracedFlow) -> RawFinding:
    steps = flow.taint.steps
    shown = steps if len(steps) <= _SHOWN else (*steps[:2], *steps[-_SHOWN + 2 :])
    way = " → ".join(f"{text} (line {line})" for line, text in (*shown, (flow.line, flow.call)))
    what = "A parameter" if flow.taint.parameter else "Request data"
    return RawFinding(
        f"{language}-{_CODE}{flow.code}",
        source.path,
        flow.line,
        f"{what} reaches {words_of(flow.code)}: {way}",
        end_line=flow.end_line,
        column=flow.column,
        steps=tuple(FlowStep(source.path, line, text) for line, text in steps),
        from_request=not flow.taint.parameter,
        confidence=0.6 if flow.taint.parameter else 0.9,
    )


def join(
    found: Iterable[RawFinding], flows: Sequence[RawFinding], safe: Collection[tuple[int, str]]
) -> Iterator[RawFinding]:
    """One finding for a defect: a proven flow before a pattern, and that before a parameter.

    A pattern's finding does not count where the call is seen to be safe.
    """
    proven = [flow for flow in flows if flow.from_request]
    matched = [
        one
        for one in found
        if not any(_is_same(one, flow) for flow in proven)
        if not any(one.line == line and _is_about(one, code) for line, code in safe)
    ]
    yield from (*proven, *matched)
    for flow in flows:
        if not flow.from_request and not any(_is_same(one, flow) for one in matched):
            yield flow


def _is_about(finding: RawFinding, code: str) -> bool:
    """Whether a pattern's finding is of a class."""
    return finding.code.partition("-")[2].startswith(tuple(SAME_DEFECT[code].split()))


def _is_same(finding: RawFinding, flow: RawFinding) -> bool:
    """Whether a pattern's finding is about the defect of a flow, on one of its lines."""
    lines = {*range(flow.line, flow.end_line + 1), *(step.line for step in flow.steps)}
    about = _is_about(finding, flow.code.partition(_CODE)[2])
    return about and not lines.isdisjoint(range(finding.line, finding.end_line + 1))
