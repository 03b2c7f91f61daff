"""Agreement of a rater with others while they label, and how many more labels would sharpen it."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from orchestrator.tuning.evaluation import measure_kappa
from orchestrator.tuning.labels.label_files import Label, infer_scale
from orchestrator.tuning.statistics.confidence_intervals import Interval

STEP = 5
"""Agreement is computed anew after so many shared items: after each, it would tell a rater what the
other one said of the last."""
TARGETS = (0.2, 0.1, 0.05)
"""Half-widths of the 95% interval of kappa that are worth naming."""


class RaterAgreement(Struct, frozen=True):
    """How far a rater agrees with another one on accept or reject.

    Attributes:
        shared: items that both labeled.
        counted: the first of them, a multiple of ``STEP``, on which ``agreed`` and ``kappa`` rest.
        agreed: share of these on which both say the same.
        kappa: None for a single class, or where nothing is counted.
        needed: (half-width, further shared items that would reach it), the widest first; empty
            where the interval has no width.
    """

    rater: str
    shared: int
    counted: int
    agreed: float
    kappa: Interval | None
    needed: tuple[tuple[float, int], ...]


def measure_rater_agreement(
    labels: Sequence[Label], groups: Mapping[str, str], rater: str
) -> list[RaterAgreement]:
    """Agreement of a rater with each other one, on the items that have a group.

    Args:
        groups: item id → its group.

    Raises:
        InputError: the labels mix scales.
    """
    known = [label for label in labels if label.item in groups]
    if not known:
        return []
    scale = infer_scale(known, None)
    accepts = {
        (x.rater, x.item): scale.category(x.label) >= scale.cut
        for x in known
    }  # fmt: skip
    own = [x.item for x in known if x.rater == rater]
    out = []
    for other in sorted({x.rater for x in known} - {rater}):
        shared = [item for item in own if (other, item) in accepts]
        counted = shared[: len(shared) // STEP * STEP]
        pairs = np.array(
            [[accepts[who, item] for item in counted] for who in (rater, other)], dtype=bool
        )
        names = {g: n for n, g in enumerate(dict.fromkeys(groups[i] for i in counted))}
        group = np.array([names[groups[item]] for item in counted], dtype=np.int64)
        kappa = measure_kappa(pairs[0], pairs[1], np.ones(len(counted)), group) if counted else None
        agreed = float((pairs[0] == pairs[1]).mean()) if counted else math.nan
        needed = _labels_needed(kappa, len(counted), len(shared))
        out.append(RaterAgreement(other, len(shared), len(counted), agreed, kappa, needed))
    return out


def _labels_needed(
    kappa: Interval | None, counted: int, shared: int
) -> tuple[tuple[float, int], ...]:
    """The interval narrows with the root of the number of items."""
    half = math.nan if kappa is None else (kappa.high - kappa.low) / 2.0
    if not half > 0.0:
        return ()
    total = {target: math.ceil(counted * (half / target) ** 2) for target in TARGETS}
    return tuple((target, count - shared) for target, count in total.items() if count > shared)
