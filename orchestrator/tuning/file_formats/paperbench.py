"""Lossless import and export of PaperBench task trees, graded ones included."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from orchestrator.engine.rubric_scoring import node_scores
from orchestrator.engine.types import Criterion, Group, Json, Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.rubric_file import MET_LEVELS, is_id

OWN = {"id", "requirements", "weight", "sub_tasks"}
GRADE = {"score", "valid_score", "explanation", "judge_metadata"}
EXACT = 1e-9
_MAX_DEPTH = 64


class Imported(Struct, frozen=True):
    """Result of an import.

    Attributes:
        items: rows for an items file, when the source contained scores.
        unmapped: what was renamed or is inconsistent, one line each.
    """

    rubric: Rubric
    items: tuple[dict[str, Json], ...] = ()
    unmapped: tuple[str, ...] = ()


class Exported(Struct, frozen=True):
    """Result of an export: the tree, and the parts of the rubric that it cannot express."""

    document: Json
    unmapped: tuple[str, ...] = ()


def from_paperbench(doc: Any, name: str, threshold: float) -> Imported:
    """Import a task tree: leaves become criteria, inner nodes groups, the root the rubric.

    An id that is in the tree twice is renamed. What a rubric cannot express (the root's own fields,
    task categories, the order of children of both kinds, invalid ids) is kept in
    ``provenance.paperbench``. Grades of a graded tree become an item.

    Raises:
        InputError: the document is not a valid task tree.
    """
    doc, renamed = _rename_duplicates(doc)
    nodes = list(_walk(doc, None, 0))
    root = nodes[0][0]
    if not root["sub_tasks"]:
        raise InputError(
            "the tree's root has no sub_tasks; a rubric requires at least one criterion"
        )
    ids = _ids(nodes)
    criteria, groups = [], []
    for node, parent in nodes[1:]:
        above = None if parent == root["id"] else ids[str(parent)]
        ident, weight = ids[node["id"]], float(node["weight"])
        if node["sub_tasks"]:
            groups.append(Group(ident, node["requirements"], weight, above))
        else:
            text = node["requirements"] or "(no text)"
            category = node.get("task_category")
            tags = (str(category),) if category else ()
            criteria.append(Criterion(ident, "judged", text, weight, MET_LEVELS, above, tags=tags))
    tree = _kept(nodes, ids)
    title = root["requirements"] or name
    rubric = Rubric(
        name, 1, title, threshold, tuple(criteria), tuple(groups), provenance={"paperbench": tree}
    )
    items, unmapped = _graded(rubric, nodes, ids)
    return Imported(rubric, items, (*renamed, *unmapped))


def _rename_duplicates(doc: Any) -> tuple[Any, tuple[str, ...]]:
    """The tree with unique ids, and which were renamed: some published trees have an id twice."""
    given = [str(node["id"]) for node, _ in _walk(doc, None, 0)]
    if len(set(given)) == len(given):
        return doc, ()
    taken, seen, renamed = set(given), set[str](), []

    def copy(node: dict[str, Any]) -> dict[str, Any]:
        old = str(node["id"])
        new = old if old not in seen else _unused(old, taken)
        if new != old:
            renamed.append(f"{old}: this id is in the tree twice; the later node is renamed {new}")
        seen.add(new)
        taken.add(new)
        return {**node, "id": new, "sub_tasks": [copy(child) for child in node["sub_tasks"]]}

    return copy(doc), tuple(renamed)


def _unused(name: str, taken: set[str]) -> str:
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"


def _walk(node: Any, parent: str | None, depth: int) -> Iterator[tuple[dict[str, Any], str | None]]:
    where = f"the node {node.get('id', '?')!r}" if isinstance(node, dict) else "a PaperBench node"
    for key in ("id", "requirements", "weight", "sub_tasks"):
        if not isinstance(node, dict) or key not in node:
            raise InputError(f"{where} requires {key!r}")
    if depth > _MAX_DEPTH:
        raise InputError(f"{where} is more than {_MAX_DEPTH} levels deep")
    yield node, parent
    for child in node["sub_tasks"]:
        yield from _walk(child, node["id"], depth + 1)


def _ids(nodes: list[tuple[dict[str, Any], str | None]]) -> dict[str, str]:
    """Source id → valid rubric id."""
    given = [str(node["id"]) for node, _ in nodes]
    taken = {x for x in given if is_id(x)}
    out: dict[str, str] = {}
    for at, ident in enumerate(given):
        name = ident if is_id(ident) else f"node-{at}"
        while name in taken and name != ident:
            name += "-x"
        out[ident] = name
    return out


def _kept(
    nodes: list[tuple[dict[str, Any], str | None]], ids: Mapping[str, str]
) -> dict[str, Json]:
    root = nodes[0][0]
    more = {k for node, _ in nodes for k in node} - OWN - GRADE
    extra = {
        ids[n["id"]]: {k: n[k] for k in sorted(more) if n.get(k) is not None} for n, _ in nodes
    }
    absent = {ids[n["id"]]: sorted(more - set(n)) for n, _ in nodes if more - set(n)}
    mixed = {
        ids[n["id"]]: [ids[c["id"]] for c in n["sub_tasks"]]
        for n, _ in nodes
        if len({bool(c["sub_tasks"]) for c in n["sub_tasks"]}) > 1
    }
    empty = [ids[n["id"]] for n, _ in nodes if not n["sub_tasks"] and not n["requirements"]]
    kept: dict[str, Json] = {
        "root": {k: root[k] for k in ("id", "requirements", "weight")},
        "keys": sorted(more),
        "extra": {k: v for k, v in extra.items() if v},
        "absent": absent,
        "order": mixed,
        "empty": empty,
        "ids": {new: old for old, new in ids.items() if new != old},
    }
    return {k: v for k, v in kept.items() if v}


def _graded(
    rubric: Rubric, nodes: list[tuple[dict[str, Any], str | None]], ids: Mapping[str, str]
) -> tuple[tuple[dict[str, Json], ...], tuple[str, ...]]:
    """The grades as one item, and their inconsistencies."""
    root = nodes[0][0]
    if "score" not in root:
        return (), ()
    scores = {ids[n["id"]]: float(n["score"]) for n, _ in nodes[1:] if not n["sub_tasks"]}
    found = node_scores(rubric, scores)[None]
    inconsistent: tuple[str, ...] = ()
    if found is None or abs(found - float(root["score"])) > EXACT:
        inconsistent = (
            f"the root's score is {root['score']}, but its leaves' weighted total is {found}",
        )
    grades = {
        ids[n["id"]]: {k: n[k] for k in sorted(GRADE - {"score"}) if k in n} for n, _ in nodes
    }
    return ({"id": root["id"], "scores": scores, "grades": grades},), inconsistent


def to_paperbench(rubric: Rubric, item: Mapping[str, Any] | None = None) -> Exported:
    """Export the task tree.

    Args:
        item: an item's row; when given, nodes get their scores and, where known, grades.
    """
    kept: Any = rubric.provenance.get("paperbench") or {}
    root = kept.get("root") or {
        "id": rubric.name, "requirements": rubric.description, "weight": 1,
    }  # fmt: skip
    below: dict[str | None, list[Criterion | Group]] = {}
    children: tuple[Criterion | Group, ...] = (*rubric.criteria, *rubric.groups)
    for child in children:
        below.setdefault(child.parent, []).append(child)
    scores = node_scores(rubric, item["scores"]) if item else None
    grades = (item or {}).get("grades", {})
    old = kept.get("ids", {})

    def build(node: Criterion | Group | None) -> dict[str, Json]:
        own = node.id if node else None
        name = own or next((n for n, o in old.items() if o == root["id"]), root["id"])
        inner = _ordered(below.get(own, []), kept.get("order", {}).get(name))
        text = "" if name in kept.get("empty", []) else (node.description if node else "")
        out: dict[str, Json] = {
            "id": old.get(name, name),
            "requirements": text if node else root["requirements"],
            "weight": _whole(node.weight) if node else root["weight"],
            "sub_tasks": [build(child) for child in inner],
        }
        absent = kept.get("absent", {}).get(name, [])
        extra = kept.get("extra", {}).get(name, {})
        out |= {k: extra.get(k) for k in kept.get("keys", []) if k not in absent}
        if scores is not None:
            out["score"] = scores[own]
            out |= grades.get(name, {})
        return out

    lost = [(c.id, "blocker") for c in rubric.criteria if c.blocker]
    lost += [(c.id, "negative weight") for c in rubric.criteria if c.weight < 0]
    lost += [(g.id, g.combine) for g in rubric.groups if g.combine != "mean"]
    unmapped = (f"{name}: {what}; not supported by the target" for name, what in lost)
    return Exported(build(None), tuple(unmapped))


def _ordered(children: list[Criterion | Group], order: list[str] | None) -> list[Criterion | Group]:
    if order is None:
        return children
    place = {name: i for i, name in enumerate(order)}
    return sorted(children, key=lambda c: place.get(c.id, len(place)))


def _whole(weight: float) -> float | int:
    """A whole number as an int, so that 2 is written as 2 and not as 2.0."""
    return int(weight) if float(weight).is_integer() else weight
