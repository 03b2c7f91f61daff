"""The readings of a text in which secrets are searched for, and the forms of a secret.

A text is folded first: what Unicode holds for the same (NFKD), letters with marks, look-alikes of
other scripts and tag characters become ASCII. Then come its readings: each resolves some notations,
such as those of URLs, source code and HTML. All but the main reading apply only to a text that has
their notation. What needs no search in the text, such as base64, is a form of the secret instead.
"""

import base64
import codecs
import html
import json
import re
import string
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from html.entities import html5
from typing import NamedTuple

from orchestrator.data_directories import read_beside

_ALPHABETS = {
    first + at: char
    for first, chars in (
        (0xE0020, "".join(map(chr, range(0x20, 0x7F)))),  # tag characters
        (0x1F1E6, string.ascii_uppercase),  # regional indicators
        (0x1F150, string.ascii_uppercase),  # white letters in black circles
        (0x1F170, string.ascii_uppercase),  # and in squares
    )
    for at, char in enumerate(chars)
}
_SPARSE = 64
"""Where fewer than one in so many characters is beyond ASCII, only these are folded."""


class _InAscii(dict[int, str]):
    """What a character resembles, in ASCII."""

    def __missing__(self, code: int) -> str:
        parts = unicodedata.normalize("NFKD", chr(code))
        shown = (part if part.isascii() else self.get(ord(part), "") for part in parts)
        self[code] = "".join(shown)
        return self[code]


_IN_ASCII = _InAscii(_ALPHABETS)
# Cyrillic, Greek, Armenian, letters that Unicode does not decompose, and small capitals.
for _shapes, _letters in map(str.split, read_beside(__file__, "look_alikes.txt").splitlines()):
    _IN_ASCII.update(zip(map(ord, _shapes), _letters, strict=True))


def _fold_run(found: UnicodeError) -> tuple[str, int]:
    assert isinstance(found, UnicodeEncodeError)
    return found.object[found.start : found.end].translate(_IN_ASCII), found.end


codecs.register_error("diffcourt.fold", _fold_run)


def fold(text: str) -> str:
    """A text in ASCII; characters that resemble nothing in it are removed."""
    if text.isascii():
        return text
    beyond = len(text.encode("utf-8", "surrogatepass")) - len(text)
    if beyond * _SPARSE > len(text):
        return text.translate(_IN_ASCII)
    return text.encode("ascii", "diffcourt.fold").decode("ascii")


class Step:
    """How one notation is resolved; a text without its ``sign`` has none of it.

    Args:
        sign: a pattern that begins with a literal is searched for ten times as fast as another.
        pattern: ``H`` in it is a hexadecimal digit.
        resolve: what a match stands for; nothing if left out.
    """

    def __init__(
        self, sign: str, pattern: str, resolve: Callable[[re.Match[str]], str] | None = None
    ) -> None:
        self.sign = sign
        self.pattern = re.compile(pattern.replace("H", "[0-9A-Fa-f]"), re.MULTILINE)
        self.resolve = resolve
        self._seen: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """The text with the notation resolved."""
        if self.sign not in text:
            return text
        return self.pattern.sub(self.written if self.resolve else "", text)

    def written(self, found: re.Match[str]) -> str:
        """What a match stands for; most are seen again and again."""
        known = self._seen.get(found[0])
        if known is None:
            known = self.resolve(found) if self.resolve else ""
            if len(self._seen) < _REMEMBERED and len(found[0]) < _REMEMBERED:
                self._seen[found[0]] = known
        return known


_REMEMBERED = 4096

_INVISIBLE = {"Cc", "Cf", "Mn", "Me", "Zs", "Zl", "Zp"}


def _sign(char: str, written: str) -> str:
    """A character in ASCII; as it was written if it resembles nothing but can be seen."""
    return fold(char) or ("" if unicodedata.category(char) in _INVISIBLE else written)


def _char(found: re.Match[str], digits: str, base: int = 16) -> str:
    code = int(digits, base)
    return _sign(chr(code), found[0]) if code < 0x110000 else found[0]


def _of_url(found: re.Match[str]) -> str:
    if code := found[1] or found[2]:
        return _char(found, code)
    return fold(bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "ignore"))


def _of_html(found: re.Match[str]) -> str:
    number = f"x{found[1]}" if found[1] else found[2]
    return fold(html.unescape(f"&#{number};" if number else found[0]))


def _of_source(found: re.Match[str]) -> str:
    unit, low, byte, long, braced, octal, name, control = found.groups()
    if low:
        pair = (chr(int(unit, 16)) + chr(int(low, 16))).encode("utf-16", "surrogatepass")
        return fold(pair.decode("utf-16", "ignore"))
    if name:
        try:
            return _sign(unicodedata.lookup(name), found[0])
        except KeyError:
            return found[0]
    if control:
        return "\n"
    return _char(found, octal, 8) if octal else _char(found, unit or byte or long or braced)


_URL = Step("%", r"%(?:u(H{4})|([0-7]H)|[89A-Fa-f]H(?:%[89A-Fa-f]H)*)", _of_url)
_SOURCE = Step(
    "\\",
    r"\\\\{0,3}(?:u(H{4})(?:\\{1,4}u([Dd][C-Fc-f]H{2}))?|x(H{2})|U(H{8})|[ux]\{(H{1,8})\}"
    r"|([01][0-7]{2}|[4-7][0-7])|N\{([A-Za-z0-9 -]{1,60})\}|([nrt]))",
    _of_source,
)
_CSS = Step(
    "\\",
    r"\\(?:0000([2-7]H)|0{0,3}([2-7]H)(?!H))[ \t\r\n\f]?",
    lambda found: _char(found, found[1] or found[2]),
)
_WITHOUT_END = "|".join(sorted((name for name in html5 if name[-1] != ";"), key=len, reverse=True))
_HTML = Step(
    "&",
    r"&(?:#(?:[xX]0*(H{1,12})|0*([0-9]{1,12}));?|[A-Za-z][A-Za-z0-9]{1,31};|(?:"
    + _WITHOUT_END.replace("H", r"\x48")
    + "))",
    _of_html,
)
_CODE_POINT = Step("U+", r"U\+(H{2,6})(?!H)", lambda found: _char(found, found[1]))
_CALL = Step("hr(", r"[Cc]hr\((?:0[xX]|&.)(?=H{2}\))")
_HEX_SIGN = [Step(sign, rf"{sign}(?<![^\W_]{sign})(?=H{{2}})") for sign in ("0x", "0X")]
_TERMINAL = Step("\x1b", r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~])")
_TAG = Step("<", r"<[A-Za-z/!?][^<>]*>")
_DUMP_LINE = Step(
    "\n",
    # Its offset, then bytes and what they spell, or anything else, such as octal numbers.
    r"^\t?(?:0x)?(?:H{4,16}:|H{6,16}(?=[ \t]))[ \t]*"
    r"(?:((?:H{2}[ \t]{1,2}){0,15}H{2}|(?:H{4}[ \t]){0,7}(?:H{4}|H{2}))"
    r"(?:[ \t]*|[ \t]*\|[^\n]*|[ \t]{2}[^\n]*)"
    r"|([^\n]*))$",
    lambda found: found[1] or found[2],
)


class Reading(NamedTuple):
    """One way to read a text.

    Attributes:
        of_main: whether it reads what ``MAIN`` resolved; else the folded text.
        sign: around what it reads; None for the whole text.
        steps: the notations it resolves, in this order.
        kinds: of forms that are searched for (``KINDS``).
    """

    of_main: bool
    sign: re.Pattern[str] | None
    steps: Sequence[Step]
    kinds: Sequence[int]


LETTERS, PRINTED, NUMBERS = range(3)
KINDS = (
    string.ascii_letters + string.digits,
    "".join(char for char in map(chr, range(33, 127)) if char not in "\"'`+,\\"),
    string.digits,
)
"""What is kept of a text where a form of each kind is searched for."""

MAIN = (_URL, _SOURCE, _HTML, _CODE_POINT, _CALL, *_HEX_SIGN, _TERMINAL)
"""The notations that are resolved in every text, and in secrets."""

READINGS = (
    Reading(True, None, (), (LETTERS, PRINTED)),
    # As it stands: a secret's first letters may look like the end of a notation before it.
    Reading(False, re.compile(r"[%&\\\x1b]|U\+"), (), (LETTERS, PRINTED)),
    Reading(False, None, (), (NUMBERS,)),
    Reading(False, _CSS.pattern, (_URL, _CSS, _HTML, _CODE_POINT), (LETTERS, PRINTED)),
    Reading(True, _TAG.pattern, (_TAG,), (LETTERS, PRINTED)),
    Reading(
        True,
        re.compile(r"\n\t?(?:0x)?(?:[0-9A-Fa-f]{4,16}:|[0-9A-Fa-f]{6,16}[ \t])"),
        (_DUMP_LINE,),
        (LETTERS, PRINTED, NUMBERS),
    ),
)

_OPEN = (_HTML, _CSS, _CODE_POINT)
_OPEN_END = re.compile(r"(?:&#?\w+|\\[0-9A-Fa-f]+|U\+[0-9A-Fa-f]+)\Z")
_MAY_BE_OPEN = re.compile(r"[&+\\%]|[^\x00-\x7f]")
_TAIL = 64


def ends_open(text: str, end: int) -> bool:
    """Whether a notation ends there without its end mark, and would run into what follows."""
    if not _MAY_BE_OPEN.search(tail := text[max(end - _TAIL, 0) : end]):
        return False
    tail = fold(tail)
    for read in (tail, _SOURCE(_URL(tail))):
        if found := _OPEN_END.search(read):
            shown = next((s for step in _OPEN if (s := step(found[0])) != found[0]), "")
            # A part of a notation, such as that of a number's first digit, cannot be printed.
            return bool(shown.strip()) and shown.isprintable()
    return False


_DIGITS = ((base64.b64encode, 6, 3), (base64.b32encode, 5, 5), (base64.b32hexencode, 5, 5))
"""Encoding, bits of a digit, bytes after which digits begin at a byte again."""

_NUMBERS = ("{}", "{:03}", "{:o}", "{:03o}", "0{:o}", "{:b}", "0{:b}", "{:08b}")
"""How a list of numbers writes one, besides hexadecimal."""


def _digits(raw: bytes) -> Iterator[str]:
    """The digits that do not depend on what stands before and after."""
    for encode, bits, bytes_ in _DIGITS:
        for before in range(bytes_):
            digits = encode(bytes(before) + raw).decode().rstrip("=")
            yield digits[-(-before * 8 // bits) : (before + len(raw)) * 8 // bits]


def forms(secret: str) -> Iterator[str]:
    """The forms of a secret that no reading resolves."""
    raw = secret.encode("utf-8", "surrogateescape")
    # The second and third tell of secrets that themselves look like escapes.
    yield from (secret, secret.replace("%", "%25"), json.dumps(secret)[1:-1], secret[::-1])
    yield from (raw.hex(), *_digits(raw))
    # What both byte orders of UTF-16 have in common, if all is ASCII.
    wide = (
        secret.encode("utf-16-le", "surrogatepass")[:-1],
        secret.encode("utf-16-be", "surrogatepass")[1:],
    )
    for text in dict.fromkeys(wide):
        yield from (text.hex(), *_digits(text))
    for start in range(2):  # in dumps of little-endian words
        pairs = zip(raw[start::2], raw[start + 1 :: 2], strict=False)
        yield "".join(f"{second:02x}{first:02x}" for first, second in pairs)
    for start in range(4):
        whole = raw[start : start + (len(raw) - start) // 4 * 4]
        yield from (base64.b85encode(whole).decode(), base64.a85encode(whole).decode())


def number_forms(secret: str) -> Iterator[str]:
    """The digits of a secret as a list of numbers."""
    raw = secret.encode("utf-8", "surrogateescape")
    return ("".join(map(form.format, raw)) for form in _NUMBERS)
