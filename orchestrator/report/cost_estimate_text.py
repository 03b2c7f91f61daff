"""A cost estimate as text and as JSON."""

from typing import Any

from msgspec import to_builtins

from orchestrator.catalog.prices import PRICES_FILE, Price
from orchestrator.code_review.cost_estimate import BASIS, EstimatedUse, ReviewEstimate
from orchestrator.report.terminal_escaping import escape_line
from orchestrator.report.text_layout import MIN_WIDTH, TextLayout, pad
from orchestrator.wording import count_noun

NAME_WIDTH = 16
FIGURE = "{:>10,} {:>9}"


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
    page = TextLayout(max(width, MIN_WIDTH))
    if not estimate.shares:
        text = f"No model calls (provider {estimate.provider}): 0 tokens, USD 0.00."
        return "\n".join(page.wrap(escape_line(text))) + "\n"
    sections = [
        _render_total(page, estimate),
        _render_table(estimate),
        _render_prices(page, estimate),
        ["How the estimate is computed", *page.bullet_list(BASIS)],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _render_total(page: TextLayout, estimate: ReviewEstimate) -> list[str]:
    expected, worst = estimate.total
    iterations = count_noun(estimate.iterations, "iteration")
    lines = page.inline_list(
        (
            f"expected {_format_bill(expected, estimate)}",
            f"at most {_format_bill(worst, estimate)}, in {iterations}",
        ),
        first="Estimate ",
    )
    lines += page.wrap(
        escape_line(f"provider {estimate.provider}; no model was called"), first="         "
    )
    for note in estimate.notes[:10]:
        lines += page.wrap(escape_line(note), first="Note     ", limit=4)
    return lines


def _format_bill(bill: EstimatedUse, estimate: ReviewEstimate) -> str:
    has_price = any(price for share in estimate.shares for price in share.prices.values())
    return (f"USD {bill.usd:.4f}, " if has_price else "") + f"{bill.tokens:,} tokens"


def _render_table(estimate: ReviewEstimate) -> list[str]:
    head = "{:<{}} turns  {:>20}  {:>20}".format("Agent", NAME_WIDTH, "expected", "at most")
    units = " " * (NAME_WIDTH + 6) + 2 * f"  {'tokens':>10} {'USD':>9}"
    rows = [
        _format_row(share.agent, str(share.turns), share.expected, share.worst)
        for share in estimate.shares
    ]
    totals = [
        _format_row("One iteration", "", *estimate.iteration),
        _format_row("The whole run", "", *estimate.total),
    ]
    return [head, units, *rows, *totals]


def _format_row(name: str, turns: str, expected: EstimatedUse, worst: EstimatedUse) -> str:
    figures = [
        FIGURE.format(bill.tokens, f"{bill.usd:.4f}" if bill.usd else "-")
        for bill in (expected, worst)
    ]
    return f"{pad(escape_line(name), NAME_WIDTH)} {turns:>5}  {figures[0]}  {figures[1]}"


def _render_prices(page: TextLayout, estimate: ReviewEstimate) -> list[str]:
    models = {model: price for share in estimate.shares for model, price in share.prices.items()}
    lines = [f"Prices, in US dollars per million tokens ({PRICES_FILE})"]
    for model, price in models.items():
        lines += page.wrap(escape_line(f"{model}: {_describe_rates(price)}"), first="  - ", limit=4)
    return lines


def _describe_rates(price: Price | None) -> str:
    if price is None:
        return "no price configured"
    rates = (
        f"input {price.input:g}, cached input {price.cached:g}, cache write {price.cache_write:g}, "
        f"output {price.output:g}"
    )
    more = f"; higher above {price.long.above:,} input tokens" if price.long else ""
    return f"{rates}{more} ({price.source}, {price.date})"
