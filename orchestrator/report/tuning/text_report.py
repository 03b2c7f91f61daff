"""Tuning results, evaluations and judge reliability as plain text, the conclusion first."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestrator.report.terminal_escaping import escape_unprintable
from orchestrator.report.text_layout import TextLayout, pad
from orchestrator.tuning.agreement_regression_gate import GateResult
from orchestrator.tuning.criterion_analysis import CriterionAnalysis
from orchestrator.tuning.evaluation import Evaluation
from orchestrator.tuning.fitting.cross_validation import extrapolate_learning_curve
from orchestrator.tuning.judge_reliability import (
    STRONG_LENGTH_BIAS,
    PerturbationEffect,
    RepeatedScoring,
    find_instability,
)
from orchestrator.tuning.labels.label_assessment import InterRaterAgreement, LabelAssessment
from orchestrator.tuning.ordinal_agreement import OrdinalAgreement, OrdinalComparison
from orchestrator.tuning.rubric_decisions import Flip, Objective
from orchestrator.tuning.simple_rules import SimpleRule, describe_simple_rules
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    PairedComparison,
    format_change,
    format_interval,
    format_statistic,
)
from orchestrator.tuning.tune import TuningResult
from orchestrator.wording import count_noun

MAX_FLIPS, MAX_GATE_FLIPS = 20, 5


def render_tuning(page: TextLayout, result: TuningResult) -> list[str]:
    """The result of a tuning."""
    head = "GAIN PROVEN" if result.proven else "NO NEW RUBRIC"
    lines = [page.paint(head, "green" if result.proven else "yellow")]
    for reason in result.reasons:
        lines += page.wrap(f"{escape_unprintable(reason)}.", first="  ")
    for note in result.notes:
        lines += page.wrap(escape_unprintable(note), first="  - ")
    lines += ["", *_render_labels(page, result.assessment)]
    if result.comparison is not None:
        lines += ["", *_render_comparison(page, result, result.comparison)]
        lines += ["", *_render_checks(page, result)]
        lines += ["", *_render_criteria(page, result.criteria)]
        lines += ["", *_render_learning_curve(page, result)]
        lines += ["", *_render_flips(page, result)]
    return lines


def render_evaluation(page: TextLayout, found: Evaluation) -> list[str]:
    """The agreement of a rubric with people."""
    lines = [page.heading(f"{escape_unprintable(found.name)} version {found.version}")]
    counts = ((found.items, "item"), (found.labels, "label"), (found.groups, "group"))
    lines += page.inline_list([count_noun(n, noun) for n, noun in counts], first="  ")
    for line in found.stale_inputs:
        lines += page.wrap(f"stale: {line}", first="  ")
    lines += page.wrap(found.in_sample, first="  ") if found.in_sample else []
    if found.is_tuned and not found.in_sample:
        lines += page.wrap(
            "the rubric was tuned on none of these groups: this is a test set", first="  "
        )
    people = found.inter_rater
    lines += ["", page.heading("Agreement                     rubric vs. people    inter-rater")]
    for name, *both in list_agreement(found):
        own, theirs = map(format_interval, both)
        lines.append(f"  {name:<28}{own:<21}{theirs}")
    lines += _render_inter_rater(page, people)
    (rr, ra), (ar, aa) = found.confusion
    lines += ["", page.heading("Confusion matrix    rubric rejects    rubric accepts")]
    lines += [f"  people reject     {rr:>14.4g}    {ra:>14.4g}"]
    lines += [f"  people accept     {ar:>14.4g}    {aa:>14.4g}"]
    if found.ordinal is not None:
        lines += ["", page.heading(f"{ORDINAL_HEAD:<36}rubric vs. people")]
        for name, value in list_ordinal(found.ordinal):
            lines.append(f"  {name:<34}{format_interval(value)}")
        lines += page.wrap(describe_cut_points(found.ordinal), first="  ")
    if found.simple_rules:
        lines += ["", *_render_simple_rules(page, found.simple_rules)]
        for text in describe_simple_rules(found.simple_rules, Objective()):
            lines += page.wrap(escape_unprintable(text), first="  - ")
    source = "calibrated probabilities" if found.calibrated else "uncalibrated: the total itself"
    error = format_statistic(found.calibration_error, 3)
    lines += ["", f"Expected calibration error {error} ({source})"]
    lines += ["", *_render_criteria(page, found.criteria)]
    for text in describe_judge_noise(found):
        lines += ["", *page.wrap(text)]
    return lines


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


def _render_labels(page: TextLayout, assessment: LabelAssessment) -> list[str]:
    lines = [page.heading("Labels")]
    lines += page.inline_list(count_labels(assessment), first="  ")
    lines += _render_inter_rater(page, assessment.inter_rater)
    for note in assessment.notes:
        lines += page.wrap(escape_unprintable(note), first="  - ")
    return lines


def _render_inter_rater(page: TextLayout, people: InterRaterAgreement) -> list[str]:
    if people.shared_items == 0:
        return []
    rows = ", ".join(f"{name} {format_interval(value)}" for name, value in list_people(people))
    return page.wrap(
        f"inter-rater agreement on {count_noun(people.shared_items, 'item')}: {rows}", first="  "
    )


def list_people(people: InterRaterAgreement) -> list[tuple[str, Interval | None]]:
    """Statistics of people's agreement among themselves."""
    return [
        ("kappa", people.kappa),
        ("alpha", people.alpha),
        ("AC1", people.ac1),
        ("ordinal alpha", people.ordinal_alpha),
    ]


def _render_comparison(
    page: TextLayout, result: TuningResult, comparison: PairedComparison
) -> list[str]:
    fitted = "weights and threshold" if result.plan.fit_weights else "threshold only"
    lines = [page.heading(f"Held-out agreement, cross-validated by group ({fitted})")]
    for name, c, sign in list_comparisons(result, comparison):
        for row, value in (("before", c.before), ("after", c.after), ("change", c.change)):
            lines.append(f"  {name + ' ' + row:<26}{apply_sign(value, sign).format()}")
    lines.append(f"  threshold {describe_fit(result)}")
    lines.append(f"  expected calibration error {format_statistic(result.calibration_error, 3)}")
    if result.ordinal is not None:
        lines += ["", *_render_ordinal(page, result.ordinal)]
    return [*lines, "", *_render_simple_rules(page, result.simple_rules, sign_of(result))]


ORDINAL_HEAD = "Whole scale, held out"


def list_ordinal(found: OrdinalAgreement) -> list[tuple[str, Interval | None]]:
    """Statistics of the whole scale."""
    return [
        ("weighted kappa (quadratic)", found.weighted_kappa),
        ("rank correlation", found.rank_correlation),
        ("mean error in steps", found.mean_error),
        ("two or more steps off", found.two_off),
    ]


def list_ordinal_sides(sides: Iterable[OrdinalAgreement]) -> list[Sequence[Any]]:
    """Rows of ``list_ordinal`` with the values of several rubrics."""
    rows = zip(*map(list_ordinal, sides), strict=True)
    return [(row[0][0], *(value for _, value in row)) for row in rows]


def describe_cut_points(found: OrdinalAgreement) -> str:
    """From which total each level is given."""
    pairs = zip(found.values[1:], found.cut_points, strict=True)
    return "cut points: " + ", ".join(f"{v} from {format_statistic(x)}" for v, x in pairs)


def _render_ordinal(page: TextLayout, found: OrdinalComparison) -> list[str]:
    lines = [page.heading(f"{ORDINAL_HEAD:<36}{'Before':<19}After")]
    for name, old, new in list_ordinal_sides((found.before, found.after)):
        lines.append(f"  {name:<34}{format_interval(old):<19}{format_interval(new)}")
    lines.append(f"  {'change of weighted kappa':<34}{found.change.format()}")
    return lines + page.wrap(f"after, {describe_cut_points(found.after)}", first="  ")


SIMPLE_HEAD = ("Simple rules, held out", "Alone", "Rubric minus rule")


def list_simple_rules(rules: Sequence[SimpleRule], sign: float = 1.0) -> list[list[str]]:
    """Rows below ``SIMPLE_HEAD``; ``sign`` as in :func:`apply_sign`."""
    return [
        [rule.name, *(apply_sign(x, sign).format() for x in (rule.value, rule.difference))]
        for rule in rules
    ]


def _render_simple_rules(
    page: TextLayout, rules: Sequence[SimpleRule], sign: float = 1.0
) -> list[str]:
    name, alone, difference = SIMPLE_HEAD
    lines = [page.heading(f"{name:<40}{alone:<19}{difference}")]
    for rule, *values in list_simple_rules(rules, sign):
        shown = pad(escape_unprintable(rule), 37)
        lines.append(f"  {shown} {values[0]:<18} {values[1]}")
    return lines


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
            what = (
                f"{format_change(change.value)} "
                f"[{format_change(change.low)}, {format_change(change.high)}]"
            )
        rows.append((escape_unprintable(check.name), what, _OUTCOMES[check.outcome]))
    return rows


def _render_checks(page: TextLayout, result: TuningResult) -> list[str]:
    lines = [page.heading(CHECKS_HEADING)]
    for name, what, outcome in list_checks(result):
        lines += page.wrap(f"{name}: {what}, {outcome}", first="  ", rest="      ")
    for rater in result.raters:
        text = (
            f"labels of {escape_unprintable(rater.name)!r}: AUC {format_interval(rater.auc)}, "
            f"kappa with the other raters {format_interval(rater.kappa)}"
        )
        lines += page.wrap(text, first="  ", rest="      ")
    return lines


def _render_criteria(page: TextLayout, criteria: Sequence[CriterionAnalysis]) -> list[str]:
    head = f"{'Criteria':<20} {'AUC':<17} {'weight':<7}{'fitted':<18}AUC drop"
    lines = [page.heading(head)]
    for c in criteria:
        drop = "n/a" if c.auc_drop is None else f"{c.auc_drop:+.3f}"
        fitted = "" if c.share_after is None else c.share_after.format()
        name, share = pad(escape_unprintable(c.name), 18), format_statistic(c.share_before)
        lines.append(f"  {name} {format_interval(c.auc):<17} {share:<6} {fitted:<17} {drop}")
        for note in c.notes:
            lines += page.wrap(escape_unprintable(note), first="      ")
    return lines


def _render_learning_curve(page: TextLayout, result: TuningResult) -> list[str]:
    lines = [
        f"  {p.labels:>6} labels  {format_statistic(sign_of(result) * p.value)}"
        for p in result.learning_curve
    ]
    heading = page.heading("Learning curve (held out)")
    return [heading, *lines, *page.wrap(describe_more_labels(result), first="  ")]


def describe_more_labels(result: TuningResult) -> str:
    """What more labels are expected to bring, in one or two sentences."""
    now = result.assessment.items
    curve = list(result.learning_curve)
    here, twice = (extrapolate_learning_curve(curve, n) for n in (now, 2 * now))
    if here is None or twice is None:
        text = "The curve does not rise; more labels would mainly narrow the intervals."
    else:
        text = f"Expected with twice the labels ({2 * now:,}): {format_change(twice - here)}."
    if result.labels_needed is not None:
        text += (
            f" If the gain is as estimated, about {result.labels_needed:,} labels would prove it "
            "with a probability of 80%."
        )
    return text


def describe_flip_sides(flip: Flip) -> tuple[str, str]:
    """A changed decision and its totals, each before → after."""
    decision = "accept → reject" if flip.accepted_before else "reject → accept"
    return decision, f"{format_statistic(flip.before)} → {format_statistic(flip.after)}"


def describe_flip(flip: Flip) -> str:
    """A changed decision in one line."""
    decision, totals = describe_flip_sides(flip)
    label = f", label: {flip.label}" if flip.label else ""
    link = f"  {escape_unprintable(flip.url)}" if flip.url else ""
    return f"{escape_unprintable(flip.id)}  {decision} ({totals}{label}){link}"


def describe_flip_count(result: TuningResult) -> str:
    """How many decisions change, or would change."""
    verb = "change" if result.proven else "would change"
    return f"{len(result.flips):,} of {count_noun(result.items, 'decision')} {verb}"


def _render_flips(page: TextLayout, result: TuningResult) -> list[str]:
    flips = [describe_flip(flip) for flip in result.flips]
    return _list_lines(page, describe_flip_count(result), flips, MAX_FLIPS, "--json or --report")


def _list_lines(
    page: TextLayout, heading: str, texts: list[str], most: int, where: str
) -> list[str]:
    lines = [page.heading(heading)]
    for text in texts[:most]:
        lines += page.wrap(text, first="  ", rest="      ")
    if len(texts) > most:
        lines.append(f"  and {len(texts) - most:,} more (all of them with {where})")
    return lines


def describe_detectable_drop(drop: float | None) -> str:
    """The power of a gate, in words."""
    if drop is None:
        return "these labels are too few to find any drop in kappa with a probability of 80%"
    least = "less than .01" if drop < 0.01 else format_statistic(drop)
    return f"a drop in kappa of {least} is found with a probability of 80%"


def render_gate(page: TextLayout, found: GateResult) -> list[str]:
    """The outcome of a regression gate."""
    head = {"passed": "gate passed", "failed": "gate failed", "unknown": "gate cannot tell"}
    paint = {"passed": "green", "failed": "red", "unknown": "yellow"}
    change = found.comparison.change
    lines = page.wrap(f"{head[found.outcome]}: {_gate_why(found)}")
    lines[0] = page.paint(lines[0], paint[found.outcome])
    text = (
        f"kappa {format_statistic(found.comparison.before.value)} at baseline, "
        f"{format_statistic(found.comparison.after.value)} now, change "
        f"{format_change(change.value)} [{format_change(change.low)}, {format_change(change.high)}]"
    )
    lines += page.wrap(text, first="  ")
    lines += page.wrap(describe_detectable_drop(found.detectable_drop), first="  ")
    lines += page.wrap(found.in_sample, first="  ") if found.in_sample else []
    if found.not_compared:
        text = f"labels that differ from the baseline's are not compared: {found.not_compared}"
        lines += page.wrap(text, first="  ")
    count = f"{len(found.changed):,} of {count_noun(found.items, 'decision')} changed"
    changed = [_describe_changed(flip) for flip in found.changed]
    return lines + _list_lines(page, count, changed, MAX_GATE_FLIPS, "--json")


def _describe_changed(flip: Flip) -> str:
    """A decision that differs from the baseline's, which holds no totals."""
    decision, _ = describe_flip_sides(flip)
    total = f"total {format_statistic(flip.after)}, label: {flip.label}"
    return f"{escape_unprintable(flip.id)}  {decision} ({total})"


def _gate_why(found: GateResult) -> str:
    margin = None if found.margin is None else f"{found.margin:g}"
    if found.outcome == "failed":
        return "agreement with people dropped"
    if found.outcome == "passed":
        if not found.changed and margin is None:
            return "no decision changed"
        return "no significant drop" if margin is None else f"any drop is smaller than {margin}"
    needed = "" if found.labels_needed is None else f" label about {found.labels_needed:,} items"
    if margin is None:
        return "an interval requires labeled items of at least 3 groups"
    return f"the drop may be {margin} or more;{needed or ' label more items'}"


def describe_judge_noise(found: Evaluation) -> list[str]:
    """What repeated scoring and the length of texts change, a sentence each."""
    lines = []
    if found.repeated_scoring is not None:
        lines.append(_describe_repeats(found.repeated_scoring, "item"))
    if found.length_correlation is not None:
        strong = abs(found.length_correlation) >= STRONG_LENGTH_BIAS
        lines.append(
            f"Length bias: {'strong' if strong else 'weak'} (rank correlation of total and text "
            f"length within a label {found.length_correlation:+.2f})"
        )
    return lines


def _describe_repeats(repeats: RepeatedScoring, noun: str) -> str:
    return (
        f"Repeated scoring of {count_noun(repeats.items, noun)}: {repeats.flip_rate:.1%} of pairs "
        f"decide differently; standard deviation of the total {repeats.total_sd:.3f}"
    )


def render_repeated_scoring(
    page: TextLayout, repeats: RepeatedScoring | None, noun: str = "item"
) -> list[str]:
    """How much repeated scorings differ, then each criterion, the least consistent first."""
    if repeats is None:
        return []
    return page.wrap(_describe_repeats(repeats, noun)) + [
        f"  {rate:>6.1%} identical  {escape_unprintable(name)}"
        for name, rate in sorted(repeats.criteria_agreement.items(), key=lambda x: x[1])
    ]


def render_judge_reliability(
    page: TextLayout, repeats: RepeatedScoring | None, effects: Mapping[str, PerturbationEffect]
) -> list[str]:
    """How a judge responds to repetition and perturbation."""
    lines = ["", *render_repeated_scoring(page, repeats, "run")]
    for found in effects.values():
        text = (
            f"Evidence {found.name}, {count_noun(found.items, 'run')}: {found.flip_rate:.1%} of "
            f"decisions flip, {found.score_change_rate:.1%} of scores change"
        )
        lines += page.wrap(text)
        lines += [
            f"  {rate:>6.1%} changed  {escape_unprintable(name)}"
            for name, rate in found.criteria.items()
            if rate
        ]
    reasons = find_instability(repeats, effects)
    for reason in reasons:
        lines += page.wrap(f"Not stable: {reason}", rest="  ")
    if not reasons:
        lines += page.wrap(
            "Stable on these runs: repetition, evidence order and length change nothing", rest="  "
        )
    return lines
