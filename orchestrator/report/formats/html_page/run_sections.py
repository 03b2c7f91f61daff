"""What was read, and how a run went: a lane for each task, calls, guards, people, the journal."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice

from markupsafe import Markup
from msgspec import Struct

from orchestrator.app.runs.run_details import CallDetails
from orchestrator.app.runs.run_record import EffectSpan, RunRecord
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.journal_verification import VerificationResult
from orchestrator.report.formats.listing_formats import describe_skip, joined_gaps
from orchestrator.report.page_templates import render
from orchestrator.report.text_layout import format_duration
from orchestrator.wording import count_noun

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
    words: str = ""

    @property
    def width(self) -> float:
        return max(self.right - self.left, MIN_WIDTH)


class _Lane(Struct, frozen=True):
    """The calls of a task, or those of an agent outside of tasks."""

    agent: str
    bars: Sequence[_Bar]
    height: int
    task: EffectSpan | None = None
    left: float = 0.0
    width: float = 0.0


class _State(Struct, frozen=True):
    name: str
    seconds: float
    left: float
    width: float
    parity: int


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
) -> Markup:
    """The lanes of a window; links to a lane's own window and to calls where given."""
    drawing = _Drawing(record, window)
    lanes, more = drawing.lanes()
    return render(
        "timeline.html",
        window=window,
        states=drawing.states(),
        lanes=lanes,
        more=more,
        ticks=[
            (100 * number / TICKS, window.start + window.seconds * number / TICKS)
            for number in range(TICKS + 1)
        ],
        lane_link=lane_link,
        call_link=call_link,
        row_height=ROW_HEIGHT,
        min_named=MIN_NAMED,
    )


class _Drawing:
    """Places what a window of a run shows, in percent of its width."""

    def __init__(self, record: RunRecord, window: TimelineWindow) -> None:
        self._record, self._window = record, window

    def lanes(self) -> tuple[list[_Lane], int]:
        """A lane for each task, then for each agent outside of tasks; and how many are left out."""
        spans = in_window(self._record.spans, self._window)
        tasks = [span for span in spans if span.kind == "task"]
        calls: dict[str, list[EffectSpan]] = {task.key: [] for task in tasks}
        others: dict[str, list[EffectSpan]] = {}
        for span in spans:
            if span.kind in {"model", "tool", "question"}:
                lane = calls if span.task in calls else others
                lane.setdefault(span.task if lane is calls else span.agent, []).append(span)
        lanes = [self._lane(task.agent, calls[task.key], task) for task in tasks[:LANES]]
        lanes += [self._lane(name, found) for name, found in others.items()]
        return lanes, len(tasks) - LANES

    def states(self) -> list[_State]:
        """The states that the window shows a part of."""
        found = []
        for number, step in enumerate(self._record.states):
            end = self._record.seconds if step.seconds is None else step.at + step.seconds
            left, right = self._window.share(step.at), self._window.share(end)
            if right > left:
                state = _State(step.name, end - step.at, left, right - left, number % 2)
                found.append(state)
        return found

    def _lane(
        self, agent: str, calls: Sequence[EffectSpan], task: EffectSpan | None = None
    ) -> _Lane:
        bars = self._bars(calls)
        height = (max((bar.row for bar in bars), default=0) + 1) * ROW_HEIGHT + 4
        if task is None:
            return _Lane(agent, bars, height)
        left, right = self._window.share(task.at), self._window.share(self._end_of(task))
        return _Lane(agent, bars, height, task, left, max(right - left, MIN_WIDTH))

    def _describe(self, bar: _Bar) -> str:
        span = bar.span
        took = format_duration(self._end_of(span) - span.at)
        words = f"{span.name}, {took}, {span.status}{': ' + span.outcome if span.outcome else ''}"
        if bar.count > 1:
            words = f"{bar.count} calls, the first: {words}"
        return words[:300]

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
        for bar in bars:
            bar.words = self._describe(bar)
        return bars

    def _end_of(self, span: EffectSpan) -> float:
        return (
            max(self._record.seconds, span.at) if span.seconds is None else span.at + span.seconds
        )


MAX_CALLS = 2_000
SHARED = 400
"""Characters from which a text is written once, and linked to where it stands again."""
MAX_CHARACTERS = 10_000_000
"""Of all texts of calls; of what comes later, only the length."""


class _TextPlace(Struct, frozen=True):
    """Where a text of a call stands: here, earlier in the page, or only in the journal."""

    anchor: str = ""
    is_known: bool = False
    is_left_out: bool = False


class _TextPlaces:
    """Gives each long text one place in the page."""

    def __init__(self) -> None:
        self._anchors: dict[str, str] = {}
        self._room = MAX_CHARACTERS

    def find(self, text: str) -> _TextPlace:
        """The place of the next text of the page."""
        if anchor := self._anchors.get(text):
            return _TextPlace(anchor, is_known=True)
        if len(text) > self._room:
            return _TextPlace(is_left_out=True)
        self._room -= len(text)
        if len(text) < SHARED:
            return _TextPlace()
        anchor = self._anchors[text] = f"text-{len(self._anchors) + 1}"
        return _TextPlace(anchor)


def render_run(
    verdict: Verdict, record: RunRecord, calls: Iterable[CallDetails], checked: VerificationResult
) -> Markup:
    """The sections that a shared copy of a run has more than its verdict."""
    shown = [*islice(calls, MAX_CALLS)]
    return render(
        "run.html",
        timeline=render_timeline(record, whole_window(record)),
        record=record,
        calls=shown,
        linked={call.span.row for call in shown},
        place=_TextPlaces().find,
        guards=[
            (one.guard, one.action, one.agent, f"{one.count:,}", one.reason)
            for one in verdict.guards
        ],
        people=[(one.who, one.what, one.about, _format_time(one.at)) for one in record.decided],
        checked=checked,
        max_calls=MAX_CALLS,
    )


def _format_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(" ", "minutes")


MAX_FILES = 3_000


def render_coverage(verdict: Verdict) -> Markup:
    """The section of the page."""
    depth = verdict.depth
    counts = {"code": depth.code, "text": depth.text, "none": depth.none}
    total, bars, start = sum(counts.values()), [], 0.0
    for kind, count in counts.items():
        width = 100 * count / (total or 1)
        bars.append((kind, start, width))
        start += width
    words = (
        f"{depth.code:,} of {count_noun(total, 'file')} read as code, {depth.text:,} as text only, "
        f"{depth.none:,} not read"
    )
    return render(
        "coverage.html",
        verdict=verdict,
        files=total,
        bars=bars,
        words=words,
        gaps=joined_gaps(verdict),
        skip=describe_skip,
        max_files=MAX_FILES,
    )
