"""The whole tuning procedure on resampled labels: penalty, weights, threshold, for many weightings.

The procedure is one function, :func:`tune_many`; the shipped rule, the folds of the
cross-validation and the refits of the intervals all come from it, so that what is judged is what
is shipped.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from msgspec import Struct, field

from orchestrator.tuning import decision_rule, weight_fitting
from orchestrator.tuning.weight_fitting import Bools, Floats, Ints

MIN_ITEMS, MIN_RARER = 60, 20
"""Below either, weights are left alone and only the threshold is fitted."""
ISOTONIC_FROM = 500
"""Items from which a threshold and a calibration no longer need a sigmoid."""
INNER_FOLDS = 5
_CHUNK = 128


class Sample(Struct, frozen=True):
    """Labeled items as arrays; one row is one person's label of one item.

    Attributes:
        x: (n, p) scores of the free criteria, NaN where one does not count.
        w0: (p,) the weights they have now, none of them 0.
        y: (n,) ordered categories 0..levels-1; ``accept`` from ``cut`` up.
        group: (n,) whole groups are resampled.
        weight: (n,) an item's rows sum to 1.
        blocked: (n,) a blocker fails the item whatever the total.
        item: (n,) which item a row is about.
    """

    x: Floats
    w0: Floats
    y: Ints
    levels: int
    cut: int
    group: Ints
    weight: Floats
    blocked: Bools
    item: Ints

    @property
    def accept(self) -> Bools:
        """(n,) whether the person accepts."""
        out: Bools = self.y >= self.cut
        return out

    @property
    def items(self) -> float:
        """Labeled items."""
        return float(self.weight.sum())

    @property
    def rarer(self) -> float:
        """Items of the rarer class."""
        yes = float(self.weight[self.accept].sum())
        return min(yes, self.items - yes)

    def rows(self) -> Floats:
        """(n, p) criteria times present weights, missing ones filled, on a common scale.

        Leaving a criterion out is the same as scoring it what the others come to; that is what a
        missing value becomes (0 for a penalty). The scale makes the present total's spread 1.
        """
        there = ~np.isnan(self.x)
        base = np.where(there, self.x, 0.0)
        plus = np.maximum(self.w0, 0.0)
        bottom = there @ plus
        own = (base @ self.w0) / np.where(bottom > 0.0, bottom, 1.0)
        filled = np.where(there, self.x, np.where(self.w0 > 0.0, own[:, None], 0.0))
        z = filled * self.w0
        spread = z.sum(axis=1).std()
        return z / spread if spread > 1e-9 else z


class Plan(Struct, frozen=True):
    """How to tune; fixed before any label is looked at.

    Attributes:
        weights: False fits the threshold only.
        isotonic: True reads the threshold from the labels, False from a fitted sigmoid.
    """

    aim: decision_rule.Aim = field(default_factory=decision_rule.Aim)
    weights: bool = True
    isotonic: bool = False
    lambdas: tuple[float, ...] = weight_fitting.LAMBDAS
    inner: int = INNER_FOLDS


def plan_for(sample: Sample, aim: decision_rule.Aim) -> Plan:
    """The plan that the number of labels allows."""
    enough = sample.items >= MIN_ITEMS and sample.rarer >= MIN_RARER
    free = sample.w0.size > 1
    return Plan(aim=aim, weights=enough and free, isotonic=sample.items >= ISOTONIC_FROM)


class Rules(Struct, frozen=True):
    """Fitted rules, one a replicate.

    Attributes:
        w: (r, p) weights, signs as before, sizes summing to what they summed to.
        threshold: (r,).
        lam: (r,) the chosen penalty.
    """

    w: Floats
    threshold: Floats
    lam: Floats

    def accepts(self, sample: Sample) -> Bools:
        """(r, n) decisions on a sample's rows."""
        t = decision_rule.totals(sample.x, self.w, sample.blocked)
        out: Bools = t >= self.threshold[:, None]
        return out


def group_folds(group: Ints, folds: int, rng: np.random.Generator) -> Ints:
    """Assign whole groups to folds at random, evenly by number of groups.

    Returns:
        (n,) fold of each row.
    """
    names, at = np.unique(group, return_inverse=True)
    deal = np.empty(names.size, dtype=np.int64)
    deal[rng.permutation(names.size)] = np.arange(names.size) % folds
    out: Ints = deal[at]
    return out


def tune_many(sample: Sample, plan: Plan, weights: Floats, rng: np.random.Generator) -> Rules:
    """Run the procedure on every weighting of the sample.

    Args:
        weights: (r, n), zero for rows left out.

    Returns:
        One rule a replicate.
    """
    d = weight_fitting.design(sample.rows(), sample.y, sample.levels)
    chunks = [weights[i : i + _CHUNK] for i in range(0, weights.shape[0], _CHUNK)]
    # Each chunk has its own stream of numbers, so the result does not depend on who is first.
    streams = rng.spawn(len(chunks))
    with ThreadPoolExecutor(max_workers=min(len(chunks), os.cpu_count() or 1)) as pool:
        parts = list(pool.map(lambda c, g: _tune_chunk(sample, plan, d, c, g), chunks, streams))
    return Rules(*(np.concatenate(p) for p in zip(*parts, strict=True)))


def _tune_chunk(
    sample: Sample, plan: Plan, d: weight_fitting.Design, weights: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    r = weights.shape[0]
    lam = np.full(r, np.inf)
    theta = np.ones((r, sample.w0.size))
    if plan.weights:
        at = choose(sample, plan, d, weights, rng)
        whole = weight_fitting.path(d, weights, plan.lambdas, tol=1e-5)
        theta = whole[at, np.arange(r), d.cuts :]
        lam = np.asarray(plan.lambdas)[at]
    w = theta * sample.w0
    size = np.abs(w).sum(axis=1, keepdims=True)
    w = np.where(size > 1e-9, w / np.maximum(size, 1e-300), sample.w0 / np.abs(sample.w0).sum())
    w = w * np.abs(sample.w0).sum()
    # All signs must survive scoring: a rule with no positive weight would score nothing.
    lost = (w > 0.0).sum(axis=1) == 0
    w[lost] = sample.w0
    lam[lost] = np.inf
    t = decision_rule.totals(sample.x, w, sample.blocked)
    y = sample.accept
    free = weights * ~sample.blocked
    q = y if plan.isotonic else decision_rule.sigmoid(t, decision_rule.platt(t, y, free))
    q = np.where(sample.blocked, y, q)
    return w, decision_rule.best_threshold(t, q.astype(float), weights, plan.aim), lam


def choose(
    sample: Sample, plan: Plan, d: weight_fitting.Design, weights: Floats, rng: np.random.Generator
) -> Ints:
    """Pick each replicate's penalty by grouped cross-validation and the one-standard-error rule.

    The error is that of the *difference* to the best penalty, with whole groups as units: the
    largest penalty that is not worse than the best by more than one standard error of it.

    Returns:
        (r,) positions in ``plan.lambdas``.
    """
    r, n = weights.shape
    fold = group_folds(sample.group, plan.inner, rng)
    loss = np.zeros((len(plan.lambdas), r, n))
    for k in range(plan.inner):
        held = fold == k
        train = weights * ~held
        # A resample that lies in one fold alone learns nothing here; an even weight stands in.
        train[train.sum(axis=1) <= 0.0] = sample.weight * ~held
        bs = weight_fitting.path(weight_fitting.rows_of(d, ~held), train, plan.lambdas, tol=1e-3)
        test = weight_fitting.rows_of(d, held)
        for j, b in enumerate(bs):
            loss[j] += weight_fitting.losses(test, b, n)
    names, at = np.unique(sample.group, return_inverse=True)
    units = np.zeros((n, names.size))
    units[np.arange(n), at] = 1.0
    by = (loss * weights) @ units
    mass = weights @ units
    mean = by.sum(axis=2) / weights.sum(axis=1)
    best = mean.argmin(axis=0)
    gap = by - by[best, np.arange(r)]
    over = gap.sum(axis=2) / weights.sum(axis=1)
    se = np.sqrt(((gap - over[..., None] * mass) ** 2).sum(axis=2)) / weights.sum(axis=1)
    fits: Ints = (over <= se).argmax(axis=0).astype(np.int64)
    return fits
