"""Which items would teach most if a person labeled them next."""

import numpy as np

from orchestrator.engine.types import Rubric
from orchestrator.tuning import decision_rule
from orchestrator.tuning.cross_validation import refit
from orchestrator.tuning.items import Item
from orchestrator.tuning.penalty_selection import plan_for
from orchestrator.tuning.training_data import Labeled, free_nodes, matrix, weights_of

COMMITTEE = 50
_NEAR = 0.1


def teach_most(
    rubric: Rubric, items: list[Item], data: Labeled | None, seed: int, count: int
) -> list[str]:
    """Propose items to label.

    A committee of refits votes on every unlabeled item (query by committee): the more evenly it
    is split, the more a label would settle. Ties and the time before there are labels go by
    nearness to the threshold. Each group is taken once before any is taken twice, since items of
    one pull request teach much the same.

    Args:
        data: the labels so far, None when there are none.
        count: how many items.

    Returns:
        Item ids, the most instructive first.
    """
    known = {i.id for i in data.items} if data else set()
    open_ = [i for i in {i.id: i for i in items if not i.repeat}.values() if i.id not in known]
    if not open_:
        return []
    free = free_nodes(rubric)
    x = matrix(rubric, open_, free)
    blocked = np.zeros(len(open_), dtype=bool)
    total = decision_rule.totals(x, weights_of(rubric, free)[None, :], blocked)[0]
    value = _NEAR * np.exp(-np.abs(total - rubric.threshold) / _NEAR)
    if data is not None and min(data.sample.rarer, data.sample.items) > 0:
        rules = refit(
            data.sample,
            plan_for(data.sample, decision_rule.Aim()),
            np.random.default_rng(seed),
            COMMITTEE,
        )
        votes = decision_rule.totals(x, rules.w, blocked) >= rules.threshold[:, None]
        share = votes.mean(axis=0)
        value += share * (1.0 - share)
    return _spread(open_, value, count)


def _spread(items: list[Item], value: np.typing.NDArray[np.float64], count: int) -> list[str]:
    """Take the best of each group, then the second best of each, and so on."""
    order = sorted(range(len(items)), key=lambda i: (-value[i], items[i].id))
    rank: dict[str, int] = {}
    rounds: list[tuple[int, int, str]] = []
    for i in order:
        turn = rank.get(items[i].group, 0)
        rank[items[i].group] = turn + 1
        rounds.append((turn, len(rounds), items[i].id))
    return [name for _, _, name in sorted(rounds)[:count]]
