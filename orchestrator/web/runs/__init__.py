"""The part of a site that shows runs, and how its pages write numbers, times and names."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from msgspec.structs import asdict

from orchestrator.app.runs.run_index import CachedRunIndex, RunSummary
from orchestrator.catalog.shared_literals import SEVERITIES
from orchestrator.data_directories import read_table
from orchestrator.report.ranking import name_outcome
from orchestrator.report.text_layout import format_duration
from orchestrator.web.runs.decisions import Decisions, FindingActions, RunProcesses
from orchestrator.web.runs.run_list import RunListPage
from orchestrator.web.runs.run_pages import RunPages, live_meters
from orchestrator.web.site import FormAction, SitePage, SitePart, Stream

_NAMES: dict[str, dict[str, str]] = read_table(__file__, "names.yaml")


def write_when(seconds: float) -> str:
    """A time of day here, with its date."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def _write_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def _name_outcome(run: RunSummary) -> str:
    if run.brief is None or run.brief.override:
        return _NAMES["verdicts"].get(run.verdict, run.verdict)
    return name_outcome(run.verdict, found=any(run.brief.counts.values()))


FILTERS: Mapping[str, Callable[..., Any]] = {
    "clock": lambda at: datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S"),
    "consequence": lambda level: _NAMES["consequences"].get(level, "nobody knows what it changes"),
    "duration": format_duration,
    "fields": lambda chosen: {name: value for name, value in asdict(chosen).items() if value},
    "limit": lambda it: f"${it.limit:,.2f}" if it.money else _write_number(it.limit or 0),
    "live_meters": live_meters,
    "outcome_name": _name_outcome,
    "pretty": lambda value: json.dumps(value, indent=2, ensure_ascii=False),
    "query": lambda values: urlencode({k: v for k, v in values.items() if v not in {"", None}}),
    "severities": lambda counts: [(s, counts[s]) for s in SEVERITIES if counts.get(s)],
    "used": lambda it: f"${it.used:.4f}" if it.money else _write_number(it.used),
    "verdict_name": lambda name: _NAMES["verdicts"].get(name, name),
    "when": write_when,
}


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
            SitePage("/compare", one.compare),
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
