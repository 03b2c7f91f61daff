"""What calls cost, in US dollars."""

from __future__ import annotations

from orchestrator.engine.model_config import Price
from orchestrator.engine.types import Usage
from orchestrator.providers.reply_parsing import Counts

PER = 1_000_000


def cost(price: Price, counts: Counts) -> float:
    """What one call cost."""
    whole, output = counts.input or 0, counts.output or 0
    rates = price.at(whole)
    cached = min(counts.cached, whole)
    written = min(counts.cache_write, whole - cached)
    fresh = whole - cached - written
    return (
        fresh * rates.input
        + cached * rates.cached
        + written * rates.cache_write
        + output * rates.output
    ) / PER


def saved(price: Price, counts: Counts) -> float:
    """What the cache saved in one call, less what writing to it cost: below 0 if that is more."""
    return cost(price, Counts(counts.input, counts.output)) - cost(price, counts)


def worst(price: Price, input_tokens: int, output_tokens: int) -> float:
    """The most that one call can cost: all of its input at the dearest rate for input."""
    rates = price.at(input_tokens)
    dearest = max(rates.input, rates.cached, rates.cache_write)
    return (input_tokens * dearest + output_tokens * rates.output) / PER


def most(price: Price, tokens: int) -> float:
    """The most that calls of so many tokens in all can cost: each at the dearest rate."""
    rates = price.at(tokens)
    return tokens * max(rates.input, rates.cached, rates.cache_write, rates.output) / PER


def conversation(
    price: Price | None, *, prompt: int, per_turn: int, output: int, turns: int
) -> Usage:
    """What a conversation is expected to use when each turn finds the one before in the cache.

    Args:
        price: None where it is not known; then it costs nothing.
        prompt: tokens of the first request.
        per_turn: tokens that a turn's results add to the next request, its answer not counted.
        output: tokens of one answer.
        turns: answers.
    """
    usd, whole, before = 0.0, 0, 0
    for turn in range(turns):
        asked = prompt + turn * (per_turn + output)
        if price is not None:
            usd += cost(price, Counts(asked, output, cached=before, cache_write=asked - before))
        whole, before = whole + asked, asked
    return Usage(whole, turns * output, usd=usd)
