"""A text that is too long for any model to weigh: its middle is left out, and that is said."""

from __future__ import annotations

from orchestrator.engine.text_guards import Detection, Place

TAIL = 1000
"""Characters kept from the end: the mark that closes a frame stands there."""


class LengthGuard:
    """At most so many characters in one text."""

    name = "length"
    places: frozenset[Place] = frozenset({"tool", "brief", "observation"})

    def __init__(self, characters: int) -> None:
        self._most = characters

    def look(self, text: str) -> Detection | None:
        """A text above the limit, and its beginning and end."""
        over = len(text) - self._most
        if over <= 0:
            return None
        head = text[: max(self._most - TAIL, 0)]
        left_out = len(text) - len(head) - TAIL
        cut = f"{head}\n[left out here: {left_out} characters]\n{text[-TAIL:]}"
        return Detection(f"{over} characters more than {self._most}", cut)
