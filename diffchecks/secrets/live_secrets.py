"""Secrets recognized by their own format: tokens that services issue, and private keys.

``redact_live_secrets`` is for texts of unknown origin: a tool's result, a diff, a commit message.
The result depends only on the text, and keeps its lines.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from diffchecks.data_files import read_names, read_patterns, read_rows
from diffchecks.secrets.private_keys import find_encoded
from diffchecks.secrets.redaction import REDACTED
from diffchecks.secrets.secret_plausibility import Hit, compute_entropy, is_made_up


class TokenFormat(NamedTuple):
    """The format of a service's tokens."""

    code: str
    what: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


@cache
def token_formats() -> tuple[TokenFormat, ...]:
    """All formats in the order of the table; the first match names the secret.

    Compiled on first use, so that workers with other checks do not pay for it.
    """
    formats = []
    for code, what, hints, pattern in read_rows("secrets/token_formats.txt"):
        # A token is not part of a longer sequence of letters and digits.
        bounded = re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])", re.ASCII)
        formats.append(TokenFormat(code, what, tuple(hints.split(",")), bounded))
    return tuple(formats)


PUBLIC = read_names("published_keys")


def find_tokens(text: str) -> Iterator[Hit]:
    """Tokens that have the shape in which a service issues them."""
    # Most texts hold no hint at all: a comprehension finds that out in a tenth of the time.
    hinted = [shape for shape in token_formats() for hint in shape.hints if hint in text]
    for shape in dict.fromkeys(hinted):
        for match in shape.pattern.finditer(text):
            group = "s" if match.groupdict().get("s") else 0
            token = match[group]
            # Some services pad; after padding, following characters do not matter.
            own = token.lstrip("A")
            if token in PUBLIC or is_made_up(own) or compute_entropy(own) < 3.0:
                continue
            yield Hit(shape.code, shape.what, *match.span(group))


MIN_LENGTH = 16
"""The length in characters of the shortest format."""

_KEY = read_patterns("live_secrets")["key"]
# As in a file, a diff, numbered lines, or a string in source code.
_KEY_TEXT = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}|(?<![\w+/])[A-Za-z0-9+/]{2,}={1,2}(?!\w)")
_ESCAPE = re.compile(r"\\[nrt\"'/]")
_BLANK = "  "


def redact_live_secrets(text: str) -> str:
    """Replace all such secrets in a text."""
    if len(text) < MIN_LENGTH:
        return text
    # In a JSON or source string, the letter of an escape sequence may precede the token.
    plain = _ESCAPE.sub(_BLANK, text) if "\\" in text else text
    spans = sorted([*_tokens(plain), *_private_keys(plain)])
    parts, done = list[str](), 0
    for start, end in spans:
        if start >= done:
            parts += [text[done:start], REDACTED]
        done = max(done, end)
    return "".join((*parts, text[done:])) if spans else text


def _tokens(text: str) -> Iterator[tuple[int, int]]:
    """Tokens, and base64 of keys and tokens."""
    for hit in find_tokens(text):
        yield hit.start, hit.end
    for value in find_encoded(text):
        if value.key or _KEY.search(value.text) or any(find_tokens(value.text)):
            yield value.start, value.end


def _private_keys(text: str) -> Iterator[tuple[int, int]]:
    if "PRIVATE KEY" not in text:
        return
    for key in _KEY.finditer(text):
        for line in _KEY_TEXT.finditer(text, *key.span("body")):
            yield line.span()
