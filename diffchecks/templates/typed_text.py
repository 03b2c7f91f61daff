"""Decides by its name whether a value is text that people type.

Other values in places where escaping for HTML does not help (a key, a code, an object's
representation) mostly come from the program itself, and the page does not show which do not.
"""

import re
from functools import cache

from diffchecks.data_files import read_names

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# A string, unless it is an item's key.
_QUOTED = re.compile(r"(?!(?<=\[)[\"']\w+[\"']\])(?:\"[^\"]*\"|'[^']*')")

# `user.name`; in contrast, `user_name` is mostly a login name of letters and digits.
_LOGINS = frozenset(["author", "member", "owner", "sender", "user"])


@cache
def _of_program() -> re.Pattern[str]:
    return re.compile(rf".*(?:{'|'.join(sorted(read_names('of_program')))})s?")


def is_typed(value: str) -> bool:
    """Whether the last name in a value says that people type the text."""
    names = [_WORD.findall(name) for name in _IDENTIFIER.findall(_QUOTED.sub("", value))]
    path = [[word.lower() for word in words] for words in names if words]
    while len(path) > 1 and path[-1][-1] in read_names("text_forms"):
        path.pop()
    if not path:
        return False
    *before, last = [owner[-1] for owner in path[:-1]] + path[-1]
    is_login = len(path[-1]) > 1 and path[-1][-2] in _LOGINS
    if any(map(_of_program().fullmatch, before)):
        return False
    if last == "name":
        return not read_names("named_by_people").isdisjoint(before[-1:]) and not is_login
    return last in read_names("typed_texts")
