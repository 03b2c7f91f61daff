"""Reliability of the judge: repeated scoring, length bias, and robustness to perturbed evidence."""

from collections.abc import Mapping
from itertools import combinations

import numpy as np
from msgspec import Struct

from orchestrator.engine.types import Rubric
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.fitting.ordinal_regression import Floats
from orchestrator.tuning.rubric_decisions import decide_item
from orchestrator.tuning.statistics.agreement import rank_correlation

STRONG_LENGTH_BIAS = 0.3
"""Absolute rank correlation of total and text length, within a label, that counts as strong."""
_MIN_ITEMS = 10


class RepeatedScoring(Struct, frozen=True):
    """What changes when the same items are scored again.

    Attributes:
        items: number of items scored more than once.
        flip_rate: share of pairs of scorings of one item that decide differently.
        total_sd: standard deviation of the total within an item.
        criteria_agreement: share of pairs of scorings of one item that give a judged criterion the
            same score; two abstentions agree, an abstention and a score do not.
    """

    items: int
    flip_rate: float
    total_sd: float
    criteria_agreement: dict[str, float]


def measure_repeated_scoring(rubric: Rubric, items: list[Item]) -> RepeatedScoring | None:
    """Measure the noise of items that were scored repeatedly; None when none was."""
    by_item: dict[str, dict[int, Item]] = {}
    for item in items:
        by_item.setdefault(item.id, {})[item.repeat] = item
    repeated = [list(x.values()) for x in by_item.values() if len(x) > 1]
    if not repeated:
        return None
    flips: list[bool] = []
    total_variances: list[float] = []
    agreement: dict[str, list[bool]] = {}
    for scorings in repeated:
        decisions = [decide_item(rubric, s) for s in scorings]
        flips += [a.accepted != b.accepted for a, b in combinations(decisions, 2)]
        totals = [d.total for d in decisions if d.total is not None]
        if len(totals) > 1:
            total_variances.append(float(np.var(totals, ddof=1)))
        for c in rubric.criteria:
            given = [s.scores[c.id] for s in scorings if c.id in s.scores]
            if c.kind == "judged":
                agreement.setdefault(c.id, []).extend(a == b for a, b in combinations(given, 2))
    return RepeatedScoring(
        len(repeated),
        float(np.mean(flips)),
        float(np.sqrt(np.mean(total_variances))) if total_variances else 0.0,
        {name: float(np.mean(v)) for name, v in agreement.items() if v},
    )


def measure_length_bias(total: Floats, length: Floats, accepted: Floats) -> float | None:
    """Rank correlation of total and text length among items of the same label.

    People may prefer long texts for good reasons; correlation within a label is the judge's bias.

    Args:
        total, length: (n,).
        accepted: (n,) 1 where people accept.

    Returns:
        The mean over both labels; None where lengths do not vary or items are few.
    """
    weighted, mass = 0.0, 0
    for side in (0.0, 1.0):
        rows = accepted == side
        if rows.sum() < _MIN_ITEMS:
            continue
        found = rank_correlation(total[rows], length[rows], np.ones(int(rows.sum())))
        if found is not None:
            weighted += found * int(rows.sum())
            mass += int(rows.sum())
    return weighted / mass if mass else None


class PerturbationEffect(Struct, frozen=True):
    """What changes under a perturbation of the evidence that should change nothing.

    Attributes:
        items: number of items judged with and without it.
        flip_rate: share of them that are decided differently.
        score_change_rate: share of judged scores that change.
        criteria: the same per criterion.
    """

    name: str
    items: int
    flip_rate: float
    score_change_rate: float
    criteria: dict[str, float]


def measure_perturbation(
    rubric: Rubric, name: str, plain: list[Item], perturbed: list[Item]
) -> PerturbationEffect:
    """Compare items (at least one) with the same items, in the same order, under a perturbation."""
    pairs = list(zip(plain, perturbed, strict=True))
    judged = [c.id for c in rubric.criteria if c.kind == "judged"]
    both = [(a.scores, b.scores) for a, b in pairs]
    changed = {n: sum(a.get(n) != b.get(n) for a, b in both) / len(pairs) for n in judged}
    cards = [(decide_item(rubric, a), decide_item(rubric, b)) for a, b in pairs]
    flips = sum(a.accepted != b.accepted for a, b in cards)
    rate = sum(changed.values()) / len(changed)
    return PerturbationEffect(name, len(pairs), flips / len(pairs), rate, changed)


def find_instability(
    repeats: RepeatedScoring | None, effects: Mapping[str, PerturbationEffect]
) -> list[str]:
    """Why a judge cannot be called stable, one sentence each; empty when it can.

    Any change counts, of a decision or of one criterion's score: evidence that is only reordered or
    made longer is the same evidence.
    """
    if repeats is None or not effects:
        return ["repetition or perturbation was not tested (--repeat, --probes)"]
    out = []
    if repeats.flip_rate:
        out.append(f"repetition flips the decision in {repeats.flip_rate:.1%} of pairs")
    inconsistent = sorted(name for name, rate in repeats.criteria_agreement.items() if rate < 1)
    if inconsistent:
        out.append(f"repetition changes the scores of {', '.join(inconsistent)}")
    for name, found in effects.items():
        if found.flip_rate:
            out.append(f"{name} evidence flips {found.flip_rate:.1%} of decisions")
        if found.score_change_rate:
            out.append(f"{name} evidence changes {found.score_change_rate:.1%} of scores")
    return out
