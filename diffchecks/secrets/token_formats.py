"""The formats of tokens that services issue, and the search for such tokens."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from diffchecks.data_files import read_names, read_rows
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


@cache
def _hints() -> tuple[tuple[str, TokenFormat], ...]:
    """Each hint with its format, in the order of the formats."""
    return tuple((hint, shape) for shape in token_formats() for hint in shape.hints)


PUBLIC = read_names("published_keys")


def find_tokens(text: str) -> Iterator[Hit]:
    """Tokens that have the shape in which a service issues them."""
    # Most texts hold no hint at all: a comprehension finds that out in a tenth of the time.
    for shape in dict.fromkeys([shape for hint, shape in _hints() if hint in text]):
        for match in shape.pattern.finditer(text):
            group = "s" if match.groupdict().get("s") else 0
            token = match[group]
            # Some services pad; after padding, following characters do not matter.
            own = token.lstrip("A")
            if token in PUBLIC or is_made_up(own) or compute_entropy(own) < 3.0:
                continue
            yield Hit(shape.code, shape.what, *match.span(group))
