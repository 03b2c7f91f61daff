"""Which view of a run under way fits."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO

from orchestrator.engine.events import Observer, ignore_event
from orchestrator.report.plain_progress import PlainProgress


def choose_progress_view(
    stream: TextIO | None, quiet: bool = False
) -> AbstractContextManager[Observer]:
    """The view that fits: live on a terminal, lines in CI, pipes and plain terminals, else none.

    It is open for the time of a run.
    """
    if quiet or stream is None:
        return nullcontext(ignore_event)
    plain_terminal = os.environ.get("TERM", "dumb") in {"", "dumb", "unknown"}
    if plain_terminal or os.environ.get("CI") or not stream.isatty():
        return nullcontext(PlainProgress(stream))
    # rich costs 150 ms, and only a terminal needs it
    from orchestrator.report.live_progress import LiveProgress  # noqa: PLC0415

    return LiveProgress(stream)
