"""Parts of charts as SVG, in one size of which they shrink with the page."""

from collections.abc import Iterable
from html import escape

from orchestrator.report.terminal_escaping import escape_unprintable

WIDTH, HEIGHT = 340, 220
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 10, 28


def x(share: float) -> float:
    """Where a share of the width is."""
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def y(share: float) -> float:
    """Where a share of the height is."""
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def svg(label: str, parts: Iterable[str], height: int = HEIGHT) -> str:
    """A drawing that shrinks with the page; ``label`` says what it is."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def line(x1: float, y1: float, x2: float, y2: float, color: str, more: str = "") -> str:
    """A line in a color of the page."""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="var(--{color})" {more}/>'
    )


def label(x: float, y: float, text: str, anchor: str = "middle") -> str:
    """A text, escaped."""
    escaped = escape(escape_unprintable(text))
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped}</text>'
