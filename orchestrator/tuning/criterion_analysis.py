"""Per-criterion statistics: discrimination (AUC), redundancy, ablation, and weight stability."""

import numpy as np
from msgspec import Struct

from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats
from orchestrator.tuning.fitting.rule_fitting import FittedRules, Sample
from orchestrator.tuning.statistics import agreement
from orchestrator.tuning.statistics.confidence_intervals import Interval, jackknife_interval

REDUNDANT_CORRELATION = 0.95
STABLE_SHARE = 0.9
"""Share of bootstrap refits with a nonzero weight from which a criterion counts as stable."""
_ZERO = 0.1
"""Share of the mean weight up to which a weight counts as zero."""


class CriterionAnalysis(Struct, frozen=True):
    """What one criterion contributes to the agreement with people.

    Attributes:
        auc: how well it alone ranks accepted items above rejected ones, .5 is chance; a penalty's
            scores are negated. None where it never varies.
        auc_drop: decrease of the total's AUC without it; negative: the total is better without it.
        selection_frequency: share of bootstrap refits that give it a nonzero weight; None without
            refits.
        share_before, share_after: share of the total weight, ``share_after`` with the central 95%
            of the refits, negative where its sign is reversed.
        notes: ``uninformative``, ``harmful``, ``redundant with ...``, ``unstable``.
    """

    name: str
    auc: Interval | None
    auc_drop: float | None
    selection_frequency: float | None
    share_before: float
    share_after: Interval | None
    notes: tuple[str, ...]


def analyze_criteria(
    sample: Sample,
    names: tuple[str, ...],
    fitted: Floats | None = None,
    refits: FittedRules | None = None,
) -> list[CriterionAnalysis]:
    """Analyze every free criterion."""
    correlations = _correlate_criteria(sample)
    total_auc = _total_auc(sample, sample.w0)
    out = []
    for j, name in enumerate(names):
        auc = _criterion_auc(sample, j)
        nearest = int(np.abs(correlations[j]).argmax()) if len(names) > 1 else j
        correlation = float(correlations[j, nearest])
        auc_drop = None
        if (np.delete(sample.w0, j) > 0).any() and total_auc is not None:
            rest = _total_auc(sample, np.where(np.arange(len(names)) == j, 0.0, sample.w0))
            auc_drop = None if rest is None else total_auc - rest
        frequency, share_after = _summarize_refits(
            j, float(np.sign(sample.units[j])), fitted, refits
        )
        out.append(
            CriterionAnalysis(
                name=name,
                auc=auc,
                auc_drop=auc_drop,
                selection_frequency=frequency,
                share_before=float(abs(sample.w0[j]) / np.abs(sample.w0).sum()),
                share_after=share_after,
                notes=_describe_problems(auc, correlation, names[nearest], frequency, share_after),
            )
        )
    return out


def _total_auc(sample: Sample, w: Floats) -> float | None:
    t = sample.totals(w[None, :])[0]
    return agreement.roc_auc(t, sample.accept, sample.weight)


def _criterion_auc(sample: Sample, j: int) -> Interval | None:
    """AUC of one criterion over the items on which it counts."""
    present = ~np.isnan(sample.x[:, j])
    if not present.any() or np.ptp(sample.x[present, j]) < 1e-12:
        return None
    score = np.where(present, sample.x[:, j], 0.0) * np.sign(sample.units[j])
    y: Bools = sample.accept
    auc = agreement.roc_auc_by_weight(score[present], y[present])
    return jackknife_interval(lambda w: auc(w[present]), sample.weight, sample.group)


def _correlate_criteria(sample: Sample) -> Floats:
    """(p, p) correlations between criteria, missing scores at their mean, 0 on the diagonal."""
    present = ~np.isnan(sample.x)
    # A criterion that counts nowhere has no mean; constant 0 correlates with nothing.
    mean = np.where(present, sample.x, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    z = np.where(present, sample.x, mean)
    z = (z - z.mean(axis=0)) / np.maximum(z.std(axis=0), 1e-12)
    correlations: Floats = z.T @ z / z.shape[0]
    np.fill_diagonal(correlations, 0.0)
    return correlations


def _summarize_refits(
    j: int, sign: float, fitted: Floats | None, refits: FittedRules | None
) -> tuple[float | None, Interval | None]:
    """How often refits select a criterion, and its share of the weight with their 95% range."""
    if fitted is None or refits is None:
        return None, None
    share = refits.weights[:, j] * sign / np.abs(refits.weights).sum(axis=1)
    own = float(fitted[j] * sign / np.abs(fitted).sum())
    low, high = np.quantile(share, [0.025, 0.975])
    nonzero = np.abs(share) > _ZERO / fitted.size
    return float(nonzero.mean()), Interval(own, float(low), float(high))


def _describe_problems(
    auc: Interval | None,
    correlation: float,
    nearest: str,
    frequency: float | None,
    share: Interval | None,
) -> tuple[str, ...]:
    notes = []
    if auc is None:
        return ("uninformative: its score never varies",)
    if share is not None and share.high < 0.0:
        notes.append("its sign is reversed: it acts against the labels, given the other criteria")
    elif share is not None and share.value < 0.0:
        notes.append("its sign is reversed, but not in all bootstrap refits")
    elif auc.high < 0.5:
        notes.append("harmful: it scores lower on items that people accept")
    elif frequency is not None and frequency < 1 - STABLE_SHARE:
        notes.append("uninformative: bootstrap refits give it no weight")
    elif frequency is not None and frequency < STABLE_SHARE:
        notes.append(f"unstable: no weight in {1 - frequency:.0%} of bootstrap refits")
    if abs(correlation) >= REDUNDANT_CORRELATION:
        notes.append(f"redundant with {nearest} (correlation {correlation:+.2f})")
    return tuple(notes)
