"""Made-up label sets whose truth is known."""

from typing import Any

import numpy as np

from orchestrator.engine.types import Criterion, Rubric

NAMES = ("a", "b", "c", "d")
GAIN = (4.0, 2.0, 0.0, 0.0)


def rubric_of(names: tuple[str, ...] = NAMES, threshold: float = 0.5, **more: Any) -> Rubric:
    lines = tuple(Criterion(n, "measured", f"what {n} means", **more) for n in names)
    return Rubric("house", 1, "A rubric to begin with.", threshold, lines)


def rows(
    n: int, beta: tuple[float, ...] = GAIN, seed: int = 1, size: int = 2, sharp: float = 3.0
) -> list[dict[str, Any]]:
    """Items whose labels follow ``beta``; beta 0 everywhere is noise."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, len(beta)))
    logit = sharp * (x - 0.5) @ np.array(beta)
    y = rng.random(n) < 1 / (1 + np.exp(-logit))
    return [
        {
            "id": f"i{i}",
            "group": f"g{i // size}",
            "scores": {k: round(float(v), 4) for k, v in zip(NAMES, x[i], strict=False)},
            "rater": "ana",
            "label": "accept" if y[i] else "reject",
            "text": "word " * int(1 + 30 * x[i, 0]),
        }
        for i in range(n)
    ]
