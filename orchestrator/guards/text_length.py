"""Detect texts that are too long, and cut their middle."""

from orchestrator.engine.text_guards import Detection, Place

TAIL_CHARACTERS = 1000
"""Characters kept from the end, which holds the marker that closes untrusted text."""


class LengthGuard:
    """Limits the characters of one text."""

    name = "length"
    places: frozenset[Place] = frozenset({"tool", "brief", "observation"})

    def __init__(self, characters: int) -> None:
        self._max_characters = characters

    def detect(self, text: str) -> Detection | None:
        """Whether a text is above the limit, and its beginning and end."""
        over = len(text) - self._max_characters
        if over <= 0:
            return None
        head = text[: max(self._max_characters - TAIL_CHARACTERS, 0)]
        left_out = len(text) - len(head) - TAIL_CHARACTERS
        cut = f"{head}\n[left out here: {left_out} characters]\n{text[-TAIL_CHARACTERS:]}"
        return Detection(f"{over} characters more than {self._max_characters}", cut)
