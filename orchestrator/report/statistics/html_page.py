"""Statistics as one self-contained HTML page: charts by day, then tables; no script, no network."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta

from orchestrator.app.statistics.document import Figures, Grouping, Statistics
from orchestrator.report.figure_pages import PageSection, render_document, table
from orchestrator.report.html_elements import bullets, figure, text
from orchestrator.report.statistics.text_and_csv import (
    dollars,
    duration,
    overview,
    percent,
    table_of,
    tokens,
)
from orchestrator.report.svg_parts import HEIGHT, label, line, svg, x, y

MAX_DAYS = 90
LISTED = 100

Days = Sequence[tuple[str, Figures | None]]
Value = Callable[[Figures], float | None]


def render_page(statistics: Statistics) -> str:
    """The page, ending in a newline."""
    return render_document("Statistics of reviews", _head(statistics), page_sections(statistics))


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
            bullets(f"{broken.run_id}: {broken.why}" for broken in statistics.broken),
        ),
    ]


def _overview(statistics: Statistics) -> str:
    return "".join(
        f"<p><strong>{text(name)}</strong> {text(' · '.join(filter(None, parts)))}</p>"
        for name, parts in overview(statistics)
    )


def _head(statistics: Statistics) -> str:
    total = statistics.total
    since = f"Runs since {statistics.since[:10]}, " if statistics.since else "All runs, "
    noun = "review" if total.reviews == 1 else "reviews"
    facts = [f"{percent(total.completion)} of those that ended are complete"]
    if total.usd:
        facts.append(f"{dollars(total.usd)} spent")
    if total.review_seconds.p95 is not None:
        facts.append(f"95% took at most {duration(total.review_seconds.p95)}")
    lead = ", ".join(facts) if total.reviews else "Nothing to count yet"
    return (
        f'<p class="small soft">{text(since)}computed {text(statistics.until[:16])} UTC</p>'
        f'<h1>{total.reviews:,} {noun}</h1><p class="lead">{text(lead)}.</p>'
    )


def _group(statistics: Statistics, by: Grouping) -> str:
    titles, rows, left = table_of(statistics, by, LISTED)
    more = f'<p class="soft">and {left:,} more, in the CSV</p>' if left else ""
    return table(by, (by, *titles), [[text(cell) for cell in row] for row in rows]) + more


def _every_day(statistics: Statistics) -> Days:
    """Each of the newest days, also those without a run."""
    known: Mapping[str, Figures] = {day.day: day.figures for day in statistics.days}
    if not known:
        return []
    last = date.fromisoformat(max(known))
    count = min((last - date.fromisoformat(min(known))).days + 1, MAX_DAYS)
    days = [(last - timedelta(days=back)).isoformat() for back in reversed(range(count))]
    return [(day, known.get(day)) for day in days]


def _charts(days: Days) -> str:
    if not days:
        return ""
    charts = [
        figure("Reviews", "complete; above them in orange the others", _stacked(days)),
        figure(
            "Time of a review",
            "median, and in orange the 95th percentile",
            _lines(days, duration, lambda f: f.review_seconds.p50, lambda f: f.review_seconds.p95),
        ),
        figure(
            "Tool calls that failed",
            "share of those performed",
            _lines(days, percent, lambda f: f.tool_error_rate),
        ),
        figure("Findings", "different ones", _bars(days, "findings", lambda f: f.findings.found)),
    ]
    if any(figures and figures.input_tokens for _, figures in days):
        charts += [
            figure("Cost", "of the day", _bars(days, "cost", lambda f: f.usd, dollars)),
            figure(
                "Cost of a task", "mean of the day", _lines(days, dollars, lambda f: f.usd_per_task)
            ),
            figure(
                "Tokens",
                "input and output",
                _bars(days, "tokens", lambda f: f.input_tokens + f.output_tokens, tokens),
            ),
            figure(
                "Cache share", "of the input tokens", _lines(days, percent, lambda f: f.cache_share)
            ),
        ]
    return f'<div class="charts">{"".join(charts)}</div>'


def _count(value: float | None) -> str:
    return f"{value:,.0f}"


def _up(share: float) -> float:
    """Where a share of the highest value is; above it, its label has room."""
    return y(0.93 * share)


def _frame(days: Days, top: float, show: Callable[[float], str]) -> list[str]:
    """Axes with the highest value, and the first and last day."""
    parts = [line(x(0), _up(share), x(1), _up(share), "line") for share in (0, 1)]
    parts.append(label(x(0), _up(1) - 4, show(top), "start"))
    ends = [(x(0), days[0][0], "start")]
    if len(days) > 1:
        ends.append((x(1), days[-1][0], "end"))
    return parts + [label(at, HEIGHT - 8, day, anchor) for at, day, anchor in ends]


def _bar(number: int, days: Days, bottom: float, top: float, color: str, what: str) -> str:
    wide = (x(1) - x(0)) / len(days)
    gap = min(wide * 0.2, 4)
    return (
        f'<rect x="{x(0) + wide * number + gap / 2:.1f}" y="{_up(top):.1f}" '
        f'width="{wide - gap:.1f}" height="{_up(bottom) - _up(top):.1f}" fill="var(--{color})">'
        f"<title>{text(what)}</title></rect>"
    )


def _stacked(days: Days) -> str:
    most = max(figures.reviews if figures else 0 for _, figures in days) or 1
    parts = _frame(days, most, _count)
    for number, (day, figures) in enumerate(days):
        if figures is None:
            continue
        done, every = figures.complete / most, figures.reviews / most
        said = f"{day}: {figures.complete:,} complete of {figures.reviews:,}"
        parts += [
            _bar(number, days, 0, done, "a", said),
            _bar(number, days, done, every, "b", said),
        ]
    return svg("reviews by day", parts)


def _bars(days: Days, what: str, value: Value, show: Callable[[float | None], str] = _count) -> str:
    values = [(value(figures) if figures else None) or 0.0 for _, figures in days]
    most = max(values) or 1.0
    parts = _frame(days, most, show)
    for number, ((day, _), height) in enumerate(zip(days, values, strict=True)):
        parts.append(_bar(number, days, 0, height / most, "a", f"{day}: {show(height)}"))
    return svg(f"{what} by day", parts)


def _lines(days: Days, show: Callable[[float | None], str], *values: Value) -> str:
    """A line for each value, with a dot for each day that has one."""
    series = [[value(figures) if figures else None for _, figures in days] for value in values]
    most = max((one for line_ in series for one in line_ if one is not None), default=0.0) or 1.0
    parts = _frame(days, most, show)
    for color, known in zip(("a", "b"), series, strict=False):
        spots = [
            (x((number + 0.5) / len(days)), _up(one / most), day, one)
            for number, ((day, _), one) in enumerate(zip(days, known, strict=True))
            if one is not None
        ]
        points = " ".join(f"{at:.1f},{up:.1f}" for at, up, _, _ in spots)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="var(--{color})" stroke-width="1.5"/>'
        )
        parts += [
            f'<circle cx="{at:.1f}" cy="{up:.1f}" r="2.5" fill="var(--{color})">'
            f"<title>{text(f'{day}: {show(one)}')}</title></circle>"
            for at, up, day, one in spots
        ]
    return svg("by day", parts)
