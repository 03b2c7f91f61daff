"""Progress of a run as it is shown: plain lines for logs, or a display on a terminal."""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO

from orchestrator.app.runs.run_progress import RunProgress
from orchestrator.ci_systems import find_ci_system
from orchestrator.engine.observer_events import Event, Observer, ignore_event
from orchestrator.errors import OutputError
from orchestrator.report.terminal_escaping import emit, escape_line

ENDS = ("Done", "StopBudget", "StopHuman", "StopStagnation")
"""States that the line of the end follows."""
MAX_FAILURES = 50
MAX_NOTES = 100


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
    # rich costs 150 ms, and only a terminal needs it
    from orchestrator.report.live_progress import live_progress  # noqa: PLC0415

    return live_progress(stream)
