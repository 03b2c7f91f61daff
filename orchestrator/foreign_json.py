"""JSON that strangers wrote: to parse it, and to map its text."""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

MAX_DEPTH = 100
"""Levels of lists and objects: what walks a document is recursive, and no format needs as many."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

T = TypeVar("T")


@overload
def parse_json(data: bytes | bytearray | str) -> Any: ...
@overload
def parse_json(data: bytes | bytearray | str, kind: type[T]) -> T: ...
def parse_json(data: bytes | bytearray | str, kind: Any = None) -> Any:
    """Parse a document; with a type, only the members that it has.

    Raises:
        ValueError: it is not JSON, not Unicode, nested too deeply, or not of the type.
    """
    try:
        if kind is not None:
            return msgspec.json.decode(data, type=kind)
        # The standard parser, since a path that is not UTF-8 holds lone surrogates.
        document = json.loads(data)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels") from None
    level: list[Any] = [[document]]
    for _ in range(MAX_DEPTH + 1):
        members = (value.values() if isinstance(value, dict) else value for value in level)
        level = [each for some in members for each in some if isinstance(each, dict | list)]
        if not level:
            return document
    raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """A copy of a JSON value with a function applied to every string, object keys included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [map_strings(item, change) for item in value]
    if isinstance(value, dict):
        return {change(name): map_strings(item, change) for name, item in value.items()}
    return value


def escape_surrogates(text: str) -> str:
    r"""The text, in which a byte that is not UTF-8 (a lone surrogate) becomes ``\xff``."""
    if text.isascii():
        return text
    return _LONE_SURROGATE.sub(lambda found: escape_character(found[0]), text)


def escape_character(char: str) -> str:
    r"""A character's escape: ``\u202e``, and ``\xff`` for the lone surrogate of a byte."""
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")
