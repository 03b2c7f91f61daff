"""Detect data that identifies a person or an account: numbers, phone numbers, e-mail addresses.

Needs the extra ``pii``. ``personal_data.yaml`` has the shapes, and what validates them: a number
that is ordinary in code (a version, an id, a time) rarely has both the shape and the check digits.
Names are found before an address; others are presidio's, see ``presidio.py``.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import NamedTuple

import phonenumbers

from orchestrator.data_directories import read_table
from orchestrator.engine.text_guards import Detection, Place

_DATA = read_table(__file__, "personal_data.yaml")
_HINTS = {name: re.compile(text) for name, text in _DATA["hints"].items()}
_STANDS_FOR = {"n": "\n", '"': '"'}
_LABEL_CHARACTERS = 40
"""Within which a word such as ``passport`` must stand before a number without check digits."""

PERSON = "PERSON"
"""Presidio's entity for names of people: it is used where it can be, and never required."""
NO_NAMES = "personal: only names before an address are found; more needs presidio and a spaCy model"


class _Shape:
    """A shape of ``personal_data.yaml`` and what decides whether a match counts."""

    def __init__(self, rule: dict[str, str]) -> None:
        self.kind, self.search = rule["kind"], re.compile(rule["shape"]).finditer
        words = rule.get("words")
        self._words = re.compile(rf"(?i)\b(?:{words})\b") if words else None
        self._not = re.compile(rule["not"]) if "not" in rule else None
        self._check = rule.get("check")

    def counts(self, found: re.Match[str]) -> bool:
        """Whether a match is no test value, has the check digits, and a word that labels it."""
        number = re.sub(r"[\W_]", "", found.group())
        return (
            not (self._not and self._not.search(number))
            and (self._words is None or self._words.search(_words_before(found)) is not None)
            and (self._check is None or import_module(f"stdnum.{self._check}").is_valid(number))
        )


def _words_before(found: re.Match[str]) -> str:
    """What stands before a match, with the words of names apart, as of ``phone_number``."""
    start = found.start()
    return _HINTS["joined"].sub(" ", found.string[max(start - _LABEL_CHARACTERS, 0) : start])


_SHAPES = [_Shape(rule) for rule in _DATA["numbers"]]
_PHONES, _EMAILS = _DATA["phones"], _DATA["emails"]
_PHONE_LABEL = rf"(?i)\b(?:{_PHONES['words']})(?: (?:number|num|nr|no))?[^\w\n+]{{1,12}}$"
_PHONE_SHAPES = [
    *(
        ((region,), re.compile(rf"(?<![\w.+/-])(?:{shape})(?![\w/]|[.-]\w)"), None)
        for region, shape in _PHONES["national"].items()
    ),
    (_PHONES["bare"], re.compile(r"(?<!\w)\(?\d[\d ().-]{6,16}\d\b"), re.compile(_PHONE_LABEL)),
]
"""Regions, the shape of their numbers, and what must stand before one."""
_EMAIL, _NO_EMAIL = re.compile(_EMAILS["shape"]), re.compile(_EMAILS["not"])


class PersonalDataSpan(NamedTuple):
    """The range of personal data in a text, and its kind."""

    start: int
    end: int
    kind: str


Detector = Callable[[str], Iterable[PersonalDataSpan]]


class PersonalGuard:
    """Detects personal data and replaces it by its kind.

    Args:
        more: detectors besides those of numbers, e-mail addresses and phone numbers.
    """

    name = "personal"
    places: frozenset[Place] = frozenset({"system", "tool", "brief", "observation", "report"})

    def __init__(self, more: Sequence[Detector] = ()) -> None:
        self._detectors = (numbers, emails, phones, *more)

    def detect(self, text: str) -> Detection | None:
        """The kinds of personal data, and the text with each replaced by its kind."""
        seen = _HINTS["escape"].sub(lambda m: _STANDS_FOR.get(m[0][-1], " ").rjust(len(m[0])), text)
        spans = _merge_overlaps([span for detect in self._detectors for span in detect(seen)])
        if not spans:
            return None
        parts, done = [], 0
        for start, end, kind in spans:
            parts += [text[done:start], f"[{kind}]"]
            done = end
        kinds = ", ".join(dict.fromkeys(span.kind for span in spans))
        return Detection(f"personal data: {kinds}", "".join((*parts, text[done:])))


def _merge_overlaps(found: Sequence[PersonalDataSpan]) -> list[PersonalDataSpan]:
    """In the order of the text; where some overlap, one that covers them, named by the first."""
    apart: list[tuple[int, PersonalDataSpan]] = []
    for rank, span in sorted(enumerate(found), key=lambda one: (one[1].start, one[0])):
        if apart and span.start < apart[-1][1].end:
            best, last = apart[-1]
            kind = span.kind if rank < best else last.kind
            apart[-1] = min(best, rank), PersonalDataSpan(last.start, max(last.end, span.end), kind)
        else:
            apart.append((rank, span))
    return [span for _, span in apart]


def numbers(text: str) -> Iterator[PersonalDataSpan]:
    """Numbers of people and accounts, searched line by line."""
    for done, line in _lines(text):
        for shape in _SHAPES if _HINTS["likely"].search(line) else ():
            for found in filter(shape.counts, shape.search(line)):
                yield PersonalDataSpan(done + found.start(), done + found.end(), shape.kind)


def emails(text: str) -> Iterator[PersonalDataSpan]:
    """E-mail addresses with the names before them, but those for examples and of programs."""
    for found in _EMAIL.finditer(text) if "@" in text else ():
        if not _NO_EMAIL.search(found["address"]):
            yield PersonalDataSpan(*found.span("address"), "e-mail address")
            if found["name"]:
                yield PersonalDataSpan(*found.span("name"), "person")


def phones(text: str) -> Iterator[PersonalDataSpan]:
    """International numbers, and national ones as people of the largest countries write them."""
    if _HINTS["phone"].search(text):
        for found in phonenumbers.PhoneNumberMatcher(text, None):
            if _HINTS["with_country"].match(found.raw_string):
                yield PersonalDataSpan(found.start, found.end, "phone number")
    for done, line in _lines(text):
        for regions, shape, label in _PHONE_SHAPES if _HINTS["digits"].search(line) else ():
            for match in shape.finditer(line):
                labeled = label is None or label.search(_words_before(match))
                if labeled and any(_is_phone(match.group(), region) for region in regions):
                    yield PersonalDataSpan(done + match.start(), done + match.end(), "phone number")


def _is_phone(text: str, region: str) -> bool:
    try:
        return bool(phonenumbers.is_valid_number(phonenumbers.parse(text, region)))
    except phonenumbers.NumberParseException:
        return False


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text, each with its offset."""
    done = 0
    for line in text.split("\n"):
        yield done, line
        done += len(line) + 1
