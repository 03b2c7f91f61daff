"""Charts of the tuning page as SVG: they shrink with the page and take its colors."""

import math
from collections.abc import Sequence

from orchestrator.report.svg_parts import HEIGHT, LEFT, RIGHT, TOP, WIDTH
from orchestrator.report.svg_parts import label as _label
from orchestrator.report.svg_parts import line as _line
from orchestrator.report.svg_parts import svg as _svg
from orchestrator.report.svg_parts import x as _x
from orchestrator.report.svg_parts import y as _y
from orchestrator.tuning.fitting.calibration import ReliabilityBin
from orchestrator.tuning.fitting.cross_validation import LearningCurvePoint
from orchestrator.tuning.labels.drift import Period
from orchestrator.tuning.tuning_result import TotalHistogram, TuningResult


def _axes(low: float = 0.0, top: float = 1.0) -> list[str]:
    """Both axes; the vertical one from ``low`` to ``top``."""
    parts = [_line(_x(0), _y(0), _x(1), _y(0), "line"), _line(_x(0), _y(0), _x(0), _y(1), "line")]
    return parts + [
        _label(LEFT - 5, _y(share) + 4, f"{low + share * (top - low):.2f}", "end")
        for share in (0.0, 0.5, 1.0)
    ]


def draw_reliability_diagram(curve: Sequence[ReliabilityBin]) -> str:
    """Predicted against observed probability; a dot's area is proportional to its items."""
    parts = _axes()
    parts += [_label(_x(s), HEIGHT - 8, f"{s:.1f}") for s in (0.0, 0.5, 1.0)]
    parts.append(_line(_x(0), _y(0), _x(1), _y(1), "line", 'stroke-dasharray="4 4"'))
    maximum = max((b.weight for b in curve), default=1.0)
    for b in curve:
        x, y = _x(b.mean_predicted), _y(b.fraction_accepted)
        radius = 2.5 + 6 * (b.weight / maximum) ** 0.5
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" '
            f'fill="var(--a)" fill-opacity=".75"><title>{b.weight:g} items: predicted '
            f"{b.mean_predicted:.2f}, accepted {b.fraction_accepted:.2f}</title></circle>"
        )
    return _svg("reliability diagram", parts)


def draw_histogram(s: TotalHistogram) -> str:
    """Totals of accepted items above the axis, of rejected ones below, and the threshold."""
    steps = len(s.accepted)
    maximum = max((*s.accepted, *s.rejected, 1.0))
    middle, half = (_y(0) + _y(1)) / 2, (_y(0) - _y(1)) / 2
    parts = [_label(_x(v), HEIGHT - 8, f"{v:.1f}") for v in (0.0, 0.5, 1.0)]
    for i in range(steps):
        x, wide = _x(i / steps), (_x(1) - _x(0)) / steps - 1
        for count, color, up in ((s.accepted[i], "a", True), (s.rejected[i], "b", False)):
            height = half * count / maximum
            top = middle - height if up else middle
            parts.append(
                f'<rect x="{x:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{height:.1f}" '
                f'fill="var(--{color})"><title>{count:g}</title></rect>'
            )
    parts.append(_line(_x(0), middle, _x(1), middle, "line"))
    at = _x(min(max(s.threshold, 0.0), 1.0))
    parts.append(_line(at, _y(0), at, _y(1), "ink", 'stroke-dasharray="3 3"'))
    return _svg(f"totals by label, {s.name}", parts)


def draw_weights(result: TuningResult) -> str:
    """Share of the total weight: a bar before, a dot with the 95% range of refits after."""
    row = 26
    height = TOP + row * len(result.criteria) + 8
    ends = [c.share_before for c in result.criteria]
    ends += [max(c.share_after.high, c.share_after.value) for c in result.criteria if c.share_after]
    maximum = max([*ends, 1e-9])
    start, room = 120, WIDTH - 120 - RIGHT
    parts = []
    for i, c in enumerate(result.criteria):
        y = TOP + row * i + row / 2
        name = c.name if len(c.name) <= 18 else c.name[:17] + "…"
        parts.append(_label(start - 6, y + 4, name, "end"))
        parts.append(
            f'<rect x="{start}" y="{y - 7:.1f}" width="{room * c.share_before / maximum:.1f}" '
            'height="14" fill="var(--line)"/>'
        )
        if (share := c.share_after) is not None:
            low, high, at = (
                start + room * v / maximum for v in (share.low, share.high, share.value)
            )
            parts.append(_line(low, y, high, y, "a", 'stroke-width="2"'))
            parts.append(f'<circle cx="{at:.1f}" cy="{y:.1f}" r="4" fill="var(--a)"/>')
    return _svg("weights before and after", parts, height)


def draw_learning_curve(curve: Sequence[LearningCurvePoint], sign: float) -> str:
    """Mean held-out value by number of labels, and its 5th percentile."""
    if not curve:
        return _svg("learning curve", [_label(WIDTH / 2, HEIGHT / 2, "not enough labels")])
    values = [sign * v for p in curve for v in (p.value, p.low)]
    low, top = min([*values, 0.0]), max(values)
    top = top if top > low else low + 1.0
    maximum = curve[-1].labels
    parts = _axes(low, top)
    spots = [(_x(p.labels / maximum), p) for p in curve]
    for color, pick in (("a", 0), ("dim", 1)):
        line = " ".join(
            f"{x:.1f},{_y((sign * (p.value, p.low)[pick] - low) / (top - low)):.1f}"
            for x, p in spots
        )
        parts.append(f'<polyline points="{line}" fill="none" stroke="var(--{color})"/>')
    parts += [_label(x, HEIGHT - 8, f"{p.labels}") for x, p in spots]
    return _svg("learning curve", parts)


def draw_periods(periods: Sequence[Period]) -> str:
    """Sensitivity and specificity by month, with their intervals."""
    parts = _axes()
    width = 1 / max(len(periods), 1)
    for color, shift, rates in (
        ("a", -0.08, [p.sensitivity for p in periods]),
        ("b", 0.08, [p.specificity for p in periods]),
    ):
        points = []
        for n, rate in enumerate(rates):
            if rate is None:
                continue
            x, y = _x((n + 0.5 + shift) * width), _y(rate.value)
            points.append(f"{x:.1f},{y:.1f}")
            if not math.isnan(rate.low):
                parts.append(_line(x, _y(rate.low), x, _y(rate.high), color, 'stroke-width="2"'))
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="var(--{color})"/>')
        line = " ".join(points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="var(--{color})"/>')
    every = max(1, -(-len(periods) // 5))
    parts += [
        _label(_x((n + 0.5) * width), HEIGHT - 8, p.month)
        for n, p in enumerate(periods)
        if n % every == 0
    ]
    return _svg("agreement by month", parts)
