"""Scorings of items by a model, comparisons of rubrics or judges, and rewrites of a criterion."""

from __future__ import annotations

import difflib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from orchestrator.engine.types import Rubric
from orchestrator.report.terminal_escaping import emit, emit_line, escape_unprintable
from orchestrator.report.text_layout import TextLayout, format_duration, pad, truncate
from orchestrator.tuning.file_formats.rubric_file import to_yaml
from orchestrator.tuning.jury import Cascade, Jury
from orchestrator.tuning.rubric_comparison import MARGIN, ChangedDecision, RubricComparison
from orchestrator.tuning.statistics.confidence_intervals import (
    format_change,
    format_interval,
    format_statistic,
)
from orchestrator.wording import count_noun

if TYPE_CHECKING:
    from orchestrator.app.rubric_scoring.item_judge_session import JudgingEstimate, Progress
    from orchestrator.app.rubric_scoring.rewrite_criterion import Rewrite, RewritePlan
    from orchestrator.app.rubric_scoring.score_items import Quote, ScoredItems

MAX_UNSCORED = 5


def describe_estimate(estimate: JudgingEstimate) -> str:
    """``120 calls, about 96,000 tokens, 0.42 USD``."""
    if not estimate.calls:
        return "nothing to ask"
    usd = describe_usd(None) if estimate.usd is None else f"{estimate.usd:.2f} USD"
    calls, tokens = count_noun(estimate.calls, "call"), f"{estimate.tokens:,}"
    return f"{calls}, about {tokens} tokens, {usd}"


def describe_usd(usd: float | None) -> str:
    """A cost in dollars."""
    return "price unknown" if usd is None else f"{usd:.4f} USD"


def render_quote(page: TextLayout, quote: Quote) -> list[str]:
    """What a scoring will take."""
    what = f"{count_noun(quote.items, 'item')} by {quote.criteria} judged criteria"
    if quote.repeat > 1:
        what += f", {quote.repeat} times"
    return page.wrap(f"{what}, by {escape_unprintable(quote.model)}") + _estimate(page, quote)


def _estimate(page: TextLayout, quote: Quote) -> list[str]:
    known = f"; {quote.known:,} scored before, free" if quote.known else ""
    limits = f"; limit {quote.limits}" if quote.limits else ""
    text = f"estimate: {describe_estimate(quote.estimate)}{known}{limits}"
    lines = page.wrap(text, rest="  ")
    for note in quote.notes:
        lines += page.wrap(f"note: {escape_unprintable(note)}", rest="  ")
    return lines


class ScoringProgress:
    """Writes how far a scoring is: one line that changes on a terminal, some lines elsewhere.

    Args:
        lines: how many.
        name: what every line begins with.
    """

    def __init__(self, stream: TextIO | None, name: str = "", lines: int = 10) -> None:
        self._stream, self._name = stream, name
        self._began, self._part, self._lines = time.monotonic(), 0, lines
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
        elif part > self._part and progress.asked:
            emit_line(self.describe(progress), self._stream)
        self._part = part

    def describe(self, progress: Progress) -> str:
        """``120 of 1,994 scored, 2 failed, about 11m 03s left``."""
        parts = [f"{self._name}{progress.done:,} of {progress.total:,} done"]
        if progress.failed:
            parts.append(f"{progress.failed:,} failed")
        left = progress.total - progress.done
        if left and progress.asked:
            seconds = (time.monotonic() - self._began) / progress.done * left
            parts.append(f"about {format_duration(seconds)} left")
        return ", ".join(parts)


def render_scored(page: TextLayout, found: ScoredItems, accepted: int) -> list[str]:
    """What a scoring came to."""
    items = [item for item in found.rows if not item.repeat]
    unique = len({item.id for item in items})
    decided = f"{accepted:,} accepted, {unique - accepted:,} rejected"
    head = f"{count_noun(unique, 'item')} scored: {decided}"
    used = (
        f"{found.calls:,} asked for, {found.tokens:,} tokens, {describe_usd(found.usd)}"
        if found.calls
        else "none asked for: all scores are on record"
    )
    lines = page.wrap(f"{head}; {used}")
    if found.stopped:
        again = "raise the limit and run the command again: what is scored is kept"
        lines += page.wrap(f"stopped: {escape_unprintable(found.stopped)}; {again}", rest="  ")
    for name, why in list(found.unscored.items())[: 0 if found.stopped else MAX_UNSCORED]:
        lines += page.wrap(f"not scored: {escape_unprintable(f'{name}: {why}')}", rest="  ")
    more = len(found.unscored) - (0 if found.stopped else MAX_UNSCORED)
    if more > 0:
        lines.append(f"{'' if found.stopped else 'and '}{count_noun(more, 'item')} not scored")
    return lines


MAX_CHANGED = 8
_COLORS = {"better": "green", "no worse": "green", "worse": "red", "unknown": "yellow"}


def render_comparison(page: TextLayout, found: RubricComparison) -> list[str]:
    """The comparison of two sides."""
    lines = [page.paint(_headline(found), _COLORS[found.outcome])]
    lines += page.wrap(describe_change(found), first="  ", rest="  ")
    if found.outcome in {"no worse", "unknown"}:
        lines += page.wrap(describe_power(found), first="  ", rest="  ")
    for warning in found.in_sample:
        lines += page.wrap(warning, first="  ", rest="  ")
    counts = ((found.items, "item"), (found.labels, "label"), (found.groups, "group"))
    lines += ["", *page.inline_list([count_noun(n, noun) for n, noun in counts])]
    if found.left_out:
        lines.append(f"{count_noun(len(found.left_out), 'labeled item')} without scores of both")
    for letter, name, judge, usd in zip(
        "AB", (found.a, found.b), found.judges, found.usd, strict=True
    ):
        parts = [name, judge and f"judge: {judge}", "" if usd is None else f"{usd:.4f} USD"]
        text = escape_unprintable("; ".join(part for part in parts if part))
        lines += page.wrap(text, first=f"{letter}  ", rest="   ")
    lines += ["", *_render_changed(page, found)]
    return lines


def _headline(found: RubricComparison) -> str:
    return {
        "better": "B IS BETTER",
        "worse": "B IS WORSE",
        "no worse": f"B IS NO WORSE, by a margin of {format_statistic(found.margin)}",
        "unknown": "CANNOT TELL",
    }[found.outcome]


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


def _render_changed(page: TextLayout, found: RubricComparison) -> list[str]:
    """Changed decisions, those that became wrong first."""
    changed = sort_changed(found.changed)
    corrected, broken = (sum(c.verdict == x for c in changed) for x in ("corrected", "broken"))
    head = f"{len(changed):,} of {count_noun(found.items, 'decision')} differ"
    lines = [page.heading(f"{head}: {corrected} right only with B, {broken} only with A")]
    for c in changed[:MAX_CHANGED]:
        lines += page.wrap(describe_changed(c), first="  ", rest="      ")
        if c.text:
            lines.append("      " + truncate(escape_unprintable(" ".join(c.text.split())), 70))
    if len(changed) > MAX_CHANGED:
        lines.append(f"  and {len(changed) - MAX_CHANGED:,} more (all of them with --json)")
    return lines


def sort_changed(changed: Sequence[ChangedDecision]) -> list[ChangedDecision]:
    """Changed decisions, those that became wrong first."""
    order = ("broken", "corrected", "disputed")
    return sorted(changed, key=lambda c: order.index(c.verdict))


def describe_changed(c: ChangedDecision) -> str:
    """A changed decision in one line."""
    words = [("accept" if side else "reject") for side in (c.accepted_a, c.accepted_b)]
    totals = " → ".join(format_statistic(x) for x in (c.total_a, c.total_b))
    return (
        f"{escape_unprintable(c.id)}  {' → '.join(words)} ({totals}), people: {c.label}"
        f"{', now wrong' if c.verdict == 'broken' else ''}"
    )


_STOPPED = (
    "The limit ended the search before a wording could be proven. Raise it and run the command "
    "again: what is scored is kept."
)
_NO_BETTER = (
    "No wording agrees better with people than the present one, not even on the items that it was "
    "made from."
)


def render_plan(page: TextLayout, plan: RewritePlan) -> list[str]:
    """What a rewrite will do and take."""
    whose = "labels of the criterion" if plan.by_criterion else "labels of the whole"
    lines = page.wrap(
        f"up to {plan.rounds * plan.proposals} wordings in {count_noun(plan.rounds, 'round')}, by "
        f"{escape_unprintable(plan.quote.model)}; {whose}"
    )
    lines += page.wrap(
        f"{count_noun(plan.training, 'item')} to learn from, {plan.held_out:,} held out for the "
        f"proof: a gain in kappa of about {format_statistic(plan.detectable)} or more is proven "
        "with 80% power",
        rest="  ",
    )
    return lines + _estimate(page, plan.quote)


def render_rewrite(page: TextLayout, done: Rewrite, old: Rubric) -> list[str]:
    """What a rewrite came to, the conclusion first."""
    found = done.found
    head = "NEW WORDING PROVEN" if done.rubric else "NO NEW WORDING"
    lines = [page.paint(head, "green" if done.rubric else "yellow")]
    for reason in _reasons(done):
        lines += page.wrap(reason, first="  ", rest="  ")
    before, after = (format_statistic(x) for x in found.training)
    lines += [
        "",
        *page.wrap(
            f"{count_noun(found.tried, 'wording')} tried on {done.plan.training:,} items: kappa "
            f"{before} with the present one, {after} with the best"
        ),
        f"{done.tokens:,} tokens, {describe_usd(done.usd)}",
    ]
    if done.rubric:
        lines += ["", *diff_rubrics(old, done.rubric)]
    return lines


def _reasons(done: Rewrite) -> list[str]:
    found, proof = done.found, done.found.proof
    if found.failed:
        return [f"{escape_unprintable(found.failed[:1].upper() + found.failed[1:])}."]
    if proof is None:
        return [_STOPPED if found.stopped else _NO_BETTER]
    where = f"{count_noun(proof.items, 'item')} of {count_noun(proof.groups, 'group')}"
    reasons = [
        f"On {where} held out, with A the present wording and B the new one:",
        describe_change(proof),
    ]
    if done.looks > 1:
        reasons.append(
            f"This is wording {done.looks} that is held to these items. One in 40 looks proven "
            "by chance each time; label new items to be sure."
        )
    if done.rubric is None and proof.comparison.change.value <= 0:
        reasons.append("It is no better on items that it was not made from.")
    elif done.rubric is None and proof.labels_for_change is not None:
        needed = f"{2 * proof.labels_for_change:,}"
        reasons.append(
            f"If the true gain is that, about {needed} labels prove it; half are held out."
        )
    return reasons


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
        f"{one.comparison.change.format()}: {proof} by {MARGIN:g}"
    )


def conclude_jury(found: Jury) -> str:
    """Whether a cascade pays, in a sentence."""
    best = max((one for one in found.cascades if one.proven), key=lambda x: x.saved, default=None)
    if best is not None:
        return f"asking {best.dear} only where {best.cheap} is unsure saves {best.saved:.0%} of it"
    if found.cascades:
        return "no cascade is proven to save anything at equal agreement"
    return "no cascade was tried: it takes 30 labeled items of 10 groups, and costs that differ"


def render_jury(page: TextLayout, found: Jury) -> list[str]:
    """What several judges amount to."""
    proven = any(one.proven for one in found.cascades)
    head = "CASCADE PROVEN" if proven else "NO CASCADE PROVEN"
    lines = [page.paint(head, "green" if proven else "yellow")]
    lines += page.wrap(f"{escape_unprintable(conclude_jury(found))}.", first="  ")
    counts = ((found.items, "item"), (found.labels, "label"), (found.groups, "group"))
    lines += page.inline_list([count_noun(n, noun) for n, noun in counts], first="  ")
    if found.left_out:
        text = f"{count_noun(found.left_out, 'labeled item')} without a score of every judge"
        lines += page.wrap(f"left out: {text}", first="  ")
    lines += ["", page.heading(f"{'Judge':<26}{'kappa':<19}{'majority minus it':<19}per item")]
    for name, kappa, gain, usd in list_judges(found):
        lines.append(f"  {pad(escape_unprintable(name), 23)} {kappa:<18} {gain:<18} {usd}")
    lines += page.wrap(describe_jury(found), first="  ")
    if found.cascades:
        lines += ["", page.heading("Cascades, held out")]
    for one in found.cascades:
        lines += page.wrap(escape_unprintable(describe_cascade(one)), first="  - ")
    return lines
