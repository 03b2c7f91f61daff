"""Weights from labels: sign-constrained logistic and cumulative-logit fits, many at a time.

The model. An item's criteria, each multiplied by the weight it has now, make a row ``z``. A
person's label is an ordered category ``0..k-1`` with ``P(label <= j) = sigmoid(cut_j -
z·theta)``; two categories make it plain logistic regression. ``theta`` says how much each present
weight is stretched:

* ``theta >= 0``: a weight never changes its sign, so a penalty stays one;
* the penalty is ``lam/2 · sum((theta - mean(theta))**2)``: at ``lam = inf`` all weights keep the
  proportions they have, and only the scale and the cut points are fitted.

A likelihood of cumulative logits (McCullagh 1980) is that of a logistic regression on two rows an
item (one for the cut above its category, one for the cut below) plus a term of the gaps between
cuts. That makes one solver enough for both. It runs a projected Newton method on a whole batch of
weightings of the same items at once, because resampling needs thousands of fits and a loop in
Python would take minutes.
"""

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LAMBDAS: tuple[float, ...] = (float("inf"), 1.0, 0.3, 0.1, 0.03, 0.01)
"""Penalties from "keep the proportions" to "nearly free", for rows on a common scale."""

_RIDGE = 1e-8  # keeps a separable sample's solution finite
_LIMIT = 30.0  # |logit| beyond this is certainty in double precision


class Design(Struct, frozen=True):
    """The logistic rows of an ordinal sample.

    Attributes:
        rows: (m, k-1+p), the cut's indicator then ``-z``; an item gives one row or two.
        sign: (m,), +1 where the item lies below the row's cut, -1 above.
        item: (m,), the item of a row.
        pairs: (m, q(q+1)/2), products of the columns: Hessians become one matrix product.
        middle: (n, k-1) indicator of the upper cut of items in an inner category.
        cuts, width: k-1 and p.
    """

    rows: Floats
    sign: Floats
    item: Ints
    pairs: Floats
    middle: Floats
    cuts: int
    width: int


def design(z: Floats, y: Ints, levels: int) -> Design:
    """Lay out a sample.

    Args:
        z: (n, p) criteria times present weights.
        y: (n,) categories 0..levels-1.
        levels: number of categories, at least 2.
    """
    n, p = z.shape
    k = levels - 1
    below, above = np.flatnonzero(y < k), np.flatnonzero(y > 0)
    cut = np.concatenate([y[below], y[above] - 1])
    item = np.concatenate([below, above]).astype(np.int64)
    rows = np.concatenate([np.eye(k)[cut], -z[item]], axis=1)
    sign = np.concatenate([np.ones(below.size), -np.ones(above.size)])
    upper, lower = np.triu_indices(k + p)
    middle = np.zeros((n, k))
    inner = np.flatnonzero((y > 0) & (y < k))
    middle[inner, y[inner]] = 1.0
    return Design(rows, sign, item, rows[:, upper] * rows[:, lower], middle, k, p)


def start(d: Design, weights: Floats) -> Floats:
    """Parameters from which to begin: cuts at the observed shares, ``theta`` zero.

    Args:
        weights: (r, n) weight of each item in each replicate.

    Returns:
        (r, k-1+p).
    """
    out = np.zeros((weights.shape[0], d.cuts + d.width))
    total = weights.sum(axis=1)
    for j in range(d.cuts):
        hit = (d.rows[:, j] > 0) & (d.sign > 0)
        at = np.bincount(d.item[hit], minlength=weights.shape[1])
        share = (weights @ at) / total
        out[:, j] = share
    share = np.cumsum(out[:, : d.cuts], axis=1) if d.cuts > 1 else out[:, :1]
    share = np.clip(share, 0.01, 0.99)
    out[:, : d.cuts] = np.log(share / (1 - share)) + 1e-3 * np.arange(d.cuts)
    return out


def solve(
    d: Design, weights: Floats, lam: Floats, begin: Floats, steps: int = 40, tol: float = 1e-7
) -> Floats:
    """Fit every replicate at its own penalty.

    Args:
        weights: (r, n), not negative, each row with a positive sum.
        lam: (r,), finite.
        begin: (r, k-1+p), feasible (cuts rise, ``theta >= 0``).
        steps: the most Newton steps.
        tol: the largest change of a parameter that counts as arrived.

    Returns:
        (r, k-1+p) parameters.
    """
    b = begin.copy()
    live = np.arange(b.shape[0])
    share = weights / weights.sum(axis=1, keepdims=True)
    for _ in range(steps):
        step = _newton(d, share[live], lam[live], b[live])
        new = _feasible(d, b[live], step)
        moved = np.abs(new - b[live]).max(axis=1)
        b[live] = new
        live = live[moved > tol]
        if live.size == 0:
            break
    return b


def _newton(d: Design, share: Floats, lam: Floats, b: Floats) -> Floats:
    """One projected Newton step for each replicate, (r, q)."""
    r, q = b.shape
    w = share[:, d.item]
    miss = 1.0 / (1.0 + np.exp(np.clip((b @ d.rows.T) * d.sign, -_LIMIT, _LIMIT)))
    grad: Floats = -((w * miss) * d.sign) @ d.rows
    flat = (w * miss * (1.0 - miss)) @ d.pairs
    upper, lower = np.triu_indices(q)
    hess: Floats = np.empty((r, q, q))
    hess[:, upper, lower] = flat
    hess[:, lower, upper] = flat
    if d.cuts > 1:
        _gaps(d, share, b, grad, hess)
    theta = b[:, d.cuts :]
    grad[:, d.cuts :] += lam[:, None] * (theta - theta.mean(axis=1, keepdims=True))
    pull = np.eye(d.width) - 1.0 / d.width
    hess[:, d.cuts :, d.cuts :] += lam[:, None, None] * pull
    grad = grad + _RIDGE * b
    hess[:, np.arange(q), np.arange(q)] += _RIDGE
    held = (b <= 0.0) & (grad > 0.0)
    held[:, : d.cuts] = False
    free = ~held
    hess = hess * (free[:, :, None] & free[:, None, :])
    hess[:, np.arange(q), np.arange(q)] += held
    return np.asarray(np.linalg.solve(hess, -(grad * free)[..., None])[..., 0], dtype=np.float64)


def _gaps(d: Design, share: Floats, b: Floats, grad: Floats, hess: Floats) -> None:
    """Add the term ``-log(1 - exp(-(cut_j - cut_{j-1})))`` of the inner categories, in place."""
    mass = share @ d.middle
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


def _feasible(d: Design, b: Floats, step: Floats) -> Floats:
    """Take the step, shortened so that logits stay sane and cuts keep their order."""
    size = np.ones(b.shape[0])
    longest = np.abs(step).max(axis=1)
    size = np.minimum(size, 10.0 / np.maximum(longest, 1e-300))
    for j in range(1, d.cuts):
        gap = b[:, j] - b[:, j - 1]
        closing = step[:, j - 1] - step[:, j]
        limit = np.where(closing > 0.0, 0.9 * gap / np.maximum(closing, 1e-300), np.inf)
        size = np.minimum(size, limit)
    new: Floats = b + size[:, None] * step
    new[:, d.cuts :] = np.maximum(new[:, d.cuts :], 0.0)
    return new


def rows_of(d: Design, items: Bools) -> Design:
    """The rows of some items, (n,) true; what has no weight need not be computed."""
    keep = items[d.item]
    return replace(d, rows=d.rows[keep], sign=d.sign[keep], item=d.item[keep], pairs=d.pairs[keep])


def tied(d: Design) -> Design:
    """The same sample with one column, the sum: what is fitted at ``lam = inf``."""
    rows = np.concatenate(
        [d.rows[:, : d.cuts], d.rows[:, d.cuts :].sum(axis=1, keepdims=True)], axis=1
    )
    upper, lower = np.triu_indices(d.cuts + 1)
    return Design(rows, d.sign, d.item, rows[:, upper] * rows[:, lower], d.middle, d.cuts, 1)


def path(d: Design, weights: Floats, lambdas: tuple[float, ...], tol: float = 1e-7) -> Floats:
    """Fit every replicate along a falling path of penalties, each from where the last arrived.

    Args:
        weights: (r, n).
        lambdas: falling; the first is ``inf``.

    Returns:
        (len(lambdas), r, k-1+p).
    """
    one = tied(d)
    root = solve(one, weights, np.zeros(weights.shape[0]), start(one, weights), tol=tol)
    now = np.concatenate([root[:, : d.cuts], np.repeat(root[:, d.cuts :], d.width, axis=1)], axis=1)
    out = [now]
    for lam in lambdas[1:]:
        now = solve(d, weights, np.full(weights.shape[0], lam), now, tol=tol)
        out.append(now)
    return np.stack(out)


def losses(d: Design, b: Floats, items: int) -> Floats:
    """Negative log-likelihood of each item under each replicate's parameters.

    Args:
        b: (r, k-1+p).
        items: n.

    Returns:
        (r, n), nats; 0 for items that the design has no rows of.
    """
    logit = np.clip((b @ d.rows.T) * d.sign, -_LIMIT, _LIMIT)
    rows = np.log1p(np.exp(-logit))
    out = np.zeros((b.shape[0], items))
    below = d.sign > 0
    out[:, d.item[below]] += rows[:, below]
    out[:, d.item[~below]] += rows[:, ~below]
    if d.cuts > 1:
        gap = np.maximum(np.diff(b[:, : d.cuts], axis=1), 1e-9)
        there = np.zeros(items)
        there[d.item] = 1.0
        out -= (np.log(-np.expm1(-gap)) @ d.middle[:, 1:].T) * there
    return out
