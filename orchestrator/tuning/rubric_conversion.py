"""What conversions between our rubrics and other tools' formats share: results, ids, key lookup."""

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from msgspec import Struct

from orchestrator.engine.types import Json, Rubric, ScoreLevel
from orchestrator.errors import InputError

MET_LEVELS = (ScoreLevel(0.0, "not met"), ScoreLevel(1.0, "met"))
_ID = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*")
_LONGEST = 64


class Imported(Struct, frozen=True):
    """What came of an import.

    Attributes:
        items: rows for an items file, where the source held scores.
        unmapped: what the source says and a rubric cannot, one line each.
    """

    rubric: Rubric
    items: tuple[dict[str, Json], ...] = ()
    unmapped: tuple[str, ...] = ()


class Exported(Struct, frozen=True):
    """What came of an export: the document, and what it could not hold."""

    document: Json
    unmapped: tuple[str, ...] = ()


def make_id(text: str, taken: Iterable[str], fallback: str) -> str:
    """An id that a rubric allows, as near to a text as can be, and not taken."""
    base = "-".join(re.findall(r"[a-z0-9]+", text.lower()))[:40].strip("-") or fallback
    name, n, used = base, 2, set(taken)
    while name in used:
        name, n = f"{base}-{n}", n + 1
    return name


def is_id(text: str) -> bool:
    """Whether a rubric allows this id as it is."""
    return bool(_ID.fullmatch(text)) and len(text) <= _LONGEST


def as_written(value: float) -> float | int:
    """A whole number as an int, so that it is written as it was read."""
    return int(value) if float(value).is_integer() else value


def require_key(row: Any, key: str, where: str) -> Any:
    """A key of an object.

    Raises:
        InputError: it is no object, or has no such key.
    """
    if not isinstance(row, Mapping) or key not in row:
        raise InputError(f"{where} needs {key!r}")
    return row[key]


def merge_equal_levels(
    levels: list[ScoreLevel], ident: str, lost: list[str]
) -> tuple[ScoreLevel, ...]:
    """Levels in rising order, those of one score joined; fewer than two are met and not met."""
    out: list[ScoreLevel] = levels[:1]
    for low, high in pairwise(levels):
        if high.score > low.score:
            out.append(high)
        else:
            out[-1] = ScoreLevel(out[-1].score, f"{out[-1].description}; {high.description}")
            lost.append(f"{ident}: two options score {high.score:g}; they are one level now")
    return tuple(out) if len(out) > 1 else MET_LEVELS


Importer = Callable[[Any, str, float], Imported]
