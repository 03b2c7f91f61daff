"""A run's verdict: the final one, or a partial one while the run waits for an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import to_builtins

from orchestrator.app.approvals import current_user
from orchestrator.app.types import Answer
from orchestrator.engine.human_questions import record_answer
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import Row, SystemClock

if TYPE_CHECKING:  # a tenth of a second to import, and rows do not need it
    from orchestrator.code_review.verdict.model import Verdict

VERDICT = "verdict"
"""Key of the note that holds the final verdict."""

WAITING = "waiting"
"""Topic of notes of what a review had come to, each time that it stopped for an answer."""


async def answer_question(journal: Journal, answer: Answer) -> None:
    """Record an answer before anything else is done, so that it is not lost.

    Raises:
        InputError: no such question is pending.
    """
    now = SystemClock().now()
    await record_answer(journal, answer.to, answer.text, who=current_user(), now=now)


def record_verdict(journal: Journal, verdict: Verdict) -> None:
    """Note a verdict: as the run's last word, or as what there is while it waits for an answer."""
    if verdict.approvals or any(not question.answer for question in verdict.questions):
        journal.add_note(WAITING, to_builtins(verdict))
    else:
        journal.renew_note(VERDICT, to_builtins(verdict))


def is_waiting_verdict(row: Row) -> bool:
    """Whether a row is a verdict from when the run stopped for an answer."""
    return row.kind == "note" and Key.parse(row.key).part == WAITING


def waiting_verdict(rows: Sequence[Row]) -> Row | None:
    """The row of a waiting run's partial verdict; None when the run has continued since."""
    last = None
    for row in rows:
        if is_waiting_verdict(row):
            last = row
        elif row.kind in {"intent", "outcome", "refusal"}:
            last = None
    return last
