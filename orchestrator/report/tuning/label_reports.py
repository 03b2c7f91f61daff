"""What labels say about a rubric, for ``tuning.txt`` and ``tuning.html``; what a person labels.

The latter is plain text, and never what the judge or the verdict says of it.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import chop_cells

from orchestrator.report.findings_text import render_open
from orchestrator.report.terminal_escaping import escape_code_lines, escape_unprintable, quote_path
from orchestrator.report.text_layout import TextLayout
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.wording import count_noun

if TYPE_CHECKING:
    from orchestrator.app.finding_excerpts import ExcerptLine, FileExcerpt
    from orchestrator.code_review.verdict.model import Verdict
    from orchestrator.tuning.labels.corrected_rate import CorrectedRate
    from orchestrator.tuning.labels.disagreements import CriterionAgreement, Disagreement
    from orchestrator.tuning.labels.drift import Drift


def sort_worst(found: Sequence["CriterionAgreement"]) -> list["CriterionAgreement"]:
    """Criteria, those on which rubric and people agree least first."""
    return sorted(found, key=lambda c: c.kappa.value if c.kappa else math.inf)


def describe_label(one: "Disagreement") -> str:
    """Who gave a label, and which ones before."""
    return f"{one.rater} says {format_label(one.label)}{describe_history(one)}"


def describe_history(one: "Disagreement") -> str:
    """The labels that the person gave before."""
    return f" (before: {', '.join(map(format_label, one.history))})" if one.history else ""


def format_label(value: float | str) -> str:
    """A label on a scale, or in words."""
    return value if isinstance(value, str) else f"{value:g}"


def describe_worth(found: "CorrectedRate") -> str:
    """How many items are labeled, and what they are worth."""
    counts = f"{found.labeled:,} of {count_noun(found.items, 'item')} labeled"
    return f"{counts}; with the judge they are worth {found.worth:,.0f} random labels"


def describe_since(found: "Drift") -> str:
    """What the changes are counted from."""
    return f"Change since {found.since[:16].replace('T', ' ')}"


def list_changes(found: "Drift") -> list[tuple[str, ...]]:
    """(whose change, of sensitivity, of specificity)."""
    from orchestrator.tuning.statistics.confidence_intervals import format_interval  # noqa: PLC0415 - labeling needs no numpy

    judge = f"judge, {found.accepted_anchors} + {found.rejected_anchors} anchors"
    people = f"people, {count_noun(found.relabeled, 'anchor')} labeled again"
    newer = (found.new_sensitivity, found.new_specificity)
    return [
        (judge, *map(format_interval, (found.sensitivity, found.specificity))),
        ("judge and people, newer items", *map(format_interval, newer)),
        (people, f"accept rate {format_interval(found.leniency)}", ""),
    ]


MAX_DIFF_LINES = 200
"""Of one change; what is more is read with git, in a pager."""
MAX_TEXT = 4_000
"""Characters of an item's text."""
NO_DIFF = "The lines of the change are not in this repository, so only the findings are shown."
_STYLES = {"added": "green", "removed": "red"}


def render_item(page: TextLayout, item: Item) -> list[str]:
    """An item's text, and below it what the text is about."""
    lines: list[str] = []
    for part in item.text[:MAX_TEXT].splitlines():
        lines += page.wrap(escape_unprintable(part), first="  ", limit=60)
    context = escape_code_lines(item.context) if item.context.strip() else []
    styles = {"+": "green", "-": "red"} if any(x.startswith("@@ ") for x in context) else {}
    for text in context[:MAX_DIFF_LINES]:
        style = styles.get(text[:1])
        rows = chop_cells(text, page.width - 4) or [""]
        lines += [f"  | {page.paint(row, style) if style else row}".rstrip() for row in rows]
    if len(context) > MAX_DIFF_LINES:
        lines.append(f"  and {count_noun(len(context) - MAX_DIFF_LINES, 'more line')}")
    return lines


def render_review(
    page: TextLayout, verdict: "Verdict", files: Sequence["FileExcerpt"]
) -> list[str]:
    """What a review said of a change, and the change.

    Args:
        files: the change; empty where its commits are not at hand.
    """
    commits = f"{verdict.change.base[:12]}..{verdict.change.head[:12]}"
    lines = page.wrap(f"{escape_unprintable(commits)}: {escape_unprintable(verdict.summary)}")
    if findings := render_open(page, verdict):
        lines += ["", *findings]
    lines.append("")
    if not files:
        return lines + page.wrap(NO_DIFF)
    left = MAX_DIFF_LINES
    omitted = 0
    for file in files:
        shown = file.lines[:left]
        left -= len(shown)
        omitted += len(file.lines) - len(shown) + file.omitted
        if shown or not file.lines:
            lines += _render_file(page, file.path, shown)
    if omitted:
        more = f"and {count_noun(omitted, 'more line')}: git diff {commits}"
        lines += page.wrap(escape_unprintable(more), first="  ")
    return lines


def _render_file(page: TextLayout, path: str, lines: Sequence["ExcerptLine"]) -> list[str]:
    out = [page.heading(quote_path(path))]
    if not lines:
        return [*out, "  (not text, or only its mode changed)"]
    digits = len(str(max(line.new or line.old for line in lines)))
    room = page.width - digits - 2
    for line in lines:
        text = escape_unprintable(line.text.expandtabs(4))
        first, *rest = chop_cells(text, room) or [""]
        head = f"{line.new or line.old:>{digits}} {line.mark}{first}".rstrip()
        style = _STYLES.get(line.kind)
        out.append(page.paint(head, style) if style else head)
        out += [" " * (digits + 2) + row for row in rest]
    return out
