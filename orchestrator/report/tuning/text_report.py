"""The plain-text reports of tuning, from ``tuning.txt``; words and rows that its pages share."""

import math
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from orchestrator.data_directories import read_table
from orchestrator.report.page_templates import new_text_environment, render_lines
from orchestrator.report.terminal_escaping import escape_unprintable
from orchestrator.report.text_layout import TextLayout
from orchestrator.report.tuning import label_reports, scoring_text
from orchestrator.report.tuning.scoring_text import SENTENCES
from orchestrator.tuning.evaluation import Evaluation
from orchestrator.tuning.fitting.cross_validation import extrapolate_learning_curve
from orchestrator.tuning.judge_reliability import (
    STRONG_LENGTH_BIAS,
    RepeatedScoring,
    find_instability,
)
from orchestrator.tuning.labels.label_assessment import LabelAssessment
from orchestrator.tuning.ordinal_agreement import OrdinalAgreement
from orchestrator.tuning.rubric_decisions import Flip, Objective
from orchestrator.tuning.simple_rules import SimpleRule, describe_simple_rules
from orchestrator.tuning.statistics import confidence_intervals
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    PairedComparison,
    format_change,
    format_interval,
    format_statistic,
)
from orchestrator.tuning.tune import TuningResult, describe_beyond_weights
from orchestrator.wording import count_noun


@cache
def _macros() -> Any:
    known = {"text": sys.modules[__name__], "labels": label_reports, "scoring": scoring_text}
    more = {
        "stats": confidence_intervals,
        "interval": format_interval,
        "find_instability": find_instability,
        "describe_beyond": describe_beyond_weights,
        "advise": lambda rules: describe_simple_rules(rules, Objective()),
    }
    made = new_text_environment("orchestrator.report", **known, **more)
    return made.get_template("tuning.txt").module


def render_report(page: TextLayout, macro: str, *values: Any) -> list[str]:
    """A macro of ``tuning.txt`` with its values, as the lines of a page."""
    return render_lines(page, _macros(), macro, *values)


def list_agreement(found: Evaluation) -> list[tuple[str, Interval | None, Interval | None]]:
    """(statistic, of rubric and people, of people among themselves)."""
    people, ordinal = found.inter_rater, found.ordinal
    weighted = ordinal.weighted_kappa if ordinal and not found.weighted_kappa else None
    return [
        ("Cohen's kappa", found.kappa, people.kappa),
        ("Krippendorff's alpha", found.alpha, people.alpha),
        ("Gwet's AC1", found.ac1, people.ac1),
        ("weighted kappa", weighted or found.weighted_kappa, people.weighted_kappa),
        ("AUC", found.auc, None),
    ]


def count_labels(assessment: LabelAssessment) -> tuple[str, ...]:
    """Numbers of items, labels, groups, raters and accepted items, in words."""
    counts = {
        "item": assessment.items,
        "label": assessment.labels,
        "group": assessment.groups,
        "rater": assessment.raters,
    }
    words = (count_noun(count, noun) for noun, count in counts.items())
    return *words, f"{assessment.accepted:g} accepted"


_ROWS: Mapping[str, Mapping[str, str]] = read_table(__file__, "rows.yaml")


def list_rows(table: str, *found: Any) -> list[tuple[Any, ...]]:
    """The rows of a table in ``rows.yaml``: what it is, and its value in each of some results."""
    return [(name, *(getattr(one, of) for one in found)) for name, of in _ROWS[table].items()]


ORDINAL_HEAD = "Whole scale, held out"


def describe_cut_points(found: OrdinalAgreement) -> str:
    """From which total each level is given."""
    pairs = zip(found.values[1:], found.cut_points, strict=True)
    return "cut points: " + ", ".join(f"{v} from {format_statistic(x)}" for v, x in pairs)


SIMPLE_HEAD = ("Simple rules, held out", "Alone", "Rubric minus rule")


def list_simple_rules(rules: Sequence[SimpleRule], sign: float = 1.0) -> list[list[str]]:
    """Rows below ``SIMPLE_HEAD``; ``sign`` as in :func:`apply_sign`."""
    return [
        [rule.name, *(apply_sign(x, sign).format() for x in (rule.value, rule.difference))]
        for rule in rules
    ]


def describe_fit(result: TuningResult) -> str:
    """The threshold before and after, the penalty and the seed."""
    penalty = "infinite" if math.isinf(result.penalty) else f"{result.penalty:g}"
    before, after = result.thresholds or (math.nan, math.nan)
    return f"{before:.4g} → {after:.4g}, penalty {penalty}, seed {result.seed}"


def list_comparisons(
    result: TuningResult, comparison: PairedComparison
) -> list[tuple[str, PairedComparison, float]]:
    """(name, comparison, sign for display) of the objective, and of kappa when that is cost."""
    if not result.plan.objective.uses_costs:
        return [("kappa", comparison, 1.0)]
    rows = [("cost per decision", comparison, -1.0)]
    if result.kappa_comparison is not None:
        rows.append(("kappa", result.kappa_comparison, 1.0))
    return rows


def sign_of(result: TuningResult) -> float:
    """-1 where the objective is minus the cost, else 1."""
    return -1.0 if result.plan.objective.uses_costs else 1.0


def apply_sign(value: Interval, sign: float) -> Interval:
    """A value of the objective for display: the objective is minus the cost."""
    if sign > 0:
        return value
    return Interval(-value.value, -value.high, -value.low)


CHECKS_HEADING = "Does the gain generalize?"
_OUTCOMES = {"holds": "holds", "open": "cannot tell", "fails": "worse", "not made": "not checked"}


def list_checks(result: TuningResult) -> list[tuple[str, str, str]]:
    """(part of the labels, change with its interval or why there is none, outcome)."""
    rows = []
    for check in result.checks:
        what = check.reason
        if check.comparison is not None:
            change = apply_sign(check.comparison.change, sign_of(result))
            what, *ends = map(format_change, (change.value, change.low, change.high))
            what += f" [{', '.join(ends)}]"
        rows.append((escape_unprintable(check.name), what, _OUTCOMES[check.outcome]))
    return rows


def describe_more_labels(result: TuningResult) -> str:
    """What more labels are expected to bring, in one or two sentences."""
    labeled = result.assessment.items
    curve = list(result.learning_curve)
    here, twice = (extrapolate_learning_curve(curve, n) for n in (labeled, 2 * labeled))
    if here is None or twice is None:
        text = SENTENCES["flat_curve"]
    else:
        text = SENTENCES["twice"].format(2 * labeled, format_change(twice - here))
    needed = result.labels_needed
    return text if needed is None else text + SENTENCES["labels_prove"].format(needed)


def describe_flip_sides(flip: Flip) -> tuple[str, str]:
    """A changed decision and its totals, each before → after."""
    decision = "accept → reject" if flip.accepted_before else "reject → accept"
    return decision, f"{format_statistic(flip.before)} → {format_statistic(flip.after)}"


def describe_flip_count(result: TuningResult) -> str:
    """How many decisions change, or would change."""
    verb = "change" if result.proven else "would change"
    return f"{len(result.flips):,} of {count_noun(result.items, 'decision')} {verb}"


def describe_detectable_drop(drop: float | None) -> str:
    """The power of a gate, in words."""
    if drop is None:
        return SENTENCES["no_power"]
    least = "less than .01" if drop < 0.01 else format_statistic(drop)
    return SENTENCES["power_of_gate"].format(least)


def describe_judge_noise(found: Evaluation) -> list[str]:
    """What repeated scoring and the length of texts change, a sentence each."""
    lines = []
    if found.repeated_scoring is not None:
        lines.append(describe_repeats(found.repeated_scoring, "item"))
    if found.length_correlation is not None:
        strong = abs(found.length_correlation) >= STRONG_LENGTH_BIAS
        how = "strong" if strong else "weak"
        lines.append(SENTENCES["length_bias"].format(how, found.length_correlation))
    return lines


def describe_repeats(repeats: RepeatedScoring, noun: str) -> str:
    """How much repeated scorings of the same things differ."""
    return SENTENCES["repeats"].format(count_noun(repeats.items, noun), repeats)
