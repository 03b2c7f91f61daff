"""Charts as inline SVG, colored by the page's own variables so that they follow light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from orchestrator.report.terminal_escaping import visible
from orchestrator.tuning.agreement import Bin
from orchestrator.tuning.cross_validation import Point
from orchestrator.tuning.tune import Outcome, Spread

WIDE, HIGH = 340, 220
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 10, 28


def _x(share: float) -> float:
    return LEFT + share * (WIDE - LEFT - RIGHT)


def _y(share: float) -> float:
    return HIGH - BOTTOM - share * (HIGH - TOP - BOTTOM)


def _svg(label: str, parts: Iterable[str], high: int = HIGH) -> str:
    return (
        f'<svg viewBox="0 0 {WIDE} {high}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, color: str, more: str = "") -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="var(--{color})" {more}/>'
    )


def _word(x: float, y: float, word: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(visible(word))}</text>'


def _frame(low: float = 0.0, top: float = 1.0) -> list[str]:
    """Axes; the vertical one runs from ``low`` to ``top``."""
    parts = [_line(_x(0), _y(0), _x(1), _y(0), "line"), _line(_x(0), _y(0), _x(0), _y(1), "line")]
    return parts + [
        _word(LEFT - 5, _y(share) + 4, f"{low + share * (top - low):.2f}", "end")
        for share in (0.0, 0.5, 1.0)
    ]


def reliability(curve: Sequence[Bin]) -> str:
    """Predicted against observed; the area of a dot goes with the number of items."""
    parts = _frame()
    parts += [_word(_x(s), HIGH - 8, f"{s:.1f}") for s in (0.0, 0.5, 1.0)]
    parts.append(_line(_x(0), _y(0), _x(1), _y(1), "line", 'stroke-dasharray="4 4"'))
    most = max((b.weight for b in curve), default=1.0)
    for b in curve:
        radius = 2.5 + 6 * (b.weight / most) ** 0.5
        parts.append(
            f'<circle cx="{_x(b.said):.1f}" cy="{_y(b.was):.1f}" r="{radius:.1f}" '
            f'fill="var(--a)" fill-opacity=".75"><title>{b.weight:g} items: predicted '
            f"{b.said:.2f}, accepted {b.was:.2f}</title></circle>"
        )
    return _svg("reliability curve", parts)


def spread(s: Spread) -> str:
    """Two histograms back to back, and the threshold."""
    steps = len(s.accepted)
    most = max((*s.accepted, *s.rejected, 1.0))
    middle, half = (_y(0) + _y(1)) / 2, (_y(0) - _y(1)) / 2
    parts = [_word(_x(v), HIGH - 8, f"{v:.1f}") for v in (0.0, 0.5, 1.0)]
    for i in range(steps):
        x, wide = _x(i / steps), (_x(1) - _x(0)) / steps - 1
        for count, color, up in ((s.accepted[i], "a", True), (s.rejected[i], "b", False)):
            tall = half * count / most
            top = middle - tall if up else middle
            parts.append(
                f'<rect x="{x:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
                f'fill="var(--{color})"><title>{count:g}</title></rect>'
            )
    parts.append(_line(_x(0), middle, _x(1), middle, "line"))
    at = _x(min(max(s.threshold, 0.0), 1.0))
    parts.append(_line(at, _y(0), at, _y(1), "ink", 'stroke-dasharray="3 3"'))
    return _svg(f"totals by label, {s.name}", parts)


def weights(outcome: Outcome) -> str:
    """A bar for the present share, a dot with its refits' interval for the fitted one."""
    row = 26
    tall = TOP + row * len(outcome.criteria) + 8
    ends = [c.before for c in outcome.criteria]
    ends += [max(c.after.high, c.after.value) for c in outcome.criteria if c.after]
    most = max([*ends, 1e-9])
    start, room = 120, WIDE - 120 - RIGHT
    parts = []
    for i, c in enumerate(outcome.criteria):
        y = TOP + row * i + row / 2
        name = c.name if len(c.name) <= 18 else c.name[:17] + "…"
        parts.append(_word(start - 6, y + 4, name, "end"))
        parts.append(
            f'<rect x="{start}" y="{y - 7:.1f}" width="{room * c.before / most:.1f}" height="14" '
            'fill="var(--line)"/>'
        )
        if c.after is not None:
            low, high, at = (
                start + room * v / most for v in (c.after.low, c.after.high, c.after.value)
            )
            parts.append(_line(low, y, high, y, "a", 'stroke-width="2"'))
            parts.append(f'<circle cx="{at:.1f}" cy="{y:.1f}" r="4" fill="var(--a)"/>')
    return _svg("weights before and after", parts, tall)


def learning(curve: Sequence[Point], sign: float) -> str:
    """Mean held-out value by number of labels, and where the worst 5% begin."""
    if not curve:
        return _svg("learning curve", [_word(WIDE / 2, HIGH / 2, "not enough labels")])
    values = [sign * v for p in curve for v in (p.value, p.low)]
    low, top = min([*values, 0.0]), max(values)
    top = top if top > low else low + 1.0
    most = curve[-1].labels
    parts = _frame(low, top)
    spots = [(_x(p.labels / most), p) for p in curve]
    for color, pick in (("a", 0), ("dim", 1)):
        line = " ".join(
            f"{x:.1f},{_y((sign * (p.value, p.low)[pick] - low) / (top - low)):.1f}"
            for x, p in spots
        )
        parts.append(f'<polyline points="{line}" fill="none" stroke="var(--{color})"/>')
    parts += [_word(x, HIGH - 8, f"{p.labels}") for x, p in spots]
    return _svg("learning curve", parts)
