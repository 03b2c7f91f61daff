"""What holds for repositories and not for one run: statistics, proposed memory, and tuning."""

import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from starlette.responses import PlainTextResponse, Response

from orchestrator.app.memory.past_reviews import load_reviews
from orchestrator.app.memory.suggested_entries import propose_entries
from orchestrator.app.policy_sources import read_layers_on_disk
from orchestrator.app.runs.state_directory import repo_root
from orchestrator.app.statistics.all_runs import Collected, collect, summarize
from orchestrator.app.statistics.run_totals import RunTotals
from orchestrator.app.statistics.threshold_alerts import Alert, check_alerts, load_thresholds
from orchestrator.catalog.settings import AlertThresholds
from orchestrator.code_review.policy_loading import read_catalog
from orchestrator.data_directories import OVERLAY, read_table
from orchestrator.engine.types import Rubric
from orchestrator.errors import DiffcourtError, InputError
from orchestrator.optional_dependencies import install_command
from orchestrator.report.statistics.html_page import page_sections
from orchestrator.tuning.file_formats.rubric_file import find_stale_inputs
from orchestrator.tuning.labels.label_files import Label, read_labels, settle_labels
from orchestrator.web.site import SitePage, SitePart, Visit

if TYPE_CHECKING:
    from orchestrator.tuning.labels.feedback_rate import FeedbackReport

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


class Proposal(Struct, frozen=True):
    """A patch to one repository's memory; ``problem`` says why there is none."""

    repo: Path
    patch: str = ""
    notes: Sequence[str] = ()
    problem: str = ""


def make_memory_part(repos: Sequence[Path]) -> SitePart:
    """Proposals from past reviews, computed on each request; nothing is written."""

    def show(visit: Visit) -> Response:
        return visit.render("memory.html", title="Memory", found=[*map(_propose, repos)])

    def download(visit: Visit) -> Response:
        number = visit.values["number"]
        if not (number.isascii() and number.isdigit() and int(number) < len(repos)):
            raise InputError("there is no such repository")
        headers = {"Content-Disposition": 'attachment; filename="memory.patch"'}
        return PlainTextResponse(_propose(repos[int(number)]).patch, headers=headers)

    pages = [SitePage("/memory", show), SitePage("/memory/{number}/memory.patch", download)]
    return SitePart(pages, title="Memory", path="/memory")


def _propose(repo: Path) -> Proposal:
    try:
        change = propose_entries(repo, load_reviews(repo, ()))
    except DiffcourtError as error:
        return Proposal(repo, problem=str(error))
    return Proposal(repo, change.patch, change.notes)


LABELS = "labels.jsonl"
"""Where ``diffcourt label`` writes by default."""
COMMANDS: Mapping[str, str] = read_table(__file__, "rubric_commands.yaml")


class TuningState(Struct, kw_only=True):
    """One repository's rubric and what is known of it.

    Attributes:
        tuned: the rubric's provenance, empty for one written by hand.
        stale: what has changed since it was tuned, one sentence each.
        labels: None where there is no label file, or it cannot be read.
        problems: why something is not shown.
    """

    repo: Path
    rubric: Rubric | None = None
    tuned: dict[str, Any]
    stale: Sequence[str] = ()
    labels: Sequence[Label] | None = None
    feedback: "FeedbackReport | None" = None
    problems: list[str]

    @property
    def commands(self) -> list[tuple[str, str]]:
        """What to do next, and the command for it."""
        name = self.rubric.name if self.rubric else "pr-review"
        if (file := Path(OVERLAY, "rubrics", f"{name}.yaml")) and (self.repo / file).is_file():
            name = str(file)
        return [(what, command.format(name=name)) for what, command in COMMANDS.items()]


def read_tuning(repo: Path) -> TuningState:
    """What is known of a repository's rubric, as its work tree has it."""
    found = TuningState(repo=repo, tuned={}, problems=[])
    try:
        catalog = read_catalog(read_layers_on_disk(repo))
        found.rubric = catalog.rubrics[catalog.settings.rubric]
        tuned = found.rubric.provenance.get("tuned")
        found.tuned = tuned if isinstance(tuned, dict) else {}
        found.stale = find_stale_inputs(found.rubric)
    except DiffcourtError as error:
        found.problems.append(str(error))
    try:
        if (path := repo_root(repo) / LABELS).is_file():
            found.labels = settle_labels(read_labels([path]))
    except DiffcourtError as error:
        found.problems.append(str(error))
    _add_feedback(found)
    return found


def _add_feedback(found: TuningState) -> None:
    """Measure what people did with findings against those labels that are of findings."""
    if find_spec("numpy") is None:
        found.problems.append(f"agreement from feedback needs: {install_command('tune')}")
        return
    from orchestrator.app.memory.comment_feedback import collect_feedback  # noqa: PLC0415 - numpy
    from orchestrator.tuning.labels.feedback_rate import measure_feedback  # noqa: PLC0415

    try:
        findings, _ = collect_feedback(found.repo, load_reviews(found.repo, ()))
        known = {one.id for one in findings}
        of_findings = [one for one in found.labels or () if one.item in known]
        found.feedback = measure_feedback(findings, of_findings)
    except DiffcourtError as error:
        found.problems.append(str(error))


def make_tuning_part(repos: Sequence[Path]) -> SitePart:
    """What some repositories' rubrics are worth, read on each request; nothing is written."""

    def show(visit: Visit) -> Response:
        found = [*map(read_tuning, repos)]
        return visit.render("tuning.html", title="Tuning", found=found, file=LABELS)

    return SitePart([SitePage("/tuning", show)], title="Tuning", path="/tuning")
