"""What each criterion does: does it tell good from bad, is it said twice, would it be missed?"""

import numpy as np
from msgspec import Struct

from orchestrator.tuning import agreement, decision_rule
from orchestrator.tuning.confidence_intervals import Interval, of_statistic
from orchestrator.tuning.penalty_selection import Rules, Sample
from orchestrator.tuning.weight_fitting import Bools, Floats

REDUNDANT = 0.95
"""Correlation from which two criteria say the same."""
STABLE = 0.9
_ZERO = 0.01


class Criterion(Struct, frozen=True):
    """One criterion's part in the agreement.

    Attributes:
        auc: how well it alone orders what people accept above what they reject, .5 is chance; a
            penalty's is turned around. None where it never varies.
        twin, correlation: the criterion it is most like, and how much.
        drop: what the total's AUC loses without it; negative: the total is better without it.
        kept: share of refits in which its weight stays above zero; None without refits.
        before, after: share of the total weight, ``after`` with the middle 95% of refits.
        notes: ``dead``, ``harmful``, ``redundant with ...``, ``unstable``.
    """

    name: str
    auc: Interval | None
    twin: str
    correlation: float
    drop: float | None
    kept: float | None
    before: float
    after: Interval | None
    notes: tuple[str, ...]


def examine(
    sample: Sample,
    names: tuple[str, ...],
    chosen: Floats | None = None,
    refits: Rules | None = None,
) -> list[Criterion]:
    """Look at every free criterion.

    Args:
        names: (p,) of the criteria.
        chosen: (p,) fitted weights, None where nothing was fitted.
        refits: bootstrap refits of the procedure, None where none were made.
    """
    like = _likeness(sample)
    whole = _auc_of(sample, sample.w0)
    out = []
    for j, name in enumerate(names):
        alone = _alone(sample, j)
        twin = int(np.abs(like[j]).argmax()) if len(names) > 1 else j
        less = np.delete(sample.w0, j)
        drop = None
        if (less > 0).any() and whole is not None:
            rest = _auc_of(sample, np.where(np.arange(len(names)) == j, 0.0, sample.w0))
            drop = None if rest is None else whole - rest
        kept, after = _over_refits(j, chosen, refits)
        out.append(
            Criterion(
                name=name,
                auc=alone,
                twin=names[twin] if twin != j else "",
                correlation=float(like[j, twin]) if twin != j else 0.0,
                drop=drop,
                kept=kept,
                before=float(abs(sample.w0[j]) / np.abs(sample.w0).sum()),
                after=after,
                notes=_notes(alone, float(like[j, twin]), names[twin], kept),
            )
        )
    return out


def _auc_of(sample: Sample, w: Floats) -> float | None:
    t = decision_rule.totals(sample.x, w[None, :], sample.blocked)[0]
    return agreement.auc(t, sample.accept, sample.weight)


def _alone(sample: Sample, j: int) -> Interval | None:
    """AUC of one criterion where it counts."""
    there = ~np.isnan(sample.x[:, j])
    if not there.any() or np.ptp(sample.x[there, j]) < 1e-12:
        return None
    score = np.where(there, sample.x[:, j], 0.0) * np.sign(sample.w0[j])
    y: Bools = sample.accept
    return of_statistic(
        lambda w: agreement.auc(score[there], y[there], w[there]), sample.weight, sample.group
    )


def _likeness(sample: Sample) -> Floats:
    """(p, p) correlations over the items on which both count, 0 on the diagonal."""
    there = ~np.isnan(sample.x)
    # A criterion that counts nowhere has no mean; it is the same everywhere, so like no other.
    mean = np.where(there, sample.x, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    z = np.where(there, sample.x, mean)
    z = (z - z.mean(axis=0)) / np.maximum(z.std(axis=0), 1e-12)
    like: Floats = z.T @ z / z.shape[0]
    np.fill_diagonal(like, 0.0)
    return like


def _over_refits(
    j: int, chosen: Floats | None, refits: Rules | None
) -> tuple[float | None, Interval | None]:
    if chosen is None or refits is None:
        return None, None
    share = np.abs(refits.w) / np.abs(refits.w).sum(axis=1, keepdims=True)
    mine = float(abs(chosen[j]) / np.abs(chosen).sum())
    low, high = np.quantile(share[:, j], [0.025, 0.975])
    return float((share[:, j] > _ZERO).mean()), Interval(mine, float(low), float(high))


def _notes(
    alone: Interval | None, correlation: float, twin: str, kept: float | None
) -> tuple[str, ...]:
    notes = []
    if alone is None:
        return ("dead: the same score everywhere",)
    if alone.high < 0.5:
        notes.append("harmful: people accept where it scores low")
    elif kept is not None and kept < 1 - STABLE:
        notes.append("dead: refits give it no weight")
    elif kept is not None and kept < STABLE:
        notes.append(f"unstable: {1 - kept:.0%} of refits drop it")
    if abs(correlation) >= REDUNDANT:
        notes.append(f"redundant with {twin}")
    return tuple(notes)
