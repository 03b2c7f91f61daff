"""Items and labels as tables with any names of columns: CSV, or JSON Lines.

A row is an item and a rater. Columns are ``COLUMNS``, and ``scores.NAME``, ``reasons.NAME`` and
``criteria.NAME``.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from orchestrator.errors import InputError
from orchestrator.foreign_json import parse_json
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.file_formats.text_files import parse_object, read_csv, read_text, write_csv
from orchestrator.tuning.labels.label_files import Label, parse_label

_ITEM_TEXTS = ("group", "text", "url", "site", "at", "scored_at")
COLUMNS = ("id", *_ITEM_TEXTS, "judge", "rater", "label", "note", "labeled_at")
FAMILIES = ("scores", "reasons", "criteria")
_WORDS = {"true": 1.0, "false": 0.0, "pass": 1.0, "fail": 0.0, "yes": 1.0, "no": 0.0}


class ItemTable(Struct, frozen=True):
    """Items and labels of a table, and what could not be converted, one line each."""

    items: tuple[dict[str, Any], ...]
    labels: tuple[Label, ...]
    unmapped: tuple[str, ...]


def check_columns(columns: Mapping[str, str]) -> None:
    """Check the names that ``--map`` gives to columns."""
    for name in columns:
        family, _, rest = name.partition(".")
        if name not in {*COLUMNS, *FAMILIES} and not (family in FAMILIES and rest):
            known = ", ".join([*COLUMNS, *FAMILIES, *(f"{one}.NAME" for one in FAMILIES)])
            raise InputError(
                f"--map {name}=...: {name!r} is not one of our columns; choose from {known}"
            )


def read_table(path: Path, format_name: str, columns: Mapping[str, str]) -> ItemTable:
    """Read items and labels.

    Args:
        format_name: ``csv``, or ``jsonl``, which may also be one JSON list.
        columns: our name → theirs; ``scores`` names all scores, ``scores.focus`` one.

    Raises:
        InputError: the file is not of this format, a row has no id, or we have no such column.
    """
    check_columns(columns)
    table = _TableReader(columns)
    for location, row in _read_rows(path, format_name):
        if not isinstance(row, Mapping):
            raise InputError(f"{location}: must be a JSON object")
        table.add(row, location)
    items = (
        {key: value for key, value in item.items() if value or key == "scores"}
        for item in table.items.values()
    )
    return ItemTable(tuple(items), tuple(table.labels.values()), tuple(table.unmapped))


def _read_rows(path: Path, format_name: str) -> Iterator[tuple[str, Any]]:
    """The rows of a file, each with its location."""
    if format_name == "csv":
        yield from read_csv(path)
        return
    text = read_text(path)
    try:
        document = parse_json(text)
    except ValueError:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield f"{path}:{number}", parse_object(line, f"{path}:{number}")
        return
    rows = document if isinstance(document, list) else [document]
    yield from ((f"{path}: entry {number}", row) for number, row in enumerate(rows, 1))


class _TableReader:
    """Collects the items and labels of rows; what an item's first row lacks, later ones add."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns
        self.items: dict[str, dict[str, Any]] = {}
        self.labels: dict[tuple[str, str], Label] = {}
        self.unmapped: list[str] = []

    def add(self, row: Mapping[str, Any], location: str) -> None:
        """Add a row.

        Raises:
            InputError: it has no id.
        """
        name = self._text(row, "id")
        if not name:
            column = self._columns.get("id", "id")
            raise InputError(f"{location}: no id in {column!r}; name it with --map id=NAME")
        new = {"id": name, "scores": {}, "reasons": {}, "judge": ""}
        item = self.items.setdefault(name, new)
        for key in _ITEM_TEXTS:
            item[key] = item.get(key) or self._text(row, key)
        self._add_scores(row, item)
        self._add_label(row, name, location)

    def _add_scores(self, row: Mapping[str, Any], item: dict[str, Any]) -> None:
        scores, reasons = item["scores"], self._family(row, "reasons")
        for key, raw in self._family(row, "scores").items():
            value = _score_of(_plain_value(raw))
            if value is not None and scores.get(key, value) == value:
                scores[key] = value  # a table repeats the scores in the row of each rater
                if judge := self._text(row, "judge"):
                    item["judge"] = "+".join(sorted({*item["judge"].split("+"), judge} - {""}))
                if reason := _text(reasons.get(key)):
                    item["reasons"].setdefault(key, reason)
            else:
                why = "a second score" if key in scores else f"{raw!r} is no score"
                self.unmapped.append(f"{item['id']}: {key}: {why}")

    def _add_label(self, row: Mapping[str, Any], item: str, location: str) -> None:
        """A label of a row's rater; one who assessed criteria only gives none."""
        rater = self._text(row, "rater") or "-"
        marks = self._family(row, "criteria")
        whole = _look_up(row, self._columns.get("label", "label"))
        if whole is not None and whole != "":
            marks = {"label": whole, **marks}
        values = {}
        for key, raw in marks.items():
            try:
                values[key] = parse_label(_plain_value(raw), location)
            except InputError:
                self.unmapped.append(f"{item}: {key}: {raw!r} by {rater} is no label")
        if "label" not in values:
            self.unmapped += [f"{item}: {key}: {rater} gave no 'label'" for key in values]
        elif (item, rater) in self.labels:
            self.unmapped.append(f"{item}: a second label by {rater}")
        else:
            label, note, at = values.pop("label"), self._text(row, "note"), "labeled_at"
            self.labels[item, rater] = Label(
                item, rater, label, values, note, self._text(row, at), location=location
            )

    def _text(self, row: Mapping[str, Any], name: str) -> str:
        return _text(_look_up(row, self._columns.get(name, name)))

    def _family(self, row: Mapping[str, Any], name: str) -> dict[str, Any]:
        """The values of a family of columns, such as the scores, without empty ones."""
        prefix = self._columns.get(name, name)
        inner = _look_up(row, prefix)
        found = dict(inner) if isinstance(inner, Mapping) else {}
        for column, value in row.items():
            if column.startswith(f"{prefix}."):
                found[column.removeprefix(f"{prefix}.")] = value
        for ours, theirs in self._columns.items():
            if ours.startswith(f"{name}."):
                found[ours.removeprefix(f"{name}.")] = _look_up(row, theirs)
        return {key: value for key, value in found.items() if value is not None and value != ""}


def _score_of(value: Any) -> float | None:
    if isinstance(value, (bool, int, float)):
        return float(value) if math.isfinite(value) else None
    return _WORDS.get(str(value).strip().lower())


def _plain_value(value: Any) -> Any:
    """A number where a text is one; tables have text only."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _text(value: Any) -> str:
    """A text, or the JSON of anything else; empty for None."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _look_up(row: Mapping[str, Any], path: str) -> Any:
    """A column of this name, or the value at a path with dots."""
    if path in row:
        return row[path]
    found: Any = row
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def write_table(
    items: Iterable[Item], labels: Iterable[Label], format_name: str, columns: Mapping[str, str]
) -> tuple[str, list[str]]:
    """Items and labels as a table, and what it cannot hold, one line each.

    Args:
        format_name: ``csv`` or ``jsonl``.
        columns: our name → theirs.

    """
    unmapped: list[str] = []
    given: dict[str, list[Label]] = {}
    for label in labels:
        given.setdefault(label.item, []).append(label)
    rows = []
    for item in items:
        if item.repeat:
            unmapped.append(f"{item.id}: repeated scoring {item.repeat}")
            continue
        row = _item_row(item, unmapped)
        said = [_label_row(label, unmapped) for label in given.pop(item.id, ())]
        rows += [_rename(row | one, columns) for one in said or ({},)]
    unmapped += [f"{name}: labeled, and not in the items" for name in given]
    if format_name == "csv":
        names = list(dict.fromkeys(name for row in rows for name in row))
        return write_csv([names, *([row.get(name) for name in names] for row in rows)]), unmapped
    lines = (json.dumps(_nest(row), ensure_ascii=False) + "\n" for row in rows)
    return "".join(lines), unmapped


def _item_row(item: Item, unmapped: list[str]) -> dict[str, Any]:
    row = {"id": item.id} | {name: getattr(item, name) for name in _ITEM_TEXTS}
    scored = {name: score for name, score in item.scores.items() if isinstance(score, float)}
    for name in [name for name in item.scores if name not in scored]:
        how = "does not apply" if item.scores[name] else "abstained"
        unmapped.append(f"{item.id}: {name}: {how}")
    unmapped += [
        f"{item.id}: {name}" for name in ("context", "verdict", "usd") if getattr(item, name)
    ]
    row |= {f"scores.{name}": score for name, score in scored.items()}
    row |= {"judge": item.judge} if scored else {}
    row |= {f"reasons.{name}": why for name, why in item.reasons.items() if name in scored}
    return _drop_empty(row)


def _label_row(label: Label, unmapped: list[str]) -> dict[str, Any]:
    if label.drawn or label.previous or label.adjudicates:
        what = "history, drawing and adjudication of the label"
        unmapped.append(f"{label.item}: {what} by {label.rater}")
    row = {
        "rater": label.rater, "label": label.label, "note": label.note, "labeled_at": label.at
    }  # fmt: skip
    return _drop_empty(row | {f"criteria.{name}": x for name, x in label.criteria.items()})


def _drop_empty(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value not in ("", None)}


def _rename(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    out = {}
    for name, value in row.items():
        family, dot, rest = name.partition(".")
        default = f"{columns.get(family, family)}{dot}{rest}" if dot else name
        out[columns.get(name, default)] = value
    return out


def _nest(row: Mapping[str, Any]) -> dict[str, Any]:
    """Names with dots as objects in objects, of one level: criteria's ids may have dots too."""
    out: dict[str, Any] = {}
    for name, value in row.items():
        outer, dot, inner = name.partition(".")
        if dot:
            out.setdefault(outer, {})[inner] = value
        else:
            out[name] = value
    return out
