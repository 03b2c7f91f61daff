"""From a total to the probability that people accept: Platt's sigmoid, or isotonic steps."""

from typing import Any, Literal

import numpy as np
from msgspec import Struct

from orchestrator.tuning import decision_rule
from orchestrator.tuning.weight_fitting import Bools, Floats


class Calibration(Struct, frozen=True):
    """A rising map from totals to probabilities.

    Attributes:
        method: ``platt`` holds the logit's intercept and slope in ``x``; ``isotonic`` holds
        totals in
            ``x`` and probabilities in ``p``, between which it is linear.
    """

    method: Literal["platt", "isotonic"]
    x: tuple[float, ...]
    p: tuple[float, ...] = ()

    def probability(self, total: Floats) -> Floats:
        """Probabilities of (n,) totals; a blocked item's is 0."""
        if self.method == "platt":
            out = decision_rule.sigmoid(total[None, :], np.array([self.x]))[0]
        else:
            out = np.interp(total, self.x, self.p)
        known: Floats = np.where(total < 0, 0.0, out)
        return known

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {"method": self.method, "x": list(self.x), "p": list(self.p)}


def calibrate(total: Floats, y: Bools, weight: Floats, isotonic: bool) -> Calibration:
    """Fit a calibration on (n,) totals; blocked ones are left out."""
    free = total >= 0
    t, y, w = total[free], y[free], weight[free]
    if not isotonic:
        a, b = decision_rule.platt(t[None, :], y, w[None, :])[0]
        return Calibration("platt", (round(float(a), 9), round(float(b), 9)))
    values, level = pool_adjacent(t, y.astype(float), w)
    # Only the ends of a step are needed to draw it.
    keep = np.ones(values.size, dtype=bool)
    keep[1:-1] = (level[1:-1] != level[:-2]) | (level[1:-1] != level[2:])
    return Calibration(
        "isotonic",
        tuple(round(float(v), 9) for v in values[keep]),
        tuple(round(float(v), 9) for v in level[keep]),
    )


def pool_adjacent(x: Floats, y: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Isotonic regression by pooling adjacent violators.

    Returns:
        The distinct values of ``x``, rising, and the fitted mean at each.
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
