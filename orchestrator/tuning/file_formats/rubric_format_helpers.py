"""Shared parts of rubric import and export: results, ids, key lookup and level merging."""

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from msgspec import Struct

from orchestrator.engine.types import Json, Rubric, ScoreLevel
from orchestrator.errors import InputError

MET_LEVELS = (ScoreLevel(0.0, "not met"), ScoreLevel(1.0, "met"))
_ID = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*")
_MAX_ID_LENGTH = 64


class Imported(Struct, frozen=True):
    """Result of an import.

    Attributes:
        items: rows for an items file, when the source contained scores.
        unmapped: parts of the source that a rubric cannot express, one line each.
    """

    rubric: Rubric
    items: tuple[dict[str, Json], ...] = ()
    unmapped: tuple[str, ...] = ()


class Exported(Struct, frozen=True):
    """Result of an export: the document, and the parts of the rubric that it cannot express."""

    document: Json
    unmapped: tuple[str, ...] = ()


def make_id(text: str, taken: Iterable[str], fallback: str) -> str:
    """A valid rubric id derived from a text, with a number where it is taken already."""
    base = "-".join(re.findall(r"[a-z0-9]+", text.lower()))[:40].strip("-") or fallback
    name, n, used = base, 2, set(taken)
    while name in used:
        name, n = f"{base}-{n}", n + 1
    return name


def is_id(text: str) -> bool:
    """Whether a text is a valid rubric id."""
    return bool(_ID.fullmatch(text)) and len(text) <= _MAX_ID_LENGTH


def to_int_if_whole(value: float) -> float | int:
    """A whole number as an int, so that 2 is written as 2 and not as 2.0."""
    return int(value) if float(value).is_integer() else value


def require_key(row: Any, key: str, where: str) -> Any:
    """The value of an object's key.

    Raises:
        InputError: it is not an object, or lacks the key.
    """
    if not isinstance(row, Mapping) or key not in row:
        raise InputError(f"{where} requires {key!r}")
    return row[key]


def merge_equal_levels(
    levels: list[ScoreLevel], ident: str, lost: list[str]
) -> tuple[ScoreLevel, ...]:
    """Sorted levels, those of equal score merged; met and not met when fewer than two remain."""
    out: list[ScoreLevel] = levels[:1]
    for low, high in pairwise(levels):
        if high.score > low.score:
            out.append(high)
        else:
            out[-1] = ScoreLevel(out[-1].score, f"{out[-1].description}; {high.description}")
            lost.append(f"{ident}: two options with score {high.score:g} merged into one level")
    return tuple(out) if len(out) > 1 else MET_LEVELS


Importer = Callable[[Any, str, float], Imported]
