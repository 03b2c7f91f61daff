"""Detect characters that are invisible or that reorder the visible text."""

import re

from orchestrator.engine.text_guards import Detection, Place

_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters; tabs and line ends stay
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction
    "\u00ad\u115f\u1160\u180e\u200b\u2028\u2029\u2060-\u2064\u3164\ufeff\uffa0"  # no width
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef]"  # tags and variations, which can carry text
    # Joiners belong in many scripts and in emoji, but not beside ASCII.
    "|(?<=[!-~])[\u200c\u200d]|[\u200c\u200d](?=[!-~])"
)


class InvisibleGuard:
    """Detects invisible characters and writes them as escapes."""

    name = "invisible"
    places: frozenset[Place] = frozenset({"system", "tool", "brief", "observation", "report"})

    def detect(self, text: str) -> Detection | None:
        """Their number, and the text with each as an escape."""
        if text.isprintable():
            return None
        shown, count = _UNSEEN.subn(lambda m: m.group().encode("unicode_escape").decode(), text)
        return Detection(f"invisible characters: {count}", shown) if count else None
