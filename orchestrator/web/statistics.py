"""Figures over all runs, the alerts, and the metrics for Prometheus."""

import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from starlette.responses import PlainTextResponse, Response

from orchestrator.app.statistics.alerts import Alert, check_alerts, load_thresholds
from orchestrator.app.statistics.all_runs import Collected, collect, summarize
from orchestrator.app.statistics.run_totals import RunTotals
from orchestrator.catalog.alert_thresholds import AlertThresholds
from orchestrator.errors import InputError
from orchestrator.optional_dependencies import install_command
from orchestrator.report.statistics.html_page import page_sections
from orchestrator.web.site import SitePage, SitePart, Visit

DAY = 24 * 3600.0
SPANS = {"7": "7 days", "30": "30 days", "90": "90 days", "": "all"}
METRICS = "text/plain; version=0.0.4"
WAIT_SECONDS = 8.0
"""For another request's computation, which is long only where runs are read for the first time."""
KEPT_SECONDS = 60.0
"""For which thresholds are not read again."""


class StatisticsPage:
    """Computes statistics from the journals on each request."""

    def __init__(self, repos: Sequence[Path]) -> None:
        self._repos = repos
        self._totals, self._busy = RunTotals(), Lock()
        self._thresholds: tuple[float, AlertThresholds] | None = None

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
            alerts=self._alerts(RunTotals.of(everything)),
            total=statistics.total,
            sections=[one for one in page_sections(statistics) if one.body],
            spans=SPANS,
            days=days,
        )

    def _alerts(self, totals: RunTotals) -> list[Alert]:
        order = {"firing": 0, "unknown": 1, "ok": 2}
        if self._thresholds is None or self._thresholds[0] + KEPT_SECONDS < time.monotonic():
            self._thresholds = time.monotonic(), load_thresholds(self._repos[0])
        found = check_alerts(totals, self._thresholds[1])
        return sorted(found, key=lambda alert: order[alert.state])

    def metrics(self, visit: Visit) -> Response:
        """The metrics that ``diffcourt stats --prometheus`` writes.

        They are computed by one request at a time: those of a client that waits no longer go on.
        """
        try:
            from orchestrator.report.statistics.prometheus_metrics import render_metrics  # noqa: PLC0415
        except ImportError:
            raise InputError(f"metrics need: {install_command('metrics')}") from None
        if not self._busy.acquire(timeout=WAIT_SECONDS):
            return PlainTextResponse("the runs are still being read; try again later\n", 503)
        try:
            self._totals.update(self._repos)
            text = render_metrics(self._totals, self._alerts(self._totals))
        finally:
            self._busy.release()
        return PlainTextResponse(text, media_type=METRICS)


def make_statistics_part(repos: Sequence[Path]) -> SitePart:
    """The part with the statistics of some repositories."""
    page = StatisticsPage(repos)
    return SitePart(
        [SitePage("/statistics", page.show), SitePage("/metrics", page.metrics, for_programs=True)],
        title="Statistics",
        path="/statistics",
    )
