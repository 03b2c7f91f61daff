"""How long an answer may be so that its worst case fits what is left."""

from __future__ import annotations

import math

from msgspec.structs import replace

from orchestrator.engine.ports import Model
from orchestrator.engine.types import Request


def affordable(model: Model, request: Request, tokens: float, usd: float) -> int:
    """The largest output limit, at most the request's own, whose worst case fits.

    Args:
        tokens, usd: what is left of the budget (``Account.left``); ``inf`` where nothing bounds.

    Returns:
        The limit in tokens; 0 when not even one token fits.
    """
    full = model.worst_case(request)
    if full.tokens <= tokens and full.usd <= usd:
        return request.max_tokens
    least = model.worst_case(replace(request, max_tokens=1))
    more = full.output_tokens - least.output_tokens
    price = (full.usd - least.usd) / more if more else 0.0
    by_usd = (usd - least.usd) / price if price else math.inf
    room = min(tokens - least.tokens, by_usd)
    if room < 0 or least.usd > usd:
        return 0
    limit = min(request.max_tokens, least.output_tokens + math.floor(min(room, more)))
    # Floating point may be off by the price of a token.
    fits = model.worst_case(replace(request, max_tokens=limit))
    return limit if fits.usd <= usd else max(limit - 1, 0)
