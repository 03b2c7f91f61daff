"""An estimate for a person, and for a program."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from orchestrator.catalog.prices import PRICES_FILE, Price
from orchestrator.report.terminal_escaping import escape_line
from orchestrator.report.text_layout import MIN_WIDTH, Page, count_noun, pad
from orchestrator.review.cost_estimate import BASIS, Bill, Estimate

NAME_WIDTH = 16
FIGURE = "{:>10,} {:>9}"


def to_document(estimate: Estimate) -> dict[str, Any]:
    """The estimate as JSON."""
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
        "basis": [" ".join(text.split()) for text in BASIS],
    }


def render_cost_estimate(estimate: Estimate, width: int = 80) -> str:
    """The estimate as plain text, ending in a newline."""
    page = Page(max(width, MIN_WIDTH))
    if not estimate.shares:
        said = f"The review asks no model (provider {estimate.provider}): no tokens, USD 0.00."
        return "\n".join(page.wrap(escape_line(said))) + "\n"
    sections = [_total(page, estimate), _table(estimate), _prices(page, estimate), _basis(page)]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _total(page: Page, estimate: Estimate) -> list[str]:
    expected, worst = estimate.total
    rounds = count_noun(estimate.iterations, "iteration")
    lines = page.facts(
        (
            f"expected {_said(expected, estimate)}",
            f"at most {_said(worst, estimate)}, in {rounds}",
        ),
        first="Estimate ",
    )
    lines += page.wrap(
        escape_line(f"provider {estimate.provider}; nothing was asked or spent"), first="         "
    )
    for note in estimate.notes[:10]:
        lines += page.wrap(escape_line(note), first="Note     ", most=4)
    return lines


def _said(bill: Bill, estimate: Estimate) -> str:
    return (f"USD {bill.usd:.4f}, " if _priced(estimate) else "") + f"{bill.tokens:,} tokens"


def _priced(estimate: Estimate) -> bool:
    """Whether any model has a price."""
    return any(price for share in estimate.shares for price in share.prices.values())


def _table(estimate: Estimate) -> list[str]:
    head = "{:<{}} turns  {:>20}  {:>20}".format("Agent", NAME_WIDTH, "expected", "at most")
    units = " " * (NAME_WIDTH + 6) + 2 * f"  {'tokens':>10} {'USD':>9}"
    rows = [
        _row(share.agent, str(share.turns), share.expected, share.worst)
        for share in estimate.shares
    ]
    whole = [
        _row("One iteration", "", *estimate.iteration),
        _row("The whole run", "", *estimate.total),
    ]
    return [head, units, *rows, *whole]


def _row(name: str, turns: str, expected: Bill, worst: Bill) -> str:
    figures = [
        FIGURE.format(bill.tokens, f"{bill.usd:.4f}" if bill.usd else "-")
        for bill in (expected, worst)
    ]
    return f"{pad(escape_line(name), NAME_WIDTH)} {turns:>5}  {figures[0]}  {figures[1]}"


def _prices(page: Page, estimate: Estimate) -> list[str]:
    models = {model: price for share in estimate.shares for model, price in share.prices.items()}
    lines = [f"Prices, in US dollars per million tokens ({PRICES_FILE})"]
    for model, price in models.items():
        lines += page.wrap(escape_line(f"{model}: {_rates(price)}"), first="  - ", most=4)
    return lines


def _rates(price: Price | None) -> str:
    if price is None:
        return "no price is known"
    rates = (
        f"{price.input:g} in, {price.cached:g} from the cache, {price.cache_write:g} written to "
        f"it, {price.output:g} out"
    )
    more = f"; more above {price.long.above:,} tokens of input" if price.long else ""
    return f"{rates}{more} ({price.source}, {price.date})"


def _basis(page: Page) -> list[str]:
    texts = tuple(" ".join(text.split()) for text in BASIS)
    return ["How this is reckoned", *page.items(texts)]
