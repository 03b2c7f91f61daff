"""Secrets recognized by their name: ``password = "..."`` and similar forms."""

from collections.abc import Callable, Iterator
from itertools import chain

from diffchecks.data_files import vocabulary
from diffchecks.secrets.keyword_prefilter import SearchableText, context, value_of
from diffchecks.secrets.secret_plausibility import (
    Hit,
    is_entered,
    is_set,
    looks_chosen,
    looks_generated,
    looks_like_policy_password,
)

_WORDS = ("pass", "pwd", "pswd", "secret", "token", "credential", "key", "pepper")
_SETTINGS = ("settings_file", "personal_file", "installation_file")


def _is_key(value: str) -> bool:
    """Whether it is a generated key or token, or a deliberately chosen password."""
    return looks_generated(value) or looks_like_policy_password(value)


def _judge(path: str, word: str) -> Callable[[str], bool]:
    """Select the plausibility test, by the file and by whether people choose such values."""
    if not context("sample_file").search(path):
        if context("personal_file").fullmatch(path):
            return is_entered
        if context("installation_file").fullmatch(path):
            return is_set
    return looks_chosen if is_password_word(word) else _is_key


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
        forms.append("bare")
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
