"""Write items and labels in other tools' shapes, which ``exchange_formats`` reads back."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.exchange_formats import LABEL, Assessment, ExchangedItem
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.file_formats.text_files import write_csv
from orchestrator.tuning.labels.label_files import Label


def write_foreign(
    items: Iterable[Item], labels: Iterable[Label], format_name: str, columns: Mapping[str, str]
) -> tuple[str, list[str]]:
    """Items and labels in another tool's shape, and what this cannot hold, one line each.

    Args:
        format_name: a key of ``WRITERS``, ``csv`` or ``jsonl``.
        columns: our name → theirs, for tables.

    Raises:
        InputError: a label of an unknown item.
    """
    targets, lost = to_targets(items, labels)
    if format_name in WRITERS:
        document, more = WRITERS[format_name](targets)
        return json.dumps(document, ensure_ascii=False, indent=1) + "\n", lost + more
    rows = [row for target in targets for row in _rows(target)]
    if format_name == "csv":
        renamed = [_rename(row, columns) for row in rows]
        names = list(dict.fromkeys(name for row in renamed for name in row))
        return write_csv([names, *([row.get(name) for name in names] for row in renamed)]), lost
    nested = (_nest(_rename(row, columns)) for row in rows)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in nested), lost


def to_targets(
    items: Iterable[Item], labels: Iterable[Label]
) -> tuple[list[ExchangedItem], list[str]]:
    """Items and labels for a writer, and what no tool's shape can hold."""
    lost: list[str] = []
    targets: dict[str, ExchangedItem] = {}
    for item in items:
        if item.repeat:
            lost.append(f"{item.id}: repeated scoring {item.repeat}")
            continue
        target = ExchangedItem(item.id, item.group, item.text, item.url, item.at)
        targets[item.id] = target
        for name, score in item.scores.items():
            if not isinstance(score, float):
                lost.append(f"{item.id}: {name}: {'does not apply' if score else 'abstained'}")
                continue
            note = item.reasons.get(name, "")
            target.assessments.append(Assessment(name, score, False, item.judge, note))
        if item.context:
            lost.append(f"{item.id}: context")
    for label in labels:
        if label.item not in targets:
            raise InputError(
                f"{label.location}: the labeled item {label.item!r} is not in the items"
            )
        own = targets[label.item].assessments
        own.append(Assessment(LABEL, label.label, True, label.rater, label.note, label.at))
        own += [
            Assessment(c, v, True, label.rater, "", label.at) for c, v in label.criteria.items()
        ]
        if label.drawn or label.previous:
            lost.append(f"{label.item}: history and drawing of the label by {label.rater}")
    return list(targets.values()), lost


def _drop_empty(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value not in ("", None)}


def _to_langfuse(targets: Sequence[ExchangedItem]) -> tuple[Any, list[str]]:
    traces = [
        _drop_empty(
            {
                "id": t.id, "sessionId": t.group, "timestamp": t.at, "output": t.text,
                "htmlPath": t.url,
                "scores": [_langfuse_score(t.id, one) for one in t.assessments],
            }
        )
        for t in targets
    ]  # fmt: skip
    judges = sorted({a.by for t in targets for a in t.assessments if not a.human and a.by})
    return traces, [f"judge {name!r}: scores of Langfuse do not name it" for name in judges]


def _langfuse_score(trace: str, one: Assessment) -> dict[str, Any]:
    is_word = isinstance(one.value, str)
    return _drop_empty(
        {
            "traceId": trace, "name": one.name, "value": None if is_word else one.value,
            "stringValue": one.value if is_word else None,
            "dataType": "CATEGORICAL" if is_word else "NUMERIC",
            "source": "ANNOTATION" if one.human else "EVAL",
            "authorUserId": one.by if one.human else "", "comment": one.note, "timestamp": one.at,
        }
    )  # fmt: skip


def _to_langsmith(targets: Sequence[ExchangedItem]) -> tuple[Any, list[str]]:
    runs = [
        _drop_empty(
            {
                "id": t.id, "trace_id": t.group, "start_time": t.at, "outputs": {"output": t.text},
                "url": t.url,
                "feedback": [
                    _drop_empty(
                        {
                            "run_id": t.id, "key": one.name,
                            "score": None if isinstance(one.value, str) else one.value,
                            "value": one.value if isinstance(one.value, str) else None,
                            "comment": one.note, "created_at": one.at,
                            "feedback_source": _drop_empty(
                                {"type": "app" if one.human else "model", "user_name": one.by}
                            ),
                        }
                    )
                    for one in t.assessments
                ],
            }
        )
        for t in targets
    ]  # fmt: skip
    return runs, []


def _to_mlflow(targets: Sequence[ExchangedItem]) -> tuple[Any, list[str]]:
    traces = []
    for t in targets:
        assessments = [
            _drop_empty(
                {
                    "assessment_name": one.name, "trace_id": t.id, "feedback": {"value": one.value},
                    "source": _drop_empty(
                        {
                            "source_type": "HUMAN" if one.human else "LLM_JUDGE",
                            "source_id": one.by,
                        }
                    ),
                    "rationale": one.note, "create_time": one.at,
                }
            )
            for one in t.assessments
        ]  # fmt: skip
        info = {
            "trace_id": t.id, "request_time": t.at, "response_preview": t.text,
            "trace_metadata": {"mlflow.trace.session": t.group}, "assessments": assessments,
        }  # fmt: skip
        traces.append({"info": _drop_empty(info), "data": {"spans": []}})
    return traces, [f"{t.id}: url" for t in targets if t.url]


def _to_promptfoo(targets: Sequence[ExchangedItem]) -> tuple[Any, list[str]]:
    results, lost = [], []
    for n, t in enumerate(targets):
        parts = []
        for one in t.assessments:
            if one.human and not isinstance(one.value, str):
                lost.append(f"{t.id}: {one.name}: promptfoo has pass or fail, not {one.value:g}")
                continue
            parts.append(_promptfoo_part(one))
            lost += [f"{t.id}: time of {one.name} by {one.by}"] if one.at else []
        scores = [p["score"] for p in parts if p["assertion"]["type"] != "human"]
        mean = sum(scores) / len(scores) if scores else 0.0
        result = {
            "id": t.id, "testIdx": n, "promptIdx": 0, "vars": {"group": t.group},
            "response": {"output": t.text}, "success": mean >= 0.5, "score": mean,
            "gradingResult": {
                "pass": mean >= 0.5, "score": mean, "reason": "", "componentResults": parts,
            },
        }  # fmt: skip
        results.append(result)
        lost += [f"{t.id}: {name}" for name in ("url", "at") if getattr(t, name)]
    return {"results": {"version": 3, "results": results}}, lost


def _promptfoo_part(one: Assessment) -> dict[str, Any]:
    passed = one.value in {"accept", "merge"} if one.human else float(one.value) >= 0.5
    kind = "human" if one.human else "llm-rubric"
    assertion = {"type": kind, "metric": one.name}
    part = {
        "pass": passed, "score": float(passed) if one.human else one.value,
        "reason": "" if one.human else one.note, "assertion": assertion,
    }  # fmt: skip
    if one.human and one.note:
        part["comment"] = one.note
    return part | ({"metadata": {"rater": one.by}} if one.by else {})


WRITERS: dict[str, Callable[[Sequence[ExchangedItem]], tuple[Any, list[str]]]] = {
    "langfuse": _to_langfuse,
    "langsmith": _to_langsmith,
    "mlflow": _to_mlflow,
    "promptfoo": _to_promptfoo,
}


def _rows(target: ExchangedItem) -> list[dict[str, Any]]:
    """A row of each rater, or one without a label; names with dots."""
    base: dict[str, Any] = {
        "id": target.id, "group": target.group, "text": target.text, "url": target.url,
        "at": target.at,
    }  # fmt: skip
    people: dict[str, dict[str, Any]] = {}
    for one in target.assessments:
        if not one.human:
            base |= {f"scores.{one.name}": one.value, "judge": one.by}
            base |= {f"reasons.{one.name}": one.note} if one.note else {}
        elif one.name == LABEL:
            said = {"rater": one.by, LABEL: one.value, "note": one.note, "labeled_at": one.at}
            people.setdefault(one.by, {}).update(said)
        else:
            people.setdefault(one.by, {})[f"criteria.{one.name}"] = one.value
    return [_drop_empty(base | said) for said in people.values() or ({},)]


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
