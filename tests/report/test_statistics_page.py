"""The page of statistics in a real browser, and what hostile names do in it."""

import re
from pathlib import Path

from orchestrator.app.statistics.all_runs import Collected, summarize
from orchestrator.app.statistics.run_facts import FindingFact, RunFacts, ToolCallFact
from orchestrator.app.statistics.statistics_document import BrokenJournal
from orchestrator.report.statistics.html_page import MAX_DAYS, render_page
from orchestrator.report.statistics.text_and_csv import render_csv, render_groups
from tests.report.browser import Browser, needs_axe, needs_chromium
from tests.report.test_statistics_metrics import NOW, collected, fact

HOSTILE = '=cmd|"<script>alert(1)</script>\x1b[31m'


def busy() -> Collected:
    found = [FindingFact(f"f{n}", HOSTILE, "qa", "low", "open") for n in range(3)]
    tools = [ToolCallFact("qa", HOSTILE, "failed", True, 0.2)]
    runs = [
        fact(n, n / 3, findings=found, tool_calls=tools, status="incomplete") for n in range(30)
    ]
    runs += [fact(100 + n, n / 2) for n in range(30)]
    return Collected(collected(*runs).runs, [BrokenJournal("run-x", HOSTILE)], 0.0, NOW)


@needs_chromium
@needs_axe
def test_axe_finds_nothing_and_nothing_is_wider_than_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    page = browser.new_page()
    file = tmp_path / "statistics.html"
    file.write_text(render_page(summarize(busy())), encoding="utf-8")
    for _ in page.looks(file):
        assert (page.axe(), page.overflow(), page.complaints()) == ([], 0, [])
    assert page.run("document.querySelectorAll('svg').length") == 8


def test_hostile_names_are_text_everywhere() -> None:
    statistics = summarize(busy())
    page = render_page(statistics)
    assert "<script" not in page
    assert "\x1b" not in page + render_groups(statistics, "tool")
    assert re.search(r"^\"?'=cmd", render_csv(statistics, "rule"), re.MULTILINE)


def test_days_without_a_run_keep_their_place_and_old_days_are_left_out() -> None:
    def bars(*runs: RunFacts) -> int:
        return render_page(summarize(collected(*runs))).count(" complete of ")

    assert bars(fact(1, 1), fact(2, 5)) == 2
    assert bars(fact(1, 1), fact(2, MAX_DAYS + 1)) == 1
    assert "Nothing to count yet" in render_page(summarize(collected()))
