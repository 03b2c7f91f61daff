"""Active learning: which items are most informative to label next (query by committee)."""

import numpy as np

from orchestrator.engine.types import Rubric
from orchestrator.tuning import rubric_decisions
from orchestrator.tuning.cross_validation import refit_bootstrap
from orchestrator.tuning.item_files import Item
from orchestrator.tuning.rule_fitting import plan_fit
from orchestrator.tuning.training_data import (
    TrainingData,
    find_free_nodes,
    node_weights,
    score_matrix,
)

COMMITTEE_SIZE = 50
_THRESHOLD_SCALE = 0.1


def select_items_to_label(
    rubric: Rubric, items: list[Item], data: TrainingData | None, seed: int, count: int
) -> list[str]:
    """Select the most informative unlabeled items.

    A committee of bootstrap refits votes on every unlabeled item (query by committee): the more
    evenly it is split, the more informative is a label. Ties, and items before there are any
    labels, are ordered by distance from the threshold. Every group is selected once before any is
    selected twice, because items of one pull request carry similar information.

    Returns:
        Item ids, the most informative first.
    """
    labeled = {i.id for i in data.items} if data else set()
    first = {i.id: i for i in items if not i.repeat}
    unlabeled = [item for item in first.values() if item.id not in labeled]
    if not unlabeled:
        return []
    free = find_free_nodes(rubric)
    x = score_matrix(rubric, unlabeled, free)
    blocked = np.zeros(len(unlabeled), dtype=bool)
    total = rubric_decisions.compute_totals(x, node_weights(rubric, free)[None, :], blocked)[0]
    value = _THRESHOLD_SCALE * np.exp(-np.abs(total - rubric.threshold) / _THRESHOLD_SCALE)
    if data is not None and min(data.sample.minority_items, data.sample.items) > 0:
        rules = refit_bootstrap(
            data.sample,
            plan_fit(data.sample, rubric_decisions.Objective()),
            np.random.default_rng(seed),
            COMMITTEE_SIZE,
        )
        votes = (
            rubric_decisions.compute_totals(x, rules.weights, blocked) >= rules.thresholds[:, None]
        )
        share = votes.mean(axis=0)
        value += share * (1.0 - share)
    return _alternate_groups(unlabeled, value, count)


def _alternate_groups(
    items: list[Item], value: np.typing.NDArray[np.float64], count: int
) -> list[str]:
    """Ids of the best item of each group, then of the second best of each, and so on."""
    order = sorted(range(len(items)), key=lambda i: (-value[i], items[i].id))
    rank: dict[str, int] = {}
    rounds: list[tuple[int, int, str]] = []
    for i in order:
        position = rank.get(items[i].group, 0)
        rank[items[i].group] = position + 1
        rounds.append((position, len(rounds), items[i].id))
    return [name for _, _, name in sorted(rounds)[:count]]
