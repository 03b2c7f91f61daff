"""A rubric's tree as arrays: how the weights of its free nodes act through the groups above them.

A free node's *effective* weight is its share of the total when every criterion counts. Fitting
changes effective weights; a group's weight is then the sum of those of its children that are not
penalties, and the weights within a group are its children's, so that the rubric that is written
gives the totals that were fitted.
"""

from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.types import Criterion, Group, Rubric
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats

MAX_FREE_NODES = 40
"""Nodes beyond which a tree's deeper groups are tuned as a whole."""


class TreeGroup(Struct, frozen=True):
    """A group above free nodes.

    Attributes:
        leaves: indices of the free nodes directly below it.
        groups: indices of the groups directly below it, all of them earlier in the tree.
        negative_groups: those of them with a negative weight, the penalties.
        sign: of the product of its weight and of those above it.
    """

    leaves: tuple[int, ...]
    groups: tuple[int, ...]
    negative_groups: tuple[int, ...] = ()
    sign: float = 1.0


class WeightTree(Struct, frozen=True):
    """The free nodes of a rubric and the groups above them, inner groups first, the root last."""

    names: tuple[str | None, ...]
    groups: tuple[TreeGroup, ...]


def flat_tree(w: Floats) -> WeightTree:
    """The tree of (p,) weights without groups."""
    return WeightTree((None,), (TreeGroup(tuple(range(w.size)), ()),))


def restore_zeroed(rubric: Rubric) -> Rubric:
    """The rubric with the weights that tuning set to 0 as they were, so that they can come back."""
    tuned: Any = rubric.provenance.get("tuned")
    known: dict[str, float] = tuned.get("zeroed", {}) if isinstance(tuned, dict) else {}
    return replace(
        rubric,
        criteria=tuple(
            replace(c, weight=c.weight or known.get(c.id, 0.0)) for c in rubric.criteria
        ),
        groups=tuple(replace(g, weight=g.weight or known.get(g.id, 0.0)) for g in rubric.groups),
    )


def find_zeroed(old: Rubric, new: Rubric) -> dict[str, float]:
    """Node id → the weight that it had before tuning set it to 0, now or in an earlier version."""
    nodes: tuple[Criterion | Group, ...] = (*old.criteria, *old.groups)
    before = {node.id: node.weight for node in nodes}
    after: tuple[Criterion | Group, ...] = (*new.criteria, *new.groups)
    return {n.id: before[n.id] for n in after if n.weight == 0.0 and before.get(n.id)}


def find_free_nodes(rubric: Rubric) -> tuple[str, ...]:
    """Ids of the nodes whose weights are tuned: the criteria, in the order of a breadth-first walk.

    A group is tuned as a whole, and keeps the proportions below it, where its children would make
    more than ``MAX_FREE_NODES``. Nodes of weight 0 are not tuned.
    """
    below = _children(rubric)
    found = [n.id for n in below.get(None, ())]
    at = 0
    while at < len(found):
        inner = [n.id for n in below.get(found[at], ())]
        if inner and (len(found) == 1 or len(found) - 1 + len(inner) <= MAX_FREE_NODES):
            found = [*found[:at], *found[at + 1 :], *inner]
        else:
            at += 1
    return tuple(found)


def _children(rubric: Rubric) -> dict[str | None, list[Criterion | Group]]:
    """The nodes below each group, without those of weight 0; none below one that is no mean."""
    out: dict[str | None, list[Criterion | Group]] = {}
    nodes: tuple[Criterion | Group, ...] = (*rubric.criteria, *rubric.groups)
    combined = {group.id for group in rubric.groups if group.combine != "mean"}
    for node in nodes:
        if node.weight != 0.0 and node.parent not in combined:
            out.setdefault(node.parent, []).append(node)
    return out


def build_tree(rubric: Rubric, free: tuple[str, ...]) -> tuple[WeightTree, Floats]:
    """The tree above the free nodes, and their (p,) effective weights.

    An effective weight is negative where an odd number of weights from the root down is.
    """
    below, at = _children(rubric), {name: j for j, name in enumerate(free)}
    names: list[str | None] = []
    groups: list[TreeGroup] = []
    w0 = np.zeros(len(free))

    def add(name: str | None, effective: float) -> int:
        children = below.get(name, [])
        scale = effective / (sum(n.weight for n in children if n.weight > 0.0) or 1.0)
        leaves = [n for n in children if n.id in at]
        inner = [n for n in children if n.id not in at]
        for node in leaves:
            w0[at[node.id]] = node.weight * scale
        index = [add(node.id, node.weight * scale) for node in inner]
        names.append(name)
        groups.append(
            TreeGroup(
                tuple(at[n.id] for n in leaves),
                tuple(index),
                tuple(i for i, n in zip(index, inner, strict=True) if n.weight < 0.0),
                -1.0 if effective < 0.0 else 1.0,
            )
        )
        return len(groups) - 1

    root = below.get(None, [])
    add(None, sum(n.weight for n in root if n.weight > 0.0))
    return WeightTree(tuple(names), tuple(groups)), w0


def shrinkage(tree: WeightTree, prior: Floats) -> Floats:
    """(p, p) matrix of the penalty: the squared distance of each child from its group's mean.

    So a criterion is shrunk to its group, and a group to the whole; a criterion or group that has
    no weight now (``prior`` 0) is shrunk to 0.
    """
    unit = np.eye(prior.size)
    means: list[Floats] = []
    weighted: list[bool] = []
    out = np.zeros((prior.size, prior.size))
    for group in tree.groups:
        children = np.array([*unit[list(group.leaves)], *(means[i] for i in group.groups)])
        present = np.array(
            [*(prior[list(group.leaves)] > 0), *(weighted[i] for i in group.groups)], dtype=bool
        )
        mean = children[present].mean(axis=0) if present.any() else np.zeros(prior.size)
        distance = children - present[:, None] * mean
        out += distance.T @ distance
        means.append(mean if present.any() else children.mean(axis=0))
        weighted.append(bool(present.any()))
    return out


def sum_groups(tree: WeightTree, w: Floats) -> list[Floats]:
    """The size of each group's weight, (r,), from (r, p) effective weights."""
    out: list[Floats] = []
    for group in tree.groups:
        size = np.maximum(w[:, list(group.leaves)] * group.sign, 0.0).sum(axis=1)
        for i in group.groups:
            if i not in group.negative_groups:
                size = size + out[i]
        out.append(size)
    return out


def score_groups(tree: WeightTree, x: Floats, w: Floats) -> list[tuple[Floats, Bools]]:
    """Each group's score, as :func:`orchestrator.engine.rubric_scoring.node_scores` has it.

    Args:
        x: (n, p), NaN where a node does not count.
        w: (r, p) effective weights.

    Returns:
        (r, n) scores, 0 where the group does not count, and whether it counts.
    """
    present = ~np.isnan(x)
    base, there = np.where(present, x, 0.0), present.astype(float)
    sizes = sum_groups(tree, w)
    out: list[tuple[Floats, Bools]] = []
    for group in tree.groups:
        leaves = list(group.leaves)
        local = w[:, leaves] * group.sign
        top = local @ base[:, leaves].T
        bottom = np.maximum(local, 0.0) @ there[:, leaves].T
        for i in group.groups:
            score, counts = out[i]
            size = sizes[i][:, None]
            top += (-size if i in group.negative_groups else size) * score
            bottom += 0.0 if i in group.negative_groups else size * counts
        counts = bottom > 0.0
        out.append((np.clip(top / np.where(counts, bottom, np.inf), 0.0, 1.0), counts))
    return out


def impute(tree: WeightTree, x: Floats, w0: Floats) -> Floats:
    """Scores without NaN: a missing score is its group's in that item, a missing group's its own
    group's, which is what leaving them out amounts to; a missing penalty is 0."""
    scores = score_groups(tree, x, w0[None, :])
    out = x.copy()
    filled: dict[int, Floats] = {}
    for i in reversed(range(len(tree.groups))):
        score, counts = scores[i][0][0], scores[i][1][0]
        known = np.where(counts, score, filled.get(i, 0.0))
        group = tree.groups[i]
        filled |= {k: known * (k not in group.negative_groups) for k in group.groups}
        for j in group.leaves:
            missing = np.isnan(x[:, j])
            out[missing, j] = 0.0 if w0[j] * group.sign < 0.0 else known[missing]
    return out


def apply_weights(rubric: Rubric, free: tuple[str, ...], w: Floats) -> dict[str, float]:
    """Node id → weight in its group, from (p,) effective weights.

    The positive weights of each group keep their sum. Below a group whose weight becomes 0, weights
    stay as they are.
    """
    tree, _ = build_tree(rubric, free)
    sizes = [float(size[0]) for size in sum_groups(tree, w[None, :])]
    below = _children(rubric)
    out: dict[str, float] = {}
    for name, group, size in zip(tree.names, tree.groups, sizes, strict=True):
        if size <= 0.0:
            continue
        scale = sum(n.weight for n in below[name] if n.weight > 0.0) / size
        for j in group.leaves:
            out[free[j]] = float(w[j]) * group.sign * scale
        for i in group.groups:
            sign = -1.0 if i in group.negative_groups else 1.0
            out[str(tree.names[i])] = sign * sizes[i] * scale
    return {node: float(f"{weight:.6g}") for node, weight in out.items()}
