"""Statistics as one self-contained HTML page: charts by day, then tables; no script, no network."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta

from markupsafe import Markup

from orchestrator.app.statistics.statistics_document import Figures, Grouping, Statistics
from orchestrator.report import svg_shapes as svg
from orchestrator.report.page_templates import (
    PageSection,
    charts,
    element,
    html,
    join,
    render_document,
    table,
)
from orchestrator.report.statistics.text_and_csv import (
    dollars,
    duration,
    overview,
    percent,
    table_of,
    tokens,
)

MAX_DAYS = 90
LISTED = 100

Days = Sequence[tuple[str, Figures | None]]
Value = Callable[[Figures], float | None]
Show = Callable[[float | None], str]


def render_page(statistics: Statistics) -> str:
    """The page, ending in a newline."""
    total = statistics.total
    facts = [f"{percent(total.completion)} of those that ended are complete"]
    if total.usd:
        facts.append(f"{dollars(total.usd)} spent")
    if total.review_seconds.p95 is not None:
        facts.append(f"95% took at most {duration(total.review_seconds.p95)}")
    return render_document(
        "statistics.html",
        "Statistics of reviews",
        page_sections(statistics),
        total=total,
        since=statistics.since,
        until=statistics.until,
        lead=", ".join(facts) if total.reviews else "Nothing to count yet",
    )


def page_sections(statistics: Statistics) -> list[PageSection]:
    """The parts of the page below its heading."""
    days = _every_day(statistics)
    groups: tuple[tuple[Grouping, str], ...] = (
        ("pattern", "Patterns"), ("agent", "Agents"), ("tool", "Tools"), ("model", "Models"),
        ("rule", "Rules"),
    )  # fmt: skip
    return [
        PageSection("overview", "Overview", _overview(statistics)),
        PageSection("days", "By day", _charts(days)),
        *(PageSection(by, heading, _group(statistics, by)) for by, heading in groups),
        PageSection(
            "broken",
            "Not counted",
            element("bullets", [f"{one.run_id}: {one.why}" for one in statistics.broken]),
        ),
    ]


def _overview(statistics: Statistics) -> Markup:
    return join(
        html("<p><strong>{}</strong> {}</p>", name, " · ".join(filter(None, parts)))
        for name, parts in overview(statistics)
    )


def _group(statistics: Statistics, by: Grouping) -> Markup:
    titles, rows, left = table_of(statistics, by, LISTED)
    more = html('<p class="soft">and {:,} more, in the CSV</p>', left) if left else Markup()
    return table(by, (by, *titles), rows) + more


def _every_day(statistics: Statistics) -> Days:
    """Each of the newest days, also those without a run."""
    known: Mapping[str, Figures] = {day.day: day.figures for day in statistics.days}
    if not known:
        return []
    last = date.fromisoformat(max(known))
    count = min((last - date.fromisoformat(min(known))).days + 1, MAX_DAYS)
    days = [(last - timedelta(days=back)).isoformat() for back in reversed(range(count))]
    return [(day, known.get(day)) for day in days]


def _charts(days: Days) -> Markup:
    if not days:
        return Markup()
    times = _lines(days, "Time of a review", duration, ("median", lambda f: f.review_seconds.p50),
                   ("95th percentile", lambda f: f.review_seconds.p95))  # fmt: skip
    figures = [
        ("Reviews", "by how they ended", _stacked(days)),
        ("Time of a review", "of the reviews of the day", times),
        ("Tool calls that failed", "of those performed",
         _lines(days, "Share, %", percent, ("", lambda f: f.tool_error_rate))),
        ("Findings", "different ones", _bars(days, "Findings", lambda f: f.findings.found)),
    ]  # fmt: skip
    if any(found and found.input_tokens for _, found in days):
        used = _bars(days, "Tokens", lambda f: f.input_tokens + f.output_tokens, tokens)
        cost = _lines(days, "US dollars", dollars, ("", lambda f: f.usd_per_task))
        shares = _lines(days, "Share, %", percent, ("", lambda f: f.cache_share))
        figures += [
            ("Cost", "of the day", _bars(days, "US dollars", lambda f: f.usd, dollars)),
            ("Cost of a task", "mean of the day", cost),
            ("Tokens", "input and output", used),
            ("Cache share", "of the input tokens", shares),
        ]
    return charts(*figures)


def _count(value: float | None) -> str:
    return f"{value:,.0f}"


def _up(share: float) -> float:
    """Where a share of the highest value is; above it, its label has room."""
    return svg.y(0.88 * share)


def _frame(
    days: Days, top: float, what: str, show: Show, series: Sequence[tuple[int, str]] = ()
) -> list[Markup]:
    """Axes with the highest value, and the first and last day."""
    parts = svg.titles(what, "Day (UTC)", series)
    parts += [svg.line(svg.x(0), _up(share), svg.x(1), _up(share), "line") for share in (0, 1)]
    parts += [
        svg.label(svg.x(0), _up(1) - 8, show(top), "start"),
        svg.label(svg.x(0) - 6, _up(0) + 4, "0", "end"),
    ]
    ends = sorted({0, len(days) - 1})
    return parts + svg.tick_labels((svg.x((n + 0.5) / len(days)), days[n][0]) for n in ends)


def _bar(number: int, days: Days, bottom: float, top: float, kind: int, title: str) -> Markup:
    wide = (svg.x(1) - svg.x(0)) / len(days)
    gap = min(wide * 0.2, 4)
    left, height = svg.x(0) + wide * number + gap / 2, _up(bottom) - _up(top)
    return svg.bar(kind, left, _up(top), wide - gap, height, title) if height else Markup()


def _stacked(days: Days) -> Markup:
    most = max(figures.reviews if figures else 0 for _, figures in days) or 1
    parts = _frame(days, most, "Reviews", _count, [(svg.FULL, "complete"), (svg.BAR, "others")])
    for number, (day, figures) in enumerate(days):
        if figures is None:
            continue
        done, every = figures.complete / most, figures.reviews / most
        label = f"{day}: {figures.complete:,} complete of {figures.reviews:,}"
        parts += [
            _bar(number, days, 0, done, svg.FULL, label),
            _bar(number, days, done, every, svg.BAR, label),
        ]
    return svg.drawing("reviews by day", parts)


def _bars(days: Days, what: str, value: Value, show: Show = _count) -> Markup:
    values = [(value(figures) if figures else None) or 0.0 for _, figures in days]
    most = max(values) or 1.0
    parts = _frame(days, most, what, show)
    for number, ((day, _), height) in enumerate(zip(days, values, strict=True)):
        parts.append(_bar(number, days, 0, height / most, svg.FULL, f"{day}: {show(height)}"))
    return svg.drawing(f"{what} by day", parts)


def _lines(days: Days, what: str, show: Show, *values: tuple[str, Value]) -> Markup:
    """A line for each value, with a dot for each day that has one."""
    series = [[value(figures) if figures else None for _, figures in days] for _, value in values]
    most = max((one for line_ in series for one in line_ if one is not None), default=0.0) or 1.0
    names = [(kind, name) for kind, (name, _) in enumerate(values) if name]
    parts = _frame(days, most, what, show, names)
    for kind, known in enumerate(series):
        spots = [
            (svg.x((number + 0.5) / len(days)), _up(one / most), day, one)
            for number, ((day, _), one) in enumerate(zip(days, known, strict=True))
            if one is not None
        ]
        parts.append(svg.series_line(kind, [spot[:2] for spot in spots]))
        parts += [svg.mark(kind, at, up, 3, f"{day}: {show(one)}") for at, up, day, one in spots]
    return svg.drawing(f"{what} by day", parts)
