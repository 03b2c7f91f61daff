"""How a run went, below its verdict: time, guards, people, the journal."""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import islice

from orchestrator.app.runs.run_details import CallDetails
from orchestrator.app.runs.run_record import EffectSpan, PersonDecision, RunRecord
from orchestrator.code_review.verdict.model import GuardRuling, Verdict
from orchestrator.engine.journal_verification import VerificationResult
from orchestrator.report.formats.html_page.call_sections import call_anchor, render_calls
from orchestrator.report.formats.html_page.timeline import render_timeline, whole_window
from orchestrator.report.html_elements import render_section, render_table, text
from orchestrator.report.text_layout import format_duration

MAX_CALLS = 2_000


def render_run(
    verdict: Verdict, record: RunRecord, calls: Iterable[CallDetails], checked: VerificationResult
) -> str:
    """The sections that a shared copy of a run has more than its verdict."""
    shown = [*islice(calls, MAX_CALLS)]
    linked = {call.span.row for call in shown}
    return "".join(
        [
            render_section("time", "Time", _render_time(record, linked)),
            render_section("calls", "Calls of models and tools", render_calls(shown)),
            _render_guards(verdict.guards),
            _render_people(record.decided),
            render_section("journal", "Journal", _render_journal(checked)),
        ]
    )


def _render_time(record: RunRecord, linked: Collection[int]) -> str:
    return render_timeline(record, whole_window(record)) + _render_effects(record, linked)


def _render_effects(record: RunRecord, linked: Collection[int]) -> str:
    def describe(one: EffectSpan) -> Sequence[str]:
        took = "not ended" if one.seconds is None else format_duration(one.seconds)
        outcome = text(one.outcome[:300] or one.status)
        name = text(one.name)
        if one.row in linked:
            name = f'<a href="#{call_anchor(one.row)}">{name}</a>'
        return f"{one.at:.2f} s", text(one.agent or "code"), name, took, outcome

    head = ("At", "Agent", "What", "Took", "Outcome")
    rows = [describe(one) for one in record.spans[:MAX_CALLS]]
    more = len(record.spans) - MAX_CALLS
    note = f"<p>{more:,} more are in the journal.</p>" if more > 0 else ""
    table = render_table("Effects", head, rows)
    return f"<details><summary>All {len(record.spans):,} effects</summary>{table}{note}</details>"


def _render_guards(rulings: Sequence[GuardRuling]) -> str:
    rows = [
        (text(one.guard), one.action, text(one.agent), f"{one.count:,}", text(one.reason))
        for one in rulings
    ]
    if not rows:
        return ""
    head = ("Guard", "Did", "Agent", "Times", "Why")
    return render_section("guards", "Guard rulings", render_table("What guards did", head, rows))


def _render_people(decided: Sequence[PersonDecision]) -> str:
    rows = [
        (
            text(one.who),
            escape(one.what),
            text(one.about),
            datetime.fromtimestamp(one.at, UTC).isoformat(" ", "minutes"),
        )
        for one in decided
    ]
    if not rows:
        return ""
    table = render_table("Decisions", ("Who", "Did", "About", "When"), rows)
    return render_section("people", "Decided by people", table)


def _render_journal(checked: VerificationResult) -> str:
    if checked.errors:
        found = "".join(f"<li>{text(one.what)}</li>" for one in checked.errors[:50])
        return f'<p class="note">The journal was altered:</p><ul>{found}</ul>'
    gaps = "".join(f"<li>{text(one)}</li>" for one in checked.gaps)
    return (
        f"<p>The hash chain of its {checked.rows:,} rows holds. This copy shows them in part; the "
        "whole run, which others can verify: <code>diffcourt runs export</code>.</p>"
        f'<p class="place">{text(checked.head)}</p><ul class="small soft">{gaps}</ul>'
    )
