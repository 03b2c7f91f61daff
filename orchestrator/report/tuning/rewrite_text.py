"""A rewrite of a criterion as plain text: what it will take, and what it came to."""

import difflib

from orchestrator.app.rubric_scoring.rewrite_criterion import Rewrite, RewritePlan
from orchestrator.engine.types import Rubric
from orchestrator.report.terminal_escaping import escape_unprintable
from orchestrator.report.text_layout import TextLayout
from orchestrator.report.tuning.comparison_text import describe_change
from orchestrator.report.tuning.scoring_text import describe_estimate, describe_usd
from orchestrator.tuning.file_formats.rubric_file import to_yaml
from orchestrator.tuning.statistics.confidence_intervals import format_statistic
from orchestrator.wording import count_noun

_STOPPED = (
    "The limit ended the search before a wording could be proven. Raise it and run the command "
    "again: what is scored is kept."
)
_NO_BETTER = (
    "No wording agrees better with people than the present one, not even on the items that it was "
    "made from."
)


def render_plan(plan: RewritePlan, width: int = 80) -> str:
    """What a rewrite will do and take, ending in a newline."""
    page = TextLayout(width)
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
    limits = f"; limit {plan.quote.limits}" if plan.quote.limits else ""
    lines += page.wrap(f"estimate: {describe_estimate(plan.quote.estimate)}{limits}", rest="  ")
    for note in plan.quote.notes:
        lines += page.wrap(f"note: {escape_unprintable(note)}", rest="  ")
    return "\n".join(lines) + "\n"


def render_rewrite(old: Rubric, done: Rewrite, width: int = 80, color: bool = False) -> str:
    """What a rewrite came to, the conclusion first, ending in a newline."""
    page, found = TextLayout(width, color), done.found
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
    return "\n".join(lines) + "\n"


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
