"""Live progress on a terminal: a small display, redrawn in place and cleared at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from orchestrator.app.runs.run_progress import RunProgress
from orchestrator.engine.observer_events import Event, Observer
from orchestrator.report.text_layout import truncate

REFRESH_PER_SECOND = 8
MAX_AGENTS = 16
OTHER_LINES = 7


@contextmanager
def live_progress(stream: TextIO) -> Iterator[Observer]:
    """Show the progress of the events that it is given.

    The display is cleared however the run ends, so that only the report or the error remains.
    """
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
