"""The pages of tuning in a real browser: readable by anybody, at both widths and in both schemes."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.cli.main import main
from orchestrator.report.tuning.charts import draw_intervals
from orchestrator.tuning.file_formats.rubric_file import write_rubric
from orchestrator.tuning.statistics.confidence_intervals import Interval
from tests.report.browser import Browser, needs_axe, needs_chromium
from tests.report.test_charts import SEEN
from tests.tuning.labelsets import rows, rubric_of

Make = Callable[[], tuple[int, Path]]
HOSTILE = "<img src=x onerror=alert(1)> \x1b[31m\u202e " + "long" * 60


@pytest.fixture
def make(
    save: Callable[..., Path], house: Path, tmp_path: Path
) -> Callable[[str], tuple[int, Path]]:
    """Writes a page as its command does; gives the exit code and the page."""
    path = tmp_path / "page.html"

    def tune(count: int, beta: tuple[float, ...]) -> int:
        items = rows(count, beta)
        for row in items:
            row["id"] = f"{row['id']}-{'long' * 40}"
            row["url"] = "https://example.org/7"
        items[0]["text"] = HOSTILE
        given = ["--refits", "30", "--report", str(path)]
        return main(["rubric", "tune", str(house), str(save(items)), *given])

    def compare(threshold: float) -> int:
        other = tmp_path / "other.yaml"
        write_rubric(other, replace(rubric_of(threshold=threshold), name="other"))
        items = rows(200)
        items[0]["text"] = items[1]["text"] = HOSTILE
        sides = [str(house), str(other), "--items", str(save(items))]
        return main(["rubric", "compare", *sides, "--report", str(path)])

    def label(command: str, count: int, *more: str, **truth: Any) -> int:
        items = rows(count, **truth)
        for n, row in enumerate(items):
            row["text"] = HOSTILE if n < 4 else "Reads well."
            row["at"] = f"2026-0{1 + n * 6 // count}-05T10:00:00+00:00"
            row["reasons"] = {"a": HOSTILE}
        given = [str(house), str(save(items)), *more, "--report", str(path)]
        return main(["rubric", command, *given])

    def write(kind: str) -> tuple[int, Path]:
        return {
            "proven": lambda: tune(150, (4.0, 2.0, 0.0, 0.0)),
            "not proven": lambda: tune(120, (0.0, 0.0, 0.0, 0.0)),
            "worse": lambda: compare(0.8),
            "cannot tell": lambda: compare(0.45),
            "eval": lambda: label("eval", 240),
            "agrees": lambda: label("eval", 200, beta=(4.0,) * 4, sharp=9.0),
            "few labels": lambda: label("disagree", 20),
            "rate": lambda: label("rate", 200, "--assume-random"),
            "drift": lambda: label("drift", 200),
        }[kind](), path

    return write


SAYS = {
    "proven": (0, "Trusted", "the new rubric decides better than the old"),
    "not proven": (1, "Not trusted", "so the old one stays"),
    "worse": (1, "Not trusted", "B decides as people do less often than A"),
    "cannot tell": (3, "Cannot tell", "do not show which of the two"),
    "eval": (3, "Cannot tell", "agrees with"),
    "agrees": (0, "Trusted", "agrees with"),
    "few labels": (3, "Cannot tell", "20 labeled items are too few"),
    "rate": (3, "Cannot tell", "people would accept"),
    "drift": (3, "Cannot tell", "No drift is seen"),
}


@pytest.mark.parametrize("kind", SAYS)
def test_the_first_sentence_says_what_the_exit_code_says(
    kind: str, make: Callable[[str], tuple[int, Path]]
) -> None:
    code, path = make(kind)
    page = path.read_text(encoding="utf-8")
    first = re.search(r'<h1 class="[\w-]+">(.*?)</h1><p class="lead">(.*?)</p>', page)
    assert first
    wanted, word, part = SAYS[kind]
    assert (code, first[1]) == (wanted, word)
    assert part in first[2]
    # No statistic's name, for people who never heard of one.
    assert not re.search(
        r"\b(kappa|κ|interval|AUC|CI|alpha|significant)\b", first[2], re.IGNORECASE
    )


def shapes(drawing: str, name: str) -> list[dict[str, str]]:
    return [
        dict(re.findall(r'([\w-]+)="([^"]*)"', one))
        for one in re.findall(f"<{name} [^>]*", drawing)
    ]


def test_a_negative_weight_lies_on_the_other_side_of_zero() -> None:
    weights = [Interval(0.4, 0.3, 0.5), Interval(-0.21, -0.3, -0.1), None]
    drawn = draw_intervals("w", [(f"c{n}", x, 0.25) for n, x in enumerate(weights)], "Share")
    dots = [float(one["cx"]) for one in shapes(drawn, "circle")]
    zero = {float(one["x1"]) for one in shapes(drawn, "line") if one["stroke"] == "var(--dim)"}
    assert len(zero) == 1
    assert dots[1] < zero.pop() < dots[0]


UNFOLD = "document.querySelectorAll('details').forEach((one) => one.open = true)"
SHORTEN = """(() => {
  const kept = {true: 0, false: 0};
  for (const one of document.querySelectorAll('details > article'))
    if (++kept[one.innerText.includes('onerror')] > 8) one.remove();
})()"""
"""axe takes seconds for dozens of items: eight with hostile texts and eight without stay."""


SMALL = """[...document.querySelectorAll('nav a, summary')].map((one) => [
  one.innerText, one.getBoundingClientRect().height]).filter(([, high]) => 0 < high && high < 44)"""
COVERED = """[...document.querySelectorAll('table.list td')].filter((one) => {
  const name = getComputedStyle(one, '::before');
  return name.content.length > 2 && name.position !== 'static'; }).length"""
"""Cells on a phone whose name, which may be long, is not in the flow and so may cover the value."""


@needs_chromium
@needs_axe
@pytest.mark.parametrize("kind", ["proven", "cannot tell", "eval", "rate", "drift"])
def test_axe_finds_nothing_wrong_and_nothing_leaves_the_width(
    kind: str, make: Callable[[str], tuple[int, Path]], browser: Browser
) -> None:
    _, path = make(kind)
    page = browser.new_page()
    for look in page.looks(path):
        assert page.overflow() == 0
        assert page.run(SEEN) == [], look
        page.run(UNFOLD)
        assert page.overflow() == 0
        assert page.run(SMALL) == [], look
        assert page.run(COVERED) == 0, look
        page.run(SHORTEN)
        assert page.axe() == [], look
        assert page.complaints() == []
    # Nothing that came from outside became an element.
    assert page.run("document.querySelectorAll('img, script').length") == 0
