"""Measured criteria of a bare text, such as a review comment: computed, without a model."""

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from orchestrator.data_directories import read_table
from orchestrator.engine.types import Rubric
from orchestrator.tuning.file_formats.item_files import Item

_PATTERNS = {
    name: re.compile(text) for name, text in read_table(__file__, "text_measures.yaml").items()
}


def _repeated_share(text: str) -> float:
    words = [word.lower() for word in _PATTERNS["word"].findall(text)]
    return 1.0 - len(set(words)) / len(words) if words else 0.0


TEXT_MEASURES: Mapping[str, Callable[[str], float]] = {
    "length": lambda text: min(1.0, len(_PATTERNS["word"].findall(text)) / 40),
    "names-code": lambda text: min(1.0, len(_PATTERNS["code"].findall(text)) / 3),
    "states": lambda text: float("?" not in text),
    "suggests": lambda text: float(bool(_PATTERNS["suggests"].search(text))),
    "not-terse": lambda text: float(len(_PATTERNS["word"].findall(text)) >= 8),
    "repeats-words": _repeated_share,
    "gives-reason": lambda text: float(bool(_PATTERNS["reason"].search(text))),
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
