"""Token counts that cannot be right: less than was surely sent, or more than was allowed."""

import pytest

from orchestrator.engine.types import Message, Text, Usage
from orchestrator.providers.token_bounds import max_input_tokens, min_input_tokens
from tests.providers.provider_kit import PROVIDERS, open_session, request
from tests.scripted_model import text_reply

pytestmark = pytest.mark.either_loop
WORDS = "the quick brown fox jumps over the lazy dog\n" * 1000  # 10,000 tokens of 44,000 bytes
LONG = Message("user", (Text(WORDS),))


@pytest.mark.parametrize("name", PROVIDERS)
async def test_an_implausibly_low_input_count_is_raised(name):
    reply = text_reply("done", usage=Usage(0, 5))
    async with open_session(name, [reply]) as used:
        answer = await used.model.respond(request(name, LONG))
    assert 1375 <= answer.usage.input_tokens <= 1400
    assert answer.usage.usd > 0 or name == "openai-compatible"  # which has no price
    assert answer.usage.undercounted
    (event,) = used.events
    assert (event.kind, event.agent) == ("usage", "qa")
    assert "the server reported an input of 0 tokens" in str(event)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_an_implausibly_low_output_count_is_raised(name):
    reply = text_reply(WORDS, usage=Usage(5000, 0))
    async with open_session(name, [reply]) as used:
        answer = await used.model.respond(request(name))
    assert 1375 <= answer.usage.output_tokens <= 1400
    assert answer.usage.undercounted
    assert [event.kind for event in used.events] == ["usage"]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_output_above_the_limit_is_booked_and_named(name):
    reply = text_reply("done", usage=Usage(5000, 9_999_999))
    async with open_session(name, [reply]) as used:
        answer = await used.model.respond(request(name))
    assert answer.usage.output_tokens == 9_999_999
    assert (answer.usage.above_limit, answer.usage.undercounted) == (True, False)
    assert "above the limit" in str(used.events[0])


@pytest.mark.parametrize("name", PROVIDERS)
async def test_plausible_counts_are_taken_as_they_are(name):
    reply = text_reply("done", usage=Usage(9001, 3))
    async with open_session(name, [reply]) as used:
        answer = await used.model.respond(request(name, LONG))
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (9001, 3)
    assert (answer.usage.undercounted, answer.usage.above_limit) == (False, False)
    assert used.events == []


def test_repeated_characters_may_be_few_tokens():
    lone = request("anthropic", Message("user", (Text("x" + "-" * 100_000 + " " * 100_000),)))
    assert min_input_tokens(lone) < 10
    assert min_input_tokens(request("anthropic", LONG)) < max_input_tokens(lone)


def test_a_bound_that_no_count_contradicts_is_not_worked_out():
    words = Message("user", (Text("a word of its own, and " + "=" * 32_000),))
    asked = request("anthropic", words)
    exact = min_input_tokens(asked)
    assert exact < 10
    assert min_input_tokens(asked, exact - 1) == exact
    assert exact <= min_input_tokens(asked, 5_000) <= 5_000
