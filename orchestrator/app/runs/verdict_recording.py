"""A run's verdict: the final one, or a partial one while the run waits for an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import to_builtins

from orchestrator.app.types import Answer
from orchestrator.engine.human_questions import find_question, record_answer, recorded_questions
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import NOTIFY, Key
from orchestrator.engine.ports import Row, SystemClock
from orchestrator.errors import InputError

if TYPE_CHECKING:  # a tenth of a second to import, and rows do not need it
    from orchestrator.code_review.verdict.model import Verdict

VERDICT = "verdict"
"""Key of the note that holds the final verdict."""

WAITING = "waiting"
"""Topic of notes of what a review had come to, each time that it stopped for an answer."""


def require_answerable(journal: Journal, answer: Answer) -> None:
    """Check that a person's answer is to a question that waits."""
    if any(not question.answer for question in recorded_questions(journal)):
        require_not_ended(journal)
    find_question(journal, answer.to, answer.text)


async def answer_question(journal: Journal, answer: Answer, who: str) -> None:
    """Record a person's answer."""
    require_answerable(journal, answer)
    await record_answer(journal, answer.to, answer.text, who=who, now=SystemClock().now())


def record_verdict(journal: Journal, verdict: Verdict) -> None:
    """Record a verdict: the final one, or a partial one while the run waits for an answer."""
    waits = verdict.approvals or any(not question.answer for question in verdict.questions)
    if waits and verdict.stop.reason != "cancelled":
        journal.add_note(WAITING, to_builtins(verdict))
    else:
        journal.renew_note(VERDICT, to_builtins(verdict))


def has_ended(journal: Journal) -> bool:
    """Whether the run has its final verdict, and no limit was raised since."""
    return journal.noted(VERDICT) is not None and not journal.granted_after(VERDICT)


def require_not_ended(journal: Journal) -> None:
    """Check that the run can continue, so that a decision or an answer has an effect."""
    if has_ended(journal):
        raise InputError(
            f"run {journal.run_id} has ended, so nothing in it waits for a person; "
            f"see it with: diffcourt show {journal.run_id}"
        )


def is_final_verdict(row: Row) -> bool:
    """Whether a row is the final verdict; one that was reached again replaces it."""
    return row.kind == "note" and row.key == VERDICT


def is_waiting_verdict(row: Row) -> bool:
    """Whether a row is a partial verdict, recorded when the run stopped for an answer."""
    return row.kind == "note" and Key.parse(row.key).part == WAITING


def is_verdict(row: Row) -> bool:
    """Whether a row is a verdict, final or partial."""
    return is_final_verdict(row) or is_waiting_verdict(row)


def last_row(rows: Sequence[Row], wanted: Callable[[Row], bool]) -> Row | None:
    """The newest row of a kind; None if there is none."""
    return next(filter(wanted, reversed(rows)), None)


def waiting_verdict(rows: Sequence[Row]) -> Row | None:
    """The row of a waiting run's partial verdict; None if the run has continued since."""
    for row in reversed(rows):
        if is_waiting_verdict(row):
            return row
        if row.kind in {"intent", "outcome", "refusal"} and Key.parse(row.key).part != NOTIFY:
            return None
    return None
