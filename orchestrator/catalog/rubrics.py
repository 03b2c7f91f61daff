"""Rubrics (``rubrics/<name>.yaml``): criteria in a tree that a judge scores by."""

from collections.abc import Iterator
from itertools import pairwise

from orchestrator.catalog.data_file_layers import File
from orchestrator.catalog.yaml_parsing import YamlNode
from orchestrator.catalog.yaml_validation import convert_node, describe_unknown_name, parse_yaml
from orchestrator.engine.types import Rubric
from orchestrator.errors import ConfigError


def load_rubric(file: File, errors: list[ConfigError], large: bool = False) -> Rubric | None:
    """Read one rubric; None when it has errors, which are added to ``errors``."""
    try:
        node = parse_yaml(file.data, file.display_path, large)
    except ConfigError as error:
        errors.append(error)
        return None
    item = convert_node(Rubric, node, errors)
    if item is None:
        return None
    found = [*_check_names(file, node, item), *_check_tree(node, item), *_check_scores(node, item)]
    errors += found
    return None if found else item


def _check_names(file: File, node: YamlNode, item: Rubric) -> Iterator[ConfigError]:
    if item.name != file.stem:
        yield node.error(f"the name {item.name!r} must be the file's name, {file.stem!r}", "name")
    seen: set[str] = set()
    ids = [("groups", at, group.id) for at, group in enumerate(item.groups)]
    ids += [("criteria", at, criterion.id) for at, criterion in enumerate(item.criteria)]
    for part, at, name in ids:
        if name in seen:
            message = f"the id {name!r} appears twice; each group and criterion needs its own"
            yield node.error(message, part, at, "id")
        seen.add(name)


def _check_tree(node: YamlNode, item: Rubric) -> Iterator[ConfigError]:
    above = {group.id: group.parent for group in item.groups}
    used = set(above.values()) | {criterion.parent for criterion in item.criteria}
    unknown = {name for name in used if name is not None and name not in above}
    for at, criterion in enumerate(item.criteria):
        if criterion.parent is not None and criterion.parent in unknown:
            yield node.error(
                describe_unknown_name("group", criterion.parent, above), "criteria", at, "group"
            )
    for at, group in enumerate(item.groups):
        if group.parent is not None and group.parent in unknown:
            yield node.error(
                describe_unknown_name("group", group.parent, above), "groups", at, "parent"
            )
        if group.id not in used and not unknown:
            message = f"the group {group.id!r} is empty; put a criterion in it or remove it"
            yield node.error(message, "groups", at, "id")
        inside = [c for c in item.criteria if c.parent == group.id]
        whole = len(inside) > 1 and all(c.weight == 1.0 for c in inside)
        if group.combine != "mean" and (group.id in above.values() or not whole):
            message = f"{group.combine} takes two or more criteria of weight 1, and no groups"
            yield node.error(message, "groups", at, "combine")
        if _in_cycle(group.id, above):
            message = f"the group {group.id!r} is its own ancestor; a parent must be an outer group"
            yield node.error(message, "groups", at, "parent")


def _in_cycle(start: str, above: dict[str, str | None]) -> bool:
    current = above[start]
    for _ in above:
        if current is None or current == start:
            break
        current = above.get(current)
    return current == start


def _check_scores(node: YamlNode, item: Rubric) -> Iterator[ConfigError]:
    weights: dict[str | None, list[float]] = {}
    for criterion in item.criteria:
        weights.setdefault(criterion.parent, []).append(criterion.weight)
    for group in item.groups:
        weights.setdefault(group.parent, []).append(group.weight)
    for parent, values in weights.items():
        if max(values) <= 0:
            # A mean is over the positive weights, so one with none has no value.
            where = f"in the group {parent!r}" if parent else "at the top level"
            yield node.error(f"no weight {where} is above 0; at least one must be", "criteria")
    for at, criterion in enumerate(item.criteria):
        scores = [level.score for level in criterion.levels]
        if any(low >= high for low, high in pairwise(scores)):
            message = f"the levels of {criterion.id!r} must have ascending scores"
            yield node.error(message, "criteria", at, "levels")
        if criterion.kind == "judged" and len(scores) < 2:
            message = f"{criterion.id!r} is judged, so it needs at least two levels"
            yield node.error(message, "criteria", at, "id")
        wrong = [e.score for e in criterion.examples if scores and e.score not in scores]
        if wrong:
            message = f"an example of {criterion.id!r} has the score {wrong[0]:g}, no level's"
            yield node.error(message, "criteria", at, "examples")
