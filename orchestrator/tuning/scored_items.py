"""Items to score: JSON Lines, CSV, or verdict documents of past runs."""

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from orchestrator.engine.rubric_scoring import Given
from orchestrator.errors import InputError
from orchestrator.tuning.rubric_conversion import is_id, make_id
from orchestrator.tuning.text_files import read_text

_TEXTS = ("text", "review", "summary")


class Item(Struct, frozen=True):
    """One thing that a judge scored and a person can label.

    Attributes:
        group: what it belongs to (the pull request); resampling keeps a group together.
        scores: criterion id → 0..1, ``"na"``, or None where the judge abstained.
        human: labels that stand in the same row, by name, as they were written.
        rater: who gave them.
        repeat: 0, or the number of a repeated scoring of the same item.
        place: file and line, for messages.
    """

    id: str
    group: str
    scores: Mapping[str, Given]
    text: str = ""
    url: str = ""
    verdict: str = ""
    human: Mapping[str, Any] = field(default_factory=dict)
    rater: str = ""
    repeat: int = 0
    place: str = ""


def read_items(paths: Iterable[Path], scale: tuple[float, float] = (0.0, 1.0)) -> list[Item]:
    """Read items from files.

    Args:
        paths: ``.jsonl``, ``.csv``, or ``.json`` (one verdict document); none may share a group.
        scale: the lowest and the highest raw score, mapped to 0 and 1.

    Raises:
        InputError: a file, row or score that cannot be used, with its place; an id that stands
            twice; a group that stands in two files.
    """
    items: list[Item] = []
    homes: dict[str, Path] = {}
    for path in paths:
        found = [_item(row, place, scale) for row, place in _rows(path)]
        if not found:
            raise InputError(f"{path}: has no items; write one JSON object a line")
        for item in found:
            home = homes.setdefault(item.group, path)
            if home != path:
                raise InputError(
                    f"{item.place}: the group {item.group!r} also stands in {home}; "
                    "keep all items of a group in one file"
                )
        items += found
    _no_duplicates(items)
    return items


def item_from_verdict(doc: dict[str, Any]) -> Item:
    """A run's verdict document as an item, grouped by the head that was reviewed.

    Raises:
        InputError: it is no verdict document.
    """
    return _item(_verdict_row(doc, "a run"), "a run", (0.0, 1.0))


def _no_duplicates(items: list[Item]) -> None:
    seen: dict[tuple[str, str, int], Item] = {}
    first: dict[str, Item] = {}
    for item in items:
        key = (item.id, item.rater, item.repeat)
        if key in seen:
            who = f" by rater {item.rater!r}" if item.rater else ""
            raise InputError(
                f"{item.place}: the id {item.id!r}{who} stands twice, first at {seen[key].place}"
            )
        seen[key] = item
        other = first.setdefault(item.id, item)
        if item.group != other.group or (
            item.repeat == other.repeat and item.scores != other.scores
        ):
            raise InputError(
                f"{item.place}: {item.id!r} has another group or other scores than at "
                f"{other.place}; give a repeated scoring its own number in 'repeat'"
            )


def _rows(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    text = read_text(path)
    if path.suffix == ".csv":
        yield from _csv_rows(text, path)
    elif path.suffix == ".json":
        yield _verdict_row(_json(text, str(path)), str(path)), str(path)
    else:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                place = f"{path}:{number}"
                yield _json(line, place), place


def _json(text: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except ValueError as error:
        raise InputError(f"{place}: is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise InputError(f"{place}: must be a JSON object")
    return row


def _csv_rows(text: str, path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    reader = csv.DictReader(text.splitlines(), strict=True)
    try:
        for cells in reader:
            place = f"{path}:{reader.line_num}"
            if None in cells or None in cells.values():
                raise InputError(f"{place}: has another number of cells than the header")
            row: dict[str, Any] = {"scores": {}, "human": {}}
            for name, cell in cells.items():
                part, _, key = name.partition(".")
                if key and part in {"scores", "score", "machine"}:
                    row["scores"][key] = _cell(cell)
                elif key and part == "human":
                    row["human"][key] = _cell(cell)
                elif name == "label":
                    row["human"]["label"] = _cell(cell)
                elif cell != "":
                    row[name] = cell
            yield row, place
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: is not CSV: {error}") from None


def _cell(cell: str) -> Any:
    if cell in {"abstain", "null"}:
        return None
    try:
        return float(cell)
    except ValueError:
        return cell


def _verdict_row(doc: dict[str, Any], place: str) -> dict[str, Any]:
    """A verdict document as an item: one run, grouped by the head that was reviewed."""
    try:
        return {
            "id": doc["run_id"],
            "group": doc["change"]["head"],
            "scores": {c["id"]: c["score"] for c in doc["score"]["criteria"]},
            "text": doc.get("summary", ""),
            "verdict": doc["verdict"],
        }
    except (KeyError, TypeError):
        raise InputError(
            f"{place}: is not a verdict document; write items as .jsonl or .csv"
        ) from None


def _item(row: dict[str, Any], place: str, scale: tuple[float, float]) -> Item:
    name = row.get("id")
    if not isinstance(name, (str, int)) or name == "":
        raise InputError(f"{place}: needs an 'id'")
    raw = row.get("scores", row.get("machine", {}))
    human = row.get("human", {})
    if "label" in row:
        human = {**human, "label": row["label"]} if isinstance(human, dict) else human
    for key, value in (("scores", raw), ("human", human)):
        if not isinstance(value, dict):
            raise InputError(f"{place}: {key!r} must map names to values")
    return Item(
        id=str(name),
        group=str(row.get("group", name)),
        scores=_scores(raw, place, scale),
        text=next((str(row[k]) for k in _TEXTS if row.get(k)), ""),
        url=str(row.get("url", "")),
        verdict=str(row.get("verdict", "")),
        human=human,
        rater=str(row.get("rater", "")),
        repeat=_whole(row.get("repeat", 0), place),
        place=place,
    )


def _whole(value: Any, place: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise InputError(f"{place}: 'repeat' must be a whole number, not {value!r}") from None


def _scores(raw: Mapping[Any, Any], place: str, scale: tuple[float, float]) -> dict[str, Given]:
    """Scores by criterion id; a name that no rubric allows (``Q1``) stands for the nearest id."""
    out: dict[str, Given] = {}
    for key, value in raw.items():
        name = str(key) if is_id(str(key)) else make_id(str(key), (), "")
        if not name or name in out:
            raise InputError(f"{place}: the scores' name {key!r} is no criterion id of its own")
        out[name] = _score(value, str(key), place, scale)
    return out


def _score(value: Any, name: str, place: str, scale: tuple[float, float]) -> Given:
    if value is None or value == "na":
        return None if value is None else "na"
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, (int, float)):
        raise InputError(
            f"{place}: the score of {name!r} is {value!r}; allowed: a number, null for "
            'abstained, "na" for not applicable'
        )
    if math.isnan(value):
        raise InputError(f"{place}: the score of {name!r} is not a number (NaN)")
    low, high = scale
    part = (float(value) - low) / (high - low)
    if not -1e-9 <= part <= 1 + 1e-9:
        raise InputError(
            f"{place}: the score of {name!r} is {value}; allowed: {low:g} to {high:g}; "
            "say --scale LOW:HIGH for another range"
        )
    return min(max(part, 0.0), 1.0)
