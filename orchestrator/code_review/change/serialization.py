"""A change as JSON and back, for the journal: a resumed run sees the very same change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import to_builtins

from orchestrator.code_review.change.types import Change, ChangedFile


def to_json(change: Change) -> dict[str, Any]:
    """A change as JSON; runs of line numbers are kept as ``[first, last]``."""
    document: dict[str, Any] = to_builtins(change)
    for file in document["files"]:
        for name in ("added", "removed"):
            file[name] = _to_ranges(file[name])
    return document


def from_json(document: Mapping[str, Any]) -> Change:
    """The inverse of ``to_json``."""
    files = tuple(
        ChangedFile(**{**file, **{name: _from_ranges(file[name]) for name in ("added", "removed")}})
        for file in document["files"]
    )
    return Change(**{**document, "files": files, "notes": tuple(document["notes"])})


def _to_ranges(numbers: Iterable[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def _from_ranges(ranges: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(number for first, last in ranges for number in range(first, last + 1))
