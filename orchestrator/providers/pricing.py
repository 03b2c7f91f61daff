"""What calls cost, in US dollars."""

from __future__ import annotations

from orchestrator.engine.models import Price
from orchestrator.engine.types import Usage
from orchestrator.providers.reply import Counts

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


def worst(price: Price, input_tokens: int, output_tokens: int) -> float:
    """The most that one call can cost: all of its input at the dearest rate for input."""
    rates = price.at(input_tokens)
    dearest = max(rates.input, rates.cached, rates.cache_write)
    return (input_tokens * dearest + output_tokens * rates.output) / PER


def saved(price: Price, usage: Usage) -> float:
    """What reading from the cache saved in one call, against the plain rate for input."""
    rates = price.at(usage.input_tokens)
    return min(usage.cached_tokens, usage.input_tokens) * (rates.input - rates.cached) / PER


def conversation(price: Price, *, prompt: int, per_turn: int, output: int, turns: int) -> float:
    """What a conversation is expected to cost when each turn finds the one before in the cache.

    Args:
        prompt: tokens of the first request.
        per_turn: tokens that a turn's results add to the next request, its answer not counted.
        output: tokens of one answer.
        turns: answers.
    """
    total, before = 0.0, 0
    for turn in range(turns):
        whole = prompt + turn * (per_turn + output)
        total += cost(price, Counts(whole, output, cached=before, cache_write=whole - before))
        before = whole
    return total
