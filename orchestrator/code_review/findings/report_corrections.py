"""Errors in a specialist's report that go back to it once: quotations and references that fail.

A wrong line or a copied prefix is corrected without asking. What code cannot place, the agent is
shown with the lines as they are, all at once. What was right in the first version stays in the
second, whether the agent repeats it or not.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from orchestrator.code_review.agent_report_contracts import (
    ReportedFinding,
    SpecialistReport,
    as_form,
)
from orchestrator.code_review.findings.agent_reports import read_claim
from orchestrator.code_review.findings.citations import Rejection, locate_finding, read_lines
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.engine.types import Json

SHOWN_AROUND = 3
"""Lines shown before and behind those that a finding cites."""

MAX_SHOWN_LINES = 40

ReportCheck = Callable[[str, Json, Json], Awaitable[tuple[Json, list[str]]]]


def correct_reports(
    workspace: ReviewWorkspace, fingerprints: Callable[[], Collection[str]]
) -> ReportCheck:
    """A check of reports for ``AgentRuntime.check_report``.

    Args:
        fingerprints: those of all findings that analyzers have reported so far.
    """

    async def check(agent: str, report: Json, earlier: Json) -> tuple[Json, list[str]]:
        if not _is_specialists(report):
            return report, []
        known = fingerprints()
        if isinstance(earlier, dict):
            return await _keep_what_held(workspace, agent, report, earlier, known), []
        form = as_form(SpecialistReport, report)
        errors = [
            f"finding {number} ({finding.title}): {error}"
            for number, finding in enumerate(form.findings, 1)
            if (error := await _error(workspace, agent, finding, known))
        ]
        errors += [
            f"objection {number}: there is no finding with the fingerprint {one.fingerprint!r}"
            for number, one in enumerate(form.objections, 1)
            if one.fingerprint not in known
        ]
        return report, errors

    return check


def _is_specialists(report: Json) -> bool:
    """Whether a report has findings of its own; a summary only names some."""
    findings = report.get("findings") if isinstance(report, dict) else None
    return isinstance(findings, list) and all(isinstance(one, dict) for one in findings)


async def _keep_what_held(
    workspace: ReviewWorkspace,
    agent: str,
    report: dict[str, Any],
    earlier: dict[str, Any],
    known: Collection[str],
) -> dict[str, Any]:
    """The second report, with the findings of the first that held and that it does not repeat."""
    first, second = (as_form(SpecialistReport, one).findings for one in (earlier, report))
    repeated = {_identity(finding) for finding in second}
    kept = [
        raw
        for raw, finding in zip(earlier["findings"], first, strict=True)
        if _identity(finding) not in repeated and not await _error(workspace, agent, finding, known)
    ]
    return {**report, "findings": [*report["findings"], *kept]}


def _identity(finding: ReportedFinding) -> tuple[str, str]:
    return finding.path, finding.title.casefold()


async def _error(
    workspace: ReviewWorkspace, agent: str, finding: ReportedFinding, known: Collection[str]
) -> str:
    """Why a finding cannot count as it is, with the cited lines as they are; empty if it can."""
    if finding.fingerprint in known:
        return ""
    found = await locate_finding(workspace, read_claim(finding, agent))
    if not isinstance(found, Rejection):
        return ""
    lines = await read_lines(workspace, "head", finding.path)
    start = max(1, min(finding.start_line, len(lines)) - SHOWN_AROUND)
    end = min(len(lines), finding.end_line + SHOWN_AROUND, start + MAX_SHOWN_LINES)
    shown = "\n".join(f"{number}: {lines[number - 1]}" for number in range(start, end + 1))
    return f"{found.reason}; {finding.path} reads\n{shown}" if shown else found.reason
