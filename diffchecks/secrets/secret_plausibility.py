"""Decides whether a text in the place of a secret really is one.

There are three tests, from lenient to strict. In a credentials file, any value except a template
counts; in a settings file, any value except common placeholders; in ordinary code, only a value
that looks chosen or generated.
"""

import math
import re
from collections import Counter
from typing import NamedTuple

from diffchecks.data_files import read_names, read_patterns, vocabulary


class Hit(NamedTuple):
    """A secret found in a text.

    Attributes:
        what: what it is, for people.
        start, end: the secret itself, as offsets in the text.
        key: identity of the secret if the text of its line is not unique, else None.
    """

    code: str
    what: str
    start: int
    end: int
    key: str | None = None
    confidence: float = 1.0


PASSWORDS = read_names("password_codes")
"""Codes of values that people choose, for samples as well; several checks report them."""

_PATTERNS = read_patterns("secret_plausibility")


def compute_entropy(text: str) -> float:
    """Shannon entropy in bits per character."""
    if not text:
        return 0.0
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def is_template(value: str) -> bool:
    """Whether it is substituted at run time."""
    return bool(vocabulary("template").search(value))


def is_made_up(token: str) -> bool:
    """Whether a token with a service's format obviously only demonstrates the format."""
    return bool(vocabulary("made_up").search(token)) or not (
        any(c.isdigit() for c in token) or _is_letters_at_random(token)
    )


def _is_letters_at_random(token: str) -> bool:
    """Whether a token without digits is random letters of both cases; words repeat letters more."""
    letters = max(re.split(r"[-_.]", token), key=len)
    mixed = not (letters.islower() or letters.isupper())
    return mixed and len(letters) >= 30 and compute_entropy(letters) >= 4.2


def reads_as_example(value: str) -> bool:
    """Whether its words say that it is a placeholder or an example."""
    return bool(vocabulary("example").search(value))


def _reads_as_code(value: str) -> bool:
    """Whether it is a path, a message or code; base64 padding is ignored."""
    return bool(_PATTERNS["not_a_password"].search(value.rstrip("=")))


def is_entered(value: str) -> bool:
    """The test for credentials files: any value that is not a template."""
    return len(value) >= 3 and not _PATTERNS["stand_in"].search(value)


def is_set(value: str) -> bool:
    """The test for settings files: any value except a template or a common placeholder."""
    return (
        len(value) >= 5
        and not is_template(value)
        and not vocabulary("example").search(value)
        and (
            value.lower() not in read_names("placeholder_passwords")
            or any(c.isdigit() for c in value)
        )
        and not _reads_as_code(value)
    )


def looks_chosen(value: str) -> bool:
    """The test for passwords in ordinary code: it mixes kinds of characters and is not a name."""
    if (
        not 6 <= len(value) <= 128
        or not value.isascii()
        or value.lower() in read_names("placeholder_passwords")
    ):
        return False
    if is_template(value) or vocabulary("example").search(value) or _reads_as_code(value):
        return False
    if _PATTERNS["uuid"].fullmatch(value):
        return False
    parts = [part for part in re.split(r"[-_./:\\ ]+", value) if part]
    if len(parts) > 1 and all(_PATTERNS["wordy"].fullmatch(part) for part in parts):
        return False
    letter, digit = any(c.isalpha() for c in value), any(c.isdigit() for c in value)
    symbol = any(c in "!@#$%^&*+~?=" for c in value[:-1]) and not value.endswith(("?", ":"))
    return letter and (digit or symbol) and len(set(value)) >= 5


def looks_like_policy_password(value: str) -> bool:
    """Whether it satisfies password policies: both cases, a digit and a symbol."""
    return (
        8 <= len(value) <= 40
        and not _PATTERNS["word_and_extension"].search(value)
        and any(c.isupper() for c in value)
        and any(c.islower() for c in value)
        and any(c.isdigit() for c in value)
        and any(c in "!@#$%^&*?" for c in value)
        and looks_chosen(value)
    )


def _is_noise(value: str) -> bool:
    """Whether it is a long random sequence of letters, digits and symbols."""
    signs = sum(not c.isalnum() for c in value)
    return (
        30 <= len(value) <= 128
        and not any(c.isspace() for c in value)
        and signs >= 4
        and any(c.isdigit() for c in value)
        and compute_entropy(value) >= 4.3
        and not re.search(r"[A-Za-z]{12}|[)\]};,]$|\\\\|https?:|[\w.]+\(\w*\)", value)
    )


def looks_generated(value: str) -> bool:
    """The test for keys and tokens in ordinary code: long, mixed, and not made of words."""
    if is_template(value) or is_made_up(value):
        return False
    if not _PATTERNS["token"].fullmatch(value):
        return _is_noise(value)
    known = _PATTERNS["uuid"].fullmatch(value) or vocabulary("example").search(value)
    if known or _reads_as_code(value):
        return False
    core = max(re.split(r"[-_.~%]+", value), key=len)
    digits = sum(c.isdigit() for c in core)
    if len(core) < 12 or digits < 2 or digits == len(core) or _PATTERNS["wordy"].fullmatch(core):
        return False
    return compute_entropy(value) >= (3.0 if _PATTERNS["hex"].fullmatch(value) else 3.4)
