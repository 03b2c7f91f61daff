"""Detect the language of a text's prose, by script and by frequent words."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from orchestrator.data_directories import read_table
from orchestrator.engine.text_guards import Detection, Place

MIN_WORDS = 40
"""Words, or letters of another script, below which no language is detected."""

_DATA = read_table(__file__, "language_words.yaml")
_SCRIPTS: dict[str, str] = _DATA["scripts"]
# Without single letters, which are frequent in code.
_FREQUENT = {
    code: frozenset(word for word in words.split() if len(word) > 1)
    for code, words in _DATA["words"].items()
}
_WORD = re.compile(r"[^\W\d_]+")
_OTHER_SCRIPT = re.compile("[\u0370-\u05ff\u0600-\u06ff\u0900-\u097f\u0e00-\u0e7f\u3040-\uffdc]")


def detect_language(text: str) -> str:
    """ISO 639-1 code of the language of most of a text's prose; empty if unknown.

    Scripts stand for their most frequent language: Ukrainian counts as ``ru``.
    """
    letters = _OTHER_SCRIPT.findall(text)
    words = [word.lower() for word in _WORD.findall(text)]
    if len(letters) >= MIN_WORDS and len(letters) > sum(map(len, words)) / 3:
        found = Counter(_script(letter) for letter in letters)
        return "ja" if found["ja"] * 5 > found["zh"] > 0 else found.most_common(1)[0][0]
    hits = Counter({code: sum(w in known for w in words) for code, known in _FREQUENT.items()})
    (best, most), (_, second) = hits.most_common(2)
    clear = most >= MIN_WORDS / 4 and most > 1.3 * second and most > len(words) / 8
    return best if clear else ""


def _script(letter: str) -> str:
    return _SCRIPTS.get(unicodedata.name(letter, "").split(" ", 1)[0].split("-")[0], "")


class LanguageGuard:
    """Detects prose in a language other than those expected. It cannot modify the text.

    Args:
        languages: ISO 639-1 codes; none: any language is allowed.
    """

    name = "language"
    places: frozenset[Place] = frozenset({"brief", "observation", "report"})

    def __init__(self, languages: Sequence[str]) -> None:
        self._expected = frozenset(languages)

    def detect(self, text: str) -> Detection | None:
        """The text's language, where it is known and not expected."""
        if not self._expected or (found := detect_language(text)) in {"", *self._expected}:
            return None
        return Detection(f"prose in {found}")
