"""A judge's scores: whatever evidence is taken away, the total does not rise."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.policy_loading import read_policy
from orchestrator.engine.rubric_scoring import CriterionMark, Scorecard, judge
from orchestrator.engine.types import Criterion, Group, Rubric

SHIPPED = read_policy([read_shipped_layer()], environment="local").catalog.rubrics["pr-review"]
SCORE = st.sampled_from([None, 0.0, 0.5, 1.0])


@st.composite
def rubrics(draw: st.DrawFn) -> Rubric:
    """A rubric of up to three groups, with penalties, blockers and both kinds."""
    groups = tuple(
        Group(id=f"g{n}", weight=draw(st.sampled_from([0.5, 1.0, 3.0])))
        for n in range(draw(st.integers(0, 3)))
    )
    criteria = tuple(
        Criterion(
            id=f"c{n}",
            kind=draw(st.sampled_from(["judged", "judged", "measured"])),
            description="d",
            weight=draw(st.sampled_from([-2.0, -0.5, 1.0, 2.0])),
            parent=draw(st.sampled_from([None, *(group.id for group in groups)])),
            blocker=draw(st.booleans()),
        )
        for n in range(draw(st.integers(1, 6)))
    )
    return Rubric("r", 1, "d", 0.6, criteria, groups)


def scored(rubric: Rubric, scores: dict[str, float | None]) -> Scorecard:
    marks = {name: CriterionMark(score, "w") for name, score in scores.items()}
    return judge(rubric, marks, asked=True)


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


def test_a_judge_that_was_asked_and_scored_nothing_accepts_nothing() -> None:
    lenient = replace(SHIPPED, threshold=0.1)
    full = {c.id: CriterionMark(1.0, "w") for c in lenient.criteria if c.kind == "measured"}
    assert judge(lenient, full).accepted
    assert not judge(lenient, full, asked=True).accepted
