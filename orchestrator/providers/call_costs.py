"""Costs of model calls, in US dollars."""

from orchestrator.catalog.prices import Price
from orchestrator.engine.types import Usage
from orchestrator.providers.reply_normalization import TokenCounts

PRICE_UNIT_TOKENS = 1_000_000


def compute_cost(price: Price, counts: TokenCounts) -> float:
    """Cost of one call."""
    total, output = counts.input or 0, counts.output or 0
    rates = price.at(total)
    cached = min(counts.cached, total)
    written = min(counts.cache_write, total - cached)
    fresh = total - cached - written
    return (
        fresh * rates.input
        + cached * rates.cached
        + written * rates.cache_write
        + output * rates.output
    ) / PRICE_UNIT_TOKENS


def compute_savings(price: Price, counts: TokenCounts) -> float:
    """What the prompt cache saved in one call, less the cost of writing to it (may be negative)."""
    return compute_cost(price, TokenCounts(counts.input, counts.output)) - compute_cost(
        price, counts
    )


def max_call_cost(price: Price, input_tokens: int, output_tokens: int) -> float:
    """Upper bound of one call's cost: all input at the highest input rate."""
    rates = price.at(input_tokens)
    highest = max(rates.input, rates.cached, rates.cache_write)
    return (input_tokens * highest + output_tokens * rates.output) / PRICE_UNIT_TOKENS


def max_total_cost(price: Price, tokens: int) -> float:
    """Upper bound of the cost of calls with this total of tokens: all at the highest rate."""
    rates = price.at(tokens)
    return (
        tokens * max(rates.input, rates.cached, rates.cache_write, rates.output) / PRICE_UNIT_TOKENS
    )


def estimate_conversation(
    price: Price | None, *, prompt: int, per_turn: int, output: int, turns: int, cached: int = 0
) -> Usage:
    """Estimate what a conversation uses when each turn finds the previous one in the prompt cache.

    Args:
        price: None when unknown; the cost is then 0.
        prompt: tokens of the first request.
        per_turn: tokens that a turn's tool results add to the next request, without the answer.
        cached: tokens of the first request that another conversation has left in the cache.
    """
    usd, total = 0.0, 0
    for turn in range(turns):
        sent = prompt + turn * (per_turn + output)
        if price is not None:
            counts = TokenCounts(sent, output, cached=cached, cache_write=sent - cached)
            usd += compute_cost(price, counts)
        total, cached = total + sent, sent
    return Usage(total, turns * output, usd=usd)
