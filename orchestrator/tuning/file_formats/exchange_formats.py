"""Items and labels in other tools' shapes: Langfuse, LangSmith, MLflow, promptfoo, and tables.

Each shape is what the tool's documentation has for traces (or runs, or results) with their scores:

* Langfuse: traces with ``scores``, or scores with ``traceId``
* LangSmith: runs with ``feedback``, or feedback with ``run_id``
* MLflow: traces with ``info.assessments``
* promptfoo: ``results.results`` with ``gradingResult.componentResults``
* ``csv`` and ``jsonl``: a row an item and rater, with any names of columns
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from orchestrator.errors import InputError
from orchestrator.foreign_json import parse_json
from orchestrator.tuning.file_formats.rubric_format_helpers import require_key
from orchestrator.tuning.file_formats.text_files import parse_object, read_csv, read_text
from orchestrator.tuning.labels.label_files import Label, parse_label

LABEL = "label"
"""The name of a person's assessment of the whole item."""
_WORDS = {"true": 1.0, "false": 0.0, "pass": 1.0, "fail": 0.0, "yes": 1.0, "no": 0.0}


class Assessment(Struct, frozen=True):
    """What somebody said of one aspect of an item.

    Attributes:
        human: by a person, not by a judge.
        by: the person or the judge, empty when unknown.
    """

    name: str
    value: Any
    human: bool
    by: str = ""
    note: str = ""
    at: str = ""


class ExchangedItem(Struct):
    """An item with all that was said of it."""

    id: str
    group: str = ""
    text: str = ""
    url: str = ""
    at: str = ""
    assessments: list[Assessment] = field(default_factory=list)


class Exchanged(Struct, frozen=True):
    """Items and labels of another tool, and what could not be converted, one line each."""

    items: tuple[dict[str, Any], ...]
    labels: tuple[Label, ...]
    unmapped: tuple[str, ...]


COLUMNS = ("id", "group", "text", "url", "at", "judge", "rater", LABEL, "note", "labeled_at")
FAMILIES = ("scores", "reasons", "criteria")


def check_columns(format_name: str, columns: Mapping[str, str]) -> None:
    """Check the names that ``--map`` gives to columns.

    Raises:
        InputError: the format is no table, or we have no column of that name.
    """
    if columns and format_name in READERS:
        raise InputError(f"--map is for csv and jsonl; the names of {format_name} are fixed")
    for name in columns:
        family, _, rest = name.partition(".")
        if name not in {*COLUMNS, *FAMILIES} and not (family in FAMILIES and rest):
            known = ", ".join([*COLUMNS, *FAMILIES, *(f"{one}.NAME" for one in FAMILIES)])
            raise InputError(
                f"--map {name}=...: {name!r} is not one of our columns; choose from {known}"
            )


def read_foreign(
    path: Path, format_name: str, columns: Mapping[str, str], label_name: str | None
) -> Exchanged:
    """Read another tool's items and labels.

    Args:
        format_name: a key of ``READERS``, ``csv`` or ``jsonl``.
        columns: our name → theirs, for tables; ``scores`` names all scores, ``scores.focus`` one.
        label_name: which of people's assessments is the label; the only one by default.

    Raises:
        InputError: the file is not of this format, or the label's name is unclear.
    """
    check_columns(format_name, columns)
    targets: list[ExchangedItem] = []
    for at, row in _read_rows(path, format_name):
        if not isinstance(row, Mapping):
            raise InputError(f"{at}: must be a JSON object")
        try:
            if format_name in READERS:
                targets += READERS[format_name](row, at)
            else:
                targets.append(_from_table(row, at, columns))
        except (AttributeError, TypeError):  # a part is no object, or no list
            raise InputError(f"{at}: is not in the shape of {format_name}") from None
    return _convert(_merge(targets), label_name)


def _read_rows(path: Path, format_name: str) -> list[tuple[str, Any]]:
    """The rows of a file, each with its location; one document may hold many."""
    if format_name == "csv":
        return list(read_csv(path))
    text = read_text(path)
    try:
        document = parse_json(text)
    except ValueError:
        lines = [(f"{path}:{n}", line) for n, line in enumerate(text.split("\n"), 1)]
        return [(at, parse_object(line, at)) for at, line in lines if line.strip()]
    if isinstance(document, dict) and isinstance(document.get("data"), list):
        document = document["data"]  # one page of an API's list
    if isinstance(document, dict) and isinstance(document.get("traces"), list):
        document = document["traces"]
    rows = document if isinstance(document, list) else [document]
    return [(f"{path}: entry {n}", row) for n, row in enumerate(rows, 1)]


def _merge(targets: Iterable[ExchangedItem]) -> list[ExchangedItem]:
    """One target of each id; what the first lacks is taken from the others."""
    merged: dict[str, ExchangedItem] = {}
    for target in targets:
        first = merged.setdefault(target.id, target)
        if first is not target:
            first.assessments += target.assessments
            for name in ("group", "text", "url", "at"):
                setattr(first, name, getattr(first, name) or getattr(target, name))
    return list(merged.values())


def _convert(targets: Sequence[ExchangedItem], label_name: str | None) -> Exchanged:
    said = {a.name for t in targets for a in t.assessments if a.human}
    if label_name is None and LABEL not in said and len(said) > 1:
        known = ", ".join(sorted(said))
        raise InputError(f"people assessed {known}; choose one as the label with --label NAME")
    name = label_name or (LABEL if LABEL in said else next(iter(said), LABEL))
    items: list[dict[str, Any]] = []
    labels: list[Label] = []
    lost: list[str] = []
    for target in targets:
        items.append(_item_row(target, lost))
        labels += _labels_of(target, name, lost)
    return Exchanged(tuple(items), tuple(labels), tuple(lost))


def _item_row(target: ExchangedItem, lost: list[str]) -> dict[str, Any]:
    scores: dict[str, Any] = {}
    reasons, judges = {}, set()
    for one in target.assessments:
        if one.human:
            continue
        value = _score_of(one.value)
        if value is not None and scores.get(one.name) == value:
            continue  # a table repeats the scores in the row of each rater
        if value is None or one.name in scores:
            why = "a second score" if one.name in scores else f"{one.value!r} is no score"
            lost.append(f"{target.id}: {one.name}: {why}")
            continue
        scores[one.name] = value
        judges |= {one.by} - {""}
        if one.note:
            reasons[one.name] = one.note
    row = {
        "id": target.id, "group": target.group or target.id, "scores": scores,
        "text": target.text, "url": target.url, "at": target.at, "reasons": reasons,
        "judge": "+".join(sorted(judges)),
    }  # fmt: skip
    return {k: v for k, v in row.items() if v or k == "scores"}


def _score_of(value: Any) -> float | None:
    if isinstance(value, (bool, int, float)):
        return float(value) if math.isfinite(value) else None
    return _WORDS.get(str(value).strip().lower())


def _labels_of(target: ExchangedItem, name: str, lost: list[str]) -> Iterator[Label]:
    """A label of each person; people who assessed criteria only have none."""
    people: dict[str, dict[str, Assessment]] = {}
    for one in target.assessments:
        own = people.setdefault(one.by or "-", {}) if one.human else {}
        if one.human and one.name in own:
            lost.append(f"{target.id}: {one.name}: a second assessment by {one.by or '-'}")
        own.setdefault(one.name, one)
    for rater, own in people.items():
        values = {}
        for aspect, one in own.items():
            try:
                values[aspect] = parse_label(_plain_label(one.value), target.id)
            except InputError:
                lost.append(f"{target.id}: {aspect}: {one.value!r} by {rater} is no label")
        if name not in values:
            lost += [f"{target.id}: {aspect}: {rater} gave no {name!r}" for aspect in values]
            continue
        whole = own[name]
        yield Label(target.id, rater, values.pop(name), values, whole.note, whole.at)


def _plain_label(value: Any) -> Any:
    """A label as a word or a number; tables have text only."""
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
    if isinstance(value, dict) and len(value) == 1:
        return _text(next(iter(value.values())))
    return json.dumps(value, ensure_ascii=False)


def _from_langfuse(row: Any, at: str) -> Iterator[ExchangedItem]:
    if "scores" not in row:
        row = {"id": require_key(row, "traceId", at), "scores": [row]}
    target = ExchangedItem(
        str(require_key(row, "id", at)), _text(row.get("sessionId")), _text(row.get("output")),
        _text(row.get("htmlPath")), _text(row.get("timestamp")),
    )  # fmt: skip
    for one in row["scores"]:
        value = one.get("stringValue") if one.get("value") is None else one["value"]
        if one.get("dataType") in {"BOOLEAN", "CATEGORICAL"}:
            value = one.get("stringValue") or value
        target.assessments.append(
            Assessment(
                str(require_key(one, "name", at)), value, one.get("source") == "ANNOTATION",
                _text(one.get("authorUserId")), _text(one.get("comment")),
                _text(one.get("timestamp")),
            )
        )  # fmt: skip
    yield target


def _from_langsmith(row: Any, at: str) -> Iterator[ExchangedItem]:
    if "feedback" not in row:
        row = {"id": require_key(row, "run_id", at), "feedback": [row]}
    target = ExchangedItem(
        str(require_key(row, "id", at)), _text(row.get("trace_id")), _text(row.get("outputs")),
        _text(row.get("url")), _text(row.get("start_time")),
    )  # fmt: skip
    for one in row["feedback"]:
        source = one.get("feedback_source") or {}
        value = one.get("score") if one.get("value") is None else one["value"]
        by = source.get("user_name") or source.get("user_id")
        target.assessments.append(
            Assessment(
                str(require_key(one, "key", at)), value, source.get("type") == "app", _text(by),
                _text(one.get("comment")), _text(one.get("created_at")),
            )
        )  # fmt: skip
    yield target


def _from_mlflow(row: Any, at: str) -> Iterator[ExchangedItem]:
    info = require_key(row, "info", at)
    session = (info.get("trace_metadata") or {}).get("mlflow.trace.session")
    target = ExchangedItem(
        str(require_key(info, "trace_id", at)), _text(session), _text(info.get("response_preview")),
        "", _text(info.get("request_time")),
    )  # fmt: skip
    for one in info.get("assessments") or []:
        source, feedback = one.get("source") or {}, one.get("feedback") or one.get("expectation")
        human = source.get("source_type") == "HUMAN"
        target.assessments.append(
            Assessment(
                str(require_key(one, "assessment_name", at)), (feedback or {}).get("value"), human,
                _text(source.get("source_id")), _text(one.get("rationale")),
                _text(one.get("create_time")),
            )
        )  # fmt: skip
    yield target


def _from_promptfoo(row: Any, at: str) -> Iterator[ExchangedItem]:
    results = require_key(row, "results", at)
    results = results.get("results", []) if isinstance(results, dict) else results
    for n, result in enumerate(results):
        name = result.get("id") or f"{result.get('testIdx', n)}/{result.get('promptIdx', 0)}"
        grading = result.get("gradingResult") or {}
        response = result.get("response") or {}
        group = _text((result.get("vars") or {}).get("group")) or str(result.get("testIdx", name))
        target = ExchangedItem(str(name), group, _text(response.get("output")))
        for part in grading.get("componentResults") or []:
            claim = part.get("assertion") or {}
            human = claim.get("type") == "human"
            aspect = _text(claim.get("metric")) or (LABEL if human else _text(claim.get("value")))
            value = part.get("pass") if human else part.get("score")
            note = part.get("comment") or (grading.get("comment") if human else None)
            target.assessments.append(
                Assessment(
                    aspect or str(claim.get("type")), value, human,
                    _text((part.get("metadata") or {}).get("rater")),
                    _text(note or ("" if human else part.get("reason"))),
                )
            )  # fmt: skip
        yield target


READERS: dict[str, Callable[[Any, str], Iterator[ExchangedItem]]] = {
    "langfuse": _from_langfuse,
    "langsmith": _from_langsmith,
    "mlflow": _from_mlflow,
    "promptfoo": _from_promptfoo,
}


def _from_table(row: Mapping[str, Any], at: str, columns: Mapping[str, str]) -> ExchangedItem:
    def get(name: str) -> str:
        return _text(_look_up(row, columns.get(name, name)))

    if not get("id"):
        raise InputError(f"{at}: no id in {columns.get('id', 'id')!r}; name it with --map id=NAME")
    target = ExchangedItem(get("id"), get("group"), get("text"), get("url"), get("at"))
    reasons = _collect(row, "reasons", columns)
    for name, value in _collect(row, "scores", columns).items():
        number = _plain_label(value)
        note = _text(reasons.get(name))
        target.assessments.append(Assessment(name, number, False, get("judge"), note))
    whole = _look_up(row, columns.get(LABEL, LABEL))
    for name, value in {LABEL: whole, **_collect(row, "criteria", columns)}.items():
        if value not in {None, ""}:
            note = get("note") if name == LABEL else ""
            by = get("rater")
            target.assessments.append(Assessment(name, value, True, by, note, get("labeled_at")))
    return target


def _look_up(row: Mapping[str, Any], path: str) -> Any:
    """A column of this name, or the value at a path with dots."""
    if path in row:
        return row[path]
    found: Any = row
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _collect(row: Mapping[str, Any], name: str, columns: Mapping[str, str]) -> dict[str, Any]:
    """The values of a family of columns, such as the scores, without empty ones."""
    prefix = columns.get(name, name)
    inner = _look_up(row, prefix)
    found = dict(inner) if isinstance(inner, Mapping) else {}
    for column, value in row.items():
        if column.startswith(f"{prefix}."):
            found[column.removeprefix(f"{prefix}.")] = value
    for ours, theirs in columns.items():
        if ours.startswith(f"{name}."):
            found[ours.removeprefix(f"{name}.")] = _look_up(row, theirs)
    return {key: value for key, value in found.items() if value not in {None, ""}}
