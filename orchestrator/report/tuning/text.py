"""Tuning and evaluation as plain text: the answer first, then what it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from orchestrator.report.terminal_escaping import visible
from orchestrator.report.text_layout import Page, pad, plural
from orchestrator.tuning.confidence_intervals import Compared, Interval, change, number
from orchestrator.tuning.criterion_analysis import Criterion
from orchestrator.tuning.cross_validation import expected_at
from orchestrator.tuning.decision_flips import Flip
from orchestrator.tuning.evaluation import Evaluation
from orchestrator.tuning.feasibility import Advice, Human
from orchestrator.tuning.judge_noise import SWAYED, Repeats
from orchestrator.tuning.judge_robustness import Probed, unstable
from orchestrator.tuning.tune import Outcome

MOST_FLIPS = 20


def render_outcome(outcome: Outcome, width: int = 80, color: bool = False) -> str:
    """What a tuning found, ending in a newline."""
    page = Page(width, color)
    head = "GAIN PROVEN" if outcome.proven else "NO NEW RUBRIC"
    lines = [page.paint(head, "green" if outcome.proven else "yellow")]
    for why in outcome.why:
        lines += page.wrap(f"{visible(why)}.", first="  ")
    lines += ["", *_labels(page, outcome.advice)]
    if outcome.compared is not None:
        lines += ["", *_held_out(page, outcome, outcome.compared)]
        lines += ["", *_criteria(page, outcome.criteria)]
        lines += ["", *_curve(page, outcome)]
        lines += ["", *_flips(page, outcome)]
    return "\n".join(lines) + "\n"


def render_evaluation(found: Evaluation, width: int = 80, color: bool = False) -> str:
    """How a rubric agrees with people, ending in a newline."""
    page = Page(width, color)
    lines = [page.heading(f"{visible(found.name)} version {found.version}")]
    counts = ((found.items, "item"), (found.labels, "label"), (found.groups, "group"))
    lines += page.facts([plural(n, noun) for n, noun in counts], first="  ")
    for line in found.stale:
        lines += page.wrap(f"stale: {line}", first="  ")
    if found.seen:
        seen = "tuned on items of these groups, so what follows flatters it; its held-out figures"
        lines += page.wrap(f"{seen} are in diffcourt rubric show", first="  ")
    ceiling = found.human
    lines += ["", page.heading("Agreement                     rubric and people    people")]
    for name, mine, theirs in (
        ("Cohen's kappa", found.kappa, ceiling.kappa),
        ("Krippendorff's alpha", found.alpha, ceiling.alpha),
        ("Gwet's AC1", found.ac1, ceiling.ac1),
        ("weighted kappa", found.weighted, ceiling.weighted),
        ("AUC", found.auc, None),
    ):
        lines.append(f"  {name:<28}{_or(mine):<21}{_or(theirs)}")
    lines += [f"  {name + ': kappa':<28}{number(v)}" for name, v in found.trivial.items()]
    lines += _ceiling(page, ceiling)
    (rr, ra), (ar, aa) = found.table
    lines += ["", page.heading("People \\ rubric    reject    accept")]
    lines += [f"  reject        {rr:>9.4g} {ra:>9.4g}", f"  accept        {ar:>9.4g} {aa:>9.4g}"]
    how = "calibrated" if found.calibrated else "the total read as a probability"
    lines += ["", f"Calibration error {number(found.ece, 3)} ({how})"]
    lines += ["", *_criteria(page, found.criteria), *_noise(page, found)]
    return "\n".join(lines) + "\n"


def _or(value: Interval | None) -> str:
    return "n/a" if value is None else value.shown()


def label_counts(advice: Advice) -> tuple[str, ...]:
    """What the labels are, counted."""
    counts = {
        "item": advice.items, "label": advice.labels, "group": advice.groups, "rater": advice.raters
    }  # fmt: skip
    return *(plural(count, noun) for noun, count in counts.items()), f"{advice.accepted:g} accepted"


def _labels(page: Page, advice: Advice) -> list[str]:
    lines = [page.heading("Labels")]
    lines += page.facts(label_counts(advice), first="  ")
    lines += _ceiling(page, advice.human)
    for note in advice.notes:
        lines += page.wrap(visible(note), first="  - ")
    return lines


def _ceiling(page: Page, human: Human) -> list[str]:
    if human.twice == 0:
        return []
    text = (
        f"rater against rater on {plural(human.twice, 'item')}: kappa {_or(human.kappa)}, "
        f"alpha {_or(human.alpha)}, AC1 {_or(human.ac1)}, full scale alpha {_or(human.ordinal)}"
    )
    return page.wrap(text, first="  ")


def _held_out(page: Page, outcome: Outcome, compared: Compared) -> list[str]:
    by_cost = outcome.plan.aim.by_cost
    name = "cost a decision" if by_cost else "kappa"
    what = "weights and threshold" if outcome.plan.weights else "threshold only"
    lines = [page.heading(f"Held out, by group ({what})")]
    shown = [(name, compared)] + ([("kappa", outcome.kappa)] if outcome.kappa else [])
    for label, c in shown:
        sign = -1.0 if label == "cost a decision" else 1.0
        for row, value in (("before", c.before), ("after", c.after), ("change", c.delta)):
            lines.append(f"  {label + ' ' + row:<26}{signed(value, sign).shown()}")
    for policy, plain in (outcome.trivial or {}).items():
        lines.append(f"  {policy:<34}{number(-plain if by_cost else plain)}")
    penalty = "infinite" if math.isinf(outcome.penalty) else f"{outcome.penalty:g}"
    before, after = outcome.threshold or (math.nan, math.nan)
    lines.append(f"  threshold {before:.4g} → {after:.4g}, penalty {penalty}, seed {outcome.seed}")
    lines.append(f"  calibration error {number(outcome.ece, 3)}")
    return lines


def signed(value: Interval, sign: float) -> Interval:
    """A value of the aim as people read it: a cost is not negative."""
    if sign > 0:
        return value
    return Interval(-value.value, -value.high, -value.low)


def _criteria(page: Page, criteria: Sequence[Criterion]) -> list[str]:
    lines = [page.heading("Criteria             AUC alone         share  fitted            drop")]
    for c in criteria:
        drop = "n/a" if c.drop is None else f"{c.drop:+.3f}"
        fitted = "" if c.after is None else c.after.shown()
        name = pad(visible(c.name), 18)
        lines.append(f"  {name} {_or(c.auc):<17} {number(c.before):<6} {fitted:<17} {drop}")
        for note in c.notes:
            lines += page.wrap(visible(note), first="      ")
    return lines


def _curve(page: Page, outcome: Outcome) -> list[str]:
    by_cost = outcome.plan.aim.by_cost
    lines = [page.heading("Learning curve (held out)")]
    for p in outcome.curve:
        value = -p.value if by_cost else p.value
        lines.append(f"  {p.labels:>6} labels  {number(value)}")
    return lines + page.wrap(more_labels(outcome), first="  ")


def more_labels(outcome: Outcome) -> str:
    """What twice the labels would bring, in a sentence."""
    now = outcome.advice.items
    here, there = (expected_at(list(outcome.curve), n) for n in (now, 2 * now))
    if here is None or there is None:
        text = "The curve does not rise, so more labels would mostly narrow the intervals."
    else:
        text = f"Twice the labels ({2 * now:,}) would bring about {change(there - here)}."
    if outcome.needed is not None:
        text += f" About {outcome.needed:,} would prove the gain, if it is what it looks like."
    return text


def flip_line(flip: Flip) -> str:
    """One flip in a line."""
    was, now = ("accept", "reject") if flip.accepted_before else ("reject", "accept")
    totals = f"{number(flip.before)} → {number(flip.after)}"
    said = f", people: {flip.label}" if flip.label else ""
    link = f"  {visible(flip.url)}" if flip.url else ""
    return f"{visible(flip.id)}  {was} → {now} ({totals}{said}){link}"


def flips_heading(outcome: Outcome) -> str:
    """How many decisions change, or would."""
    verb = "change" if outcome.proven else "would change"
    return f"{len(outcome.flips):,} of {plural(outcome.items, 'decision')} {verb}"


def _flips(page: Page, outcome: Outcome) -> list[str]:
    flips = outcome.flips
    lines = [page.heading(flips_heading(outcome))]
    for flip in flips[:MOST_FLIPS]:
        lines += page.wrap(flip_line(flip), first="  ", rest="      ")
    if len(flips) > MOST_FLIPS:
        lines.append(f"  and {len(flips) - MOST_FLIPS:,} more (--json or --report has them all)")
    return lines


def _noise(page: Page, found: Evaluation) -> list[str]:
    lines: list[str] = []
    again = found.repeats
    if again is not None:
        text = (
            f"Scored again, {plural(again.items, 'item')}: {again.flipped:.1%} of pairs decide "
            f"differently, the total moves by {again.total_sd:.3f} (standard deviation)"
        )
        lines += ["", *page.wrap(text)]
    if found.sway is not None:
        word = "sways" if abs(found.sway) >= SWAYED else "does not much sway"
        text = f"Length {word} the total: rank correlation {found.sway:+.2f} within a label"
        lines += ["", *page.wrap(text)]
    return lines


def render_steadiness(repeats: Repeats | None, probed: Mapping[str, Probed], width: int) -> str:
    """Whether a judge says the same of the same, ending in a newline."""
    page = Page(width)
    lines = [""]
    if repeats is not None:
        text = (
            f"Judged again, {plural(repeats.items, 'run')}: {repeats.flipped:.1%} of pairs decide "
            f"differently, the total moves by {repeats.total_sd:.3f} (standard deviation)"
        )
        lines += page.wrap(text)
        lines += [
            f"  {share:>6.1%} the same  {visible(name)}"
            for name, share in sorted(repeats.criteria_same.items(), key=lambda x: x[1])
        ]
    for found in probed.values():
        text = (
            f"Evidence {found.name}, {plural(found.items, 'run')}: {found.flipped:.1%} of "
            f"decisions flip, {found.moved:.1%} of the judge's scores change"
        )
        lines += page.wrap(text)
        lines += [
            f"  {share:>6.1%} changed  {visible(name)}"
            for name, share in found.criteria.items()
            if share
        ]
    against = unstable(repeats, probed)
    for why in against:
        lines += page.wrap(f"Not called stable: {why}", rest="  ")
    if not against:
        lines.append("Stable on these runs: neither asking again, nor order, nor length moved it")
    return "\n".join(lines) + "\n"
