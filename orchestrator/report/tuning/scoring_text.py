"""What a scoring of items by a model will take, how far it is, and what it came to."""

import time
from collections.abc import Callable
from typing import TextIO

from orchestrator.app.rubric_scoring.item_judge_session import JudgingEstimate, Progress
from orchestrator.app.rubric_scoring.score_items import Quote, ScoredItems
from orchestrator.report.terminal_escaping import emit, emit_line, escape_unprintable
from orchestrator.report.text_layout import TextLayout, format_duration
from orchestrator.wording import count_noun

MAX_UNSCORED = 5


def describe_estimate(estimate: JudgingEstimate) -> str:
    """``120 calls, about 96,000 tokens, 0.42 USD``."""
    if not estimate.calls:
        return "nothing to ask"
    usd = describe_usd(None) if estimate.usd is None else f"{estimate.usd:.2f} USD"
    calls, tokens = count_noun(estimate.calls, "call"), f"{estimate.tokens:,}"
    return f"{calls}, about {tokens} tokens, {usd}"


def describe_usd(usd: float | None) -> str:
    """A cost in dollars."""
    return "price unknown" if usd is None else f"{usd:.4f} USD"


def render_quote(quote: Quote, width: int = 80) -> str:
    """What a scoring will take, ending in a newline."""
    page = TextLayout(width)
    what = f"{count_noun(quote.items, 'item')} by {quote.criteria} judged criteria"
    if quote.repeat > 1:
        what += f", {quote.repeat} times"
    lines = page.wrap(f"{what}, by {escape_unprintable(quote.model)}")
    known = f"; {quote.known:,} scored before, free" if quote.known else ""
    limits = f"; limit {quote.limits}" if quote.limits else ""
    text = f"estimate: {describe_estimate(quote.estimate)}{known}{limits}"
    lines += page.wrap(text, rest="  ")
    for note in quote.notes:
        lines += page.wrap(f"note: {escape_unprintable(note)}", rest="  ")
    return "\n".join(lines) + "\n"


class ScoringProgress:
    """Writes how far a scoring is: one line that changes on a terminal, some lines elsewhere.

    Args:
        lines: how many.
        name: what every line begins with.
    """

    def __init__(
        self,
        stream: TextIO | None,
        name: str = "",
        lines: int = 10,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._name, self._clock = stream, name, clock
        self._began, self._part, self._lines = clock(), 0, lines
        self._live = stream is not None and stream.isatty()

    def __call__(self, progress: Progress) -> None:
        """Write one step."""
        if self._stream is None:
            return
        part = progress.done * self._lines // progress.total
        ended = progress.done == progress.total
        if self._live:
            self._stream.write("\r\x1b[2K")
            emit(self.describe(progress) + ("\n" if ended else ""), self._stream)
        elif part > self._part and progress.asked:
            emit_line(self.describe(progress), self._stream)
        self._part = part

    def describe(self, progress: Progress) -> str:
        """``120 of 1,994 scored, 2 failed, about 11m 03s left``."""
        parts = [f"{self._name}{progress.done:,} of {progress.total:,} done"]
        if progress.failed:
            parts.append(f"{progress.failed:,} failed")
        left = progress.total - progress.done
        if left and progress.asked:
            seconds = (self._clock() - self._began) / progress.done * left
            parts.append(f"about {format_duration(seconds)} left")
        return ", ".join(parts)


def render_scored(found: ScoredItems, accepted: int, width: int = 80) -> str:
    """What a scoring came to, ending in a newline."""
    page = TextLayout(width)
    items = [item for item in found.rows if not item.repeat]
    unique = len({item.id for item in items})
    decided = f"{accepted:,} accepted, {unique - accepted:,} rejected"
    head = f"{count_noun(unique, 'item')} scored: {decided}"
    used = (
        f"{found.calls:,} asked for, {found.tokens:,} tokens, {describe_usd(found.usd)}"
        if found.calls
        else "none asked for: all scores are on record"
    )
    lines = page.wrap(f"{head}; {used}")
    if found.stopped:
        again = "raise the limit and run the command again: what is scored is kept"
        lines += page.wrap(f"stopped: {escape_unprintable(found.stopped)}; {again}", rest="  ")
    for name, why in list(found.unscored.items())[: 0 if found.stopped else MAX_UNSCORED]:
        lines += page.wrap(f"not scored: {escape_unprintable(f'{name}: {why}')}", rest="  ")
    more = len(found.unscored) - (0 if found.stopped else MAX_UNSCORED)
    if more > 0:
        lines.append(f"{'' if found.stopped else 'and '}{count_noun(more, 'item')} not scored")
    return "\n".join(lines) + "\n"
