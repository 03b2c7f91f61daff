"""Every chart in a real browser, with usual and with extreme data: nothing lies over a text."""

from collections.abc import Callable
from pathlib import Path

import pytest
from markupsafe import Markup, escape

from orchestrator.app.statistics.all_runs import Collected, summarize
from orchestrator.app.statistics.run_facts import ModelCallFact, ToolCallFact
from orchestrator.report.page_templates import PageSection, charts, render_document
from orchestrator.report.statistics.html_page import page_sections
from orchestrator.report.svg_shapes import BAR
from orchestrator.report.tuning.charts import (
    draw_intervals,
    draw_learning_curve,
    draw_levels,
    draw_periods,
    draw_reliability_diagram,
)
from orchestrator.tuning.fitting.calibration import ReliabilityBin
from orchestrator.tuning.fitting.cross_validation import LearningCurvePoint
from orchestrator.tuning.labels.drift import Period
from orchestrator.tuning.ordinal_agreement import OrdinalAgreement
from orchestrator.tuning.statistics.confidence_intervals import Interval
from tests.report.browser import Browser, needs_axe, needs_chromium
from tests.report.test_statistics_metrics import collected, fact

pytestmark = needs_chromium

NONE = Interval(float("nan"), float("nan"), float("nan"))
LONG = "the change says why it is made, for whom and since when, in words of the reader"
NAMES = ("clear", LONG + " (a)", LONG + " (b)", "W" * 60, "語" * 40, "וזה כתוב מימין לשמאל" * 3)
KAPPA = "Kappa (1: always the same)"


def at(value: float, half: float = 0.1) -> Interval:
    return Interval(value, value - half, value + half)


def weights(count: int) -> Markup:
    rows = [
        (NAMES[n % 6], at(0.3 - n % 7 / 10, 0.05 * (n % 5)) if n % 6 else None, 1 / count)
        for n in range(count)
    ]
    series = [(0, "fitted, 95% of refits"), (BAR, "present")]
    return draw_intervals("w", rows, "Share of the total weight", 0.0, series)


def curve(*points: tuple[int, float, float]) -> list[LearningCurvePoint]:
    return [LearningCurvePoint(*point) for point in points]


def months(count: int) -> list[Period]:
    return [
        Period(f"20{20 + n // 12}-{1 + n % 12:02}", 30,
               None if n % 9 == 4 else at(0.9 - n % 4 / 10, 0.05), at(0.5 + n % 5 / 10) if n % 7 else Interval(1.0, 1.0, 1.0))
        for n in range(count)
    ]  # fmt: skip


def levels(names: tuple[str, ...], most: int = 40) -> OrdinalAgreement:
    table = tuple(
        tuple(float(most // (1 + 3 * abs(i - j))) for j in range(len(names)))
        for i in range(len(names))
    )
    return OrdinalAgreement(names, (0.5,) * (len(names) - 1), at(0.5), at(0.5), at(0.5), at(0.5), table)  # fmt: skip


def days(count: int, each: int = 3, usd: float = 0.4) -> Collected:
    runs = []
    for day in range(count):
        for n in range(each if day % 5 != 3 else 0):
            failed = "failed" if (day + n) % 3 == 0 else "ok"
            runs.append(fact(
                1000 * day + n, day + 0.5, seconds=30.0 * (1 + (day * 7 + n * 5) % 11) ** 2,
                status="incomplete" if (n + day) % 4 == 0 else "complete", usd=usd * (1 + day % 4),
                tool_calls=[ToolCallFact("qa", "typos", failed, True, 0.2)],
                model_calls=[ModelCallFact("qa", "m1", True, 2.0, 10**6 * (1 + day), 100, 800, usd)],
            ))  # fmt: skip
    return collected(*runs)


TUNING: dict[str, Callable[[], Markup]] = {
    "reliability": lambda: draw_reliability_diagram(
        [ReliabilityBin(p, o, w) for p, o, w in ((0.08, 0.1, 30), (0.3, 0.2, 25), (0.5, 0.55, 60), (0.72, 0.6, 20), (0.95, 1.0, 45))]
    ),
    "reliability, one point": lambda: draw_reliability_diagram([ReliabilityBin(1.0, 0.0, 1.0)]),
    "reliability, none": lambda: draw_reliability_diagram([]),
    "weights of 4": lambda: weights(4),
    "weights of 1": lambda: weights(1),
    "weights of 40": lambda: weights(40),
    "weights, all 0": lambda: draw_intervals("w", [("a", Interval(0, 0, 0), 0.0)] * 2, "Share"),
    "kappa": lambda: draw_intervals("k", [("A", at(0.4), 0.0), ("B", at(0.5), 0.0), ("B minus A", at(0.1, 0.2), 0.0)], KAPPA, 1.0),
    "kappa below 0": lambda: draw_intervals("k", [(NAMES[1], at(-0.9, 0.5), 0.0), ("n/a", NONE, 0.0)], KAPPA, 1.0),
    "learning curve": lambda: draw_learning_curve(curve((12, 0.1, -0.3), (25, 0.2, 0.0), (50, 0.3, 0.2), (100, 0.4, 0.3), (180, 0.41, 0.35)), 1.0),
    "learning curve of costs": lambda: draw_learning_curve(curve((5000, -12.5, -80.0), (10_000, -3.0, -14.0)), -1.0, "cost per decision"),
    "learning curve, all equal": lambda: draw_learning_curve(curve((30, 0.0, 0.0), (31, 0.0, 0.0), (32, 0.0, 0.0)), 1.0),
    "learning curve, one point": lambda: draw_learning_curve(curve((30, -0.2, -0.4)), 1.0),
    "learning curve, none": lambda: draw_learning_curve([], 1.0),
    "months": lambda: draw_periods(months(6)),
    "one month": lambda: draw_periods(months(1)),
    "40 months": lambda: draw_periods(months(40)),
    "levels of 5": lambda: draw_levels(levels(("1", "2", "3", "4", "5"))),
    "levels of 3": lambda: draw_levels(levels(("unacceptable", "needs changes", "excellent"))),
    "levels of 11": lambda: draw_levels(levels(tuple(map(str, range(11))), 1)),
    "levels of 20": lambda: draw_levels(levels(tuple(f"level {n}" for n in range(20)))),
}  # fmt: skip

SEEN = """[...document.querySelectorAll('figure svg')].map((svg) => {
  const name = svg.closest('figure').querySelector('figcaption').firstChild.textContent;
  const box = (one) => { const b = one.getBoundingClientRect(); return [b.left, b.top + 1, b.right, b.bottom - 1]; };
  const meet = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  const frame = box(svg);
  const texts = [...svg.querySelectorAll('text')].map((one) => [one.textContent, box(one)]);
  const marks = [...svg.querySelectorAll('circle, polygon, rect')].map((one) => [one.outerHTML.slice(0, 90), box(one)]);
  const wrong = [];
  texts.forEach(([text, b], at) => {
    if (b[0] < frame[0] - 1 || b[2] > frame[2] + 1 || b[1] < frame[1] - 1 || b[3] > frame[3] + 1) wrong.push(`outside: ${text}`);
    for (const [other, c] of [...texts.slice(at + 1), ...marks]) if (meet(b, c)) wrong.push(`${text} on ${other}`);
  });
  for (const [mark, b] of marks) if (b[0] < frame[0] || b[2] > frame[2] || b[1] < frame[1] || b[3] > frame[3] + 1) wrong.push(`outside: ${mark}`);
  const size = Math.min(...[...svg.querySelectorAll('text')].map((one) => parseFloat(getComputedStyle(one).fontSize) * svg.clientWidth / svg.viewBox.baseVal.width));
  if (size < 11) wrong.push(`letters of ${size} pixels`);
  const kinds = (color) => [...svg.querySelectorAll(`[stroke="var(--${color})"], [fill="var(--${color})"]`)]
    .map((one) => one.tagName + one.getAttribute('stroke-dasharray') + one.getAttribute('fill')?.includes('card'));
  const first = new Set(kinds('a'));
  for (const kind of kinds('b')) if (first.has(kind)) wrong.push(`only a color tells: ${kind}`);
  return [name, wrong];
}).filter(([, wrong]) => wrong.length)"""


def write(folder: Path, what: str) -> Path:
    body = (
        charts(*((name, "with a note", draw()) for name, draw in TUNING.items()))
        if what == "tuning"
        else Markup().join(
            page_sections(summarize(found))[1].body
            for found in (days(1), days(4), days(89, 40, 123.4), days(30, 2, 0.0))
        )
    )
    file = folder / f"{what}.html"
    sections = [PageSection("charts", "Charts", body)]
    shown = render_document("conclusion.html", "Charts", sections, subject="", word="Trusted", conclusion={"sentence": "", "reasons": []})  # fmt: skip
    file.write_text(shown, encoding="utf-8")
    return file


@needs_axe
@pytest.mark.parametrize("what", ["tuning", "statistics"])
def test_no_text_of_a_chart_lies_over_anything_or_is_small_or_needs_a_color(
    what: str, browser: Browser, tmp_path: Path
) -> None:
    page = browser.new_page()
    for look in page.looks(
        write(tmp_path, what), [(1280, "light"), (768, "light"), (360, "light"), (360, "dark")]
    ):
        assert page.run(SEEN) == [], look
        assert (page.overflow(), page.axe()) == (0, []), look


AXES = {
    "reliability": ("Accepted by people, %", "Predicted, %"),
    "weights": ("Share of the total weight",),
    "kappa": (KAPPA,),
    "learning": ("Held-out kappa", "Labeled items in training"),
    "months": ("Judge agrees, % of people's decisions", "Month"),
    "levels": ("Rubric's level", "People's level"),
}


def test_both_axes_say_what_they_show_and_in_which_unit() -> None:
    for kind, titles in AXES.items():
        drawn = next(draw for name, draw in TUNING.items() if name.startswith(kind))()
        assert all(f">{escape(title)}</text>" in drawn for title in titles), kind
    by_day = str(page_sections(summarize(days(4)))[1].body)
    for up in ("Reviews", "Time of a review", "Share, %", "Findings", "US dollars", "Tokens"):
        assert f'text-anchor="start">{up}</text>' in by_day
    assert by_day.count(">Day (UTC)</text>") == by_day.count("<svg") == 8


def test_a_name_that_is_too_long_keeps_its_end() -> None:
    drawn = draw_intervals("w", [(NAMES[1], at(0.5), 0.0), (NAMES[2], at(0.5), 0.0)], "Share")
    assert "(a)</text>" in drawn
    assert "(b)</text>" in drawn
    assert LONG not in drawn
