"""A rubric's total: weights, penalties, what does not count, and trees."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.engine.rubric_scoring import CriterionMark, Given, node_scores, score_rubric
from orchestrator.engine.types import Criterion, Group, Rubric
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.labels.label_files import Label, Scale
from orchestrator.tuning.rubric_decisions import BLOCKED, decide_item
from orchestrator.tuning.training_data import build_training_data


def rubric(*criteria: Criterion, groups: tuple[Group, ...] = ()) -> Rubric:
    return Rubric("r", 1, "d", 0.5, criteria, groups)


def line(name: str, weight: float = 1.0, **more: Any) -> Criterion:
    return Criterion(name, "measured", name, weight, **more)


def test_a_total_is_the_weighted_mean() -> None:
    assert node_scores(rubric(line("a", 3), line("b")), {"a": 1.0, "b": 0.0})[None] == 0.75


def test_a_penalty_takes_from_the_sum_and_not_from_what_can_be_reached() -> None:
    r = rubric(line("a", 2), line("bad", -1))
    assert node_scores(r, {"a": 1.0, "bad": 0.5})[None] == 0.75
    assert node_scores(r, {"a": 0.0, "bad": 1.0})[None] == 0.0
    assert node_scores(r, {"a": 1.0, "bad": 0.0})[None] == 1.0


@pytest.mark.parametrize(
    ("policy", "given", "expected"),
    [
        ({}, "na", 1.0),
        ({"na": "zero"}, "na", 0.5),
        ({"na": "full"}, "na", 1.0),
        ({}, None, 1.0),
        ({"abstain": "zero"}, None, 0.5),
    ],
)
def test_scores_that_do_not_count_follow_the_policy(
    policy: dict[str, Any], given: Given, expected: float
) -> None:
    assert (
        node_scores(rubric(line("a"), line("b", **policy)), {"a": 1.0, "b": given})[None]
        == expected
    )


def test_nothing_scored_is_no_total_and_a_penalty_alone_is_none_either() -> None:
    assert node_scores(rubric(line("a"), line("b")), {})[None] is None
    assert node_scores(rubric(line("a"), line("bad", -1)), {"bad": 1.0})[None] is None


def test_a_group_counts_as_one_child_and_an_empty_one_is_left_out() -> None:
    groups = (Group("g", weight=3), Group("inner", weight=1, parent="g"), Group("h"))
    r = rubric(
        line("a", parent="inner"),
        line("b", parent="inner"),
        line("c", parent="g"),
        line("d", parent="h"),
        groups=groups,
    )
    found = node_scores(r, {"a": 1.0, "b": 0.0, "c": 1.0})
    assert found["inner"] == 0.5
    assert found["g"] == 0.75
    assert found["h"] is None
    assert found[None] == 0.75
    assert node_scores(r, {"a": 1.0, "b": 0.0, "c": 1.0, "d": 0.0})[None] == pytest.approx(0.5625)


def test_a_group_is_clipped_before_it_enters_the_next() -> None:
    r = rubric(line("a", parent="g"), line("bad", -4, parent="g"), line("b"), groups=(Group("g"),))
    assert node_scores(r, {"a": 1.0, "bad": 1.0, "b": 1.0})[None] == 0.5


def test_totals_stay_in_bounds_whatever_the_tree() -> None:
    rng = random.Random(3)
    for _ in range(200):
        groups = tuple(
            Group(f"g{i}", weight=rng.uniform(-1, 2), parent=f"g{rng.randrange(i)}" if i else None)
            for i in range(4)
        )
        lines = [
            line(f"c{i}", rng.uniform(-1, 2), parent=rng.choice([None, "g0", "g1", "g3"]))
            for i in range(8)
        ]
        given: dict[str, Given] = {c.id: rng.choice([None, "na", rng.random()]) for c in lines}
        found = node_scores(rubric(*lines, groups=groups), given)
        assert all(score is None or 0.0 <= score <= 1.0 for score in found.values())


@pytest.mark.parametrize("bad", [float("nan"), -0.1, 1.5, "yes"])
def test_an_invalid_score_is_refused_by_name(bad: float) -> None:
    with pytest.raises(ValueError, match="the score of 'a'"):
        node_scores(rubric(line("a")), {"a": bad})


def test_blockers_at_zero_are_named() -> None:
    r = rubric(line("a", blocker=True), line("b", blocker=True), line("c"))
    marks = {
        name: CriterionMark(score, "w") for name, score in (("a", 0.0), ("b", 0.2), ("c", 0.0))
    }
    assert score_rubric(r, marks).blocked_by == ("a",)


@pytest.mark.parametrize("left", ["a", "b", "bad", "ab", "abbad"])
def test_an_item_is_decided_as_a_review_where_its_judge_abstained(left: str) -> None:
    r = rubric(
        line("m"), *(Criterion(n, "judged", n, w) for n, w in [("a", 1), ("b", 2), ("bad", -1)])
    )
    given: dict[str, Given] = {"m": 1.0, "a": 0.5, "b": 1.0, "bad": 0.0}
    abstained = given | {name: None for name in ("a", "b", "bad") if name in left}
    marks = {n: CriterionMark(s if s != "na" else None, "") for n, s in abstained.items()}
    item = Item("i", "g", abstained, judge="model x")
    review, full = score_rubric(r, marks, asked=True), decide_item(r, replace(item, scores=given))
    card = decide_item(r, item)
    assert (card.total, card.accepted) == (review.total, review.accepted)
    assert card.total is not None
    assert full.total is not None
    assert card.total <= full.total
    label, scale = Label("i", "ana", "accept"), Scale(("reject", "accept"), 1)
    sample = build_training_data(r, [item], [label], scale).sample
    total_ = float(sample.totals(sample.w0[None, :])[0, 0])
    assert total_ == (BLOCKED if card.is_rejected else pytest.approx(card.total))
    unasked = decide_item(r, replace(item, judge=""))
    assert unasked.total == node_scores(r, abstained)[None]
