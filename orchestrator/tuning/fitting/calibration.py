"""Probability calibration of totals: Platt scaling, isotonic regression, reliability diagrams."""

from typing import Literal

import numpy as np
from msgspec import Struct

from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats

RELIABILITY_BINS = 10


class Calibration(Struct, frozen=True):
    """A non-decreasing map from totals to probabilities of acceptance.

    Attributes:
        method: ``platt``: ``x`` is the logit's intercept and slope; ``isotonic``: ``x`` are totals
            and ``p`` their probabilities, interpolated linearly.
    """

    method: Literal["platt", "isotonic"]
    x: tuple[float, ...]
    p: tuple[float, ...] = ()

    def predict(self, total: Floats) -> Floats:
        """Probabilities of (n,) totals; a blocked item's (total below 0) is 0."""
        if self.method == "platt":
            out = predict_platt(total[None, :], np.array([self.x]))[0]
        else:
            out = np.interp(total, self.x, self.p)
        return np.where(total < 0, 0.0, out)


def fit_calibration(total: Floats, y: Bools, weight: Floats, use_isotonic: bool) -> Calibration:
    """Fit a calibration on (n,) totals; blocked items (total below 0) are excluded."""
    unblocked = total >= 0
    t, y, w = total[unblocked], y[unblocked], weight[unblocked]
    if not use_isotonic:
        a, b = fit_platt(t[None, :], y, w[None, :])[0]
        return Calibration("platt", (round(float(a), 9), round(float(b), 9)))
    values, level = fit_isotonic(t, y.astype(float), w)
    # Between the two ends of a constant segment the interpolation is exact without its points.
    keep = np.ones(values.size, dtype=bool)
    keep[1:-1] = (level[1:-1] != level[:-2]) | (level[1:-1] != level[2:])
    return Calibration(
        "isotonic",
        tuple(round(float(v), 9) for v in values[keep]),
        tuple(round(float(v), 9) for v in level[keep]),
    )


def fit_isotonic(x: Floats, y: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Isotonic regression by the pool adjacent violators algorithm.

    Returns:
        The distinct values of ``x``, ascending, and the fitted mean at each.
    """
    values, at = np.unique(x, return_inverse=True)
    mass = np.bincount(at, weights=weight)
    mean = np.bincount(at, weights=weight * y) / mass
    blocks: list[list[float]] = []
    for m, w in zip(mean, mass, strict=True):
        blocks.append([float(m), float(w), 1.0])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            m1, w1, n1 = blocks.pop()
            m0, w0, n0 = blocks[-1]
            blocks[-1] = [(m0 * w0 + m1 * w1) / (w0 + w1), w0 + w1, n0 + n1]
    fitted = np.repeat([b[0] for b in blocks], [int(b[2]) for b in blocks])
    return values, fitted


def fit_platt(t: Floats, y: Bools, weights: Floats, steps: int = 12) -> Floats:
    """Platt scaling with a non-negative slope and Platt's smoothed targets, many fits at once.

    Args:
        t: (r, n) totals.
        y: (n,) labels.
        weights: (r, n).

    Returns:
        (r, 2): intercept and slope of the logit in ``t``.
    """
    total = weights.sum(axis=1)
    share = weights / total[:, None]
    positive = weights @ y
    high, low = (positive + 1.0) / (positive + 2.0), 1.0 / (total - positive + 2.0)
    target = np.where(y, high[:, None], low[:, None])
    mean = (share * t).sum(axis=1, keepdims=True)
    spread = np.sqrt((share * (t - mean) ** 2).sum(axis=1, keepdims=True))
    u = (t - mean) / np.maximum(spread, 1e-9)
    a, b = np.zeros(t.shape[0]), np.zeros(t.shape[0])
    for _ in range(steps):
        p = 1.0 / (1.0 + np.exp(-np.clip(a[:, None] + b[:, None] * u, -30.0, 30.0)))
        residual = share * (p - target)
        curvature = share * p * (1.0 - p)
        ga, gb = residual.sum(axis=1), (residual * u).sum(axis=1)
        haa = curvature.sum(axis=1) + 1e-9
        hab = (curvature * u).sum(axis=1)
        hbb = (curvature * u * u).sum(axis=1) + 1e-9
        det = haa * hbb - hab**2
        a = np.clip(a - (hbb * ga - hab * gb) / det, -30.0, 30.0)
        b = np.clip(b - (haa * gb - hab * ga) / det, 0.0, 30.0)
    slope = b / np.maximum(spread[:, 0], 1e-9)
    return np.stack([a - slope * mean[:, 0], slope], axis=1)


def predict_platt(t: Floats, ab: Floats) -> Floats:
    """Probabilities, (r, n) from (r, n) totals and (r, 2) Platt parameters."""
    return 1.0 / (1.0 + np.exp(-np.clip(ab[:, :1] + ab[:, 1:] * t, -30.0, 30.0)))


class ReliabilityBin(Struct, frozen=True):
    """One point of a reliability diagram.

    Attributes:
        mean_predicted: mean predicted probability of acceptance.
        fraction_accepted: share of the items that people accept.
        weight: number of items in the bin.
    """

    mean_predicted: float
    fraction_accepted: float
    weight: float


def reliability_curve(
    p: Floats, y: Bools, weight: Floats | None = None, bins: int = RELIABILITY_BINS
) -> list[ReliabilityBin]:
    """The points of a reliability diagram over bins of equal width; empty bins are omitted."""
    w = np.ones(p.size) if weight is None else weight
    at = np.minimum((p * bins).astype(np.int64), bins - 1)
    mass = np.bincount(at, weights=w, minlength=bins)
    predicted = np.bincount(at, weights=w * p, minlength=bins)
    accepted = np.bincount(at, weights=w * y, minlength=bins)
    return [
        ReliabilityBin(float(predicted[i] / mass[i]), float(accepted[i] / mass[i]), float(mass[i]))
        for i in range(bins)
        if mass[i] > 0
    ]


def expected_calibration_error(curve: list[ReliabilityBin]) -> float:
    """Expected calibration error: mean distance of a reliability curve from the diagonal."""
    total = sum(b.weight for b in curve)
    error = sum(b.weight * abs(b.mean_predicted - b.fraction_accepted) for b in curve)
    return error / total if total else 0.0
