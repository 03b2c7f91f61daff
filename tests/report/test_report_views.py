"""Watching a run: lines for logs, a picture for terminals, and nothing left behind."""

import io
import os
import pty
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import FunctionType

import pytest

from orchestrator.engine.observer_events import Event, ignore_event
from orchestrator.report.progress_view import PlainProgress, choose_progress_view

ROOT = Path(__file__).parents[2]

RUN = [
    Event("run_started", 0.0, detail="r1"),
    Event("state", 0.1, detail="Act"),
    Event("agent_started", 0.2, agent="qa"),
    Event("model_started", 0.2, agent="qa"),
    Event("model_finished", 0.3, agent="qa", data={"input_tokens": 5}),
    Event("tool_started", 0.3, agent="qa", tool="ruff"),
    Event(
        "tool_finished", 0.9, agent="qa", tool="ruff", detail="ok", data={"findings": [{}, {}, {}]}
    ),
    Event("tool_started", 0.9, agent="qa", tool="rm"),
    Event("tool_finished", 0.9, agent="qa", tool="rm", detail="not_permitted"),
    Event(
        "budget",
        0.9,
        data={"used": {"tool_calls": 2}, "limits": {"tool_calls": 40.0, "tokens": 2e6}},
    ),
    Event(
        "agent_finished",
        1.0,
        agent="qa",
        detail="ok",
        data={"findings": [{"title": "own"}, {"title": "a tool's", "fingerprint": "0f"}, "F1"]},
    ),
    Event("note", 1.1, detail="the clone is shallow"),
    Event("run_finished", 12.34, detail="done"),
]


def lines_of(events: list[Event]) -> list[str]:
    stream = io.StringIO()
    view = PlainProgress(stream)
    for event in events:
        view(event)
    return stream.getvalue().splitlines()


def test_a_log_gets_states_agents_refusals_and_notes() -> None:
    assert lines_of(RUN) == [
        "    0.0s  run r1",
        "    0.1s  reviewing",
        "    0.2s    qa: started",
        "    0.9s    qa: rm: not_permitted",
        "    1.0s    qa: ok (tool calls 2, findings 4)",
        "    1.1s  note: the clone is shallow",
        "   12.3s  finished",
    ]


def test_a_log_stays_short_whatever_agents_do() -> None:
    busy = [
        Event(kind, 1.0, agent=f"a{n % 7}", tool=f"t{n}", detail="timeout")
        for n in range(3_000)
        for kind in ("model_started", "model_finished", "tool_started", "tool_finished")
    ]
    busy += [Event("note", 1.0, detail=f"n{n}") for n in range(3_000)]
    lines = lines_of(busy)
    assert len(lines) <= 160
    assert any("only in the report" in line for line in lines)


def test_what_is_replayed_is_one_line() -> None:
    replayed = [Event("state", 0.0, detail=f"s{n}", replayed=True) for n in range(9)]
    lines = lines_of([*replayed, Event("state", 0.1, detail="Act")])
    assert [line.split("s  ")[1] for line in lines] == [
        "replaying the recorded part of the run",
        "reviewing",
    ]


def test_a_result_that_is_used_twice_in_a_new_run_is_no_replay() -> None:
    begun = [Event("run_started", 0.0, detail="r1"), Event("state", 0.1, detail="Act")]
    lines = lines_of([*begun, Event("tool_finished", 0.2, replayed=True)])
    assert [line.split("s  ")[1] for line in lines] == ["run r1", "reviewing"]


def test_a_note_cannot_forge_a_line() -> None:
    (line,) = lines_of([Event("note", 0.0, detail="x\n    1.0s  stopped: done\x1b[2J")])
    assert "\x1b" not in line


def test_a_reader_that_left_does_not_end_the_review() -> None:
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    view = PlainProgress(stream)
    for event in RUN:
        view(event)
    stream.close()  # nothing is left that the pipe would refuse


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "xterm"}, FunctionType),
        ({"TERM": "dumb"}, PlainProgress),
        ({"TERM": None}, PlainProgress),
        ({"TERM": "xterm", "CI": "false"}, FunctionType),
        ({"TERM": "xterm", "CI": "true", "CIRCLECI": "true"}, PlainProgress),
    ],
)
def test_the_view_fits_the_terminal(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str | None], expected: type
) -> None:
    for name, value in environment.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    _, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream:
        with choose_progress_view(stream) as view:
            assert type(view) is expected
        with choose_progress_view(stream, quiet=True) as view:
            assert view is ignore_event
    with choose_progress_view(io.StringIO()) as view:
        assert type(view) is PlainProgress
    with choose_progress_view(None) as view:
        assert view is ignore_event


SCRIPT = """
import sys, time
sys.path.insert(0, {here!r})
from test_report_views import RUN
from orchestrator.engine.observer_events import Event
from orchestrator.report.progress_view import choose_progress_view
with choose_progress_view(sys.stderr) as view:
    for event in RUN[:6]:
        view(event)
    time.sleep(0.3)
    for n in range(100):
        view(Event("agent_started", 1.0, agent=f"extra{{n}}"))
    view(RUN[9])
    time.sleep(0.3)
    {ending}
print("the report", file=sys.stderr)
"""


def on_a_terminal(ending: str, columns: int = 80) -> str:
    """What a terminal of 24 lines receives from a live view."""
    ours, theirs = pty.openpty()
    code = SCRIPT.format(here=str(Path(__file__).parent), ending=ending)
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    environment |= {
        "TERM": "xterm",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": str(columns),
        "LINES": "24",
    }
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        received = bytearray()
        try:
            while chunk := os.read(ours, 65536):
                received += chunk
        except OSError:
            pass  # the other end is closed
        process.wait()
    os.close(ours)
    return received.decode()


@pytest.mark.parametrize(
    ("ending", "last"),
    [
        ("pass", "the report"),
        ("raise ValueError('it broke')", "it broke"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_a_terminal_sees_progress_and_is_left_clean(ending: str, last: str) -> None:
    seen = on_a_terminal(ending)
    assert "reviewing" in seen
    assert "ruff" in seen
    assert "tool calls 2 of 40" in seen
    assert "tokens" not in seen
    assert "more" in seen  # a hundred agents do not scroll a terminal of 24 lines
    assert seen.rindex("\x1b[?25h") > seen.rindex("\x1b[?25l")  # the cursor is back
    after = seen[seen.rindex("\x1b[?25h") :]
    assert last in after
    assert "tool calls 2 of 40" not in after
    assert seen.count("findings 3") <= 20


def test_a_narrow_terminal_gets_a_line_an_agent() -> None:
    seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", on_a_terminal("pass", columns=40))
    lines = [line.strip("\r") for line in re.split(r"[\r\n]+", seen)]
    assert {"reviewing", "completed:", "remaining:", "qa"} <= {
        (line.split() or [""])[0] for line in lines
    }
    assert all(len(line) <= 40 for line in lines)
