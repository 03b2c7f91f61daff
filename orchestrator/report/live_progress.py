"""Live progress on a terminal: a small display, redrawn in place and cleared at the end."""

from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from orchestrator.app.runs.run_progress import RunProgress
from orchestrator.engine.observer_events import Event
from orchestrator.report.text_layout import truncate

REFRESH_PER_SECOND = 8
MAX_AGENTS = 16


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
            self._started = monotonic() - event.at

    def _render(self, height: int, width: int) -> RenderableType:
        with self._lock:
            agents = min(MAX_AGENTS, max(height - 7, 1))
            lines = self._progress.lines(monotonic() - self._started, agents)
        return Text("\n".join(truncate(line, width) for line in lines))
