"""The part of a site that shows runs."""

from collections.abc import Sequence
from pathlib import Path

from orchestrator.app.runs.run_index import RunIndex
from orchestrator.web.runs.comparison import Comparison
from orchestrator.web.runs.decisions import Decisions
from orchestrator.web.runs.filters import FILTERS
from orchestrator.web.runs.finding_actions import FindingActions
from orchestrator.web.runs.run_list import RunListPage
from orchestrator.web.runs.run_pages import RunPages
from orchestrator.web.runs.run_processes import RunProcesses
from orchestrator.web.site import Action, Page, Part, Stream


def make_runs_part(repos: Sequence[Path]) -> Part:
    """Everything about the runs of some repositories."""
    index, processes = RunIndex(repos), RunProcesses()
    listed, decisions = RunListPage(index), Decisions(index, processes)
    findings = FindingActions(index)
    one = RunPages(index, processes, findings.render)
    return Part(
        [
            Page("/", listed.show),
            Stream("/events", listed.changes),
            Page("/compare", Comparison(one.load).show),
            Page("/runs/{run}", one.overview),
            Page("/runs/{run}/findings", one.findings),
            Page("/runs/{run}/change", one.change),
            Page("/runs/{run}/timeline", one.timeline),
            Page("/runs/{run}/calls/{row}", one.call),
            Page("/runs/{run}/journal", one.journal),
            Action("/runs/{run}/findings/{finding}/decide", findings.decide),
            Action("/runs/{run}/findings/{finding}/say", findings.say),
            Action("/runs/{run}/calls/{approval}/decide", decisions.decide),
            Action("/runs/{run}/answer", decisions.answer),
            Action("/runs/{run}/grant", decisions.grant),
            Action("/runs/{run}/cancel", decisions.cancel),
            Action("/runs/{run}/resume", decisions.resume),
            Action("/runs/{run}/override", decisions.override),
        ],
        title="Runs",
        path="/",
        filters=FILTERS,
    )
