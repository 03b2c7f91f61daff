"""Fit decision rules to labels: penalty, weights and threshold, many resamples at once.

The procedure is one function, :func:`fit_rules`; the shipped rule, the folds of the
cross-validation and the bootstrap refits all come from it, so that what is evaluated is what is
shipped.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.random import Generator

from orchestrator.tuning import rubric_decisions
from orchestrator.tuning.fitting import calibration, ordinal_regression, weight_tree
from orchestrator.tuning.fitting.ordinal_regression import Bools, Design, Floats, Ints
from orchestrator.tuning.fitting.weight_tree import WeightTree
from orchestrator.tuning.rubric_decisions import Objective

MIN_ITEMS, MIN_MINORITY = 60, 20
"""Items, and items in the minority class, below which only the threshold is fitted."""
ISOTONIC_FROM = 500
"""Items from which calibration is isotonic."""
INNER_FOLDS = 5
SMOOTHING_ITEMS = 2000.0
"""Items at which the threshold is chosen half on the labels and half on smoothed probabilities."""
_TEMPERATURE = 4.0
"""Nats of held-out log-likelihood by which a penalty must be worse to count 1/e."""
_ZERO = 0.01
"""Share of the mean factor below which a criterion gets a weight of 0."""
_CHUNK, _CHUNK_CELLS = 128, 400_000
"""Replicates that are fitted at once, and rows of all of them together, which bounds the memory."""


class Sample(Struct, frozen=True):
    """Labeled items as arrays; one row is one person's label of one item.

    Attributes:
        x: (n, p) scores of the free nodes, NaN where one does not count.
        w0: (p,) their present effective weights; 0 where tuning has set a weight to 0.
        y: (n,) ordered categories 0..levels-1; those from ``cut`` up are accepted.
        group: (n,) group indices; resampling keeps a group together.
        weight: (n,) row weights; an item's rows sum to 1.
        blocked: (n,) whether the item fails a blocker, whatever its total.
        item: (n,) item indices.
        nodes: the groups above the free nodes; None without any.
        unit: (p,) effective weights, none of them 0, that fitting multiplies: ``w0``, or the weight
            before it was set to 0; None for ``w0``.
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
    nodes: WeightTree | None = None
    unit: Floats | None = None

    @property
    def units(self) -> Floats:
        """(p,) effective weights that fitting multiplies."""
        return self.w0 if self.unit is None else self.unit

    @property
    def prior(self) -> Floats:
        """(p,) factors of the units that give the present weights: 1, or 0."""
        return np.where(self.w0 != 0.0, 1.0, 0.0)

    @property
    def equal_weights(self) -> "Sample":
        """The sample with weights of equal size and the present signs."""
        return replace(self, w0=np.sign(self.units), unit=None)

    @property
    def tree(self) -> WeightTree:
        """The groups above the free nodes, at least the root."""
        return weight_tree.flat_tree(self.w0) if self.nodes is None else self.nodes

    @property
    def held(self) -> Bools:
        """(p,) whether a node has the same score, or none, in every item, so nothing is learned.

        Items that fail a blocker are rejected whatever their total, so nothing is learned of them.
        """
        x = self.x[~self.blocked]
        present = ~np.isnan(x)
        low = np.where(present, x, np.inf).min(axis=0, initial=np.inf)
        high = np.where(present, x, -np.inf).max(axis=0, initial=-np.inf)
        out: Bools = high - low < 1e-12
        return out

    def totals(self, w: Floats) -> Floats:
        """(r, n) totals of the rows under (r, p) effective weights."""
        return rubric_decisions.compute_totals(self.tree, self.x, w, self.blocked)

    @property
    def accept(self) -> Bools:
        """(n,) whether the person accepts."""
        return self.y >= self.cut

    @property
    def items(self) -> float:
        """Number of labeled items."""
        return float(self.weight.sum())

    @property
    def minority_items(self) -> float:
        """Number of items in the minority class."""
        accepted = float(self.weight[self.accept].sum())
        return min(accepted, self.items - accepted)

    def standardized_rows(self) -> Floats:
        """(n, p) nodes times units, imputed, scaled to unit spread of the total.

        Nodes that never vary are 0: the penalty then gives them their siblings' mean change.
        """
        z = weight_tree.impute(self.tree, self.x, self.w0) * self.units
        z[:, self.held] = 0.0
        spread = z.sum(axis=1).std()
        return z / spread if spread > 1e-9 else z


class FitPlan(Struct, frozen=True):
    """Settings of the fitting procedure, chosen from the number of labels alone.

    Attributes:
        fit_weights: False fits the threshold only.
        use_isotonic: isotonic calibration; else Platt scaling.
        penalties: candidates in descending order, beginning with infinity.
        free_signs: a weight may change its sign, so that a criterion becomes a penalty.
    """

    objective: Objective = field(default_factory=Objective)
    fit_weights: bool = True
    use_isotonic: bool = False
    penalties: tuple[float, ...] = ordinal_regression.PENALTIES
    inner_folds: int = INNER_FOLDS
    free_signs: bool = False


def plan_fit(sample: Sample, objective: Objective) -> FitPlan:
    """The settings that the number of labels allows."""
    enough = sample.items >= MIN_ITEMS and sample.minority_items >= MIN_MINORITY
    return FitPlan(
        objective,
        fit_weights=enough and sample.w0.size > 1,
        use_isotonic=sample.items >= ISOTONIC_FROM,
    )


class FittedRules(Struct, frozen=True):
    """Fitted decision rules, one per replicate.

    Attributes:
        weights: (r, p) effective, with the present sum of absolute values.
        penalties: (r,) the most likely penalty.
    """

    weights: Floats
    thresholds: Floats
    penalties: Floats

    def decide(self, sample: Sample) -> Bools:
        """(r, n) decisions on a sample's rows."""
        t = sample.totals(self.weights)
        return t >= self.thresholds[:, None]


def assign_group_folds(group: Ints, folds: int, rng: Generator) -> Ints:
    """Assign whole groups to folds at random, evenly by number of groups.

    Returns:
        (n,) fold of each row.
    """
    names, at = np.unique(group, return_inverse=True)
    fold_of = np.empty(names.size, dtype=np.int64)
    fold_of[rng.permutation(names.size)] = np.arange(names.size) % folds
    return fold_of[at]


def fit_rules(sample: Sample, plan: FitPlan, weights: Floats, rng: Generator) -> FittedRules:
    """Run the fitting procedure on every weighting of the sample.

    Args:
        weights: (r, n), zero for rows that are left out.
    """
    d = ordinal_regression.build_design(
        sample.standardized_rows(),
        sample.y,
        sample.levels,
        weight_tree.shrinkage(sample.tree, sample.prior),
        sample.prior,
        plan.free_signs,
    )
    size = min(_CHUNK, max(_CHUNK_CELLS // weights.shape[1], 8))
    chunks = [weights[i : i + size] for i in range(0, weights.shape[0], size)]
    # Every chunk has its own random stream, so the result does not depend on the order of threads.
    streams = rng.spawn(len(chunks))
    with ThreadPoolExecutor(max_workers=min(len(chunks), os.cpu_count() or 1)) as pool:
        parts = list(pool.map(lambda c, g: _fit_chunk(sample, plan, d, c, g), chunks, streams))
    return FittedRules(*(np.concatenate(p) for p in zip(*parts, strict=True)))


def _fit_chunk(
    sample: Sample, plan: FitPlan, d: Design, weights: Floats, rng: Generator
) -> tuple[Floats, Floats, Floats]:
    """Weights, thresholds and penalties of some replicates."""
    r = weights.shape[0]
    penalty = np.full(r, np.inf)
    theta = np.repeat(sample.prior[None, :], r, axis=0)
    if plan.fit_weights:
        # Items that fail a blocker are left out, where both classes remain without them.
        rest = weights * ~sample.blocked
        both = ((rest @ sample.accept) > 0.0) & ((rest @ ~sample.accept) > 0.0)
        fitted = np.where(both[:, None], rest, weights)
        share = weigh_penalties(sample, plan, d, fitted, rng)
        path = ordinal_regression.fit_path(d, fitted, plan.penalties, tol=1e-5)
        theta = (share[:, :, None] * path[:, :, d.cuts :]).sum(axis=0)
        penalty = np.asarray(plan.penalties)[share.argmax(axis=0)]
        least = _ZERO * np.abs(theta).mean(axis=1, keepdims=True)
        theta = np.where(np.abs(theta) < least, 0.0, theta)
    w = theta * sample.units
    size = np.abs(w).sum(axis=1, keepdims=True)
    w = np.where(size > 1e-9, w / np.maximum(size, 1e-300), sample.w0 / np.abs(sample.w0).sum())
    w = w * np.abs(sample.w0).sum()
    # A rule without a positive weight has no total; the present weights take its place.
    degenerate = weight_tree.sum_groups(sample.tree, w)[-1] <= 0.0
    w[degenerate] = sample.w0
    penalty[degenerate] = np.inf
    return w, fit_thresholds(sample, sample.totals(w), weights, plan.objective), penalty


def fit_thresholds(
    sample: Sample, t: Floats, weights: Floats, objective: Objective, y: Bools | None = None
) -> Floats:
    """(r,) thresholds of (r, n) totals under (r, n) weights.

    Args:
        y: (n,) what is to be accepted; None: what people accept.
    """
    y = sample.accept if y is None else y
    unblocked = weights * ~sample.blocked
    # The more labels, the more the threshold follows them rather than a sigmoid through them.
    smooth = calibration.predict_platt(t, calibration.fit_platt(t, y, unblocked))
    share = SMOOTHING_ITEMS / (SMOOTHING_ITEMS + weights.sum(axis=1, keepdims=True))
    q = np.where(sample.blocked, y, share * smooth + (1.0 - share) * y)
    return rubric_decisions.choose_threshold(t, q.astype(float), weights, objective)


def weigh_penalties(
    sample: Sample, plan: FitPlan, d: Design, weights: Floats, rng: Generator
) -> Floats:
    """Weigh each replicate's penalties by their likelihood in a grouped cross-validation.

    The fits are averaged with these weights. That varies less than the fit of the best penalty,
    which a few labels may change.

    Returns:
        (len(plan.penalties), r), each column with a sum of 1.
    """
    fold = assign_group_folds(sample.group, plan.inner_folds, rng)
    folds = np.arange(plan.inner_folds)
    loss = np.zeros((len(plan.penalties), weights.shape[0]))
    # Of few replicates a step takes hardly longer for the folds of all of them together.
    most = min(_CHUNK, max(_CHUNK_CELLS // weights.shape[1], 8))
    for some in np.array_split(folds, min(folds.size, -(-folds.size * loss.shape[1] // most))):
        held_out = fold == some[:, None]
        train = weights * ~held_out[:, None, :]
        # A resample with all groups in a fold has no training part; even weights replace it.
        empty = train.sum(axis=2) <= 0.0
        train[empty] = (sample.weight * ~held_out)[empty.nonzero()[0]]
        fits = ordinal_regression.fit_path(
            ordinal_regression.select_items(d, ~held_out.all(axis=0)),
            train.reshape(-1, fold.size),
            plan.penalties,
            tol=1e-3,
        )
        for k, parts in enumerate(np.split(fits, some.size, axis=1)):
            test = ordinal_regression.select_items(d, held_out[k])
            for j, parameters in enumerate(parts):
                found = ordinal_regression.negative_log_likelihoods(test, parameters, fold.size)
                loss[j] += (found * weights).sum(axis=1)
    share = np.exp((loss.min(axis=0) - loss) / _TEMPERATURE)
    out: Floats = share / share.sum(axis=0)
    return out
