"""The views of a run under way, and which one fits."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Protocol, Self, TextIO

from orchestrator.engine.events import Event
from orchestrator.report.plain import PlainView


class View(Protocol):
    """An observer that is open for the time of a run."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def __call__(self, event: Event) -> None:
        """Take one event in."""


class SilentView:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def __call__(self, event: Event) -> None:
        """Look away."""


def choose_view(stream: TextIO | None, quiet: bool = False) -> View:
    """The view that fits: live on a terminal, lines in CI, pipes and plain terminals, else none."""
    if quiet or stream is None:
        return SilentView()
    plain_terminal = os.environ.get("TERM", "dumb") in {"", "dumb", "unknown"}
    if plain_terminal or os.environ.get("CI") or not stream.isatty():
        return PlainView(stream)
    # rich costs 150 ms, and only a terminal needs it
    from orchestrator.report.live import LiveView  # noqa: PLC0415

    return LiveView(stream)
