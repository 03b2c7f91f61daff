"""Journal keys: what is built is read back, whatever agents and tools are called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.engine.journal_keys import TOPICS, Key

NAMES = st.one_of(
    st.sampled_from(
        ["turn1", "attempt2", "model", "answer", "loop", "tool1", "act", "1", "a/b", "%2F"]
    ),
    st.text(min_size=1, max_size=12),
)
NUMBERS = st.integers(1, 99)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("1/plan", Key("plan", 1)),
        ("2/act/security/turn3/model", Key("act", 2, "security", turn=3, step="model")),
        (
            "2/act/qa/attempt2/turn1/tool4/ruff",
            Key("act", 2, "qa", attempt=2, turn=1, position=4, tool="ruff"),
        ),
        ("1/act/turn1/turn1/tool1/model", Key("act", 1, "turn1", turn=1, position=1, tool="model")),
        ("1/act/a%252Fb%2Fc/loop", Key("act", 1, "a%2Fb/c", step="loop")),
        ("1/act/attempt2/loop", Key("act", 1, "attempt2", step="loop")),
        ("1/judge/turn2/left_out", Key("judge", 1, turn=2, step="left_out")),
        ("1/plan/question2/answer", Key("plan", 1, question=2, step="answer")),
        ("session/2", Key("session", number=2)),
        ("execute/turn1/model", Key("execute", subject="turn1/model")),
        ("approval/3/1/act/a/turn1/tool1/x", Key("approval", number=3, subject="1/act/a/turn1/tool1/x")),
        ("intake/day", Key("intake", subject="day")),
        ("breaker/1/model", Key("breaker", number=1, subject="model")),
    ],
)  # fmt: skip
def test_a_key_is_readable_text_and_is_read_by_place(text: str, key: Key) -> None:
    assert Key.parse(text) == key
    assert str(key) == text


def test_a_key_is_built_part_by_part() -> None:
    work = Key("plan", 2, attempt=2)
    assert str(replace(work, question=3).at("answer")) == "2/plan/attempt2/question3/answer"
    assert str(work.in_turn(4).tool_call(5, "ruff")) == "2/plan/attempt2/turn4/tool5/ruff"
    assert str(work.in_turn(4).at("model")) == "2/plan/attempt2/turn4/model"


@given(NAMES, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.text(max_size=12))
def test_calls_are_read_back_for_any_names_of_agents_and_tools(
    agent: str, iteration: int, attempt: int, turn: int, position: int, tool: str
) -> None:
    work = Key("act", iteration, agent, attempt=attempt).in_turn(turn)
    for key in (work.at("model"), work.at("left_out"), work.tool_call(position, tool)):
        assert Key.parse(str(key)) == key
        assert Key.parse(str(key)).task == Key("act", iteration, agent)
    assert Key.parse(str(work.tool_call(position, "model"))).step == ""
    assert Key("act", iteration, agent, attempt=attempt).is_escalation
    assert not work.is_escalation


@given(st.sampled_from(TOPICS), NUMBERS, st.text(min_size=1))
def test_notes_are_read_back_for_any_topic(topic: str, number: int, subject: str) -> None:
    key = Key(topic, number=number, subject=subject)
    assert Key.parse(str(key)) == key


@given(st.text())
def test_any_text_can_be_parsed_as_a_key(text: str) -> None:
    key = Key.parse(text)
    assert Key.parse(str(key)) == key
