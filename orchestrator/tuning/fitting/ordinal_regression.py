"""Sign-constrained ridge regression for binary and ordinal labels (cumulative logits), batched.

The model. An item's criteria, each multiplied by the weight it has now, make a row ``z``. A
person's label is an ordered category ``0..k-1`` with ``P(label <= j) = sigmoid(cut_j -
z·theta)``; with two categories this is logistic regression. ``theta`` multiplies the present
weights:

* ``theta >= 0``: a weight never changes its sign, so a penalty remains a penalty (unless signs are
  free);
* the ridge penalty is ``lam/2 · sum((theta - mean(theta))**2)``, in a tree that of each criterion
  from its group and of each group from the whole: at ``lam = inf`` all weights keep their
  proportions, and only the scale and the cut points are fitted.

The likelihood of cumulative logits (McCullagh 1980) is that of a logistic regression with two rows
per item (one for the cut above its category, one for the cut below) plus a term of the gaps between
cuts, so one solver serves both. It runs a projected Newton method on a whole batch of weightings of
the same items at once, because resampling takes thousands of fits and a Python loop would take
minutes.
"""

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

PENALTIES: tuple[float, ...] = (
    float("inf"), 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4, 1e-5,
)  # fmt: skip
"""Penalties from "proportions fixed" to "nearly unpenalized", for standardized rows."""

_RIDGE = 1e-8  # keeps a separable sample's solution finite
_LIMIT = 30.0  # |logit| beyond this saturates in double precision


class Design(Struct, frozen=True):
    """The logistic rows of an ordinal sample.

    Attributes:
        rows: (m, k-1+p), the cut's indicator then ``-z``, negated where the item lies above the
            row's cut; an item gives one row or two.
        below: (m,), whether the item lies below the row's cut.
        item: (m,), the item of a row.
        pairs: (m, q(q+1)/2), products of the columns, in single precision: only Hessians need them.
        square: (q, q), the column of ``pairs`` that has the product of two columns.
        middle: (n, k-1) indicator of the upper cut of items in an inner category.
        pull: (p, p) matrix of the ridge penalty.
        cuts, width: k-1 and p.
        floor: lower bound of ``theta``: 0, or minus infinity where weights may change their sign.
        prior: (p,) ``theta`` at an infinite penalty: 1, or 0 for a criterion without weight now.
    """

    rows: Floats
    below: Bools
    item: Ints
    pairs: npt.NDArray[np.float32]
    square: Ints
    middle: Floats
    pull: Floats
    cuts: int
    width: int
    floor: float
    prior: Floats


def build_design(
    z: Floats,
    y: Ints,
    levels: int,
    pull: Floats | None = None,
    prior: Floats | None = None,
    free_signs: bool = False,
) -> Design:
    """Build the logistic rows of a sample.

    Args:
        z: (n, p) criteria times present weights.
        y: (n,) categories 0..levels-1.
        pull: (p, p) matrix of the ridge penalty; None: distance from the mean.
        prior: (p,) ``theta`` at an infinite penalty; None: 1 each.
        free_signs: ``theta`` may be negative.
    """
    n, p = z.shape
    pull = np.eye(p) - 1.0 / p if pull is None else pull
    k = levels - 1
    below, above = np.flatnonzero(y < k), np.flatnonzero(y > 0)
    cut = np.concatenate([y[below], y[above] - 1])
    item = np.concatenate([below, above]).astype(np.int64)
    rows = np.concatenate([np.eye(k)[cut], -z[item]], axis=1)
    rows[below.size :] *= -1.0
    middle = np.zeros((n, k))
    inner = np.flatnonzero((y > 0) & (y < k))
    middle[inner, y[inner]] = 1.0
    floor = -np.inf if free_signs else 0.0
    prior = np.ones(p) if prior is None else prior
    is_below = np.arange(item.size) < below.size
    return Design(rows, is_below, item, *_products(rows), middle, pull, k, p, floor, prior)


def _products(rows: Floats) -> tuple[npt.NDArray[np.float32], Ints]:
    """``pairs`` and ``square`` of a design with these rows."""
    upper, lower = np.triu_indices(rows.shape[1])
    square = np.empty((rows.shape[1], rows.shape[1]), dtype=np.int64)
    square[upper, lower] = square[lower, upper] = np.arange(upper.size)
    single = rows.astype(np.float32)
    return single[:, upper] * single[:, lower], square


def initial_parameters(d: Design, weights: Floats) -> Floats:
    """Initial parameters: cuts at the observed shares, ``theta`` zero.

    Args:
        weights: (r, n) weight of each item in each replicate.

    Returns:
        (r, k-1+p).
    """
    out = np.zeros((weights.shape[0], d.cuts + d.width))
    total = weights.sum(axis=1)
    for j in range(d.cuts):
        hit = (d.rows[:, j] > 0) & d.below
        at = np.bincount(d.item[hit], minlength=weights.shape[1])
        share = (weights @ at) / total
        out[:, j] = share
    share = np.cumsum(out[:, : d.cuts], axis=1) if d.cuts > 1 else out[:, :1]
    share = np.clip(share, 0.01, 0.99)
    out[:, : d.cuts] = np.log(share / (1 - share)) + 1e-3 * np.arange(d.cuts)
    return out


def solve(
    d: Design, weights: Floats, lam: Floats, initial: Floats, steps: int = 40, tol: float = 1e-7
) -> Floats:
    """Fit every replicate at its own penalty.

    Args:
        weights: (r, n), not negative, each row with a positive sum.
        lam: (r,), finite.
        initial: (r, k-1+p), feasible (cuts rise, ``theta >= 0``).

    Returns:
        (r, k-1+p) parameters.
    """
    b = initial.copy()
    active = np.arange(b.shape[0])
    share = weights / weights.sum(axis=1, keepdims=True)
    of_rows, of_middle = share[:, d.item], share @ d.middle
    for _ in range(steps):
        some = slice(None) if active.size == b.shape[0] else active  # a slice copies nothing
        step = _newton(d, of_rows[some], of_middle[some], lam[some], b[some])
        new = _take_step(d, b[active], step)
        change = np.abs(new - b[active]).max(axis=1)
        b[active] = new
        active = active[change > tol]
        if active.size == 0:
            break
    return b


def _newton(d: Design, of_rows: Floats, of_middle: Floats, lam: Floats, b: Floats) -> Floats:
    """The projected Newton step of every replicate, (r, q).

    Args:
        of_rows: (r, m) share of the weight that a row has.
        of_middle: (r, k-1) share of the weight with that upper cut, as ``middle``.
    """
    r, q = b.shape
    residual = _sigmoids(d, b)
    pull = of_rows * residual
    grad: Floats = _RIDGE * b - pull @ d.rows
    pull *= np.subtract(1.0, residual, out=residual)
    hess: Floats = (pull.astype(np.float32) @ d.pairs).astype(np.float64).take(d.square, axis=1)
    diagonal = hess.reshape(r, q * q)[:, :: q + 1]
    diagonal += _RIDGE
    if d.cuts > 1:
        _add_gap_terms(d, of_middle, b, grad, hess)
    theta = b[:, d.cuts :]
    grad[:, d.cuts :] += lam[:, None] * (theta @ d.pull)
    hess[:, d.cuts :, d.cuts :] += lam[:, None, None] * d.pull
    held = (b <= d.floor) & (grad > 0.0)
    held[:, : d.cuts] = False
    if held.any():
        free = ~held
        grad *= free
        hess *= free[:, :, None]
        hess *= free[:, None, :]
        diagonal += held
    return np.asarray(np.linalg.solve(hess, -grad[..., None])[..., 0], dtype=np.float64)


def _sigmoids(d: Design, b: Floats) -> Floats:
    """(r, m) probability that a row lies on the other side of its cut, without temporary arrays."""
    out: Floats = b @ d.rows.T
    np.maximum(np.minimum(out, _LIMIT, out=out), -_LIMIT, out=out)
    np.exp(out, out=out)
    out += 1.0
    return np.reciprocal(out, out=out)


def _add_gap_terms(d: Design, mass: Floats, b: Floats, grad: Floats, hess: Floats) -> None:
    """Add the term ``-log(1 - exp(-(cut_j - cut_{j-1})))`` of the inner categories, in place."""
    for j in range(1, d.cuts):
        gap = np.maximum(b[:, j] - b[:, j - 1], 1e-9)
        grow = np.expm1(np.minimum(gap, 500.0))
        slope = mass[:, j] / grow
        bend = mass[:, j] * (grow + 1.0) / grow**2
        grad[:, j] -= slope
        grad[:, j - 1] += slope
        hess[:, j, j] += bend
        hess[:, j - 1, j - 1] += bend
        hess[:, j, j - 1] -= bend
        hess[:, j - 1, j] -= bend


def _take_step(d: Design, b: Floats, step: Floats) -> Floats:
    """Parameters after the step, shortened so that logits stay bounded and cuts stay ordered."""
    size = np.ones(b.shape[0])
    longest = np.abs(step).max(axis=1)
    size = np.minimum(size, 10.0 / np.maximum(longest, 1e-300))
    for j in range(1, d.cuts):
        gap = b[:, j] - b[:, j - 1]
        closing = step[:, j - 1] - step[:, j]
        limit = np.where(closing > 0.0, 0.9 * gap / np.maximum(closing, 1e-300), np.inf)
        size = np.minimum(size, limit)
    new: Floats = b + size[:, None] * step
    new[:, d.cuts :] = np.maximum(new[:, d.cuts :], d.floor)
    return new


def select_items(d: Design, items: Bools) -> Design:
    """The design of the items selected by an (n,) mask, without the rows of the others."""
    keep = items[d.item]
    return replace(
        d, rows=d.rows[keep], below=d.below[keep], item=d.item[keep], pairs=d.pairs[keep]
    )


def tie_weights(d: Design) -> Design:
    """The design with one column, the prior's sum of all: the model at ``lam = inf``."""
    tied = d.rows[:, d.cuts :] @ d.prior
    rows = np.concatenate([d.rows[:, : d.cuts], tied[:, None]], axis=1)
    pairs, square = _products(rows)
    pull, prior = np.zeros((1, 1)), np.ones(1)
    return replace(
        d, rows=rows, pairs=pairs, square=square, pull=pull, width=1, floor=0.0, prior=prior
    )


def fit_path(d: Design, weights: Floats, penalties: tuple[float, ...], tol: float = 1e-7) -> Floats:
    """Fit every replicate along a descending path of penalties with warm starts.

    Args:
        weights: (r, n).
        penalties: descending; the first is ``inf``.

    Returns:
        (len(penalties), r, k-1+p).
    """
    tied = tie_weights(d)
    root = solve(
        tied, weights, np.zeros(weights.shape[0]), initial_parameters(tied, weights), tol=tol
    )
    solution = np.concatenate([root[:, : d.cuts], root[:, d.cuts :] * d.prior], axis=1)
    out = [solution]
    for lam in penalties[1:]:
        solution = solve(d, weights, np.full(weights.shape[0], lam), solution, tol=tol)
        out.append(solution)
    return np.stack(out)


def negative_log_likelihoods(d: Design, b: Floats, items: int) -> Floats:
    """Negative log-likelihood of each item under each replicate's parameters.

    Args:
        b: (r, k-1+p).

    Returns:
        (r, n) in nats; 0 for items without rows in the design.
    """
    logit = np.clip(b @ d.rows.T, -_LIMIT, _LIMIT)
    rows = np.log1p(np.exp(-logit))
    out = np.zeros((b.shape[0], items))
    out[:, d.item[d.below]] += rows[:, d.below]
    out[:, d.item[~d.below]] += rows[:, ~d.below]
    if d.cuts > 1:
        gap = np.maximum(np.diff(b[:, : d.cuts], axis=1), 1e-9)
        there = np.zeros(items)
        there[d.item] = 1.0
        out -= (np.log(-np.expm1(-gap)) @ d.middle[:, 1:].T) * there
    return out
