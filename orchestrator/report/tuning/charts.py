"""Charts of the tuning page as SVG: they shrink with the page and take its colors."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from orchestrator.report.svg_shapes import (
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    circle,
    label,
    line,
    polyline,
    rect,
    svg,
)
from orchestrator.report.svg_shapes import x as to_x
from orchestrator.report.svg_shapes import y as to_y
from orchestrator.tuning.fitting.calibration import ReliabilityBin
from orchestrator.tuning.fitting.cross_validation import LearningCurvePoint
from orchestrator.tuning.labels.drift import Period
from orchestrator.tuning.tuning_result import TotalHistogram, TuningResult


def _axes(low: float = 0.0, top: float = 1.0) -> list[Markup]:
    """Both axes; the vertical one from ``low`` to ``top``."""
    parts = [
        line(to_x(0), to_y(0), to_x(1), to_y(0), "line"),
        line(to_x(0), to_y(0), to_x(0), to_y(1), "line"),
    ]
    return parts + [
        label(LEFT - 5, to_y(share) + 4, f"{low + share * (top - low):.2f}", "end")
        for share in (0.0, 0.5, 1.0)
    ]


def draw_reliability_diagram(curve: Sequence[ReliabilityBin]) -> Markup:
    """Predicted against observed probability; a dot's area is proportional to its items."""
    parts = _axes()
    parts += [label(to_x(s), HEIGHT - 8, f"{s:.1f}") for s in (0.0, 0.5, 1.0)]
    parts.append(line(to_x(0), to_y(0), to_x(1), to_y(1), "line", stroke_dasharray="4 4"))
    maximum = max((b.weight for b in curve), default=1.0)
    for b in curve:
        x, y = to_x(b.mean_predicted), to_y(b.fraction_accepted)
        radius = 2.5 + 6 * (b.weight / maximum) ** 0.5
        rates = f"predicted {b.mean_predicted:.2f}, accepted {b.fraction_accepted:.2f}"
        title = f"{b.weight:g} items: {rates}"
        parts.append(circle(x, y, radius, "a", title, fill_opacity=".75"))
    return svg("reliability diagram", parts)


def draw_histogram(s: TotalHistogram) -> Markup:
    """Totals of accepted items above the axis, of rejected ones below, and the threshold."""
    steps = len(s.accepted)
    maximum = max((*s.accepted, *s.rejected, 1.0))
    middle, half = (to_y(0) + to_y(1)) / 2, (to_y(0) - to_y(1)) / 2
    parts = [label(to_x(v), HEIGHT - 8, f"{v:.1f}") for v in (0.0, 0.5, 1.0)]
    for i in range(steps):
        x, wide = to_x(i / steps), (to_x(1) - to_x(0)) / steps - 1
        for count, color, up in ((s.accepted[i], "a", True), (s.rejected[i], "b", False)):
            height = half * count / maximum
            top = middle - height if up else middle
            parts.append(rect(x, top, wide, height, color, f"{count:g}"))
    parts.append(line(to_x(0), middle, to_x(1), middle, "line"))
    at = to_x(min(max(s.threshold, 0.0), 1.0))
    parts.append(line(at, to_y(0), at, to_y(1), "ink", stroke_dasharray="3 3"))
    return svg(f"totals by label, {s.name}", parts)


def draw_weights(result: TuningResult) -> Markup:
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
        parts.append(label(start - 6, y + 4, name, "end"))
        parts.append(rect(start, y - 7, room * c.share_before / maximum, 14, "line"))
        if (share := c.share_after) is not None:
            low, high, at = (
                start + room * v / maximum for v in (share.low, share.high, share.value)
            )
            parts.append(line(low, y, high, y, "a", stroke_width="2"))
            parts.append(circle(at, y, 4, "a"))
    return svg("weights before and after", parts, height)


def draw_learning_curve(curve: Sequence[LearningCurvePoint], sign: float) -> Markup:
    """Mean held-out value by number of labels, and its 5th percentile."""
    if not curve:
        return svg("learning curve", [label(WIDTH / 2, HEIGHT / 2, "not enough labels")])
    values = [sign * v for p in curve for v in (p.value, p.low)]
    low, top = min([*values, 0.0]), max(values)
    top = top if top > low else low + 1.0
    maximum = curve[-1].labels
    parts = _axes(low, top)
    spots = [(to_x(p.labels / maximum), p) for p in curve]
    for color, pick in (("a", 0), ("dim", 1)):
        heights = [(sign * (p.value, p.low)[pick] - low) / (top - low) for p in curve]
        points = [(x, to_y(share)) for (x, _), share in zip(spots, heights, strict=True)]
        parts.append(polyline(points, color))
    parts += [label(x, HEIGHT - 8, f"{p.labels}") for x, p in spots]
    return svg("learning curve", parts)


def draw_periods(periods: Sequence[Period]) -> Markup:
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
            x, y = to_x((n + 0.5 + shift) * width), to_y(rate.value)
            points.append((x, y))
            if not math.isnan(rate.low):
                parts.append(line(x, to_y(rate.low), x, to_y(rate.high), color, stroke_width="2"))
            parts.append(circle(x, y, 3.5, color))
        parts.append(polyline(points, color))
    every = max(1, -(-len(periods) // 5))
    parts += [
        label(to_x((n + 0.5) * width), HEIGHT - 8, p.month)
        for n, p in enumerate(periods)
        if n % every == 0
    ]
    return svg("agreement by month", parts)
