"""Charts of the tuning page as SVG: they shrink with the page and take its colors."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from orchestrator.report import svg_shapes as svg
from orchestrator.report.page_templates import join
from orchestrator.tuning.fitting.calibration import ReliabilityBin
from orchestrator.tuning.fitting.cross_validation import LearningCurvePoint
from orchestrator.tuning.labels.drift import Period
from orchestrator.tuning.ordinal_agreement import OrdinalAgreement
from orchestrator.tuning.statistics.confidence_intervals import Interval, rate_interval

ROWS = 20
"""Rows of one drawing: those of more fit a sheet of paper."""


def _grid(low: float, top: float) -> list[Markup]:
    """The vertical axis from ``low`` to ``top``, with a line across for each tick."""
    parts = []
    for value, name in svg.nice_ticks(low, top):
        height = svg.y((value - low) / (top - low))
        parts.append(svg.line(svg.x(0), height, svg.x(1), height, "line"))
        parts.append(svg.label(svg.LEFT - 6, height + 4, name, "end"))
    return parts


def draw_reliability_diagram(curve: Sequence[ReliabilityBin]) -> Markup:
    """Predicted against observed probability; a dot's area is proportional to its items."""
    parts = svg.titles(
        "Accepted by people, %", "Predicted, %", [(0, "items, 95%"), (svg.DASH, "as predicted")]
    )
    parts += _grid(0.0, 100.0)
    parts += svg.tick_labels((svg.x(n / 100), f"{n}") for n in range(0, 101, 20))
    parts.append(svg.series_line(svg.DASH, [(svg.x(0), svg.y(0)), (svg.x(1), svg.y(1))]))
    maximum = max((b.weight for b in curve), default=1.0)
    for b in curve:
        x, y = svg.x(b.mean_predicted), svg.y(b.fraction_accepted)
        radius = 2.5 + 5 * (b.weight / maximum) ** 0.5
        rates = f"predicted {b.mean_predicted:.2f}, accepted {b.fraction_accepted:.2f}"
        spread = b.fraction_accepted * (1.0 - b.fraction_accepted) / b.weight
        bounds = rate_interval(b.fraction_accepted, spread, b.weight, round(b.weight))
        if not math.isnan(bounds.low):
            parts.append(svg.line(x, svg.y(bounds.low), x, svg.y(bounds.high), "dim"))
        parts.append(svg.mark(0, x, y, radius, f"{b.weight:g} items: {rates}"))
    return svg.drawing("reliability diagram", parts)


def draw_intervals(
    name: str,
    rows: Sequence[tuple[str, Interval | None, float]],
    axis: str,
    top: float = 0.0,
    series: Sequence[tuple[int, str]] = (),
) -> Markup:
    """A row each: its name and value, below them a bar from 0, and a dot with its interval.

    Args:
        rows: what it is, the dot, and where the bar ends.
        axis: what is measured, with its unit.
        top: the least value at which the axis may end.
        series: kinds of marks, and what they are.
    """
    known = [found for _, found, _ in rows if found is not None]
    ends = [0.0, top, *(end for _, _, end in rows)]
    ends += [v for one in known for v in (one.low, one.value, one.high) if not math.isnan(v)]
    least, most = min(ends), max(ends)
    most = most if most > least else least + 1.0
    ticks = svg.nice_ticks(least, most)

    def at(value: float) -> float:
        return 10 + (svg.WIDTH - 20) * (value - least) / (most - least)

    drawings = []
    for start in range(0, max(len(rows), 1), ROWS):
        part, first = rows[start : start + ROWS], 34 if series else 8
        height = first + 38 * len(part) + 40
        shapes = svg.titles("", axis, series, height=height)
        for i, (what, found, end) in enumerate(part):
            y = first + 38 * i
            value = "" if found is None else found.format()
            shapes.append(svg.label(svg.WIDTH - 2, y + 8, value, "end"))
            shapes.append(
                svg.label(2, y + 8, svg.fit(what, svg.WIDTH - 12 - svg.text_width(value)), "start")
            )
            shapes += [
                svg.line(at(v), y + 14, at(v), y + 28, "line" if v else "dim") for v, _ in ticks
            ]
            if end:
                left, right = sorted((at(0.0), at(end)))
                shapes.append(svg.bar(svg.BAR, left, y + 16, right - left, 10))
            if found is not None and not math.isnan(found.low):
                low, high = (at(found.low), y + 21), (at(found.high), y + 21)
                shapes.append(svg.series_line(0, [low, high]))
            if found is not None and not math.isnan(found.value):
                shapes.append(svg.mark(0, at(found.value), y + 21, 4, found.format()))
        shapes += svg.tick_labels([(at(v), tick) for v, tick in ticks], height)
        drawings.append(svg.drawing(name, shapes, height))
    return join(drawings)


def draw_learning_curve(
    curve: Sequence[LearningCurvePoint], sign: float, measure: str = "kappa"
) -> Markup:
    """Mean held-out value by number of labels, and its 5th percentile."""
    if not curve:
        return svg.drawing(
            "learning curve", [svg.label(svg.WIDTH / 2, 20, "not enough labels")], 40
        )
    values = [sign * v for p in curve for v in (p.value, p.low)]
    low, top = min([*values, 0.0]), max([*values, 0.0])
    top = top if top > low else low + 1.0
    maximum = curve[-1].labels
    parts = svg.titles(
        f"Held-out {measure}", "Labeled items in training", [(0, "mean"), (1, "worst 5%")]
    )
    parts += _grid(low, top)
    for kind, heights in enumerate(([p.value for p in curve], [p.low for p in curve])):
        points = [
            (svg.x(p.labels / maximum), svg.y((sign * value - low) / (top - low)))
            for p, value in zip(curve, heights, strict=True)
        ]
        parts.append(svg.series_line(kind, points))
        parts += [svg.mark(kind, *point, 3.5) for point in points]
    parts += svg.tick_labels((svg.x(p.labels / maximum), f"{p.labels:,}") for p in curve)
    return svg.drawing("learning curve", parts)


def draw_periods(periods: Sequence[Period]) -> Markup:
    """Sensitivity and specificity by month, with their intervals."""
    parts = svg.titles(
        "Judge agrees, % of people's decisions", "Month", [(0, "accepted"), (1, "rejected, 95%")]
    )
    parts += _grid(0.0, 100.0)
    width = 1 / max(len(periods), 1)
    for kind, rates in enumerate(
        zip(*((p.sensitivity, p.specificity) for p in periods), strict=True)
    ):
        places = [svg.x((n + 0.38 + 0.24 * kind) * width) for n in range(len(periods))]
        known = [(x, rate) for x, rate in zip(places, rates, strict=True) if rate is not None]
        for x, rate in known:
            if not math.isnan(rate.low):
                parts.append(svg.series_line(kind, [(x, svg.y(rate.low)), (x, svg.y(rate.high))]))
        points = [(x, svg.y(rate.value)) for x, rate in known]
        parts.append(svg.series_line(kind, points))
        parts += [svg.mark(kind, *point, 3.5) for point in points]
    parts += svg.tick_labels((svg.x((n + 0.5) * width), p.month) for n, p in enumerate(periods))
    return svg.drawing("agreement by month", parts)


def draw_levels(found: OrdinalAgreement) -> Markup:
    """People's level (across) and the rubric's (up); a dot's area is the number of labels."""
    names, steps = found.values, len(found.values)
    most = max(max(row) for row in found.table)
    left = max(svg.LEFT, min(110.0, 8 + max(map(svg.text_width, names))))
    wide, high = (svg.x(1) - left) / steps, (svg.y(0) - svg.y(1)) / steps
    parts = svg.titles("Rubric's level", "People's level", [(0, "the same"), (1, "apart")])
    spots = [(left + (i + 0.5) * wide, svg.y((i + 0.5) / steps)) for i in range(steps)]
    for name, (_, y) in [*zip(names, spots, strict=True)][:: math.ceil(steps / 10)]:
        parts.append(svg.line(left, y, svg.x(1), y, "line"))
        parts.append(svg.label(left - 6, y + 4, svg.fit(name, left - 8), "end"))
    for i, row in enumerate(found.table):
        for j, count in enumerate(row):
            if count:
                radius = max(2.0, 0.45 * high * (count / most) ** 0.5)
                title = f"people {names[i]}, rubric {names[j]}: {count:.3g}"
                parts.append(svg.mark(int(i != j), spots[i][0], spots[j][1], radius, title))
    ticks = zip(names, spots, strict=True)
    parts += svg.tick_labels((x, svg.fit(name, max(wide - 6, 24))) for name, (x, _) in ticks)
    return svg.drawing("levels of people and rubric", parts)
