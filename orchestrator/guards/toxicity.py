"""Detect abusive words by a short list, without a model."""

import re
from collections.abc import Sequence

from orchestrator.engine.text_guards import Detection, Place

MASK = "[…]"


class ToxicityGuard:
    """Detects the words of a list."""

    name = "toxicity"
    places: frozenset[Place] = frozenset({"report"})

    def __init__(self, words: Sequence[str]) -> None:
        listed = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in words)
        self._words = re.compile(rf"\b(?:{listed})s?\b" if words else r"(?!)", re.IGNORECASE)

    def detect(self, text: str) -> Detection | None:
        """Their number, and the text with each masked."""
        shown, count = self._words.subn(MASK, text)
        return Detection(f"abusive words: {count}", shown) if count else None
