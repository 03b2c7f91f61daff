"""A comparison of two rubrics or judges as plain text, the conclusion first."""

from orchestrator.report.terminal_escaping import escape_unprintable
from orchestrator.report.text_layout import TextLayout, truncate
from orchestrator.tuning.rubric_comparison import ChangedDecision, RubricComparison
from orchestrator.tuning.statistics.confidence_intervals import format_change, format_statistic
from orchestrator.wording import count_noun

MAX_CHANGED = 8
_COLORS = {"better": "green", "no worse": "green", "worse": "red", "unknown": "yellow"}
_ORDER = {"broken": 0, "corrected": 1, "disputed": 2}


def render_comparison(found: RubricComparison, width: int = 80, color: bool = False) -> str:
    """The comparison of two sides, ending in a newline."""
    page = TextLayout(width, color)
    lines = [page.paint(_headline(found), _COLORS[found.outcome])]
    lines += page.wrap(describe_change(found), first="  ", rest="  ")
    lines += page.wrap(describe_power(found), first="  ", rest="  ") if _needs_power(found) else []
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
    return "\n".join(lines) + "\n"


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


def _needs_power(found: RubricComparison) -> bool:
    return found.outcome in {"no worse", "unknown"}


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
    changed = sorted(found.changed, key=lambda c: _ORDER[c.verdict])
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


def describe_changed(c: ChangedDecision) -> str:
    """A changed decision in one line."""
    words = [("accept" if side else "reject") for side in (c.accepted_a, c.accepted_b)]
    totals = " → ".join(format_statistic(x) for x in (c.total_a, c.total_b))
    return (
        f"{escape_unprintable(c.id)}  {' → '.join(words)} ({totals}), people: {c.label}"
        f"{', now wrong' if c.verdict == 'broken' else ''}"
    )
