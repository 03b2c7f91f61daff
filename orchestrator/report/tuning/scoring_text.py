"""Scorings, comparisons of rubrics or judges, and rewrites: words and rows for their reports."""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from orchestrator.engine.types import Rubric
from orchestrator.report.terminal_escaping import emit, emit_line, escape_unprintable
from orchestrator.report.text_layout import format_duration
from orchestrator.tuning.file_formats.rubric_file import to_yaml
from orchestrator.tuning.jury import Cascade, Jury
from orchestrator.tuning.rubric_comparison import MARGIN, ChangedDecision, RubricComparison
from orchestrator.tuning.statistics.confidence_intervals import (
    format_change,
    format_interval,
    format_statistic,
)

if TYPE_CHECKING:
    from orchestrator.app.rubric_scoring.item_judge_session import Progress


def describe_usd(usd: float | None) -> str:
    """A cost in dollars."""
    return "price unknown" if usd is None else f"{usd:.4f} USD"


class ScoringProgress:
    """Writes how far a scoring is: one line that changes on a terminal, some lines elsewhere.

    Args:
        lines: how many.
        name: what every line begins with.
    """

    def __init__(self, stream: TextIO | None, name: str = "", lines: int = 10) -> None:
        self._stream, self._name = stream, name
        self._began, self._part, self._lines = time.monotonic(), 0, lines
        self._waiting = ""
        self._live = stream is not None and stream.isatty()

    def __call__(self, progress: Progress) -> None:
        """Write one step."""
        if self._stream is None:
            return
        part = progress.done * self._lines // progress.total
        ended = progress.done == progress.total
        if self._live:
            self._stream.write("\r\x1b[2K")
            emit(self.describe(progress) + ("\n" if ended else ""), self._stream)
        elif (part > self._part and progress.asked) or progress.waiting != self._waiting:
            emit_line(self.describe(progress), self._stream)
        self._part, self._waiting = part, progress.waiting

    def describe(self, progress: Progress) -> str:
        """``120 of 1,994 scored, 2 failed, about 11m 03s left``."""
        parts = [f"{self._name}{progress.done:,} of {progress.total:,} done"]
        if progress.failed:
            parts.append(f"{progress.failed:,} failed")
        left = progress.total - progress.done
        if left and progress.waiting:
            parts.append(progress.waiting)
        elif left and progress.asked:
            seconds = (time.monotonic() - self._began) / progress.done * left
            parts.append(f"about {format_duration(seconds)} left")
        return ", ".join(parts)


def describe_change(found: RubricComparison) -> str:
    """The change of kappa with its interval, as a sentence."""
    paired = found.comparison
    before, after = (format_statistic(x.value) for x in (paired.before, paired.after))
    low, high = format_change(paired.change.low), format_change(paired.change.high)
    return (
        f"Agreement with people (kappa) is {before} with A and {after} with B: "
        f"{format_change(paired.change.value)} (95% CI {low} to {high})."
    )


def describe_power(found: RubricComparison) -> str:
    """What these labels can prove, and how many it takes, in sentences."""
    if found.groups < 3:
        return "An interval needs labeled items of at least 3 groups; 30 groups are a good start."
    text = (
        "With 80% power these labels prove a change of "
        f"{format_statistic(found.smallest_detectable)}."
    )
    if found.labels_needed is not None:
        text += (
            f" If A and B are equally good, about {found.labels_needed:,} labels show that B is no "
            f"worse by {format_statistic(found.margin)}."
        )
    if found.labels_for_change is not None and abs(found.comparison.change.value) >= 0.01:
        change = format_change(found.comparison.change.value)
        text += f" A true change of {change} takes about {found.labels_for_change:,}."
    return text


def sort_changed(changed: Sequence[ChangedDecision]) -> list[ChangedDecision]:
    """Changed decisions, those that became wrong first."""
    order = ("broken", "corrected", "disputed")
    return sorted(changed, key=lambda c: order.index(c.verdict))


def diff_rubrics(old: Rubric, new: Rubric) -> list[str]:
    """The difference of two rubrics' files as a unified diff, without provenance."""
    before, after = (
        to_yaml(Rubric(r.name, r.version, r.description, r.threshold, r.criteria, r.groups))
        for r in (old, new)
    )
    names = f"{old.name}.yaml", f"{new.name}.yaml"
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=2)
    return [escape_unprintable(line) for line in lines]


def list_judges(found: Jury) -> list[tuple[str, str, str, str]]:
    """Each judge and the majority: kappa with people, the majority's gain, cost per item."""
    rows = [
        (judge.name, format_interval(judge.kappa), judge.majority_gain.format(), _price(judge.usd))
        for judge in found.judges
    ]
    prices = [judge.usd for judge in found.judges if judge.usd is not None]
    usd = sum(prices) if len(prices) == len(found.judges) else None
    return [*rows, ("majority", format_interval(found.majority), "", _price(usd))]


def _price(usd: float | None) -> str:
    return "unknown" if usd is None else f"${usd:.3g}"


def describe_jury(found: Jury) -> str:
    """Agreement among judges, and how many independent ones they are worth."""
    worth = "n/a, since none errs" if found.independent is None else found.independent.format(1)
    return (
        f"judges among themselves: alpha {format_interval(found.between)}; "
        f"{len(found.judges)} judges are worth {worth} independent ones"
    )


def describe_cascade(one: Cascade) -> str:
    """What a cascade asks, costs and gives."""
    proof = "proven no worse" if one.comparison.change.low > -MARGIN else "not proven no worse"
    return (
        f"{one.cheap}, and {one.dear} where the total is within {one.within:.3g} of the threshold: "
        f"asks for {one.asked:.0%} of items, {_price(one.usd)} per item, saves {one.saved:.0%} of "
        f"{one.dear}; kappa {format_interval(one.comparison.after)}, minus that of {one.dear} "
        f"{one.comparison.change.format()}: {proof} by {MARGIN:g}; "
        f"rubric score --within {math.ceil(one.within * 1000) / 1000:g}"
    )


def conclude_jury(found: Jury) -> str:
    """Whether a cascade pays, in a sentence."""
    best = max((one for one in found.cascades if one.proven), key=lambda x: x.saved, default=None)
    if best is not None:
        return f"asking {best.dear} only where {best.cheap} is unsure saves {best.saved:.0%} of it"
    if found.cascades:
        return "no cascade is proven to save anything at equal agreement"
    return "no cascade was tried: it takes 30 labeled items of 10 groups, and costs that differ"
