"""The verdict as plain text for a person: the decision first, then its grounds, then its limits."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from orchestrator.catalog.fields import Outcome
from orchestrator.report import escalation, findings, score_and_usage, unexamined_files
from orchestrator.report.terminal_escaping import escape_line, escape_unprintable, quote_path
from orchestrator.report.text_layout import MIN_WIDTH, Page, count_noun, truncate
from orchestrator.review.verdict.model import Verdict

_STYLE: dict[Outcome, str] = {"merge": "green", "needs_changes": "yellow", "block": "red"}
_OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def render_verdict(
    verdict: Verdict, *, width: int = 80, color: bool = False, repo: Path | None = None
) -> str:
    """The whole report, ending in a newline.

    Everything that comes from the change or from a model is shown escaped where it would not print,
    so that it can neither move the cursor nor look like a line of the report.

    Args:
        width: columns to fill.
        color: ANSI codes are used.
        repo: named in the commands that the report tells to run, when the person named one.
    """
    page = Page(max(width, MIN_WIDTH), color)
    sections = [
        _header(page, verdict),
        _reasons(page, verdict),
        escalation.questions(page, verdict, repo),
        findings.findings(page, verdict),
        unexamined_files.not_reviewed(page, verdict),
        unexamined_files.required_checks(page, verdict),
        findings.waived(page, verdict),
        findings.rejected(page, verdict),
        score_and_usage.score(page, verdict),
        score_and_usage.agents(page, verdict),
        escalation.stage_changes(page, verdict),
        score_and_usage.rounds(page, verdict),
        score_and_usage.guards(page, verdict),
        score_and_usage.stop(page, verdict),
        score_and_usage.next_steps(page, verdict),
        _footer(page, verdict, repo),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _header(page: Page, verdict: Verdict) -> list[str]:
    counted = findings.open_findings(verdict)
    word = verdict.verdict.replace("_", " ").upper()
    missing = len(unexamined_files.gaps(verdict))
    status = "review complete"
    if verdict.status == "incomplete":
        status = "REVIEW INCOMPLETE" + (f" ({count_noun(missing, 'gap')})" if missing else "")
    first, *others = page.facts(
        (word, status, findings.count_by_severity(counted) or "no findings")
    )
    lines = [page.paint(word, _STYLE[verdict.verdict]) + first[len(word) :], *others]
    lines += page.facts(_change(verdict), first="Change   ")
    lines += page.facts(_score(verdict), first="Score    ")
    for note in verdict.change.notes[:10]:
        lines += page.wrap(escape_line(note), first="Note     ", most=4)
    if verdict.lead_summary:
        lines += page.wrap(escape_line(verdict.lead_summary), first="Lead     ", most=6)
    if verdict.summary:
        lines += page.wrap(escape_line(verdict.summary), first="Summary  ", most=8)
    return lines


def _change(verdict: Verdict) -> list[str]:
    change = verdict.change
    seen = len({entry.path for entry in verdict.checked})
    files = count_noun(change.files, "file")
    if seen != change.files:
        files += f" ({seen:,} reviewed)"
    sides = f"{_side(change.base)}..{_side(change.head)}"
    return [sides, files, f"+{change.added_lines:,} -{change.removed_lines:,}"]


def _score(verdict: Verdict) -> list[str]:
    total = "not scored"
    if verdict.score.total is not None:
        total = f"{verdict.score.total:.2f} ({verdict.score.threshold:.2f} needed)"
    return [total, f"confidence {verdict.confidence:.2f}"]


def _side(name: str) -> str:
    """A commit id cut to twelve digits, any other name as it is."""
    return name[:12] if _OBJECT_ID.fullmatch(name) else truncate(escape_unprintable(name), 40)


def _reasons(page: Page, verdict: Verdict) -> list[str]:
    if not verdict.reasons:
        return []
    return [page.heading("Why"), *page.items(verdict.reasons, most=12, rest="more in the JSON")]


def _footer(page: Page, verdict: Verdict, repo: Path | None) -> list[str]:
    where = f" --repo {escape_unprintable(shlex.quote(str(repo)))}" if repo else ""
    show = f"diffcourt show {escape_unprintable(verdict.run_id)}{where}"
    lines = score_and_usage.used(page, verdict.usage)
    origin = verdict.provenance
    by = ", ".join(
        (f"diffcourt {origin.version}", f"provider {origin.provider}", *origin.models[:4])
    )
    lines += [page.paint(line, "dim") for line in page.wrap(escape_line(by), first="By       ")]
    for artifact in verdict.artifacts[:10]:
        lines += page.wrap(
            f"{quote_path(artifact.path)} ({escape_line(artifact.name)})", first="File     "
        )
    return [*lines, f"Run      {show}   (--json for everything)"]
