"""Every decision that a new rubric would turn around."""

from collections.abc import Mapping

from msgspec import Struct

from orchestrator.engine.rubric_scoring import Given, blocked_by, total
from orchestrator.engine.types import Rubric
from orchestrator.tuning.items import Item


class Flip(Struct, frozen=True):
    """A decision that the new rubric turns around.

    Attributes:
        before, after: totals; None where nothing counted.
        label: what people said, empty where nobody did.
    """

    id: str
    url: str
    accepted_before: bool
    before: float | None
    after: float | None
    label: str


def accepts(rubric: Rubric, scores: Mapping[str, Given]) -> tuple[bool, float | None]:
    """The rubric's decision on one item, and its total."""
    value = total(rubric, scores)
    return value is not None and value >= rubric.threshold and not blocked_by(rubric, scores), value


def flips(old: Rubric, new: Rubric, items: list[Item], labels: Mapping[str, str]) -> list[Flip]:
    """Decisions that differ, each item once, in the items' order."""
    out = []
    for item in {i.id: i for i in reversed(items) if not i.repeat}.values():
        (was, before), (now, after) = accepts(old, item.scores), accepts(new, item.scores)
        if was != now:
            out.append(Flip(item.id, item.url, was, before, after, labels.get(item.id, "")))
    return out[::-1]
