"""What labels say about a rubric, as plain text: one plain sentence first, then the reasons."""

import math

from orchestrator.report.terminal_escaping import escape_line, escape_unprintable
from orchestrator.report.text_layout import TextLayout, pad
from orchestrator.tuning.labels.corrected_rate import CorrectedRate
from orchestrator.tuning.labels.disagreements import (
    CriterionAgreement,
    CriterionView,
    Disagreement,
    DisagreementReport,
)
from orchestrator.tuning.labels.drift import Drift
from orchestrator.tuning.labels.feedback_rate import FeedbackReport
from orchestrator.tuning.rubric_lint import LintReport
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    format_interval,
    format_statistic,
)
from orchestrator.wording import count_noun

SHORT_LIST = 3
"""Entries of a list that are shown without ``--all``."""
OUTCOMES = {True: "green", False: "red", None: "yellow"}


def _begin(
    page: TextLayout,
    found: DisagreementReport | CorrectedRate | Drift | FeedbackReport,
    more: str = "",
) -> list[str]:
    """The sentence of a result, and a warning where its rubric was tuned on these items."""
    lines = page.wrap(f"{found.plain_sentence()}{more}.")
    lines[0] = page.paint(lines[0], OUTCOMES[found.is_trusted])
    warning = "" if isinstance(found, FeedbackReport) else found.in_sample
    return lines + (page.wrap(warning, first="  ") if warning else [])


def render_disagreements(
    page: TextLayout, found: DisagreementReport, everything: bool = False
) -> list[str]:
    """Disagreements of a rubric with people.

    Args:
        everything: all of them, with text, scores and reasons.
    """
    lines = _begin(page, found, f" (kappa {format_interval(found.kappa)})")
    if found.revised:
        note = (
            f"{count_noun(found.revised, 'label')} revised: look again also at items on which both "
            "agree, or the agreement is overstated"
        )
        lines += page.wrap(note, first="  ")
    count = len(found.disagreements)
    shown = found.disagreements if everything else found.disagreements[:SHORT_LIST]
    more = "" if len(shown) == count else f" (--all shows {count})"
    if count:
        lines.append(page.heading(f"Most confident disagreements{more}"))
    for one in shown:
        lines += _render_disagreement(page, one, everything)
    if found.criteria:
        lines.append(
            page.heading("Criteria        labels  false accepts    false rejects    kappa")
        )
    worst = sorted(found.criteria, key=lambda c: c.kappa.value if c.kappa else math.inf)
    lines += [_render_criterion(one) for one in (worst if everything else worst[:SHORT_LIST])]
    if len(found.criteria) > SHORT_LIST and not everything:
        lines.append(f"  and {len(found.criteria) - SHORT_LIST} more (--all)")
    return lines


def _render_criterion(found: CriterionAgreement) -> str:
    kind, strict = (format_interval(x) for x in (found.false_accepts, found.false_rejects))
    name = pad(escape_unprintable(found.id), 14)
    return f"  {name}{found.labels:>6}  {kind:<16} {strict:<16} {format_interval(found.kappa)}"


def _render_disagreement(page: TextLayout, one: Disagreement, everything: bool) -> list[str]:
    decision = "accepts" if one.accepted else "rejects"
    why = f"blocked by {', '.join(one.blocked_by)}" if one.blocked_by else "total "
    if not one.blocked_by:
        why += format_statistic(one.total)
    text = (
        f"{escape_line(one.item)}: rubric {decision} ({why}), "
        f"{escape_line(one.rater)} says {format_label(one.label)}"
    )
    if one.note:
        text += f": {escape_line(one.note)}"
    if one.history:
        text += f" (before: {', '.join(format_label(v) for v in one.history)})"
    lines = page.wrap(text, first="  ", rest="    ", limit=12 if everything else 2)
    for line in (one.text if everything else one.text[:200]).splitlines():
        lines += page.wrap(escape_unprintable(line), first="    | ", limit=60 if everything else 1)
        if not everything:
            break
    if everything:
        for view in one.criteria:
            lines += page.wrap(_describe_view(view), first="    ", rest="      ", limit=6)
    return lines


def _describe_view(view: CriterionView) -> str:
    score = view.score if isinstance(view.score, str) else format_statistic(view.score)
    parts = f"{escape_unprintable(view.id)} {score}"
    if view.label is not None:
        verb = {True: "agrees", False: "DISAGREES", None: "no score"}[view.agrees]
        parts += f" (person: {format_label(view.label)}, {verb})"
    return f"{parts}: {escape_line(view.reason)}" if view.reason else parts


def describe_label(one: Disagreement) -> str:
    """Who gave a label, and which ones before."""
    said = f"{one.rater} says {format_label(one.label)}"
    return said + (f" (before: {', '.join(map(format_label, one.history))})" if one.history else "")


def format_label(value: float | str) -> str:
    """A label on a scale, or in words."""
    return value if isinstance(value, str) else f"{value:g}"


def render_rate(page: TextLayout, found: CorrectedRate) -> list[str]:
    """The accept rate of all items and its correction."""
    lines = _begin(page, found)
    lines += [f"  {name:<28}{format_interval(value)}" for name, value in list_rates(found)]
    return lines + page.wrap(describe_worth(found), first="  ")


def list_rates(found: CorrectedRate) -> list[tuple[str, Interval | None]]:
    """The rates of a result, first those of all items, each with its name."""
    return [
        ("the judge, all items", found.judged),
        ("people, labeled items", found.labeled_only),
        ("corrected (PPI++)", found.corrected),
        ("corrected (Rogan-Gladen)", found.rogan_gladen),
        ("judge minus people", found.bias),
        ("judge's sensitivity", found.sensitivity),
        ("judge's specificity", found.specificity),
    ]


def describe_worth(found: CorrectedRate) -> str:
    """How many items are labeled, and what they are worth."""
    counts = f"{found.labeled:,} of {count_noun(found.items, 'item')} labeled"
    return f"{counts}; with the judge they are worth {found.worth:,.0f} random labels"


def render_drift(page: TextLayout, found: Drift) -> list[str]:
    """What has changed over time."""
    lines = _begin(page, found)
    head = pad(describe_since(found), 40)
    lines.append(page.heading(f"{head}  sensitivity       specificity"))
    for name, one, other in list_changes(found):
        lines.append(f"  {pad(name, 38)}  {one:<18}{other}")
    lines.append(page.heading("Month    labels  sensitivity       specificity"))
    lines += [
        f"  {p.month}{p.labels:>7}  {format_interval(p.sensitivity):<18}"
        f"{format_interval(p.specificity)}"
        for p in found.periods
    ]
    if found.untimed:
        lines.append(f"  {count_noun(found.untimed, 'label')} without a time not used")
    return lines


def describe_since(found: Drift) -> str:
    """What the changes are counted from."""
    return f"Change since {found.since[:16].replace('T', ' ')}"


def list_changes(found: Drift) -> list[tuple[str, ...]]:
    """(whose change, of sensitivity, of specificity)."""
    judge = f"judge, {found.accepted_anchors} + {found.rejected_anchors} anchors"
    people = f"people, {count_noun(found.relabeled, 'anchor')} labeled again"
    newer = (found.new_sensitivity, found.new_specificity)
    return [
        (judge, *map(format_interval, (found.sensitivity, found.specificity))),
        ("judge and people, newer items", *map(format_interval, newer)),
        (people, f"accept rate {format_interval(found.leniency)}", ""),
    ]


def render_lint(page: TextLayout, found: LintReport, everything: bool = False) -> list[str]:
    """What to fix in a rubric.

    Args:
        everything: all findings, not only some of each kind.
    """
    count = len(found.findings)
    head = f"{count_noun(count, 'finding') if count else 'Nothing to fix'} in "
    noun = "criterion" if found.criteria == 1 else "criteria"
    lines = page.wrap(f"{head}{found.criteria} {noun}.")
    lines[0] = page.paint(lines[0], "yellow" if count else "green")
    kinds: dict[str, list[str]] = {}
    for one in found.findings:
        names = escape_unprintable(" and ".join(one.criteria))
        text = f"{names}: {escape_line(one.what)}; {one.advice}"
        kinds.setdefault(one.kind, []).append(text)
    for kind, texts in kinds.items():
        lines.append(page.heading(kind.capitalize()))
        for text in texts if everything else texts[:SHORT_LIST]:
            lines += page.wrap(text, first="  ", rest="    ", limit=4)
        if len(texts) > SHORT_LIST and not everything:
            lines.append(f"  and {len(texts) - SHORT_LIST:,} more (--all)")
    for line in found.unchecked:
        lines += page.wrap(f"not checked: {line}", first="  ", rest="    ")
    return lines


def render_feedback(page: TextLayout, found: FeedbackReport) -> list[str]:
    """What people did with findings and what experts make of it."""
    lines = _begin(page, found)
    if found.rate is not None:
        rows = (
            ("by what people did", found.rate.judged),
            ("by experts, labeled findings", found.rate.labeled_only),
            ("corrected (PPI++)", found.rate.corrected),
        )
        lines += [f"  {name:<32}{format_interval(value)}" for name, value in rows]
        if found.rate.not_drawn:
            note = f"{count_noun(found.rate.not_drawn, 'label')} not recorded as drawn at random"
            lines += page.wrap(f"{note} (--assume-random)", first="  ")
    if found.signals:
        lines.append(page.heading("Signal        means       findings  labeled  experts agree"))
    lines += [
        f"  {s.signal:<12}{'useful' if s.useful else 'not useful':<12}{s.findings:>8}"
        f"{s.labeled:>9}  {format_interval(s.agreement)}"
        for s in found.signals
    ]
    if found.unknown:
        lines.append(f"  no signal: {count_noun(found.unknown, 'finding')}, not counted")
    if found.unused_labels:
        lines.append(f"  {count_noun(found.unused_labels, 'label')} of findings without a signal")
    return lines
