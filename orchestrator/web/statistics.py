"""Figures over all runs, the alerts, and the metrics for Prometheus."""

import time
from collections.abc import Sequence
from pathlib import Path

from starlette.responses import PlainTextResponse, Response

from orchestrator.app.statistics.alerts import Alert, check_alerts, load_thresholds
from orchestrator.app.statistics.all_runs import Collected, collect, summarize
from orchestrator.errors import InputError
from orchestrator.optional_dependencies import install_command
from orchestrator.report.statistics.html_page import page_sections
from orchestrator.web.site import SitePage, SitePart, Visit

DAY = 24 * 3600.0
SPANS = {"7": "7 days", "30": "30 days", "90": "90 days", "": "all"}
METRICS = "text/plain; version=0.0.4"


class StatisticsPage:
    """Computes statistics from the journals on each request."""

    def __init__(self, repos: Sequence[Path]) -> None:
        self._repos = repos

    def show(self, visit: Visit) -> Response:
        """Alerts, then figures of the chosen days."""
        days = visit.query.get("days", "30")
        days = days if days in SPANS else "30"
        everything = collect(self._repos)
        since = time.time() - int(days) * DAY if days else 0.0
        chosen = Collected(
            [run for run in everything.runs if run.started >= since],
            everything.broken,
            since,
            everything.until,
        )
        statistics = summarize(chosen)
        return visit.render(
            "statistics.html",
            title="Statistics",
            alerts=self._alerts(everything),
            total=statistics.total,
            sections=[one for one in page_sections(statistics) if one.body],
            spans=SPANS,
            days=days,
        )

    def _alerts(self, collected: Collected) -> list[Alert]:
        order = {"firing": 0, "unknown": 1, "ok": 2}
        found = check_alerts(collected, load_thresholds(self._repos[0]))
        return sorted(found, key=lambda alert: order[alert.state])

    def metrics(self, visit: Visit) -> Response:
        """The metrics that ``diffcourt stats --prometheus`` writes."""
        try:
            from orchestrator.report.statistics.prometheus_metrics import render_metrics  # noqa: PLC0415
        except ImportError:
            raise InputError(f"metrics need: {install_command('metrics')}") from None
        collected = collect(self._repos)
        return PlainTextResponse(
            render_metrics(collected, self._alerts(collected)), media_type=METRICS
        )


def make_statistics_part(repos: Sequence[Path]) -> SitePart:
    """The part with the statistics of some repositories."""
    page = StatisticsPage(repos)
    return SitePart(
        [SitePage("/statistics", page.show), SitePage("/metrics", page.metrics, for_programs=True)],
        title="Statistics",
        path="/statistics",
    )
