"""Progress as plain lines, for CI logs and pipes."""

from __future__ import annotations

from typing import TextIO

from orchestrator.engine.events import Event
from orchestrator.report.run_progress import RunProgress
from orchestrator.report.terminal_escaping import escape_line, neutralize_ci_commands

MOST_TROUBLES = 50
MOST_NOTES = 100


class PlainProgress:
    """Writes one line per state, agent, failure and note; never one per turn, never an escape code.

    Args:
        stream: where to; when it can no longer be written to, the view falls silent, because
            watching changes nothing.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream
        self._progress = RunProgress()
        self._troubles: set[tuple[str, str, str]] = set()
        self._notes: set[str] = set()
        self._replaying = False

    def __call__(self, event: Event) -> None:
        """Take one event in, and write what a reader of a log wants of it."""
        self._progress.add(event)
        if event.replayed:
            if not self._replaying:
                self._write(event, "taking over what was recorded before")
            self._replaying = True
            return
        self._replaying = False
        text = self._line(event)
        if text:
            self._write(event, text)

    def _line(self, event: Event) -> str:
        match event.kind:
            case "run_started":
                text = f"run {event.detail}"
            case "state":
                text = event.detail
            case "agent_started":
                text = f"  {event.agent}: started"
            case "agent_finished":
                agent = self._progress.agents[event.agent]
                did = f"tool calls {agent.tool_calls}, raised {agent.findings}"
                text = f"  {event.agent}: {event.detail or 'ok'} ({did})"
            case "tool_finished":
                text = self._trouble(event)
            case "note":
                text = self._note(event.detail)
            case "run_finished":
                text = f"stopped: {event.detail}"
            case _:
                text = ""
        return text

    def _trouble(self, event: Event) -> str:
        """A tool that was refused or failed: each kind once, and not without end."""
        trouble = (event.agent, event.tool, event.detail)
        if event.detail in {"", "ok"} or trouble in self._troubles:
            return ""
        self._troubles.add(trouble)
        if len(self._troubles) > MOST_TROUBLES + 1:
            return ""
        if len(self._troubles) > MOST_TROUBLES:
            return "further refusals and failures are in the report only"
        who = f"{event.agent}: " if event.agent else ""
        return f"  {who}{event.tool}: {event.detail}"

    def _note(self, text: str) -> str:
        if text in self._notes or len(self._notes) >= MOST_NOTES:
            return ""
        self._notes.add(text)
        return f"note: {text}"

    def _write(self, event: Event, text: str) -> None:
        if self._stream is None:
            return
        indent = text[: len(text) - len(text.lstrip(" "))]
        try:
            self._stream.write(
                neutralize_ci_commands(f"{event.at:7.1f}s  {indent}{escape_line(text)}\n")
            )
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = None
