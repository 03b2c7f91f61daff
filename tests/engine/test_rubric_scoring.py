"""A judge's scores: what a card says, and that no evidence taken away raises its total."""

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.policy_loading import read_policy
from orchestrator.engine.rubric_scoring import CriterionMark, Scorecard, node_scores, score_rubric
from orchestrator.engine.types import Criterion, Group, Rubric

SHIPPED = read_policy([read_shipped_layer()], environment="local").catalog.rubrics["pr-review"]
SCORE = st.sampled_from([None, 0.0, 0.5, 1.0])


@st.composite
def rubrics(draw: st.DrawFn) -> Rubric:
    """A rubric of up to three groups, with penalties, blockers and both kinds."""
    groups = tuple(
        Group(
            id=f"g{n}",
            weight=draw(st.sampled_from([-1.0, 0.5, 1.0, 3.0])),
            parent=f"g{n - 1}" if n and draw(st.booleans()) else None,
        )
        for n in range(draw(st.integers(0, 3)))
    )
    parents = [None, *(group.id for group in groups)]
    pairs = tuple(
        Group(
            f"p{n}",
            weight=draw(st.sampled_from([-1.0, 2.0])),
            parent=draw(st.sampled_from(parents)),
            combine=draw(st.sampled_from(["all_of", "any_of"])),
        )
        for n in range(draw(st.integers(0, 2)))
    )
    # Only code can weigh the members of such a group, or put another group in it.
    inner = tuple(
        Group(f"{pair.id}g", weight=draw(st.sampled_from([-1.0, 2.0])), parent=pair.id)
        for pair in pairs
    )
    members = tuple(
        Criterion(f"{pair.id}m{n}", draw(st.sampled_from(["judged", "measured"])), "d",
                  weight=draw(st.sampled_from([-1.0, 0.0, 1.0, 2.0])),
                  parent=draw(st.sampled_from([pair.id, pair.id, f"{pair.id}g"])),
                  blocker=draw(st.booleans()))
        for pair in pairs for n in range(2)
    )  # fmt: skip
    criteria = tuple(
        Criterion(
            id=f"c{n}",
            kind=draw(st.sampled_from(["judged", "judged", "measured"])),
            description="d",
            weight=draw(st.sampled_from([-2.0, -0.5, 0.0, 1.0, 2.0])),
            parent=draw(st.sampled_from(parents)),
            blocker=draw(st.booleans()),
            na=draw(st.sampled_from(["exclude", "zero", "full"])),
            abstain=draw(st.sampled_from(["exclude", "zero"])),
        )
        for n in range(draw(st.integers(1, 6)))
    )
    return Rubric(
        "r", 1, "d", draw(st.sampled_from([0.3, 0.6])), criteria + members, groups + pairs + inner
    )


def scored(rubric: Rubric, scores: dict[str, float | None]) -> Scorecard:
    marks = {name: CriterionMark(score, "w") for name, score in scores.items()}
    return score_rubric(rubric, marks, asked=True)


@given(st.data(), st.one_of(st.just(SHIPPED), rubrics()))
def test_taking_evidence_away_never_raises_the_total_nor_accepts(
    data: st.DataObject, rubric: Rubric
) -> None:
    judged = [c.id for c in rubric.criteria if c.kind == "judged"]
    scores = {c.id: data.draw(SCORE) for c in rubric.criteria}
    less = dict(scores)
    for name in judged:
        if data.draw(st.booleans()):
            less[name] = None
    before, after = scored(rubric, scores), scored(rubric, less)
    if before.total is None:
        assert after.total is None
    else:
        assert (after.total or 0.0) <= before.total
    assert before.accepted or not after.accepted


@pytest.mark.parametrize("weight", [1.0, -0.5])
def test_a_blocker_that_an_asked_judge_left_out_blocks(weight: float) -> None:
    rubric = Rubric("r", 1, "d", 0.3, (
        criterion("j"), criterion("b", weight=weight, blocker=True),
    ))  # fmt: skip
    assert not scored(rubric, {"j": 1.0, "b": None}).accepted
    assert scored(rubric, {"j": 1.0, "b": 0.5}).accepted


def test_a_judge_that_was_asked_and_scored_nothing_accepts_nothing() -> None:
    lenient = replace(SHIPPED, threshold=0.1)
    full = {c.id: CriterionMark(1.0, "w") for c in lenient.criteria if c.kind == "measured"}
    assert score_rubric(lenient, full).accepted
    assert not score_rubric(lenient, full, asked=True).accepted


def test_a_judge_that_scored_only_a_penalty_accepts_nothing_unless_it_is_asked_no_more() -> None:
    lenient = replace(SHIPPED, threshold=0.1)
    full = {c.id: CriterionMark(1.0, "w") for c in lenient.criteria if c.kind == "measured"}
    marks = {**full, "unbacked-claims": CriterionMark(0.0, "w")}
    assert not score_rubric(lenient, marks, asked=True).accepted
    assert score_rubric(
        lenient, marks | {"risk-focus": CriterionMark(0.0, "w")}, asked=True
    ).accepted
    only = tuple(c for c in lenient.criteria if c.kind == "measured" or c.weight < 0)
    assert score_rubric(replace(lenient, criteria=only), marks, asked=True).accepted


def criterion(name: str, kind: Literal["judged", "measured"] = "judged", **more: Any) -> Criterion:
    return Criterion(id=name, kind=kind, description="d", **{"weight": 1.0, **more})


def test_a_card_names_what_was_not_scored_what_blocks_and_what_is_missing() -> None:
    rubric = Rubric("r", 1, "d", 0.5, (
        criterion("j", blocker=True), criterion("m", "measured"), criterion("left"),
        criterion("other", "measured"), criterion("n"),
    ))  # fmt: skip
    marks = {
        "j": CriterionMark(0.0, "bad", missing=("a", "b")),
        "m": CriterionMark(1.0, "good", missing=("c", "a")),
        "n": CriterionMark(None, "none", missing=("b", "d"), not_applicable=True),
    }
    card = score_rubric(rubric, marks)
    assert card.marks == {
        **marks,
        "left": CriterionMark(None, "not scored: no model judged this review"),
        "other": CriterionMark(None, "not scored: nothing measured it"),
    }
    assert (card.total, card.blocked_by, card.asked) == (0.5, ("j",), False)
    assert card.missing_of("judged") == ("a", "b", "d")
    assert card.missing_of("measured") == ("c", "a")
    assert (card.is_judged, card.accepted) == (True, False)  # the total is enough
    assert score_rubric(rubric, marks, asked=True).asked


@pytest.mark.parametrize(("weight", "worst"), [(1.0, 0.5), (-0.5, 0.5), (3.0, 0.25)])
def test_only_what_an_asked_judge_left_out_counts_as_its_worst(weight: float, worst: float) -> None:
    rubric = Rubric("r", 1, "d", 0.5, (
        criterion("m", "measured"), criterion("lost", "measured", weight=5.0),
        criterion("j", weight=weight),
    ))  # fmt: skip
    marks = {"m": CriterionMark(1.0, "w")}
    assert score_rubric(rubric, marks).total == 1.0
    assert score_rubric(rubric, marks, asked=True).total == worst
    away = {**marks, "j": CriterionMark(None, "w", not_applicable=True)}
    assert score_rubric(rubric, away, asked=True).total == 1.0
    assert score_rubric(rubric, {}).total is None


def test_a_group_counts_in_its_parent_wherever_the_rubric_names_it() -> None:
    inner, outer = Group(id="inner", weight=1.0, parent="outer"), Group(id="outer", weight=1.0)
    criteria = (criterion("in", parent="inner"), criterion("out", parent="outer"))
    for groups in ((inner, outer), (outer, inner)):
        scores = node_scores(Rubric("r", 1, "d", 0.5, criteria, groups), {"in": 1.0, "out": 0.0})
        assert scores == {"in": 1.0, "out": 0.0, "inner": 1.0, "outer": 0.5, None: 0.5}


@pytest.mark.parametrize(("combine", "weight", "scores", "expected"), [
    ("all_of", 1.0, {"a": 1.0, "b": 0.5}, 0.5), ("any_of", 1.0, {"a": 1.0, "b": 0.5}, 1.0),
    ("all_of", 1.0, {"a": 1.0}, 0.0), ("any_of", 1.0, {"a": 0.5, "b": None}, 0.5),
    ("any_of", -1.0, {"a": 0.5}, 1.0), ("all_of", -1.0, {"a": 0.5}, 0.5),
    ("all_of", 1.0, {"a": 0.5, "b": "na"}, 0.5), ("any_of", 1.0, {"a": "na", "b": "na"}, None),
])  # fmt: skip
def test_a_pair_has_its_lowest_or_highest_score_and_an_abstention_is_the_worst(
    combine: Any, weight: float, scores: Any, expected: float | None
) -> None:
    pair = Group("pair", weight=weight, combine=combine)
    for weighs in (1.0, -1.0):  # which does not matter where one score counts
        lines = criterion("a", parent="pair"), criterion("b", parent="pair", weight=weighs)
        rubric = Rubric("r", 1, "d", 0.5, (*lines, criterion("c")), (pair,))
        assert node_scores(rubric, {"c": 1.0, **scores})["pair"] == expected


@pytest.mark.parametrize(("na", "score"), [("exclude", None), ("zero", 0.0), ("full", 1.0)])
def test_what_does_not_apply_has_the_score_that_the_rubric_gives_it(
    na: str, score: float | None
) -> None:
    rubric = Rubric("r", 1, "d", 0.5, (criterion("c", na=na),))
    assert node_scores(rubric, {"c": "na"})["c"] == score


def test_the_threshold_itself_is_enough() -> None:
    rubric = Rubric("r", 1, "d", 0.5, (criterion("j"), criterion("k")))
    half = {"j": CriterionMark(1.0, "w"), "k": CriterionMark(0.0, "w")}
    assert score_rubric(rubric, half, asked=True).accepted
    assert not score_rubric(replace(rubric, threshold=0.51), half, asked=True).accepted
    assert not score_rubric(rubric, {}).accepted
