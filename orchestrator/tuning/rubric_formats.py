"""Rubrics of other tools: what maps is carried over, what does not is listed."""

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from msgspec import Struct

from orchestrator.engine.types import Criterion, Json, Rubric, ScoreLevel
from orchestrator.errors import InputError

MET = (ScoreLevel(0.0, "not met"), ScoreLevel(1.0, "met"))
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


def slug(text: str, taken: Iterable[str], fallback: str) -> str:
    """An id that a rubric allows, as near to a text as can be, and not taken."""
    base = "-".join(re.findall(r"[a-z0-9]+", text.lower()))[:40].strip("-") or fallback
    name, n, used = base, 2, set(taken)
    while name in used:
        name, n = f"{base}-{n}", n + 1
    return name


def is_id(text: str) -> bool:
    """Whether a rubric allows this id as it is."""
    return bool(_ID.fullmatch(text)) and len(text) <= _LONGEST


def number(value: float) -> float | int:
    """A whole number as an int, so that it is written as it was read."""
    return int(value) if float(value).is_integer() else value


def need(row: Any, key: str, where: str) -> Any:
    """A key of an object.

    Raises:
        InputError: it is no object, or has no such key.
    """
    if not isinstance(row, Mapping) or key not in row:
        raise InputError(f"{where} needs {key!r}")
    return row[key]


def from_healthbench(doc: Any, name: str, threshold: float) -> Imported:
    """One HealthBench example: criteria with points; negative points are penalties.

    The score is the points of the criteria met over the sum of the positive points, clipped,
    which is what a rubric's total is.
    """
    criteria = []
    for at, row in enumerate(need(doc, "rubrics", "a HealthBench example"), 1):
        where = f"rubrics[{at - 1}]"
        text, points = str(need(row, "criterion", where)), float(need(row, "points", where))
        tags = tuple(str(t) for t in row.get("tags", []))
        criteria.append(Criterion(f"c{at}", "judged", text, points, MET, tags=tags))
    lost = [f"{key}: not part of a rubric" for key in doc if key != "rubrics"]
    rubric = Rubric(name, 1, f"Imported from HealthBench: {name}", threshold, tuple(criteria))
    return Imported(rubric, unmapped=tuple(lost))


def to_healthbench(rubric: Rubric) -> Exported:
    """Criteria as HealthBench rubric items."""
    rows = [
        {"criterion": c.description, "points": number(c.weight), "tags": list(c.tags)}
        for c in rubric.criteria
    ]
    return Exported({"rubrics": rows}, (*_tree_lost(rubric), *_policies_lost(rubric)))


def from_autorubric(doc: Any, name: str, threshold: float) -> Imported:
    """An autorubric rubric: a list of criteria, or sections of criteria, which become tags."""
    criteria: list[Criterion] = []
    lost: list[str] = []
    for at, (section, row) in enumerate(_sections(doc), 1):
        where = f"criterion {at}"
        text = str(need(row, "requirement", where))
        ident = slug(str(row.get("name") or f"c{at}"), (c.id for c in criteria), f"c{at}")
        levels = _options(row.get("options"), ident, lost)
        weight = float(row.get("weight", 10.0))
        tags = (section,) if section else ()
        criteria.append(Criterion(ident, "judged", text, weight, levels, tags=tags))
        lost += [
            f"{ident}: {key} {row[key]!r}: how several judges are put together"
            for key in ("scale_type", "aggregation")
            if row.get(key) not in {None, "ordinal"}
        ]
    rubric = Rubric(name, 1, f"Imported from autorubric: {name}", threshold, tuple(criteria))
    return Imported(rubric, unmapped=tuple(lost))


def _sections(doc: Any) -> list[tuple[str, Any]]:
    while isinstance(doc, Mapping):
        key = next((k for k in ("rubric", "sections") if k in doc), None)
        if key is None:
            raise InputError("an autorubric file needs 'rubric' or 'sections', or a list")
        doc = doc[key]
    if not isinstance(doc, list):
        raise InputError("an autorubric rubric must be a list of criteria")
    out: list[tuple[str, Any]] = []
    for row in doc:
        if isinstance(row, Mapping) and isinstance(row.get("criteria"), list):
            section = str(row.get("name") or row.get("title") or "")
            out += [(section, inner) for inner in row["criteria"]]
        else:
            out.append(("", row))
    return out


def _options(raw: Any, ident: str, lost: list[str]) -> tuple[ScoreLevel, ...]:
    if not raw:
        return MET
    scored = [o for o in raw if not o.get("na")]
    lost += [f'{ident}: option {o["label"]!r}: write "na" as the score' for o in raw if o.get("na")]
    levels = [ScoreLevel(float(o["value"]), str(o["label"])) for o in scored]
    levels.sort(key=lambda x: x.score)
    return merged(levels, ident, lost)


def merged(levels: list[ScoreLevel], ident: str, lost: list[str]) -> tuple[ScoreLevel, ...]:
    """Levels in rising order, those of one score joined; fewer than two are met and not met."""
    out: list[ScoreLevel] = levels[:1]
    for low, high in pairwise(levels):
        if high.score > low.score:
            out.append(high)
        else:
            out[-1] = ScoreLevel(out[-1].score, f"{out[-1].description}; {high.description}")
            lost.append(f"{ident}: two options score {high.score:g}; they are one level now")
    return tuple(out) if len(out) > 1 else MET


def to_autorubric(rubric: Rubric) -> Exported:
    """Criteria as autorubric has them; met / not met where there are no other levels."""
    rows: list[Json] = []
    for c in rubric.criteria:
        row: dict[str, Json] = {
            "name": c.id,
            "weight": number(c.weight),
            "requirement": c.description,
        }
        if c.levels and c.levels != MET:
            row["options"] = [{"label": x.description, "value": x.score} for x in c.levels]
        rows.append(row)
    return Exported(rows, (*_tree_lost(rubric), *_policies_lost(rubric)))


def _tree_lost(rubric: Rubric) -> list[str]:
    return [
        f"group {g.id}: the target has no tree; its criteria stand alone" for g in rubric.groups
    ]


def _policies_lost(rubric: Rubric) -> list[str]:
    out = [f"threshold {rubric.threshold:g}: the target has none"]
    for c in rubric.criteria:
        if c.blocker:
            out.append(f"{c.id}: is a blocker; the target has none")
        if c.na != "exclude" or c.abstain != "exclude":
            out.append(f"{c.id}: its policy for not applicable or abstained")
    return out


Importer = Callable[[Any, str, float], Imported]
