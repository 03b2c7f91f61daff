"""A toy flow on the engine alone, tables that are unsound, and every reason to stop."""

import pytest
from msgspec.structs import replace

from orchestrator.catalog.playbook_steps import read_steps
from orchestrator.catalog.settings import StagnationPolicy
from orchestrator.code_review.stop_rules import IterationFacts, decide_stop
from orchestrator.engine import state_machine
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.rubric_scoring import CriterionMark, score_rubric
from orchestrator.engine.state_machine import Flow, State, check, diagram
from orchestrator.engine.types import Criterion, Rubric
from orchestrator.errors import AnswerPending, FlowError
from tests.engine.engine_kit import open_memory_journal


async def count(numbers: list[int]) -> str:
    numbers.append(len(numbers))
    return "Count" if len(numbers) < 3 else "Done"


TOY: Flow[list[int]] = Flow.of("Count", [State("Count", count, ("Count", "Done")), State("Done")])


async def test_a_flow_of_two_states_runs_on_the_engine_alone() -> None:
    numbers: list[int] = []
    async with open_memory_journal() as journal:
        assert await state_machine.run(TOY, numbers, journal, ignore_event) == "Done"
        assert [journal.noted(f"state/{n}") for n in range(1, 6)] == [
            *[{"state": "Count"}] * 3,
            {"state": "Done"},
            None,
        ]
    assert numbers == [0, 1, 2]
    assert diagram(TOY).splitlines()[1:] == [
        "    [*] --> Count",
        "    Count --> Count",
        "    Count --> Done",
        "    Done --> [*]",
    ]
    check(TOY)


async def ask(nothing: object) -> str:
    raise AnswerPending("run-1", {"name": "Which one?"})


async def pause(nothing: object) -> str:
    return "Paused"


async def test_a_flow_pauses_for_a_person_only_where_its_table_allows_it() -> None:
    paused: State[object] = State("Paused", pauses=True)
    may = Flow.of("A", [State("A", ask, ("Paused",)), paused], pause)
    may_not = Flow.of("A", [State("A", ask, ("B",)), State("B", stay, ("Paused",)), paused], pause)
    async with open_memory_journal() as journal:
        assert await state_machine.run(may, object(), journal, ignore_event) == "Paused"
    for flow in (may_not, replace(may, when_waiting=None)):
        async with open_memory_journal() as journal:
            with pytest.raises(AnswerPending, match="Which one"):
                await state_machine.run(flow, object(), journal, ignore_event)


async def stay(nothing: object) -> str:
    return "Nowhere"


async def test_a_handler_may_not_leave_the_table() -> None:
    flow: Flow[object] = Flow.of("A", [State("A", stay, ("B",)), State("B")])
    async with open_memory_journal() as journal:
        with pytest.raises(FlowError, match="A may lead to B"):
            await state_machine.run(flow, object(), journal, ignore_event)


@pytest.mark.parametrize(
    ("states", "says"),
    [
        ([State("A", stay, ("B", "X")), State("B")], "X, which is not a state"),
        ([State("A", stay, ("B",)), State("B"), State("C", stay, ("B",))], "never reached: C"),
        ([State("A", stay, ("A", "B", "C")), State("B", stay, ("B",)), State("C")], "end from: B"),
        ([State("A", stay, ("B",)), State("B", stay)], "handler and targets"),
        ([State("B")], "initial state A"),
    ],
)
def test_an_unsound_table_is_refused(states: list[State[object]], says: str) -> None:
    with pytest.raises(FlowError, match=says):
        check(Flow.of("A", states))


def test_two_states_of_one_name_are_refused() -> None:
    with pytest.raises(FlowError, match="same name"):
        Flow.of("A", [State("A"), State("A")])


FINE = IterationFacts(score=0.9, accepted=True)
WANTING = IterationFacts(score=0.5, accepted=False, gates=("x",), missing=("x",))
STANDSTILL = "the last iteration found no evidence, settled nothing and did not raise the score"
POLICY = StagnationPolicy(same_failure=2, epsilon=0.01, flat_rounds=2)


@pytest.mark.parametrize(
    ("history", "reason", "detail"),
    [
        ([FINE], "done", "all planned checks ran"),
        (
            [replace(FINE, judged=True)],
            "done",
            "all planned checks ran, and the judge accepts the review",
        ),
        ([replace(FINE, gaps=2)], "done", "all planned checks ran; 2 gaps left"),
        ([replace(FINE, budget="tokens")], "budget", "tokens"),
        ([replace(FINE, human="which one?")], "human", "which one?"),
        ([replace(FINE, budget="tokens", human="x")], "budget", "tokens"),
        (
            [replace(FINE, accepted=False)],
            "stagnation",
            "the score of 0.90 is not accepted, and nothing is missing that another iteration could get",
        ),
        (
            [replace(FINE, accepted=False, score=None)],
            "stagnation",
            "nothing was scored, and nothing is missing that another iteration could get",
        ),
        (
            [replace(WANTING, failures=frozenset({"a: b", "c"}))] * 2,
            "stagnation",
            "the same failure 2 times in a row: a: b",
        ),
        ([WANTING, WANTING], "stagnation", STANDSTILL),
        (
            [replace(WANTING, gaps=1, uncertain=("x",)), replace(WANTING, gaps=2)],
            "stagnation",
            STANDSTILL,
        ),
        ([replace(WANTING, score=0.0), replace(WANTING, score=None)], "stagnation", STANDSTILL),
        (
            [replace(WANTING, evidence=frozenset(range(n))) for n in range(3)],
            "stagnation",
            "the score gained less than 0.01 in 2 iterations",
        ),
        (
            [
                replace(WANTING, score=score, evidence=frozenset(range(n)))
                for n, score in enumerate((0.1, 0.5, 0.5, 0.5))
            ],
            "stagnation",
            "the score gained less than 0.01 in 2 iterations",
        ),
        (
            [replace(WANTING, score=s, output="same\nwords", gaps=9) for s in (0.1, 0.5)],
            "stagnation",
            "the last two iterations say nearly the same",
        ),
        # A line that occurs often counts like any other.
        (
            [replace(WANTING, score=s, output=f"{s}\n" + "same\n" * 300) for s in (0.1, 0.5)],
            "stagnation",
            "the last two iterations say nearly the same",
        ),
        (
            [replace(WANTING, score=n / 10, gaps=9 - n, output=str(n)) for n in range(5)],
            "budget",
            "all 5 iterations are used",
        ),
    ],
)
def test_every_reason_to_stop(history: list[IterationFacts], reason: str, detail: str) -> None:
    stop = decide_stop(history, POLICY, 5)
    assert stop is not None
    assert (stop.reason, stop.detail) == (reason, detail)


def test_of_long_outputs_the_first_two_thousand_lines_are_compared() -> None:
    policy = replace(POLICY, similarity=1.0)
    outputs = ["\n".join(["same"] * 2000 + [last]) for last in ("one", "other")]
    history = [replace(WANTING, score=n / 2, output=text) for n, text in enumerate(outputs)]
    stop = decide_stop(history, policy, 5)
    assert stop is not None
    assert stop.detail == "the last two iterations say nearly the same"


def test_an_iteration_that_gains_is_followed_by_another() -> None:
    first = replace(WANTING, score=0.3)
    assert decide_stop([first], POLICY, 5) is None
    assert decide_stop([first, replace(WANTING, score=0.6)], POLICY, 5) is None
    assert decide_stop([first, replace(first, touched=frozenset({"a"}))], POLICY, 5) is None
    assert decide_stop([replace(first, gaps=2), replace(first, gaps=1)], POLICY, 5) is None
    assert decide_stop([replace(first, uncertain=("x",)), first], POLICY, 5) is None
    assert decide_stop([replace(first, score=None), first], POLICY, 5) is None


def test_a_gain_of_exactly_the_threshold_is_a_gain() -> None:
    policy = StagnationPolicy(same_failure=2, epsilon=0.25, flat_rounds=2)  # exact as floats
    rounds = [replace(WANTING, score=score) for score in (0.25, 0.5, 0.75)]
    assert decide_stop(rounds[:2], policy, 5) is None
    assert decide_stop(rounds, policy, 5) is None


RUBRIC = Rubric(
    "r", 1, "", 0.6,
    (
        Criterion("a", "measured", "", weight=3, blocker=True),
        Criterion("b", "measured", ""),
        Criterion("c", "judged", ""),
    ),
)  # fmt: skip


def test_the_judge_leaves_out_what_was_not_scored() -> None:
    card = score_rubric(
        RUBRIC, {"a": CriterionMark(1.0, "all"), "b": CriterionMark(0.0, "none", ("more of b",))}
    )
    assert card.total == 0.75
    assert card.accepted
    assert card.marks["c"].score is None
    assert card.missing_of("measured") == ("more of b",)


def test_a_blocker_at_zero_is_not_accepted_whatever_the_total() -> None:
    high = replace(RUBRIC, threshold=0.1)
    card = score_rubric(
        high,
        {
            "a": CriterionMark(0.0, "none"),
            "b": CriterionMark(1.0, "all"),
            "c": CriterionMark(1.0, "all"),
        },
    )
    assert card.blocked_by == ("a",)
    assert not card.accepted


def test_steps_name_their_tools_once_and_in_order() -> None:
    body = "# X\n\n## Steps\n\n1. First `two` then\n   `one` and `two`.\n2. Nothing.\n\n## Output\n\n3. `not_a_step`\n"
    found = read_steps(body)
    assert [step.names for step in found] == [("two", "one"), ()]
    assert found[0].line == 5
