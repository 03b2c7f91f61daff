"""Alerts about the runs of the last days, by the thresholds of ``config/alerts.yaml``."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import anyio

from orchestrator.app.policy_sources import read_base_layers
from orchestrator.app.runs import state_directory
from orchestrator.app.statistics.all_runs import percentiles
from orchestrator.app.statistics.run_totals import AlertFigures, RunTotals
from orchestrator.catalog.data_file_layers import Layer, read_merged, read_shipped_layer
from orchestrator.catalog.settings import ALERTS_FILE, AlertThresholds
from orchestrator.code_review.change.change_construction import find_default_branch
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.git.objects import Objects
from orchestrator.engine.field_types import Strict
from orchestrator.wording import count_noun

DAY = 24 * 3600.0
MIN_BLOCKS = 3
"""Fewer guard blocks are no change, however few there were before."""

ASKED, COMPLETE = "reviews asked a person", "reviews were complete"
LOOPED = "tasks were cut as loops"

AlertState = Literal["firing", "ok", "unknown"]


class Alert(Strict, frozen=True):
    """An alert and whether it fires.

    Attributes:
        name: its threshold's key, without ``_above`` or ``_below``.
        state: ``unknown`` where there are too few runs.
        threshold: in the unit of ``value``.
    """

    name: str
    state: AlertState
    message: str
    value: float | None = None
    threshold: float | None = None


def load_thresholds(repo: Path | None) -> AlertThresholds:
    """The shipped thresholds, with those of ``.diffcourt/`` in the default branch on top."""
    layers: Sequence[Layer] = [read_shipped_layer()]
    if state_directory.inside_repository(repo or Path()):
        layers = anyio.run(_layers_of_default_branch, repo or Path())
    return read_merged(layers, ALERTS_FILE, AlertThresholds)


async def _layers_of_default_branch(repo: Path) -> Sequence[Layer]:
    async with Objects(await Git.open(repo)) as objects:
        found = await find_default_branch(objects.git)
        return await read_base_layers(objects, found[1] if found else None)


def check_alerts(totals: RunTotals, thresholds: AlertThresholds) -> list[Alert]:
    """Every alert that is switched on.

    Args:
        totals: of at least the runs of the window and of the baseline.
    """
    begin = totals.until - thresholds.window_days * DAY
    window, seconds = totals.figures(begin, totals.until)
    baseline, _ = totals.figures(begin - thresholds.baseline_days * DAY, begin)
    when = f"in the last {_days(thresholds.window_days)}"
    then = f"in the {_days(thresholds.baseline_days)} before"
    unknown = _too_few(window, thresholds, when)
    p95 = percentiles(seconds).p95
    rates = [*_shares(window, thresholds, when), *_latency(p95, thresholds, when)]
    changes = _changes(window, baseline, thresholds, then)
    unknown_change = unknown or _too_few(baseline, thresholds, then)
    return [
        *(_unknown(alert.name, unknown) if unknown else alert for alert in rates),
        *(_unknown(alert.name, unknown_change) if unknown_change else alert for alert in changes),
    ]


def _days(days: float) -> str:
    return "day" if days == 1 else f"{days:g} days"


def _too_few(figures: AlertFigures, thresholds: AlertThresholds, when: str) -> str:
    if figures.reviews >= thresholds.min_reviews:
        return ""
    known = count_noun(figures.reviews, "review")
    return f"{known} {when}, and {thresholds.min_reviews} are needed to know"


def _unknown(name: str, why: str) -> Alert:
    return Alert(name, "unknown", f"{name}: {why}")


def _judged(name: str, text: str, value: float, threshold: float, *, firing: bool) -> Alert:
    return Alert(name, "firing" if firing else "ok", f"{name}: {text}", value, threshold)


def _shares(window: AlertFigures, thresholds: AlertThresholds, when: str) -> Iterator[Alert]:
    shares = (
        ("completion", window.complete, window.ended, thresholds.completion_below, COMPLETE),
        ("tool_errors", window.tool_errors, window.tools_performed,
         thresholds.tool_errors_above, "tool calls failed"),
        ("loops", window.loops_cut, window.tasks, thresholds.loops_above, LOOPED),
        ("person_asked", window.person_asked, window.reviews,
         thresholds.person_asked_above, ASKED),
    )  # fmt: skip
    for name, part, whole, threshold, what in shares:
        if threshold is None:
            continue
        if not whole:
            yield _unknown(name, f"nothing {when} that could be counted")
            continue
        below, value = name == "completion", part / whole
        firing = value < threshold if below else value > threshold
        limit = f"{'at least' if below else 'at most'} {threshold:.1%} allowed"
        text = f"{value:.1%} of {what} {when}, {limit}"
        yield _judged(name, text, value, threshold, firing=firing)


def _latency(p95: float | None, thresholds: AlertThresholds, when: str) -> Iterator[Alert]:
    name, limit = "review_p95", thresholds.review_p95_above
    if limit is not None and p95 is None:
        yield _unknown(name, f"no review finished {when}")
    elif limit is not None and p95 is not None:
        text = f"{p95:.0f} s {when}, at most {limit:g} s allowed"
        yield _judged(name, text, p95, limit, firing=p95 > limit)


def _changes(
    window: AlertFigures, baseline: AlertFigures, thresholds: AlertThresholds, then: str
) -> Iterator[Alert]:
    """The alerts that compare the window with the days before."""
    means = (
        ("steps_per_task", "steps", "tasks", thresholds.steps_per_task_above, "{:.1f}"),
        ("tokens_per_task", "tokens", "tasks_ok", thresholds.tokens_per_task_above, "{:,.0f}"),
        ("cost_per_task", "usd", "tasks", thresholds.cost_per_task_above, "${:.4f}"),
    )
    for name, part, whole, times, form in means:
        if times is None:
            continue
        sums = ((getattr(f, part), getattr(f, whole)) for f in (window, baseline))
        now, mean = (of / among if among else 0.0 for of, among in sums)
        if now and not mean:
            yield _unknown(name, f"{form.format(now)}, and there was nothing {then}")
        else:
            most = f"at most {times:g} times the {form.format(mean)} {then} allowed"
            text = f"{form.format(now)}, {most}"
            yield _judged(name, text, now, times * mean, firing=now > times * mean)
    if (times := thresholds.guard_blocks_above) is not None:
        count, known = window.guard_blocks, baseline.guard_blocks
        now, mean = count / max(window.reviews, 1), known / max(baseline.reviews, 1)
        text = f"{now:.2f} a review, less than {times:g} times the {mean:.2f} {then} allowed"
        grown = count * baseline.reviews >= times * known * window.reviews  # exact at the threshold
        firing = grown and count >= MIN_BLOCKS
        yield _judged("guard_blocks", text, now, times * mean, firing=firing)
