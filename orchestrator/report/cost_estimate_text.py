"""A cost estimate as text and as JSON."""

from typing import Any

from msgspec import to_builtins

from orchestrator.catalog.prices import PRICES_FILE
from orchestrator.code_review.cost_estimate import BASIS, ReviewEstimate
from orchestrator.report.page_templates import render_lines, text_macros
from orchestrator.report.text_layout import MIN_WIDTH, TextLayout


def to_document(estimate: ReviewEstimate) -> dict[str, Any]:
    """The estimate as JSON data."""
    expected, worst = estimate.iteration
    total_expected, total_worst = estimate.total
    return {
        "provider": estimate.provider,
        "agents": [to_builtins(share) for share in estimate.shares],
        "iteration": {"expected": to_builtins(expected), "worst": to_builtins(worst)},
        "total": {"expected": to_builtins(total_expected), "worst": to_builtins(total_worst)},
        "iterations": {"expected": 1, "worst": estimate.iterations},
        "limit": to_builtins(estimate.limit),
        "notes": list(estimate.notes),
        "basis": list(BASIS),
    }


def render_cost_estimate(estimate: ReviewEstimate, width: int = 80) -> str:
    """The estimate as plain text, ending in a newline."""
    page, macros = TextLayout(max(width, MIN_WIDTH)), text_macros("estimate.txt")
    prices = {model: price for share in estimate.shares for model, price in share.prices.items()}
    given = (estimate, prices, BASIS, PRICES_FILE)
    return "\n".join(render_lines(page, macros, "estimate", *given)) + "\n"
