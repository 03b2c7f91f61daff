"""The part of a site that shows runs."""

from collections.abc import Sequence
from pathlib import Path

from orchestrator.app.runs.run_index import CachedRunIndex
from orchestrator.web.runs.comparison import Comparison
from orchestrator.web.runs.decisions import Decisions
from orchestrator.web.runs.filters import FILTERS
from orchestrator.web.runs.finding_actions import FindingActions
from orchestrator.web.runs.run_list import RunListPage
from orchestrator.web.runs.run_pages import RunPages
from orchestrator.web.runs.run_processes import RunProcesses
from orchestrator.web.site import FormAction, SitePage, SitePart, Stream


def make_runs_part(repos: Sequence[Path]) -> SitePart:
    """Everything about the runs of some repositories."""
    index, processes = CachedRunIndex(repos), RunProcesses()
    listed, decisions = RunListPage(index), Decisions(index, processes)
    findings = FindingActions(index)
    one = RunPages(index, processes, findings.render)
    return SitePart(
        [
            SitePage("/", listed.show),
            Stream("/events", listed.changes),
            SitePage("/compare", Comparison(one.load).show),
            SitePage("/runs/{run}", one.overview),
            SitePage("/runs/{run}/findings", one.findings),
            SitePage("/runs/{run}/change", one.change),
            SitePage("/runs/{run}/timeline", one.timeline),
            SitePage("/runs/{run}/calls/{row}", one.call),
            SitePage("/runs/{run}/journal", one.journal),
            FormAction("/runs/{run}/findings/{finding}/decide", findings.decide),
            FormAction("/runs/{run}/findings/{finding}/say", findings.say),
            FormAction("/runs/{run}/calls/{approval}/decide", decisions.decide),
            FormAction("/runs/{run}/answer", decisions.answer),
            FormAction("/runs/{run}/grant", decisions.grant),
            FormAction("/runs/{run}/cancel", decisions.cancel),
            FormAction("/runs/{run}/resume", decisions.resume),
            FormAction("/runs/{run}/override", decisions.override),
        ],
        title="Runs",
        path="/",
        filters=FILTERS,
    )
