"""The calls of a run in a shared page: requests and results."""

from collections.abc import Iterable

from orchestrator.app.runs.run_details import CallDetails, Passage
from orchestrator.report.html_elements import text

SHARED = 400
"""Characters from which a text is written once, and linked to where it stands again."""

MAX_CHARACTERS = 10_000_000
"""Of all texts of calls; of what comes later, only the length."""


def call_anchor(row: int) -> str:
    """The place in the page of the call that began with a row."""
    return f"call-{row}"


def render_calls(calls: Iterable[CallDetails]) -> str:
    """All calls, folded."""
    writer = _CallWriter()
    return "".join(map(writer.render, calls))


class _CallWriter:
    """Writes calls one after the other, and each long text once."""

    def __init__(self) -> None:
        self._places: dict[str, str] = {}
        self._room = MAX_CHARACTERS

    def render(self, call: CallDetails) -> str:
        """A call; its anchor is inside the folded part, so that a link unfolds it."""
        span = call.span
        about = f"{text(span.agent or 'code')}, {span.at:.2f} s"
        seen = "".join(map(self._passage, call.seen)) or '<p class="soft">Nothing was recorded.</p>'
        sent = "".join(map(self._passage, call.sent)) or '<p class="soft">Nothing.</p>'
        return (
            f'<details class="effect {span.kind}"><summary><b>{text(span.name)}</b> '
            f'<span class="soft small">{about}</span></summary><div id="{call_anchor(span.row)}">'
            f'<p class="place soft">{text(span.key)}</p>'
            f"<h3>Result</h3>{seen}<h3>Request</h3>{sent}</div></details>"
        )

    def _passage(self, one: Passage) -> str:
        title, size = text(one.title), f"{len(one.text) + one.cut:,} characters"
        if one.kind == "note":
            return f'<div class="note lines"><b>{title}</b>\n{text(one.text)}</div>'
        heading = f'{title} <span class="soft small">{size}</span>'
        if place := self._places.get(one.text):
            return f'<p class="passage">{heading} <a href="#{place}">as above</a></p>'
        if len(one.text) > self._room:
            return f'<p class="passage">{heading} <span class="soft">in the journal</span></p>'
        self._room -= len(one.text)
        place = ""
        if len(one.text) >= SHARED:
            place = self._places[one.text] = f"text-{len(self._places) + 1}"
        anchor = f' id="{place}"' if place else ""
        more = f'<p class="soft small">{one.cut:,} more are in the journal.</p>' if one.cut else ""
        return (
            f'<details class="passage {one.kind}"><summary>{heading}</summary>'
            f'<pre class="text"{anchor} tabindex="0" aria-label="{title}">{text(one.text)}</pre>'
            f"{more}</details>"
        )
