"""What a run did over time: a lane for each task, with its calls as bars."""

from collections.abc import Callable, Iterable, Sequence
from html import escape

from msgspec import Struct

from orchestrator.app.runs.run_record import EffectSpan, RunRecord
from orchestrator.report.terminal_escaping import escape_line
from orchestrator.report.text_layout import format_duration

LANES = 200
ROWS = 12
"""Bars above each other in a lane; what is more is drawn over the last."""
ROW_HEIGHT = 14
MIN_WIDTH = 0.35
"""Percent; what is shorter is drawn so wide, and bars that would cover each other are one."""
TICKS = 5
MIN_NAMED = 7
"""Percent of the window from which on a state shows its name."""


class TimelineWindow(Struct, frozen=True):
    """The part of a run that is drawn, in seconds since it began."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it is; never zero."""
        return max(self.end - self.start, 0.001)

    def share(self, at: float) -> float:
        """Where a time lies, in percent of the window, within it."""
        return min(max(100 * (at - self.start) / self.seconds, 0.0), 100.0)


class _Bar(Struct):
    span: EffectSpan
    left: float
    right: float
    row: int = 0
    count: int = 1


def whole_window(record: RunRecord) -> TimelineWindow:
    """All of a run."""
    return TimelineWindow(0.0, max(record.seconds, 0.001))


def in_window(spans: Iterable[EffectSpan], window: TimelineWindow) -> list[EffectSpan]:
    """The spans of which a part lies in a window."""
    return [
        span
        for span in spans
        if span.at <= window.end
        and (span.seconds is None or span.at + span.seconds >= window.start)
    ]


def render_timeline(
    record: RunRecord,
    window: TimelineWindow,
    lane_link: Callable[[EffectSpan], str] | None = None,
    call_link: Callable[[EffectSpan], str] | None = None,
) -> str:
    """The lanes of a window as HTML; links to a lane's own window and to calls where given."""
    return _Drawing(record, window, lane_link, call_link).render()


class _Drawing:
    """Draws a window of a run."""

    def __init__(
        self,
        record: RunRecord,
        window: TimelineWindow,
        lane_link: Callable[[EffectSpan], str] | None,
        call_link: Callable[[EffectSpan], str] | None,
    ) -> None:
        self._record, self._window = record, window
        self._lane_link, self._call_link = lane_link, call_link

    def render(self) -> str:
        """All lanes, with the states above and the time below."""
        spans, window = in_window(self._record.spans, self._window), self._window
        lanes = [span for span in spans if span.kind == "task"]
        calls: dict[str, list[EffectSpan]] = {lane.key: [] for lane in lanes}
        others: dict[str, list[EffectSpan]] = {}
        for span in spans:
            if span.kind in {"model", "tool", "question"}:
                lane = calls if span.task in calls else others
                lane.setdefault(span.task if lane is calls else span.agent, []).append(span)
        drawn = [self._task(lane, calls[lane.key]) for lane in lanes[:LANES]]
        drawn += [self._lane(f"<b>{_text(name)}</b>", found) for name, found in others.items()]
        if not drawn:
            return '<p class="soft">Nothing happened in this part of the run.</p>'
        more = len(lanes) - LANES
        note = f'<p class="soft small">{more:,} more tasks are not drawn.</p>' if more > 0 else ""
        return (
            f'<div class="lanes" data-start="{window.start:.3f}" data-end="{window.end:.3f}">'
            f"{self._states()}{''.join(drawn)}{_render_axis(window)}</div>{note}"
        )

    def _states(self) -> str:
        """A band of the states, so that a call is seen within its state."""
        parts = []
        for number, step in enumerate(self._record.states):
            end = self._record.seconds if step.seconds is None else step.at + step.seconds
            left, right = self._window.share(step.at), self._window.share(end)
            if right <= left:
                continue
            name = f'<text class="name" x="{left:.3f}%" dx="4" y="12">{escape(step.name)}</text>'
            parts.append(
                f"<g><title>{escape(step.name)}, {format_duration(end - step.at)}</title>"
                f'<rect class="state{number % 2}" x="{left:.3f}%" width="{right - left:.3f}%" '
                f'height="18"/>{name if right - left > MIN_NAMED else ""}</g>'
            )
        return _row('<span class="soft">states</span>', 18, "".join(parts))

    def _task(self, lane: EffectSpan, calls: Sequence[EffectSpan]) -> str:
        agent, place = _text(lane.agent or lane.key), _text(lane.key)
        name = f'<b>{agent}</b> <span class="soft small">{place}</span>'
        if self._lane_link is not None:
            name = f'<a href="{escape(self._lane_link(lane), quote=True)}">{name}</a>'
        return self._lane(name, calls, lane)

    def _lane(self, name: str, calls: Sequence[EffectSpan], task: EffectSpan | None = None) -> str:
        bars = self._bars(calls)
        height = (max((bar.row for bar in bars), default=0) + 1) * ROW_HEIGHT + 4
        drawn = "".join(map(self._bar, bars))
        if task is not None:
            left, right = self._window.share(task.at), self._window.share(self._end_of(task))
            drawn = (
                f'<rect class="task {task.status}" x="{left:.3f}%" '
                f'width="{max(right - left, MIN_WIDTH):.3f}%" height="{height}"/>{drawn}'
            )
        return _row(name, height, drawn)

    def _bar(self, bar: _Bar) -> str:
        span = bar.span
        took = format_duration(self._end_of(span) - span.at)
        words = f"{span.name}, {took}, {span.status}{': ' + span.outcome if span.outcome else ''}"
        if bar.count > 1:
            words = f"{bar.count} calls, the first: {words}"
        rect = (
            f'<rect class="{span.kind} {span.status}" x="{bar.left:.3f}%" '
            f'width="{max(bar.right - bar.left, MIN_WIDTH):.3f}%" '
            f'y="{bar.row * ROW_HEIGHT + 3}" height="{ROW_HEIGHT - 2}" rx="2">'
            f"<title>{_text(words[:300])}</title></rect>"
        )
        if self._call_link is None:
            return rect
        return f'<a href="{escape(self._call_link(span), quote=True)}" tabindex="-1">{rect}</a>'

    def _bars(self, spans: Sequence[EffectSpan]) -> list[_Bar]:
        """Bars in rows where they do not cover each other; of too many, the last row has all."""
        bars: list[_Bar] = []
        ends: list[_Bar] = []
        for span in sorted(spans, key=lambda one: (one.at, one.row)):
            left, right = self._window.share(span.at), self._window.share(self._end_of(span))
            right = max(right, left + MIN_WIDTH)
            row = next((n for n, bar in enumerate(ends) if bar.right <= left), len(ends))
            if row >= ROWS:
                ends[-1].right, ends[-1].count = max(ends[-1].right, right), ends[-1].count + 1
                continue
            bar = _Bar(span, left, right, row)
            ends[row : row + 1] = [bar]
            bars.append(bar)
        return bars

    def _end_of(self, span: EffectSpan) -> float:
        return (
            max(self._record.seconds, span.at) if span.seconds is None else span.at + span.seconds
        )


def _text(raw: str) -> str:
    return escape(escape_line(raw))


def _row(name: str, height: int, drawn: str) -> str:
    return (
        f'<div class="lane"><div>{name}</div>'
        f'<svg height="{height}" aria-hidden="true">{drawn}</svg></div>'
    )


def _render_axis(window: TimelineWindow) -> str:
    ticks = []
    for number in range(TICKS + 1):
        at = window.start + window.seconds * number / TICKS
        anchor = "start" if number == 0 else "end" if number == TICKS else "middle"
        ticks.append(
            f'<text x="{100 * number / TICKS:g}%" y="12" text-anchor="{anchor}">{at:.3g} s</text>'
        )
    return _row("", 16, "".join(ticks))
