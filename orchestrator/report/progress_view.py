"""Progress of a run as it is shown: plain lines for logs, or a display on a terminal."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import monotonic
from typing import TextIO

from orchestrator.app.runs.run_progress import RunProgress
from orchestrator.ci_systems import find_ci_system
from orchestrator.engine.observer_events import Event, Observer, ignore_event
from orchestrator.errors import OutputError
from orchestrator.report.terminal_escaping import emit, escape_line
from orchestrator.report.text_layout import truncate

ENDS = ("Done", "StopBudget", "StopHuman", "StopStagnation")
"""States that the line of the end follows."""
MAX_FAILURES = 50
MAX_NOTES = 100
REFRESH_PER_SECOND = 8
MAX_AGENTS = 16
OTHER_LINES = 7


class PlainProgress:
    """Writes one line per state, agent, failure and note, for CI logs and pipes.

    Args:
        stream: output; if writing fails, output stops and the run continues.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream
        self._progress = RunProgress()
        self._failures: set[tuple[str, str, str]] = set()
        self._notes: set[str] = set()
        self._at_start = True

    def __call__(self, event: Event) -> None:
        """Write the line of one event, if it has one."""
        self._progress.add(event)
        if event.replayed:
            if self._at_start:
                self._write(event, "replaying the recorded part of the run")
            self._at_start = False
            return
        self._at_start = self._at_start and event.kind == "run_started"
        text = self._describe(event)
        if text:
            self._write(event, text)

    def _describe(self, event: Event) -> str:
        match event.kind:
            case "run_started":
                text = f"run {event.detail}"
            case "state":
                text = "" if event.detail in ENDS else self._progress.state
            case "agent_started":
                text = f"  {event.agent}: started"
            case "agent_finished":
                agent = self._progress.agents[event.agent]
                counts = f"tool calls {agent.tool_calls}, findings {agent.findings}"
                text = f"  {event.agent}: {event.detail or 'ok'} ({counts})"
            case "tool_finished":
                text = self._describe_failure(event)
            case "note":
                text = self._describe_note(event.detail)
            case "run_finished":
                text = self._progress.state
            case _:
                text = ""
        return text

    def _describe_failure(self, event: Event) -> str:
        """A refused or failed tool call: each kind once, up to a maximum."""
        failure = (event.agent, event.tool, event.detail)
        if event.detail in {"", "ok"} or failure in self._failures:
            return ""
        self._failures.add(failure)
        if len(self._failures) > MAX_FAILURES + 1:
            return ""
        if len(self._failures) > MAX_FAILURES:
            return "further refusals and failures are shown only in the report"
        prefix = f"{event.agent}: " if event.agent else ""
        return f"  {prefix}{event.tool}: {event.detail}"

    def _describe_note(self, text: str) -> str:
        if text in self._notes or len(self._notes) >= MAX_NOTES:
            return ""
        self._notes.add(text)
        return f"note: {text}"

    def _write(self, event: Event, text: str) -> None:
        if self._stream is None:
            return
        indent = text[: len(text) - len(text.lstrip(" "))]
        try:
            emit(f"{event.at:7.1f}s  {indent}{escape_line(text)}\n", self._stream)
        except (OutputError, ValueError):
            self._stream = None


def choose_progress_view(
    stream: TextIO | None, quiet: bool = False, plain: Observer | None = None
) -> AbstractContextManager[Observer]:
    """The display of a run: live on a terminal, lines in CI, pipes and dumb terminals, or none.

    Args:
        plain: shows it in place of the lines.
    """
    if quiet or stream is None:
        return nullcontext(ignore_event)
    plain_terminal = os.environ.get("TERM", "dumb") in {"", "dumb", "unknown"}
    if plain_terminal or find_ci_system(os.environ) or not stream.isatty():
        return nullcontext(plain or PlainProgress(stream))
    return _show_live(stream)


@contextmanager
def _show_live(stream: TextIO) -> Iterator[Observer]:
    """Show the progress of the events that it is given.

    The display is cleared however the run ends, so that only the report or the error remains.
    """
    # rich costs 150 ms, and only a terminal needs it
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    progress, began = RunProgress(), [monotonic()]
    console = Console(file=stream, highlight=False, markup=False, emoji=False)

    def observe(event: Event) -> None:
        progress.add(event)
        began[0] = monotonic() - event.at

    def render() -> Text:
        agents = min(MAX_AGENTS, max(console.height - OTHER_LINES, 1))
        lines = progress.lines(monotonic() - began[0], agents)
        return Text("\n".join(truncate(line, console.width) for line in lines))

    live = Live(
        console=console,
        get_renderable=render,
        refresh_per_second=REFRESH_PER_SECOND,
        transient=True,
        redirect_stdout=False,
    )
    try:
        live.start()
        yield observe
    finally:  # also after Ctrl-C during the start: the cursor may be hidden already
        live.stop()
