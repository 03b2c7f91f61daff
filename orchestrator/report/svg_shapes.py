"""Shapes of charts as SVG, in one size with which they fit a phone and grow with the page.

A series is told by its shape, by its line and by its name, so that a chart needs no color.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup
from rich.cells import cell_len

from orchestrator.report.page_templates import html, join

WIDTH, HEIGHT = 290, 244
"""A window of 360 pixels shows that width about as it is, and a text with 12 pixels."""
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 46, 44
BAR, FULL, DASH = 2, 3, 4
"""Kinds of marks besides those of the first and the second series, 0 and 1."""
_FONT = 12


def x(share: float) -> float:
    """Where a share of the width is."""
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def y(share: float) -> float:
    """Where a share of the height is."""
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def drawing(label: str, shapes: Iterable[Markup], height: float = HEIGHT) -> Markup:
    """A drawing that shrinks with the page; ``label`` says what it is."""
    literal = '<svg viewBox="0 0 {} {:.0f}" role="img" aria-label="{}">{}</svg>'
    return html(literal, WIDTH, height, label, join(shapes))


def text_width(text: str) -> float:
    """The width of a text, at least, in the widest of the usual fonts."""
    ems = (0.38 if c in " .,:;'|()[]iljtfrI" else 1.0 if c in "mwMW@%—…" else 0.82 if c.isupper()
           else 0.65 if c.isascii() else max(0.8, 0.52 * cell_len(c)) for c in text)  # fmt: skip
    return _FONT * sum(ems)


def fit(text: str, room: float) -> str:
    """A text that is cut in its middle where it is too long: names often differ at their ends."""
    kept, shown = len(text), text
    while kept > 1 and text_width(shown) > room:
        kept -= 1
        shown = f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"
    return shown


def nice_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Three to six round numbers of a range, and as what they are printed."""
    step = 10.0 ** math.floor(math.log10(high - low))
    step *= next(part for part in (0.2, 0.5, 1.0, 2.0) if (high - low) / (step * part) <= 5)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    values = [n * step for n in range(first, last + 1)]
    return [(value, f"{value:,.{digits}f}".replace("-", "\u2212")) for value in values]


def titles(
    up: str, across: str, series: Sequence[tuple[int, str]] = (), *, height: float = HEIGHT
) -> list[Markup]:
    """What both axes show, with the unit, and what each kind of mark is."""
    parts = [label(2, 13, up, "start"), label(WIDTH - 2, height - 5, across, "end")]
    at, y = 2.0, 27 if up else 9
    for kind, name in series:
        parts += [series_line(kind, [(at, y), (at + 20, y)]), mark(kind, at + 10, y, 4)]
        parts.append(label(at + 25, y + 4, name, "start"))
        at += 33 + text_width(name)
    return parts


def tick_labels(places: Iterable[tuple[float, str]], height: float = HEIGHT) -> list[Markup]:
    """Labels of the horizontal axis; of those that would touch, the later ones."""
    parts, free = list[Markup](), math.inf
    for place, text in reversed([*places]):
        half = text_width(text) / 2
        at = min(max(place, half), WIDTH - half)
        if at + half < free:
            parts.append(label(at, height - 23, text))
            free = at - half - 6
    return parts


def mark(kind: int, x: float, y: float, r: float, title: str = "") -> Markup:
    """A dot of the first series, a hollow diamond of the second, or a bar."""
    if kind == 0:
        return _shape("circle", title, cx=x, cy=y, r=r, fill="var(--a)")
    if kind == 1:
        points = f"{x:.1f},{y - r:.1f} {x + r:.1f},{y:.1f} {x:.1f},{y + r:.1f} {x - r:.1f},{y:.1f}"
        look = {"fill": "var(--card)", "stroke": "var(--b)", "stroke_width": "1.5"}
        return _shape("polygon", title, points=points, **look)
    return Markup() if kind == DASH else bar(kind, x - 10, y - r, 20, 2 * r, title)


def bar(kind: int, x: float, y: float, width: float, height: float, title: str = "") -> Markup:
    """A bar, ``FULL`` or hollow."""
    look = {"fill": "var(--a)"} if kind == FULL else {"fill": "var(--card)", "stroke": "var(--dim)"}
    return _shape("rect", title, x=x, y=y, width=width, height=height, **look)


def series_line(kind: int, points: Iterable[tuple[float, float]]) -> Markup:
    """A line through points: whole for the first series, dashed for others; none of bars."""
    color = {0: "a", 1: "b", DASH: "dim"}.get(kind)
    spots = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    look = {"stroke": f"var(--{color})", "stroke_dasharray": "5 3" if kind else "none"}
    shape = _shape("polyline", points=spots, fill="none", stroke_width="1.5", **look)
    return shape if color else Markup()


def line(x1: float, y1: float, x2: float, y2: float, color: str) -> Markup:
    """A line in a color of the page."""
    return _shape("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=f"var(--{color})")


def label(x: float, y: float, text: str, anchor: str = "middle") -> Markup:
    """A text."""
    literal = '<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>'
    return html(literal, x, y, anchor, text) if text else Markup()


def _shape(name: str, title: str = "", /, **attributes: Any) -> Markup:
    """An element; numbers have one digit, and ``_`` in a name is ``-``."""
    written = join(
        html(' {}="{}"', key.replace("_", "-"), f"{one:.1f}" if isinstance(one, float) else one)
        for key, one in attributes.items()
    )
    inner = html("<title>{}</title>", title) if title else Markup()
    return html("<{}{}>{}</{}>", name, written, inner, name)
