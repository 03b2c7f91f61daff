"""How a run went, below its verdict: time, calls, guards, people, the journal."""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice

from markupsafe import Markup
from msgspec import Struct

from orchestrator.app.runs.run_details import CallDetails
from orchestrator.app.runs.run_record import RunRecord
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.journal_verification import VerificationResult
from orchestrator.report.formats.html_page.timeline import render_timeline, whole_window
from orchestrator.report.page_templates import render

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
