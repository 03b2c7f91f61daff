"""Guards that need one expression or one number: invisible characters, markup, length, words."""

import re
from collections.abc import Sequence

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


_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
# Only elements that load or link something when rendered; `List<T>` is code.
_ACTIVE = re.compile(
    r"!?\[[^\]\n]{0,300}\]\(\s{0,9}<?[a-z][a-z0-9+.-]{1,20}:"
    r"|<(?:a|embed|form|iframe|img|link|meta|object|script|style|svg|video)\b[^<>]{0,2000}>",
    re.IGNORECASE,
)


class MarkupGuard:
    """Detects what a page that renders the text would load or link to.

    The text is not modified, since a report on HTML quotes HTML; output formats escape it.
    """

    name = "markup"
    places: frozenset[Place] = frozenset({"report"})

    def detect(self, text: str) -> Detection | None:
        """Whether a text outside of code holds a link, an image or an active HTML element."""
        return Detection("links, images or HTML") if _ACTIVE.search(_CODE.sub("", text)) else None


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
