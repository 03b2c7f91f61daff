"""Guards of plain text: invisible characters, markup, length, words, language, claims of checks."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence, Set

from msgspec import Struct

from orchestrator.data_directories import read_table
from orchestrator.engine.text_guards import Detection, Place

_TEXTS = read_table(__file__, "plain_text.yaml")
_UNSEEN, _CODE, _ACTIVE = (re.compile(_TEXTS[name]) for name in ("unseen", "code", "active"))


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


MIN_WORDS = 40
"""Words, or letters of another script, below which no language is detected."""
PASSAGE = 400  # characters; passages overlap by half

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
        names = (unicodedata.name(letter, "").split(" ", 1)[0].split("-")[0] for letter in letters)
        found = Counter(_SCRIPTS.get(name, "") for name in names)
        return "ja" if found["ja"] * 5 > found["zh"] > 0 else found.most_common(1)[0][0]
    hits = Counter({code: sum(w in known for w in words) for code, known in _FREQUENT.items()})
    (best, most), (_, second) = hits.most_common(2)
    clear = most >= MIN_WORDS / 4 and most > 1.3 * second and most > len(words) / 8
    return best if clear else ""


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
        """The languages of its passages that are known and not expected."""
        starts = range(0, len(text), PASSAGE // 2) if self._expected else ()
        found = {detect_language(text[at : at + PASSAGE]) for at in starts} - {"", *self._expected}
        return Detection(f"prose in {', '.join(sorted(found))}") if found else None


_PHRASES = read_table(__file__, "claim_phrases.yaml")
_DENIED = re.compile(_PHRASES["denied"], re.IGNORECASE)
_SENTENCE = re.compile(r"[^.;!?\n]+(?:\.(?=\w)[^.;!?\n]*)*[.;!?]*")


class ClaimRule(Struct, frozen=True):
    """A check: its name, the words for it, and the tools that perform it."""

    check: str
    words: Sequence[str]
    tools: frozenset[str]


class ClaimGuard:
    """Detects sentences that say a check passed, though none of its tools succeeded."""

    name = "claims"
    places: frozenset[Place] = frozenset({"report"})

    def __init__(self, rules: Sequence[ClaimRule], ran: Callable[[], Set[str]]) -> None:
        self._ran = ran
        self._rules = [(rule, _pattern(rule.words)) for rule in rules]

    def detect(self, text: str) -> Detection | None:
        """The checks that are claimed without evidence, and the text with a note after each."""
        unfounded: dict[str, None] = {}

        def annotate(sentence: re.Match[str]) -> str:
            claim = sentence.group()
            for rule, pattern in self._rules:
                # What ran comes last: it is read from the whole journal.
                if not pattern.search(claim) or _DENIED.search(claim) or rule.tools & self._ran():
                    continue
                unfounded[rule.check] = None
                claim = f"{claim} [not borne out: no {rule.check} ran in this review]"
            return claim

        shown = _SENTENCE.sub(annotate, text)
        return (
            Detection(f"claims without evidence: {', '.join(unfounded)}", shown)
            if unfounded
            else None
        )


def _pattern(words: Sequence[str]) -> re.Pattern[str]:
    listed = "|".join(re.escape(word).replace(r"\ ", r"[\s-]+") for word in words)
    return re.compile(
        rf"\b(?:{listed})\b(?:\s+\w+){{0,3}}?\s+{_PHRASES['well']}"
        rf"|\b(?:passes|passed|passing)\s+(?:\w+\s+){{0,2}}(?:{listed})\b"
        rf"|\b(?:i|we)\s+(?:have\s+)?(?:ran|run|executed)\s+(?:\w+\s+){{0,2}}(?:{listed})\b",
        re.IGNORECASE,
    )
