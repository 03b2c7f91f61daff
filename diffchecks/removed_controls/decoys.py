"""Conditions and helpers that a change puts in the place of a guard, and that let more pass."""

import re

from diffchecks.removed_controls import vocabulary as words
from diffchecks.removed_controls.control import Control, ControlledFile
from diffchecks.removed_controls.vocabulary import split_words

_LOOKED_AT = 1000  # characters of a condition
_EXISTS = re.compile(r"(?:not\s+|[!(\s])*(?:[\w$]+[.:>-]+)*(?P<last>[\w$]+)\)*")
_TRUSTED = frozenset({"claims", "current_user", "identity", "principal", "session", "user"})
_CLIENT = frozenset(
    {"GET", "POST", "args", "body", "cookies", "form", "headers", "json", "params", "query"}
)
_CONTAINS = re.compile(r"^(?:'[^']*'|\"[^\"]*\") in |\.(?:includes|contains|include\?)\(")
_CONSTANT = re.compile(r"return (?:True|true|1|None|nil|null)|pass|return|\.\.\.")


def is_decoy(old: Control, new: Control) -> bool:
    """Whether a new condition has words of a removed guard, and asks for less.

    It asks only for existence, compares with what the client sent in place of who it is, has no
    limit any more, or asks for equality with a text that must not even be a part.
    """
    if old.kind != "guard":
        return False
    before, after = old.text[:_LOOKED_AT], new.text[:_LOOKED_AT]
    if not _asks_for_existence(before) and _asks_for_existence(after):
        return True
    if words.LIMITS.search(before) and not words.LIMITS.search(after):
        return True
    lost = _TRUSTED & old.words - new.words
    if lost and _CLIENT & new.words - old.words:
        return True
    return bool(_CONTAINS.search(before)) and "==" in after and new.words <= old.words


def _asks_for_existence(text: str) -> bool:
    if words.EMPTINESS.search(text.strip("!() ")):
        return True
    plain = _EXISTS.fullmatch(text)
    if plain is None:
        return False
    decides = words.PREDICATE.search(text) or split_words({plain["last"]}) & words.SECURITY
    return not decides


def is_constant(file: ControlledFile, name: str) -> bool:
    """Whether the file defines a function of that name that always gives the same constant."""
    if name not in file.head.scopes:
        return False
    first, last = file.head.scopes[name]
    code = [line.strip() for line in file.text.head[first - 1 : last]]
    said = [line for line in code if line and not line.startswith(("#", "//", "@", '"""', "'''"))]
    body = [line.rstrip(";") for line in said[1:] if line not in {"}", "{"}]
    return len(body) == 1 and _CONSTANT.fullmatch(body[0]) is not None
