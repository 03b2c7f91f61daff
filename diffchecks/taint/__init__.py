"""Taint analysis of Python: follows values from sources to sinks by abstract interpretation.

Sources, sinks and sanitizers are data: YAML files under ``data/taint``, one per library
(``library_models.py`` has their schema). The interpreter runs the program on abstract values. It is
flow-sensitive within a function, and context-sensitive, since each call of a function in the tree
runs it with the caller's arguments. The program under review is neither executed nor imported.

- What is run: ``analysis_driver``, ``entry_points``, ``entry_parameters``, ``url_configuration``;
  of what a change affects: ``affected_names``, ``dependent_files``.
- The interpreter: ``statements``, ``expressions``, ``calls``, ``branch_conditions``,
  ``attribute_access``, ``strings``, ``containers``, on ``abstract_state``, ``abstract_values`` and
  ``call_frames``.
- What names stand for: ``module_index`` (of the tree), ``external_functions``, ``library_models``,
  ``stored_fields`` (of databases).
- Reports: ``sink_checks``.
- Templates: ``template_files``, ``template_code``, ``template_renderers``, ``rendered_templates``.
"""

import gc
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from diffchecks.check_io import CheckReply, FlowStep, RawFinding
from diffchecks.jobs import FlowJob
from diffchecks.path_kinds import is_illustrative
from diffchecks.taint.abstract_values import TaintStep
from diffchecks.taint.affected_names import affected_names
from diffchecks.taint.analysis_driver import TaintAnalysis
from diffchecks.taint.call_frames import TaintFinding
from diffchecks.taint.library_models import load
from diffchecks.taint.module_index import Project
from diffchecks.taint.template_files import TemplateTree
from diffchecks.taint.url_configuration import DOCUMENT

_MODULES: Final = (".py", ".pyi")
_RECURSION: Final = 6000  # expressions in real code are nested far less; deeper ones are a gap
_MAX_SHOWN: Final = 16
_MAX_STEPS: Final = 40


def run(job: FlowJob) -> CheckReply:
    """Trace from sources to sinks.

    Args:
        job: with ``other_root``, only the difference between the sides counts.

    Returns:
        ``facts["constant"]`` lists the sinks that only constants reach: path, line and class.

    Raises:
        ConfigError: a data file is missing or invalid.
    """
    limit, collecting = sys.getrecursionlimit(), gc.isenabled()
    sys.setrecursionlimit(max(limit, _RECURSION))
    gc.disable()  # millions of nodes live to the end, and collection doubles the time
    try:
        return _trace(job)
    finally:
        sys.setrecursionlimit(limit)
        if collecting:
            gc.enable()
        gc.freeze()  # the trees are kept for other checks, and contain no garbage


def _trace(job: FlowJob) -> CheckReply:
    given = sorted(set(job.paths))
    paths = [path for path in given if path.endswith(_MODULES)]
    tree = {path for path in (*job.tree, *paths) if path.endswith(".py")}
    project = Project(Path(job.root), tree)
    others = [path for path in (*job.tree, *given) if not path.endswith(_MODULES)]
    documents = {path for path in others if DOCUMENT.search(path)}
    programs = (project.text(path) for path in sorted(tree))
    templates = TemplateTree(job.root, dict.fromkeys(others), programs)
    analysis = TaintAnalysis(project, load(job.data), templates, sorted(documents))
    modules = [pair for pair in job.changed if all(not p or p.endswith(_MODULES) for p in pair)]
    roots = Path(job.root), Path(job.other_root)
    affected = affected_names(*roots, modules) if job.other_root else None
    files = (path for path in given if not path.endswith(_MODULES) and path not in documents)
    pages = [path for path in files if templates.fills_in(path)]
    analysis.trace(paths, affected, pages)
    analysis.clear()
    reported = {path: is_illustrative(path) and path not in analysis.unused for path in given}
    gaps = {**project.gaps, **analysis.gaps}
    gaps = {path: why for path, why in sorted(gaps.items()) if path in reported}
    constant = [
        list(place)
        for place in sorted(analysis.run.constant - analysis.run.moving)
        if place[0] in reported and place[0] not in gaps
    ]
    return CheckReply(
        _findings(analysis.run.found.values(), reported),
        [path for path in (*paths, *pages) if path not in gaps],
        gaps,
        {"constant": constant},
    )


def _findings(found: Iterable[TaintFinding], reported: Mapping[str, bool]) -> list[RawFinding]:
    placed: dict[tuple[str, str, int], RawFinding] = {}
    for taint_finding in sorted(found, key=lambda item: (item.path, item.line, item.code)):
        steps = taint_finding.trace.chain() if taint_finding.trace else []
        place = _place(taint_finding, steps, reported)
        if place is not None:
            moved = (place.path, place.line) != (taint_finding.path, taint_finding.line)
            finding = RawFinding(
                taint_finding.code,
                place.path,
                place.line,
                taint_finding.message,
                end_line=place.line if moved else taint_finding.end_line,
                scope=None if moved else taint_finding.scope or None,
                detail="\n".join(_lines(steps)),
                steps=tuple(FlowStep(one.path, one.line, one.what) for one in steps[-_MAX_STEPS:]),
                confidence=max(taint_finding.confidence, 0.05),
                in_use=reported[place.path],
            )
            graver = {finding.code.partition("-parameter")[0], finding.code.removesuffix("-name")}
            at = (finding.path, finding.line)
            if not any((code, *at) in placed for code in graver - {finding.code}):
                placed.setdefault((finding.code, finding.path, finding.line), finding)
    return sorted(placed.values(), key=lambda finding: (finding.path, finding.line, finding.code))


def _place(
    finding: TaintFinding, steps: list[TaintStep], reported: Mapping[str, bool]
) -> TaintStep | None:
    """The place of the sink, or, if it is elsewhere, of the last step in a reported file."""
    if finding.path in reported:
        return TaintStep(finding.path, finding.line, "")
    return next((step for step in reversed(steps) if step.path in reported), None)


def _lines(steps: list[TaintStep]) -> Iterable[str]:
    if len(steps) > _MAX_SHOWN:
        half = _MAX_SHOWN // 2
        left_out = len(steps) - 2 * half
        yield from _lines(steps[:half])
        yield f"... {left_out} steps more"
        yield from _lines(steps[-half:])
        return
    for step in steps:
        yield f"{step.path}:{step.line}  {step.what}"
