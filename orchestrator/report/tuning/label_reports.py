"""What labels say about a rubric, in words and rows, for ``tuning.txt`` and ``tuning.html``."""

import math
from collections.abc import Sequence

from orchestrator.tuning.labels.corrected_rate import CorrectedRate
from orchestrator.tuning.labels.disagreements import CriterionAgreement, Disagreement
from orchestrator.tuning.labels.drift import Drift
from orchestrator.tuning.statistics.confidence_intervals import Interval, format_interval
from orchestrator.wording import count_noun


def sort_worst(found: Sequence[CriterionAgreement]) -> list[CriterionAgreement]:
    """Criteria, those on which rubric and people agree least first."""
    return sorted(found, key=lambda c: c.kappa.value if c.kappa else math.inf)


def describe_label(one: Disagreement) -> str:
    """Who gave a label, and which ones before."""
    return f"{one.rater} says {format_label(one.label)}{describe_history(one)}"


def describe_history(one: Disagreement) -> str:
    """The labels that the person gave before."""
    return f" (before: {', '.join(map(format_label, one.history))})" if one.history else ""


def format_label(value: float | str) -> str:
    """A label on a scale, or in words."""
    return value if isinstance(value, str) else f"{value:g}"


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
