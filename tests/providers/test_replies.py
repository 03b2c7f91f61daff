"""Nothing that a server sends is an uncaught error, or an effect that it has no right to."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.types import Message, Text, ToolCall, ToolSpec
from orchestrator.providers.reply_normalization import (
    MAX_CALLS,
    MAX_DEPTH,
    UNREADABLE,
    InvalidReplyError,
    ToolCallParser,
    drop_unsafe_calls,
    loads,
)
from tests.providers.provider_kit import request

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(), below, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_parsed_json_can_always_be_recorded_and_sent(value):
    try:
        read = loads(json.dumps(value))
    except InvalidReplyError:
        return
    canonical(read)
    json.dumps(read, ensure_ascii=False).encode()


@given(st.binary(max_size=200))
def test_bytes_are_json_or_invalid(data):
    try:
        read = loads(data)
    except InvalidReplyError:
        return
    canonical(read)


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "[Infinity]",
        "-Infinity",
        "1e999",
        "9" * 19,
        "9" * 5000,
        "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
        "[" * 200_000,
        '{"a": 1',
        "",
    ],
)
def test_what_is_not_strict_json_is_invalid(text):
    with pytest.raises(InvalidReplyError):
        loads(text)


def test_lone_surrogates_become_escapes():
    assert loads(r'{"\ud800": ["\udcff", "\ud83d\ude00"]}') == {"\\ud800": ["\\xff", "\U0001f600"]}


def calls_of(*blocks, tools=None):
    said = Message("assistant", blocks)
    more = {} if tools is None else {"tools": tools}
    return ToolCallParser(request("openai", Message("user", (Text("x"),)), said, **more))


@given(st.lists(st.none() | st.integers() | st.text(max_size=70) | st.just("call_1"), max_size=20))
def test_ids_are_unique_and_plain_for_any_input(given_ids):
    calls = calls_of(ToolCall("call_1", "search", {}), ToolCall("call_2", "search", {}))
    made = [calls.add(one, "search", {}).id for one in given_ids]
    every = [*made, "call_1", "call_2"]
    assert len(set(every)) == len(every)
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", one) for one in made)


@given(JSON, JSON)
def test_names_and_arguments_are_as_given_or_refused_by_every_tool(name, arguments):
    call = calls_of().add(None, name, arguments)
    assert call.name == name or call.name.startswith("no_such_tool_")
    try:
        sent = loads(json.dumps(arguments))
    except InvalidReplyError:
        sent = None
    if isinstance(sent, dict):
        assert call.arguments == sent
    elif isinstance(arguments, str) and not arguments.strip():
        assert call.arguments == {}
    else:
        assert list(call.arguments) == [UNREADABLE]


def test_invalid_arguments_for_an_open_schema_fail_the_attempt():
    """Only a closed schema is sure to refuse them."""
    tool = ToolSpec("loose", "takes anything", {"type": "object"})
    with pytest.raises(InvalidReplyError, match="loose"):
        calls_of(tools=(tool,)).add("a", "loose", "{nonsense")


def test_too_many_calls_are_invalid():
    calls = calls_of()
    for _ in range(MAX_CALLS):
        calls.add(None, "search", {})
    with pytest.raises(InvalidReplyError, match="tool calls"):
        calls.add(None, "search", {})


def test_calls_of_a_cut_refused_or_filtered_turn_are_dropped():
    call = ToolCall("a", "search", {})
    assert drop_unsafe_calls([Text("x"), call], "end") == ((Text("x"), call), "tool_use")
    assert drop_unsafe_calls([Text(" "), call], "max_tokens") == ((), "max_tokens")
    assert drop_unsafe_calls([call], "refused") == ((), "refused")
    assert drop_unsafe_calls([Text("x")], "tool_use") == ((Text("x"),), "end")
    assert drop_unsafe_calls([Text("x")], "paused") == ((Text("x"),), "paused")
