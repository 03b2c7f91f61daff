"""The lists beside the report: timeline, runs, catalog."""

import pytest
from rich.cells import cell_len

from orchestrator.app.types import RunInfo, TimelineEntry
from orchestrator.report.runs_text import render_runs, render_timeline
from orchestrator.report.text_layout import render_name_list

ENTRIES = [
    TimelineEntry(1, 0.0, "clock", "start", "2026-03-14T09:26:53Z", None),
    TimelineEntry(2, 0.01, "tool", "1/intake", "61 files", 0.31),
    TimelineEntry(3, 0.5, "model", "1/act/security/turn1/model", "3 calls", 0.002),
    TimelineEntry(4, 0.5, "model", "1/act/qa/turn1/model", "2 calls", 0.002),
    TimelineEntry(5, 0.6, "tool", "1/act/security/turn1/tool1/ruff", "18 files, 3 findings", 1.322),
    TimelineEntry(6, 2.2, "judge", "1/evaluate", "score 0.82", 0.002),
]


def test_the_timeline_groups_by_state_and_agent_and_keeps_every_entry() -> None:
    text = render_timeline(reversed(ENTRIES))
    lines = text.splitlines()
    assert [line for line in lines if line.startswith("iteration")] == [
        "iteration 1, intake",
        "iteration 1, act",
        "iteration 1, evaluate",
    ]
    numbers = [int(line.split()[0]) for line in lines if line.strip()[:1].isdigit()]
    assert numbers == [1, 2, 3, 5, 4, 6]  # one agent's entries stand together
    assert lines.index("  security") < lines.index("  qa")


def test_the_timeline_is_aligned_and_fits() -> None:
    rows = [
        line for line in render_timeline(ENTRIES, 80).splitlines() if line[:6].strip().isdigit()
    ]
    assert {line.index("s ") for line in rows} == {14}
    assert all(cell_len(line) <= 80 for line in rows)


def test_a_hostile_timeline_stays_on_its_lines() -> None:
    bad = TimelineEntry(1, 0.0, "to\nol", "1/a\x1b[2Jct/a\ngent/x\ny", "one\ntwo\x1b[0m", None)
    text = render_timeline([bad])
    assert "\x1b" not in text
    assert len(text.splitlines()) == 5


def test_an_empty_timeline_says_so() -> None:
    assert render_timeline([]) == "No entries are recorded yet.\n"


def test_runs_show_the_verdict_or_else_the_state() -> None:
    rows = [
        RunInfo("20260314-a", "2026-03-14T09:26:53+00:00", "main..x", "finished", "block", 1_204),
        RunInfo("20260313-b", "not a time\x1b", "main..\ny", "interrupted", None, None),
    ]
    head, first, second, note = render_runs(rows).splitlines()
    assert head.split() == ["run", "started", "result", "found", "change"]
    assert first.split()[0] == "20260314-a"
    assert first.split()[-3:] == ["block", "1,204*", "main..x"]
    assert second.split()[-4:] == ["interrupted", "-", "main..", "y"]
    assert "\\x1b" in second
    assert note == "* by analyzers; nobody read it for logic"


@pytest.mark.parametrize(
    ("findings", "is_read", "shown"),
    [
        (0, False, ["nothing", "found", "0*"]),
        (2, False, ["only", "minor", "2*"]),
        (0, True, ["nothing", "found", "0"]),
    ],
)
def test_no_run_of_the_list_is_an_approval(findings: int, is_read: bool, shown: list[str]) -> None:
    row = RunInfo("r", "2026-03-14T09:26:53Z", "x", "finished", "merge", findings, is_read)
    _, line, *note = render_runs([row]).splitlines()
    assert line.split()[3:-1] == shown
    assert bool(note) is not is_read


def test_a_waiting_run_says_so() -> None:
    row = RunInfo("r", "2026-03-14T09:26:53Z", "x", "waiting", "merge", 0, is_read=True)
    assert render_runs([row]).splitlines()[1].split()[3:] == ["waiting", "0", "x"]


def test_a_list_of_runs_fits_eighty_columns() -> None:
    change = "16b8e9725a6b8e9725a616b8e9725a616b8e9725..173efde7a7af173efde7a7af173efde7a7af7a7a"
    row = RunInfo(
        "20261121-173328-02cc3f36",
        "2026-11-21T17:33:28Z",
        change,
        "finished",
        "needs_changes",
        1,
        is_read=True,
    )
    _, line = render_runs([row]).splitlines()
    assert line.endswith("1  16b8e9..173efd")
    assert len(line) == 80


def test_no_runs_say_how_to_get_one() -> None:
    assert "diffcourt review" in render_runs([])


def test_a_listing_wraps_descriptions_under_themselves() -> None:
    text = render_name_list({"agents": [("qa", "word " * 30)], "tools": []}, 60)
    assert text.startswith("Agents (1)\n  qa  word word")
    assert "\n      word" in text
    assert text.endswith("\nTools (0)\n")
