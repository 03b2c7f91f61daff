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
from orchestrator.tuning.ordinal_agreement import OrdinalAgreement
from orchestrator.tuning.statistics.confidence_intervals import Interval, rate_interval
from orchestrator.tuning.tune import TuningResult


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


def _marks() -> list[Markup]:
    """Labels of the horizontal axis from 0 to 1; the last one ends with the axis."""
    ends = ((0.0, "middle"), (0.5, "middle"), (1.0, "end"))
    return [label(to_x(share), HEIGHT - 8, f"{share:.1f}", side) for share, side in ends]


def draw_reliability_diagram(curve: Sequence[ReliabilityBin]) -> Markup:
    """Predicted against observed probability; a dot's area is proportional to its items."""
    parts = _axes()
    parts += _marks()
    parts.append(line(to_x(0), to_y(0), to_x(1), to_y(1), "line", stroke_dasharray="4 4"))
    maximum = max((b.weight for b in curve), default=1.0)
    for b in curve:
        x, y = to_x(b.mean_predicted), to_y(b.fraction_accepted)
        radius = 2.5 + 6 * (b.weight / maximum) ** 0.5
        rates = f"predicted {b.mean_predicted:.2f}, accepted {b.fraction_accepted:.2f}"
        title = f"{b.weight:g} items: {rates}"
        spread = b.fraction_accepted * (1.0 - b.fraction_accepted) / b.weight
        bounds = rate_interval(b.fraction_accepted, spread, b.weight, round(b.weight))
        if not math.isnan(bounds.low):
            parts.append(line(x, to_y(bounds.low), x, to_y(bounds.high), "dim"))
        parts.append(circle(x, y, radius, "a", title, fill_opacity=".75"))
    return svg("reliability diagram", parts)


def draw_weights(result: TuningResult) -> Markup:
    """Share of the total weight: a bar before, a dot with the 95% range of refits after."""
    rows = [(c.name, c.share_after, c.share_before) for c in result.criteria]
    return draw_intervals("weights before and after", rows)


def draw_intervals(
    name: str, rows: Sequence[tuple[str, Interval | None, float]], top: float = 0.0
) -> Markup:
    """A row each: a bar from 0, and a dot with its interval.

    Args:
        rows: what it is, the dot, and where the bar ends.
        top: the least value at which the axis may end.
    """
    row, start, room = 26, 120, WIDTH - 120 - RIGHT
    ends = [0.0, top, *(bar for _, _, bar in rows)]
    for _, found, _ in rows:
        ends += [] if found is None else [found.low, found.value, found.high]
    ends = [end for end in ends if not math.isnan(end)]
    least, most = min(ends), max([*ends, 1e-9])

    def at(value: float) -> float:
        return start + room * (value - least) / (most - least)

    height = TOP + row * len(rows) + 24
    parts = [line(at(0.0), TOP, at(0.0), height - 22, "line")]
    for i, (what, found, bar) in enumerate(rows):
        y = TOP + row * i + row / 2
        shown = what if len(what) <= 18 else what[:17] + "…"
        parts.append(label(start - 6, y + 4, shown, "end"))
        parts.append(rect(min(at(0.0), at(bar)), y - 7, abs(at(bar) - at(0.0)), 14, "line"))
        if found is not None:
            if not math.isnan(found.low):
                parts.append(line(at(found.low), y, at(found.high), y, "a", stroke_width="2"))
            parts.append(circle(at(found.value), y, 4, "a", found.format()))
    marks = sorted({least, 0.0, most})
    parts += [
        label(
            at(v),
            height - 8,
            f"{v:.2f}",
            "end" if v == most else "start" if v == least else "middle",
        )
        for v in marks
        if v in (least, most) or min(at(v) - start, at(most) - at(v)) > 36
    ]
    return svg(name, parts, height)


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
    parts += [
        label(x, HEIGHT - 8, f"{p.labels}", "end" if p is curve[-1] else "middle") for x, p in spots
    ]
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


def draw_levels(found: OrdinalAgreement) -> Markup:
    """People's level (across) and the rubric's (up); a dot's area is the number of labels."""
    steps, most = len(found.values), max(max(row) for row in found.table)
    parts = [line(to_x(0), to_y(0), to_x(1), to_y(0), "line"),
             line(to_x(0), to_y(0), to_x(0), to_y(1), "line")]  # fmt: skip
    for i, name in enumerate(found.values):
        place = (i + 0.5) / steps
        parts.append(label(to_x(place), HEIGHT - 8, name))
        parts.append(label(LEFT - 5, to_y(place) + 4, name, "end"))
        for j, count in enumerate(found.table[i]):
            radius = 0.45 * (to_y(0) - to_y(1)) / steps * (count / most) ** 0.5
            title = f"people {name}, rubric {found.values[j]}: {count:.3g}"
            color = "a" if i == j else "b"
            parts.append(circle(to_x(place), to_y((j + 0.5) / steps), radius, color, title))
    return svg("levels of people and rubric", parts)
