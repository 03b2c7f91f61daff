"""The page in a real browser: axe finds nothing, at both widths and in both schemes; the keys work."""

from collections.abc import Callable
from pathlib import Path

import pytest

from diffchecks.check_io import FlowStep
from orchestrator.app.finding_excerpts import ExcerptLine
from orchestrator.code_review.verdict.document_parts import FixState
from orchestrator.code_review.verdict.model import Cause, Verdict
from orchestrator.report.formats import FormatInputs, render_format
from tests.report.browser import LOOKS, Browser, needs_axe, needs_chromium
from tests.report.test_formats import hostile
from tests.report.verdict_samples import PATCH, finding, fixed, rich_verdict, verdict

pytestmark = needs_chromium


def busy() -> Verdict:
    """Findings with each part that an article can have."""
    steps = (FlowStep("src/views.py", 3, "input is read"), FlowStep("src/upload.py", 42, "it runs"))
    base = rich_verdict()
    more = (
        finding(6, steps=steps, since_previous="new", detail="It runs."),
        finding(7, severity="info", since_previous="open", because_of=Cause("src/other.py", 7)),
    )
    return verdict(
        **{name: getattr(base, name) for name in base.__struct_fields__ if name != "findings"},
        findings=(*base.findings, *more),
    )


def patched() -> Verdict:
    """A patch in each state, on lines that are too long."""
    patch = PATCH.replace("shell=True)", "shell=True)  # why" + " long" * 40)
    states: tuple[FixState, ...] = ("verified", "applies", "refused")
    return verdict(findings=tuple(fixed(n, patch=patch, state=s) for n, s in enumerate(states, 1)))


def lines() -> list[ExcerptLine]:
    return [
        ExcerptLine("same", 40, 40, "# what it does"),
        ExcerptLine("removed", 41, 0, "class A: pass  # a note"),
        ExcerptLine("added", 0, 41, "def run(name):  # a note"),
        ExcerptLine("added", 0, 42, "    return call('x', 1, shell=True)  # a note" + "long " * 40),
    ]


def write(folder: Path, given: Verdict) -> Path:
    file = folder / "page.html"
    excerpts = {"F2": lines(), "F6": lines()}
    file.write_text(render_format("html", given, FormatInputs(excerpts=excerpts)), encoding="utf-8")
    return file


@needs_axe
@pytest.mark.parametrize(
    ("make", "looks"), [(busy, LOOKS), (hostile, LOOKS[1:]), (patched, LOOKS), (verdict, LOOKS[:1])]
)
def test_axe_finds_nothing_wrong_and_nothing_leaves_the_width(
    make: Callable[[], Verdict], looks: list[tuple[int, str]], browser: Browser, tmp_path: Path
) -> None:
    page = browser.new_page()
    file = write(tmp_path, make())
    for look in page.looks(file, looks):
        assert page.overflow() == 0
        assert page.axe() == [], look


FOCUSED = """(() => {
  const at = document.activeElement;
  return at.id || at.dataset.severity || at.getAttribute("aria-label") || at.hash || at.tagName;
})()"""


def test_tab_goes_through_the_page_in_order_and_stops_where_something_scrolls(
    browser: Browser, tmp_path: Path
) -> None:
    page = browser.new_page()
    page.open(write(tmp_path, busy()), 1280, "light")
    stops = []
    for _ in range(15):
        page.press("Tab")
        stops.append(page.run(FOCUSED))
    assert stops == [
        "#findings",  # past the outcome
        "#read",
        "search",
        "category",
        *("critical", "high", "medium", "low", "info"),
        "fresh",
        "SUMMARY",
        *("Code of F2: src/upload.py", "Code of F6: src/upload.py"),
        *("SUMMARY", "SUMMARY"),  # also noticed; waived
    ]


def test_a_link_opens_a_finding_that_is_only_noticed_and_a_filter_hides_its_line(
    browser: Browser, tmp_path: Path
) -> None:
    found = tuple(finding(n, rule=f"r{n}", title=f"Title {n}") for n in range(1, 61))
    page = browser.new_page()
    file = write(tmp_path, verdict(verdict="block", findings=found))
    page.open(file, 360, "light")
    opened = "[...document.querySelectorAll('details.noticed[open] article')].map((one) => one.id)"
    lines = "document.querySelectorAll('details.noticed:not([hidden])').length"
    assert (page.run(opened), page.run(lines)) == ([], 55)
    page.run("location.hash = '#F41'")
    page.run("new Promise((done) => setTimeout(done, 50))")
    assert page.run(opened) == ["F41"]
    assert page.run("document.getElementById('F41').getBoundingClientRect().height > 0")
    assert page.overflow() == 0
    page.press("/")
    for key in "title 41":
        page.press(key)
    assert page.run(lines) == 1


def test_keys_move_between_findings_and_filters_hide_the_others(
    browser: Browser, tmp_path: Path
) -> None:
    page = browser.new_page()
    page.open(write(tmp_path, busy()), 1280, "light")
    moved = []
    for key in "jjk":
        page.press(key)
        moved.append(page.run(FOCUSED))
    assert moved == ["F1", "F2", "F1"]
    page.press("/")
    assert page.run(FOCUSED) == "search"
    for key in "RUNS":
        page.press(key)
    shown = (
        "[...document.querySelectorAll('%s:not([hidden])')].map((one) => one.id || one.innerText)"
    )
    assert page.run(shown % "article") == ["F6"]
    assert len(page.run(shown % "ol.index li")) == 1
    assert page.run("document.getElementById('shown').innerText") == "1 of 6 findings"
    page.press("Escape")
    assert page.run(FOCUSED) == "BODY"
