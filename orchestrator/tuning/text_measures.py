"""Measured criteria of a bare text, such as a review comment: computed, without a model."""

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from orchestrator.engine.types import Rubric
from orchestrator.tuning.file_formats.item_files import Item

_WORD = re.compile(r"[A-Za-z_']+")
_SUGGESTS = re.compile(
    r"\b(should|could|would|better|consider|instead|suggest|recommend)\b", re.IGNORECASE
)
_REASON = re.compile(
    r"\b(because|since|so that|to avoid|otherwise|for better|to ensure|which|in case)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"`[^`]+`|\b\w+_\w+\b|\b\w+\(\)|\b[a-z]+[A-Z]\w*|'[^' ]+'")


def _repeated_share(text: str) -> float:
    words = [word.lower() for word in _WORD.findall(text)]
    return 1.0 - len(set(words)) / len(words) if words else 0.0


TEXT_MEASURES: Mapping[str, Callable[[str], float]] = {
    "length": lambda text: min(1.0, len(_WORD.findall(text)) / 40),
    "names-code": lambda text: min(1.0, len(_CODE.findall(text)) / 3),
    "states": lambda text: float("?" not in text),
    "suggests": lambda text: float(bool(_SUGGESTS.search(text))),
    "not-terse": lambda text: float(len(_WORD.findall(text)) >= 8),
    "repeats-words": _repeated_share,
    "gives-reason": lambda text: float(bool(_REASON.search(text))),
}
"""Criterion id → its score of a text, 0 to 1: words (40 or more are 1), names of code (3 or more
are 1), no question, suggests something, 8 words or more, share of repeated words, gives a reason.
"""


def add_measures(rubric: Rubric, items: Iterable[Item]) -> list[Item]:
    """The items with the measured text criteria of the rubric that they have no score for."""
    names = [c.id for c in rubric.criteria if c.kind == "measured" and c.id in TEXT_MEASURES]
    return [
        replace(
            item,
            scores={
                **{n: round(TEXT_MEASURES[n](item.text), 4) for n in names if item.text},
                **item.scores,
            },
        )
        for item in items
    ]
