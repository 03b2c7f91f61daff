"""Secrets by what stands around them: a name, a URL, a call, a command line or a header.

Expensive patterns are only tried on lines that contain one of their keywords.
"""

import base64
import binascii
import re
import string
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from itertools import chain

from diffchecks.data_files import read_rows, read_yaml, vocabulary
from diffchecks.secrets.secret_plausibility import (
    Hit,
    is_entered,
    is_set,
    is_template,
    looks_chosen,
    looks_generated,
    looks_like_policy_password,
    reads_as_example,
)

_ASCII_LOWER = {ord(c): ord(c.lower()) for c in string.ascii_uppercase}


@cache
def context(name: str) -> re.Pattern[str]:
    """An expression in ``tables/secrets/contexts.txt``."""
    rows = read_rows("secrets/contexts.txt")
    return re.compile(next(text for known, text in rows if known == name))


class SearchableText:
    """A text with ``\\n`` for line ends, made ready for many searches."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def lower(self) -> str:
        """The text in lower case, with unchanged offsets."""
        lower = self.text.lower()
        return lower if len(lower) == len(self.text) else self.text.translate(_ASCII_LOWER)

    def lines_with(self, words: tuple[str, ...]) -> Iterator[tuple[int, int]]:
        """Spans of the lines that contain one of the lower-case words."""
        starts: set[int] = set()
        for word in words:
            at = self.lower.find(word)
            while at >= 0:
                starts.add(self.text.rfind("\n", 0, at) + 1)
                end = self.text.find("\n", at)
                at = self.lower.find(word, end) if end >= 0 else -1
        for start in sorted(starts):
            end = self.text.find("\n", start)
            yield start, end if end >= 0 else len(self.text)

    def matches(
        self, words: tuple[str, ...], *names: str, following: int = 0
    ) -> Iterator[re.Match[str]]:
        """All matches of some contexts in lines that contain one of the words.

        Args:
            words: in lower case.
            names: of the contexts, see ``context``.
            following: number of lines after such a line to search as well.
        """
        for start, end in self.lines_with(words):
            last = end
            for _ in range(following):
                after = self.text.find("\n", last + 1)
                last = after if after >= 0 else len(self.text)
            for name in names:
                yield from context(name).finditer(self.text, start, last)


def value_of(match: re.Match[str]) -> tuple[str, int, int]:
    """The text and span of the one group among ``a`` to ``d`` that matched."""
    group = next(name for name in "abcd" if match.groupdict().get(name) is not None)
    return match[group], *match.span(group)


_WORDS = ("pass", "pwd", "pswd", "secret", "token", "credential", "key", "pepper")
_SETTINGS = ("settings_file", "personal_file", "installation_file")


def _judge(path: str, word: str) -> Callable[[str], bool]:
    """Select the plausibility test, by the file and by whether people choose such values."""
    if not context("sample_file").search(path):
        if context("personal_file").fullmatch(path):
            return is_entered
        if context("installation_file").fullmatch(path):
            return is_set
    if is_password_word(word):
        return looks_chosen
    return lambda value: looks_generated(value) or looks_like_policy_password(value)


def is_password_word(word: str) -> bool:
    """Whether people choose the values of such names; values of other names are generated."""
    return word.lower().startswith(("pass", "pwd", "psw"))


def find_secret_word(name: str) -> str:
    """The lower-case word in a name that says that its value is a secret; empty: none."""
    match = context("name").search(name[:120])
    if (
        not match
        or vocabulary("about_secret").search(match["tail"])
        or context("about_before").search(match["before"])
    ):
        return ""
    return match["word"].lower()


def find_assignments(path: str, searched: SearchableText) -> Iterator[Hit]:
    """Find literal values of names that contain password, secret, token or key."""
    path = path.lower()
    forms = ["quoted", "define", "element"]
    if any(context(kind).fullmatch(path) for kind in _SETTINGS):
        forms += ["bare", "inline"]
    if context("directives_file").fullmatch(path):
        forms.append("spaced")
    laid_out = ("named", "listed", "held") if context("laid_out_file").fullmatch(path) else ()
    for match in chain(
        searched.matches(_WORDS, *forms), searched.matches(_WORDS, *laid_out, following=2)
    ):
        word, tail = match["word"], match["tail"]
        before = searched.text[max(0, match.start("word") - 24) : match.start("word")]
        if vocabulary("about_secret").search(tail) or context("about_before").search(before):
            continue
        value, start, end = value_of(match)
        if _judge(path, word)(value):
            yield Hit("generic-assignment", "Password, token, or key in the text", start, end)


_STAND_INS = frozenset({"pass", "passwd", "password", "passw0rd", "pwd", "secret", "token"})

_SIGNS = {kind: tuple(words) for kind, words in read_yaml("secrets/signs.yaml").items()}


def find_in_urls(searched: SearchableText) -> Iterator[Hit]:
    """Find passwords in URLs and connection strings of other machines."""
    for match in searched.matches(("://",), "url"):
        password, start, end = value_of(match)
        user = match["user"].lower()
        if password.lower() in _STAND_INS or password.lower() == user or is_template(user):
            continue
        if is_template(password) or reads_as_example(password):
            continue
        # A password for a local machine does not satisfy a password policy.
        nowhere = context("nowhere").match(match["host"])
        if looks_like_policy_password(password) if nowhere else is_entered(password):
            yield Hit("connection-string", "Password in a URL", start, end)
    for match in searched.matches(("://",), "query"):
        value, start, end = value_of(match)
        chosen = looks_generated(value) or looks_like_policy_password(value)
        if chosen and not context("nowhere").match(match["host"]):
            yield Hit("url-parameter", "Key or token in a URL", start, end)
    for match in searched.matches(_SIGNS["connection"], "connection"):
        password, start, end = value_of(match)
        if looks_chosen(password):
            yield Hit("connection-string", "Password in a connection string", start, end)


def find_in_calls(searched: SearchableText) -> Iterator[Hit]:
    """Find passwords and tokens in a login call, on a command line or in a header."""
    for match in searched.matches(_SIGNS["call"], "call"):
        password, start, end = value_of(match)
        if is_set(password) and not context("refusal").fullmatch(password):
            yield Hit("login-call", "Password in a login call", start, end, confidence=0.8)
    for match in searched.matches(_SIGNS["command"], "command"):
        password, start, end = value_of(match)
        if looks_chosen(password):
            yield Hit("login-call", "Password on a command line", start, end, confidence=0.8)
    for match in searched.matches(("authorization",), "header"):
        token, start, end = value_of(match)
        if _basic_password(token) if match["kind"].lower() == "basic" else looks_generated(token):
            yield Hit("authorization-header", "Credentials in an Authorization header", start, end)


def _basic_password(token: str) -> bool:
    """Whether the value of a Basic header contains a real password."""
    try:
        user, colon, password = base64.b64decode(token, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return False
    return bool(colon) and password != user and is_set(password)
