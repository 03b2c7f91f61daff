"""Shapes of charts as SVG, in one size of which they shrink with the page."""

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from orchestrator.report.page_templates import html, join

WIDTH, HEIGHT = 340, 220
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 10, 28


def x(share: float) -> float:
    """Where a share of the width is."""
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def y(share: float) -> float:
    """Where a share of the height is."""
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def svg(label: str, shapes: Iterable[Markup], height: int = HEIGHT) -> Markup:
    """A drawing that shrinks with the page; ``label`` says what it is."""
    literal = '<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    return html(literal, WIDTH, height, label, join(shapes))


def line(x1: float, y1: float, x2: float, y2: float, color: str, **more: str) -> Markup:
    """A line in a color of the page."""
    return _shape("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=f"var(--{color})", **more)


def rect(x: float, y: float, width: float, height: float, color: str, title: str = "") -> Markup:
    """A rectangle in a color of the page; ``title`` is shown where one points at it."""
    fill = f"var(--{color})"
    return _shape("rect", title, x=x, y=y, width=width, height=height, fill=fill)


def circle(x: float, y: float, r: float, color: str, title: str = "", **more: str) -> Markup:
    """A dot in a color of the page."""
    return _shape("circle", title, cx=x, cy=y, r=r, fill=f"var(--{color})", **more)


def polyline(points: Iterable[tuple[float, float]], color: str, **more: str) -> Markup:
    """A line through points."""
    spots = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return _shape("polyline", points=spots, fill="none", stroke=f"var(--{color})", **more)


def label(x: float, y: float, text: str, anchor: str = "middle") -> Markup:
    """A text."""
    return html('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>', x, y, anchor, text)


def _shape(name: str, title: str = "", /, **attributes: Any) -> Markup:
    """An element; numbers have one digit, and ``_`` in a name is ``-``."""
    written = join(
        html(' {}="{}"', key.replace("_", "-"), f"{one:.1f}" if isinstance(one, float) else one)
        for key, one in attributes.items()
    )
    inner = html("<title>{}</title>", title) if title else Markup()
    return html("<{}{}>{}</{}>", name, written, inner, name)
