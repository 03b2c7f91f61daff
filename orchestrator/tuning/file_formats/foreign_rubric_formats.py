"""Import and export of rubrics of HealthBench, autorubric, promptfoo and deepeval."""

from collections.abc import Mapping
from typing import Any

from orchestrator.engine.types import Criterion, Group, Json, Rubric, ScoreLevel
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.paperbench import from_paperbench, to_paperbench
from orchestrator.tuning.file_formats.rubric_format_helpers import (
    MET_LEVELS,
    Exported,
    Imported,
    Importer,
    make_id,
    merge_equal_levels,
    require_key,
    to_int_if_whole,
)

JUDGED = {"llm-rubric", "g-eval", "model-graded-closedqa"}
_TOP = 10.0  # deepeval's score ranges run from 0 to 10


def from_healthbench(doc: Any, name: str, threshold: float) -> Imported:
    """Import one HealthBench example: criteria with points; negative points are penalties.

    Its score is the points of the criteria met over the sum of the positive points, clipped,
    like a rubric's total.
    """
    criteria = []
    for at, row in enumerate(require_key(doc, "rubrics", "a HealthBench example"), 1):
        where = f"rubrics[{at - 1}]"
        text = str(require_key(row, "criterion", where))
        points = float(require_key(row, "points", where))
        tags = tuple(str(t) for t in row.get("tags", []))
        criteria.append(Criterion(f"c{at}", "judged", text, points, MET_LEVELS, tags=tags))
    unmapped = [f"{key}: not part of a rubric" for key in doc if key != "rubrics"]
    rubric = Rubric(name, 1, f"Imported from HealthBench: {name}", threshold, tuple(criteria))
    return Imported(rubric, unmapped=tuple(unmapped))


def to_healthbench(rubric: Rubric) -> Exported:
    """Export the criteria as HealthBench rubric items."""
    rows = [
        {"criterion": c.description, "points": to_int_if_whole(c.weight), "tags": list(c.tags)}
        for c in rubric.criteria
    ]
    return Exported({"rubrics": rows}, (*_list_groups(rubric), *_list_unsupported(rubric)))


def from_autorubric(doc: Any, name: str, threshold: float) -> Imported:
    """Import an autorubric rubric: a list of criteria, or of sections, which become tags."""
    criteria: list[Criterion] = []
    unmapped: list[str] = []
    for at, (section, row) in enumerate(_sections(doc), 1):
        where = f"criterion {at}"
        text = str(require_key(row, "requirement", where))
        ident = make_id(str(row.get("name") or f"c{at}"), (c.id for c in criteria), f"c{at}")
        levels = _options(row.get("options"), ident, unmapped)
        weight = float(row.get("weight", 10.0))
        tags = (section,) if section else ()
        criteria.append(Criterion(ident, "judged", text, weight, levels, tags=tags))
        unmapped += [
            f"{ident}: {key} {row[key]!r}: how several judges are combined"
            for key in ("scale_type", "aggregation")
            if row.get(key) not in {None, "ordinal"}
        ]
    rubric = Rubric(name, 1, f"Imported from autorubric: {name}", threshold, tuple(criteria))
    return Imported(rubric, unmapped=tuple(unmapped))


def _sections(doc: Any) -> list[tuple[str, Any]]:
    while isinstance(doc, Mapping):
        key = next((k for k in ("rubric", "sections") if k in doc), None)
        if key is None:
            raise InputError("an autorubric file requires 'rubric' or 'sections', or a list")
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


def _options(raw: Any, ident: str, unmapped: list[str]) -> tuple[ScoreLevel, ...]:
    if not raw:
        return MET_LEVELS
    scored = [o for o in raw if not o.get("na")]
    unmapped += [
        f'{ident}: option {o["label"]!r}: use the score "na" instead' for o in raw if o.get("na")
    ]
    levels = [ScoreLevel(float(o["value"]), str(o["label"])) for o in scored]
    levels.sort(key=lambda x: x.score)
    return merge_equal_levels(levels, ident, unmapped)


def to_autorubric(rubric: Rubric) -> Exported:
    """Export the criteria for autorubric; met / not met where there are no other levels."""
    rows: list[Json] = []
    for c in rubric.criteria:
        row: dict[str, Json] = {
            "name": c.id,
            "weight": to_int_if_whole(c.weight),
            "requirement": c.description,
        }
        if c.levels and c.levels != MET_LEVELS:
            row["options"] = [{"label": x.description, "value": x.score} for x in c.levels]
        rows.append(row)
    return Exported(rows, (*_list_groups(rubric), *_list_unsupported(rubric)))


def _list_groups(rubric: Rubric) -> list[str]:
    return [
        f"group {g.id}: the target has no groups; its criteria become top-level"
        for g in rubric.groups
    ]


def _list_unsupported(rubric: Rubric) -> list[str]:
    out = [f"threshold {rubric.threshold:g}: not supported by the target"]
    for c in rubric.criteria:
        if c.blocker:
            out.append(f"{c.id}: blocker; not supported by the target")
        if c.na != "exclude" or c.abstain != "exclude":
            out.append(f'{c.id}: policy for "na" or abstention; not supported by the target')
    return out


def from_promptfoo(doc: Any, name: str, threshold: float) -> Imported:
    """Import a promptfoo test (or a file with exactly one): judged assertions become criteria.

    An ``assert-set`` becomes a group. The total is promptfoo's weighted mean.
    """
    test = _one_test(doc)
    criteria: list[Criterion] = []
    groups: list[Group] = []
    unmapped: list[str] = []
    _assertions(test.get("assert"), None, criteria, groups, unmapped)
    if not criteria:
        raise InputError(
            f"no assertion can be imported; supported types: {', '.join(sorted(JUDGED))}"
        )
    unmapped += [f"{k}: not part of a rubric" for k in test if k not in {"assert", "threshold"}]
    rubric = Rubric(
        name,
        1,
        str(test.get("description") or f"Imported from promptfoo: {name}"),
        float(test.get("threshold", threshold)),
        tuple(criteria),
        tuple(groups),
    )
    return Imported(rubric, unmapped=tuple(unmapped))


def _one_test(doc: Any) -> Mapping[str, Any]:
    tests = doc.get("tests") if isinstance(doc, Mapping) and "tests" in doc else [doc]
    if isinstance(doc, Mapping) and "defaultTest" in doc and not tests:
        tests = [doc["defaultTest"]]
    if not isinstance(tests, list) or len(tests) != 1 or not isinstance(tests[0], Mapping):
        raise InputError("a promptfoo import requires exactly one test; keep one in 'tests'")
    require_key(tests[0], "assert", "a promptfoo test")
    return tests[0]


def _assertions(
    rows: Any,
    parent: str | None,
    criteria: list[Criterion],
    groups: list[Group],
    unmapped: list[str],
) -> None:
    for at, row in enumerate(rows or [], 1):
        kind = str(require_key(row, "type", f"assertion {at}"))
        taken = [c.id for c in criteria] + [g.id for g in groups]
        weight = float(row.get("weight", 1.0))
        if kind == "assert-set":
            ident = make_id(str(row.get("metric") or "set"), taken, "set")
            before = len(criteria)
            groups.append(Group(ident, str(row.get("metric") or ""), weight, parent))
            _assertions(row.get("assert"), ident, criteria, groups, unmapped)
            if len(criteria) == before:
                groups.pop()
                unmapped.append(f"{ident}: no assertion of this assert-set can be imported")
        elif kind not in JUDGED:
            unmapped.append(f"assertion {at} ({kind}): computed by promptfoo, not judged")
            continue
        else:
            value = row.get("value")
            text = "; ".join(map(str, value)) if isinstance(value, list) else str(value or kind)
            ident = make_id(str(row.get("metric") or f"c{len(criteria) + 1}"), taken, "c")
            criteria.append(
                Criterion(ident, "judged", text, weight, MET_LEVELS, parent, tags=(kind,))
            )
        unmapped += [f"{ident}: {k}" for k in ("threshold", "provider", "rubricPrompt") if k in row]


def to_promptfoo(rubric: Rubric) -> Exported:
    """Export one promptfoo test with an ``llm-rubric`` assertion per criterion."""
    unmapped: list[str] = []

    def rows(parent: str | None) -> list[Json]:
        out: list[Json] = []
        for c in rubric.criteria:
            if c.parent != parent:
                continue
            if c.weight < 0 or c.kind == "measured" or c.blocker:
                part = "penalty" if c.weight < 0 else ("measured" if c.kind == "measured" else "")
                unmapped.append(f"{c.id}: {part or 'blocker'}; not supported by the target")
            if c.weight >= 0 and c.kind == "judged":
                kind = next((t for t in c.tags if t in JUDGED), "llm-rubric")
                out.append(
                    {"type": kind, "value": _with_levels(c), "weight": to_int_if_whole(c.weight),
                     "metric": c.id}
                )  # fmt: skip
        for g in rubric.groups:
            if g.parent == parent:
                inner = rows(g.id)
                weight = to_int_if_whole(g.weight)
                out.append(
                    {"type": "assert-set", "metric": g.id, "weight": weight, "assert": inner}
                )
        return out

    test = {"description": rubric.description, "threshold": rubric.threshold, "assert": rows(None)}
    return Exported({"tests": [test]}, tuple(unmapped))


def _with_levels(c: Criterion) -> str:
    if not c.levels or c.levels == MET_LEVELS:
        return c.description
    lines = [f"Score {x.score:g}: {x.description}" for x in c.levels]
    return "\n".join([c.description, *lines])


def from_deepeval(doc: Any, name: str, threshold: float) -> Imported:
    """Import a list of G-Eval metrics: criteria of weight 1, their score ranges as levels."""
    rows = doc.get("metrics") if isinstance(doc, Mapping) else doc
    if not isinstance(rows, list) or not rows:
        raise InputError("a deepeval import requires a list of G-Eval metrics")
    criteria: list[Criterion] = []
    unmapped: list[str] = []
    for at, row in enumerate(rows, 1):
        label = str(require_key(row, "name", f"metric {at}"))
        ident = make_id(label, (c.id for c in criteria), f"c{at}")
        steps = row.get("evaluation_steps")
        text = str(row.get("criteria") or "; ".join(map(str, steps or [])) or label)
        levels = _ranges(row.get("rubric"), ident, unmapped)
        criteria.append(Criterion(ident, "judged", text, 1.0, levels))
        known = {"name", "criteria", "rubric", "evaluation_steps"}
        if row.get("criteria") and steps:
            unmapped.append(f"{ident}: evaluation_steps")
        unmapped += [f"{ident}: {key}" for key in row if key not in known]
    rubric = Rubric(name, 1, f"Imported from deepeval: {name}", threshold, tuple(criteria))
    return Imported(rubric, unmapped=tuple(unmapped))


def _ranges(raw: Any, ident: str, unmapped: list[str]) -> tuple[ScoreLevel, ...]:
    if not raw:
        return MET_LEVELS
    levels = []
    for row in raw:
        low, high = require_key(row, "score_range", f"{ident}: a rubric range")
        text = str(require_key(row, "expected_outcome", f"{ident}: a rubric range"))
        levels.append(ScoreLevel((low + high) / 2 / _TOP, text))
        if low != high:
            unmapped.append(
                f"{ident}: the score range {low}-{high} becomes one level at its midpoint"
            )
    return merge_equal_levels(sorted(levels, key=lambda x: x.score), ident, unmapped)


def to_deepeval(rubric: Rubric) -> Exported:
    """Export the criteria as G-Eval metrics; deepeval has no total, so weights are unmapped."""
    rows: list[Json] = []
    unmapped = [f"threshold {rubric.threshold:g}: each metric has its own; the target has no total"]
    for c in rubric.criteria:
        row: dict[str, Json] = {"name": c.id, "criteria": c.description}
        if c.levels and c.levels != MET_LEVELS:
            row["rubric"] = [
                {"score_range": [round(x.score * _TOP)] * 2, "expected_outcome": x.description}
                for x in c.levels
            ]
        rows.append(row)
        if c.weight != 1.0:
            unmapped.append(f"{c.id}: weight {c.weight:g}")
        if c.blocker:
            unmapped.append(f"{c.id}: blocker; not supported by the target")
    unmapped += [f"group {g.id}" for g in rubric.groups]
    return Exported(rows, tuple(unmapped))


IMPORTERS: dict[str, Importer] = {
    "paperbench": from_paperbench,
    "healthbench": from_healthbench,
    "autorubric": from_autorubric,
    "promptfoo": from_promptfoo,
    "deepeval": from_deepeval,
}
EXPORTERS = {
    "paperbench": to_paperbench,
    "healthbench": to_healthbench,
    "autorubric": to_autorubric,
    "promptfoo": to_promptfoo,
    "deepeval": to_deepeval,
}
