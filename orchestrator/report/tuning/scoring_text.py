"""Scorings, comparisons of rubrics or judges, and rewrites: words and rows for their reports."""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from orchestrator.data_directories import read_table
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

SENTENCES: Mapping[str, str] = read_table(__file__, "sentences.yaml")


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
    low, change, high = map(
        format_change, (paired.change.low, paired.change.value, paired.change.high)
    )
    told = {"before": before, "after": after, "change": change, "low": low, "high": high}
    return SENTENCES["change"].format(**told)


def describe_power(found: RubricComparison) -> str:
    """What these labels can prove, and how many it takes, in sentences."""
    if found.groups < 3:
        return SENTENCES["few_groups"]
    text = SENTENCES["power"].format(format_statistic(found.smallest_detectable))
    if (needed := found.labels_needed) is not None:
        text += SENTENCES["labels_needed"].format(needed, format_statistic(found.margin))
    change, needed = found.comparison.change.value, found.labels_for_change
    if needed is not None and abs(change) >= 0.01:
        text += SENTENCES["labels_for_change"].format(format_change(change), needed)
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
    between = format_interval(found.between)
    return SENTENCES["jury"].format(between, len(found.judges), worth)


def describe_cascade(one: Cascade) -> str:
    """What a cascade asks, costs and gives."""
    proof = "proven no worse" if one.comparison.change.low > -MARGIN else "not proven no worse"
    after, change = format_interval(one.comparison.after), one.comparison.change.format()
    told = {"price": _price(one.usd), "after": after, "change": change, "proof": proof}
    within = math.ceil(one.within * 1000) / 1000
    return SENTENCES["cascade"].format(one=one, margin=MARGIN, within=within, **told)


def conclude_jury(found: Jury) -> str:
    """Whether a cascade pays, in a sentence."""
    best = max((one for one in found.cascades if one.proven), key=lambda x: x.saved, default=None)
    if best is not None:
        return SENTENCES["pays"].format(one=best)
    return SENTENCES["none_pays" if found.cascades else "none_tried"]
