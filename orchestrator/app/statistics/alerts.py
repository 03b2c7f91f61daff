"""Alerts about the runs of the last days, by the thresholds of ``config/alerts.yaml``."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import anyio
from msgspec import Meta

from orchestrator.app.policy_sources import read_base_layers
from orchestrator.app.runs import state_directory
from orchestrator.app.statistics.all_runs import Collected, figures_of
from orchestrator.app.statistics.document import Figures
from orchestrator.app.statistics.run_facts import RunFacts
from orchestrator.catalog.alert_thresholds import AlertThresholds, read_alert_thresholds
from orchestrator.catalog.data_file_layers import Layer, read_shipped_layer
from orchestrator.code_review.change.change_construction import find_default_branch
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.git.objects import Objects
from orchestrator.engine.field_types import Strict

DAY = 24 * 3600.0
MIN_BLOCKS = 3
"""Fewer guard blocks are no change, however few there were before."""

ASKED = "reviews asked a person"

AlertState = Literal["firing", "ok", "unknown"]


class Alert(Strict, frozen=True):
    """An alert and whether it fires."""

    name: Annotated[str, Meta(description="its threshold's key, without _above or _below")]
    state: Annotated[AlertState, Meta(description="unknown: there are too few runs")]
    message: str
    value: float | None = None
    threshold: Annotated[float | None, Meta(description="in the unit of value")] = None


def load_thresholds(repo: Path | None) -> AlertThresholds:
    """The shipped thresholds, with those of ``.diffcourt/`` in the default branch on top.

    Raises:
        ConfigError: a file has an error.
    """
    if not state_directory.inside_repository(repo or Path()):
        return read_alert_thresholds([read_shipped_layer()])
    return read_alert_thresholds(anyio.run(_layers_of_default_branch, repo or Path()))


async def _layers_of_default_branch(repo: Path) -> Sequence[Layer]:
    async with Objects(await Git.open(repo)) as objects:
        found = await find_default_branch(objects.git)
        return await read_base_layers(objects, found[1] if found else None)


def check_alerts(collected: Collected, thresholds: AlertThresholds) -> list[Alert]:
    """Every alert that is switched on.

    Args:
        collected: at least the runs of the window and of the baseline.
    """
    begin = collected.until - thresholds.window_days * DAY
    before = begin - thresholds.baseline_days * DAY
    window = figures_of(_between(collected.runs, begin, collected.until))
    baseline = figures_of(_between(collected.runs, before, begin))
    when = f"in the last {_days(thresholds.window_days)}"
    then = f"in the {_days(thresholds.baseline_days)} before"
    unknown = _too_few(window, thresholds, when)
    rates = [*_shares(window, thresholds, when), *_latency(window, thresholds, when)]
    changes = _changes(window, baseline, thresholds, then)
    unknown_change = unknown or _too_few(baseline, thresholds, then)
    return [
        *(_unknown(alert.name, unknown) if unknown else alert for alert in rates),
        *(_unknown(alert.name, unknown_change) if unknown_change else alert for alert in changes),
    ]


def _between(runs: Sequence[RunFacts], begin: float, end: float) -> list[RunFacts]:
    return [run for run in runs if begin <= run.started < end]


def _days(days: float) -> str:
    return "day" if days == 1 else f"{days:g} days"


def _too_few(figures: Figures, thresholds: AlertThresholds, when: str) -> str:
    if figures.reviews >= thresholds.min_reviews:
        return ""
    noun = "review" if figures.reviews == 1 else "reviews"
    return f"{figures.reviews} {noun} {when}, and {thresholds.min_reviews} are needed to know"


def _unknown(name: str, why: str) -> Alert:
    return Alert(name, "unknown", f"{name}: {why}")


def _judged(name: str, text: str, value: float, threshold: float, *, firing: bool) -> Alert:
    return Alert(name, "firing" if firing else "ok", f"{name}: {text}", value, threshold)


def _shares(window: Figures, thresholds: AlertThresholds, when: str) -> Iterator[Alert]:
    shares = (
        ("completion", window.completion, thresholds.completion_below, "reviews were complete"),
        ("tool_errors", window.tool_error_rate, thresholds.tool_errors_above, "tool calls failed"),
        ("loops", window.loop_share, thresholds.loops_above, "tasks were cut as loops"),
        ("person_asked", window.person_share, thresholds.person_asked_above, ASKED),
    )  # fmt: skip
    for name, value, threshold, what in shares:
        if threshold is None:
            continue
        if value is None:
            yield _unknown(name, f"nothing {when} that could be counted")
            continue
        below = name == "completion"
        firing = value < threshold if below else value > threshold
        limit = f"{'at least' if below else 'at most'} {threshold:.1%} allowed"
        text = f"{value:.1%} of {what} {when}, {limit}"
        yield _judged(name, text, value, threshold, firing=firing)


def _latency(window: Figures, thresholds: AlertThresholds, when: str) -> Iterator[Alert]:
    name, limit, p95 = "review_p95", thresholds.review_p95_above, window.review_seconds.p95
    if limit is not None and p95 is None:
        yield _unknown(name, f"no review finished {when}")
    elif limit is not None and p95 is not None:
        text = f"{p95:.0f} s {when}, at most {limit:g} s allowed"
        yield _judged(name, text, p95, limit, firing=p95 > limit)


def _changes(
    window: Figures, baseline: Figures, thresholds: AlertThresholds, then: str
) -> Iterator[Alert]:
    """The alerts that compare the window with the days before."""
    means = (
        ("steps_per_task", thresholds.steps_per_task_above, "{:.1f}"),
        ("tokens_per_task", thresholds.tokens_per_task_above, "{:,.0f}"),
        ("cost_per_task", thresholds.cost_per_task_above, "${:.4f}"),
    )
    for name, times, form in means:
        if times is None:
            continue
        figure = "usd_per_task" if name == "cost_per_task" else name
        now, mean = (getattr(figures, figure) or 0.0 for figures in (window, baseline))
        if now and not mean:
            yield _unknown(name, f"{form.format(now)}, and there was nothing {then}")
        else:
            most = f"at most {times:g} times the {form.format(mean)} {then} allowed"
            text = f"{form.format(now)}, {most}"
            yield _judged(name, text, now, times * mean, firing=now > times * mean)
    if (times := thresholds.guard_blocks_above) is not None:
        count, known = sum(window.guard_blocks.values()), sum(baseline.guard_blocks.values())
        now, mean = count / max(window.reviews, 1), known / max(baseline.reviews, 1)
        text = f"{now:.2f} a review, less than {times:g} times the {mean:.2f} {then} allowed"
        grown = count * baseline.reviews >= times * known * window.reviews  # exact at the threshold
        firing = grown and count >= MIN_BLOCKS
        yield _judged("guard_blocks", text, now, times * mean, firing=firing)
