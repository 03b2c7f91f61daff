"""Secrets recognized by their own format: tokens that services issue, and private keys.

For texts of unknown origin: a tool's result, a diff, a commit message. The result depends only on
the text and keeps its lines.
"""

import re
from collections.abc import Iterator

from diffchecks.data_files import read_patterns
from diffchecks.secrets.private_keys import find_encoded
from diffchecks.secrets.redaction import REDACTED
from diffchecks.secrets.token_formats import find_tokens

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
    """The lines of each private key."""
    if "PRIVATE KEY" not in text:
        return
    for key in _KEY.finditer(text):
        for line in _KEY_TEXT.finditer(text, *key.span("body")):
            yield line.span()
