"""Whether a judge says the same of the same evidence in another order, or among more words."""

from collections.abc import Mapping

from msgspec import Struct

from orchestrator.engine.types import Rubric
from orchestrator.tuning.decision_flips import accepts
from orchestrator.tuning.items import Item
from orchestrator.tuning.judge_noise import Repeats


class Probed(Struct, frozen=True):
    """What a change to the evidence that should not matter changes.

    Attributes:
        items: how many were judged both ways.
        flipped: share of them that are decided differently.
        moved: share of judged scores that change.
        criteria: the same per criterion.
    """

    name: str
    items: int
    flipped: float
    moved: float
    criteria: dict[str, float]


def probe_effect(rubric: Rubric, name: str, plain: list[Item], turned: list[Item]) -> Probed:
    """Compare items (at least one) with the same items, in the same order, under a probe."""
    pairs = list(zip(plain, turned, strict=True))
    judged = [c.id for c in rubric.criteria if c.kind == "judged"]
    changed = {
        criterion: sum(a.scores.get(criterion) != b.scores.get(criterion) for a, b in pairs)
        / len(pairs)
        for criterion in judged
    }
    flips = sum(accepts(rubric, a.scores)[0] != accepts(rubric, b.scores)[0] for a, b in pairs)
    moved = sum(changed.values()) / len(changed)
    return Probed(name, len(pairs), flips / len(pairs), moved, changed)


def unstable(repeats: Repeats | None, probed: Mapping[str, Probed]) -> list[str]:
    """What keeps a judge from being called stable; empty when nothing does.

    Any change counts, of a decision or of one criterion's score: evidence that is only reordered or
    made longer is the same evidence.
    """
    if repeats is None or not probed:
        return ["it was not asked the same twice, or not probed"]
    out = []
    if repeats.flipped:
        out.append(
            f"asked the same again, it decides differently in {repeats.flipped:.1%} of pairs"
        )
    unsure = sorted(name for name, share in repeats.criteria_same.items() if share < 1)
    if unsure:
        out.append(f"asked again, it scores {', '.join(unsure)} differently")
    for name, found in probed.items():
        if found.flipped:
            out.append(f"{name}, {found.flipped:.1%} of decisions flip")
        if found.moved:
            out.append(f"{name}, {found.moved:.1%} of its scores change")
    return out
