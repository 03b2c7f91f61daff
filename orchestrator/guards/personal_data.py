"""Detect numbers that identify a person or an account, by shape and check digits.

Needs the extra ``pii``. A number that is ordinary in code (a version, an id, a time) rarely has
both the shape and the check digits; the card numbers that payment services publish for tests are
left alone.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import phonenumbers
from stdnum import iban, luhn
from stdnum.br import cpf
from stdnum.ch import ssn as ahv
from stdnum.de import idnr
from stdnum.fr import nir
from stdnum.in_ import aadhaar
from stdnum.it import codicefiscale
from stdnum.us import ssn

from orchestrator.engine.text_guards import Detection, Place

_CARD = (
    r"(?<![\w.])(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|3[47]\d\d|6011|65\d\d)"
    r"(?:[ -]?\d{4}){3}(?![\w.])|(?<![\w.])3[47]\d\d[ -]?\d{6}[ -]?\d{5}(?![\w.])"
)
_TEST_CARDS = re.compile(
    r"(\d)\1{7}|(?:4242){2}|(?:1234){2}|12345678|378282|371449|555555|601111|400000"
)
_LIKELY = re.compile(r"\d(?:[ .-]?\d){8}|[A-Z]{2}\d{2}")
_PHONE = re.compile(r"[+＋]\s?\d")


def _is_card(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    length = 15 if digits.startswith("3") else 16
    return len(digits) == length and not _TEST_CARDS.search(digits) and luhn.is_valid(digits)


# Name, pattern (with separators where bare digits would be ambiguous), and validation of the check
# digits.
_NUMBERS: tuple[tuple[str, str, Callable[[str], bool]], ...] = (
    ("card number", _CARD, _is_card),
    ("IBAN", r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b", iban.is_valid),
    ("US social security number", r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])", ssn.is_valid),
    ("French NIR", r"\b[12] \d{2} \d{2} \d[\dAB] \d{3} \d{3} \d{2}\b", nir.is_valid),
    ("Italian tax code", r"\b[A-Z]{6}\d{2}[A-Z]\d{2}[A-Z]\d{3}[A-Z]\b", codicefiscale.is_valid),
    ("Swiss AHV number", r"\b756\.\d{4}\.\d{4}\.\d{2}\b", ahv.is_valid),
    ("Brazilian CPF", r"\b\d{3}\.\d{3}\.\d{3}-\d{2}\b", cpf.is_valid),
    ("German tax id", r"\b\d{2} \d{3} \d{3} \d{3}\b", idnr.is_valid),
    ("Aadhaar number", r"\b[2-9]\d{3} \d{4} \d{4}\b(?! \d)", aadhaar.is_valid),
)
_SHAPES = [(kind, re.compile(shape), valid) for kind, shape, valid in _NUMBERS]


class PersonalDataSpan(NamedTuple):
    """The range of personal data in a text, and its kind."""

    start: int
    end: int
    kind: str


Detector = Callable[[str], Iterable[PersonalDataSpan]]


class PersonalGuard:
    """Detects personal data and replaces it by its kind.

    Args:
        more: detectors besides those of numbers with check digits and of phone numbers.
    """

    name = "personal"
    places: frozenset[Place] = frozenset({"system", "tool", "brief", "observation", "report"})

    def __init__(self, more: Sequence[Detector] = ()) -> None:
        self._detectors = (numbers, phones, *more)

    def detect(self, text: str) -> Detection | None:
        """The kinds of personal data, and the text with each replaced by its kind."""
        spans = _merge_overlaps([span for detect in self._detectors for span in detect(text)])
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
    ranked = sorted((span.start, rank, span) for rank, span in enumerate(found))
    apart: list[tuple[int, PersonalDataSpan]] = []
    for start, rank, span in ranked:
        if apart and start < apart[-1][1].end:
            before, last = apart[-1]
            kind = min((before, last.kind), (rank, span.kind))[1]
            apart[-1] = (
                min(before, rank),
                PersonalDataSpan(last.start, max(last.end, span.end), kind),
            )
        else:
            apart.append((rank, span))
    return [span for _, span in apart]


def numbers(text: str) -> Iterator[PersonalDataSpan]:
    """Numbers with check digits, searched line by line."""
    done = 0
    for line in text.split("\n"):
        if _LIKELY.search(line):
            for kind, shape, valid in _SHAPES:
                for found in shape.finditer(line):
                    if valid(found.group()):
                        yield PersonalDataSpan(done + found.start(), done + found.end(), kind)
        done += len(line) + 1


def phones(text: str) -> Iterator[PersonalDataSpan]:
    """International numbers only: without a country any row of digits could be one."""
    if _PHONE.search(text):
        for found in phonenumbers.PhoneNumberMatcher(text, None):
            if found.raw_string.startswith(("+", "＋")):
                yield PersonalDataSpan(found.start, found.end, "phone number")
