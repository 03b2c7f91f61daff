"""Live progress on a terminal: a small display, redrawn in place and cleared at the end."""

from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from orchestrator.engine.observer_events import Event
from orchestrator.report.progress_view import AgentProgress, RunProgress
from orchestrator.report.terminal_escaping import escape_line
from orchestrator.report.text_layout import format_duration, truncate

REFRESH_PER_SECOND = 8
MAX_AGENTS = 16
_WIDTH_FOR_COUNTS = 70  # columns; with fewer an agent with its counts would take two lines
_STATUS_STYLE = {"running": "cyan", "ok": "green"}


class LiveProgress:
    """Shows the state, each agent with its running tools, findings, budget used and elapsed time.

    The display is cleared however the run ends, so that only the report or the error remains.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._progress = RunProgress()
        self._lock = Lock()  # rich renders in a thread of its own
        self._live: Live | None = None
        self._started = monotonic()

    def __enter__(self) -> Self:
        console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=console,
            get_renderable=lambda: self._render(console.height, console.width),
            refresh_per_second=REFRESH_PER_SECOND,
            transient=True,
            redirect_stdout=False,
        )
        self._started = monotonic()
        try:
            self._live.start()
        except BaseException:  # Ctrl-C during the start: the cursor may be hidden already
            self._live.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __call__(self, event: Event) -> None:
        """Record one event; the next refresh shows it."""
        with self._lock:
            self._progress.add(event)

    def _render(self, height: int, width: int) -> RenderableType:
        with self._lock:
            progress = self._progress
            maximum = progress.limits.get("seconds")
            head = Text.assemble(
                (escape_line(progress.state), "bold"),
                f"   {format_duration(monotonic() - self._started)}",
                f" of {format_duration(maximum)}" if maximum is not None else "",
                f"   findings {progress.findings}",
                no_wrap=True,
                overflow="ellipsis",
            )
            table = Table.grid(padding=(0, 2))
            rows, left = _select_agents(progress, min(MAX_AGENTS, max(height - 5, 1)))
            for agent in rows:
                cells = [
                    Text(f"  {truncate(escape_line(agent.name), 20)}"),
                    Text(agent.status, style=_STATUS_STYLE.get(agent.status, "yellow")),
                    Text(truncate(_describe_activity(agent), max(width - 56, 10))),
                    Text(f"findings {agent.findings}", style="dim"),
                    Text(f"calls {agent.tool_calls}", style="dim"),
                ]
                table.add_row(*cells[: 5 if width >= _WIDTH_FOR_COUNTS else 3])
            parts: list[RenderableType] = [head, table]
            if left:
                parts.append(Text(f"  and {left} more", style="dim"))
            below = filter(None, (_describe_budget(progress), escape_line(progress.note)))
            parts += [Text(truncate(line, width), style="dim") for line in below]
            return Group(*parts)


def _select_agents(progress: RunProgress, maximum: int) -> tuple[list[AgentProgress], int]:
    """The agents that fit, running ones first, and the number of the others."""
    named = [agent for agent in progress.agents.values() if agent.name]
    ordered = sorted(named, key=lambda agent: agent.status != "running")
    return ordered[:maximum], max(len(ordered) - maximum, 0)


def _describe_activity(agent: AgentProgress) -> str:
    if agent.tools:
        return escape_line(", ".join(agent.tools))
    return "thinking" if agent.thinking else ""


def _describe_budget(progress: RunProgress) -> str:
    """``tool calls 14 of 400``, for every counter except time that is used or limited."""
    parts = []
    for name, label in (
        ("iterations", "iterations"),
        ("tool_calls", "tool calls"),
        ("tokens", "tokens"),
        ("usd", "USD"),
    ):
        used, maximum = progress.used.get(name, 0), progress.limits.get(name)
        # Offline, nothing of these two is ever used.
        if used or (maximum is not None and name not in {"tokens", "usd"}):
            limit = f" of {_format_amount(maximum)}" if maximum is not None else ""
            parts.append(f"{label} {_format_amount(used)}{limit}")
    return "  ".join(parts)


def _format_amount(value: float) -> str:
    """Whole numbers in full, dollars to a hundredth of a cent."""
    return f"{round(value, 4):,.12g}"
