"""Which agents escalated and why, and what a person was asked."""

from __future__ import annotations

from pathlib import Path

from orchestrator.errors import answer_command
from orchestrator.report.terminal_escaping import escape_line, escape_unprintable
from orchestrator.report.text_layout import Page, render_omitted
from orchestrator.review.verdict.model import Verdict

MOST_ESCALATIONS = 30


def questions(page: Page, verdict: Verdict, repo: Path | None) -> list[str]:
    """What waits for an answer, each with the command that gives it; then what was answered."""
    waiting = [asked for asked in verdict.questions if not asked.answer]
    lines = [page.heading("Waits for your answer")] if waiting else []
    for asked in waiting:
        name = asked.name if len(waiting) > 1 else ""
        command = answer_command(verdict.run_id, name, repo)
        lines += page.wrap(escape_line(asked.question), first="  ", most=8)
        lines.append(f"    {escape_unprintable(command)}")
    answered = [asked for asked in verdict.questions if asked.answer]
    if answered:
        lines += [*([""] if waiting else []), page.heading("Answered by a person")]
    for asked in answered:
        lines += page.wrap(escape_line(asked.question), first="  ", most=4)
        said = f"{asked.answered_by}, {asked.answered_at}: {asked.answer}"
        lines += page.wrap(escape_line(said), first="    ", most=8)
    return lines


def stage_changes(page: Page, verdict: Verdict) -> list[str]:
    """Every move to another escalation stage, with its reason."""
    if not verdict.escalations:
        return []
    lines = [page.heading("Escalated")]
    for change in verdict.escalations[:MOST_ESCALATIONS]:
        moved = f"{change.from_stage} -> {change.to_stage}"
        text = f"{change.agent} (round {change.iteration}) {moved}: {change.why}"
        lines += page.wrap(escape_line(text), first="  ", most=3)
    return lines + render_omitted(len(verdict.escalations), MOST_ESCALATIONS)
