"""Parse JSON that strangers wrote: whatever is wrong with it is a ``ValueError``."""

import json
from typing import Any, TypeVar, overload

import msgspec

MAX_DEPTH = 100
"""Levels of lists and objects: what walks a document is recursive, and no format needs as many."""

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
        members = [each for value in level for each in _members(value)]
        level = [each for each in members if isinstance(each, dict | list)]
        if not level:
            return document
    raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")


def _members(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value
