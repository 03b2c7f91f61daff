"""Agents' reports and the findings in them, all of it unverified and held to its limits."""

import re
from collections.abc import Iterable

from msgspec import Struct

from diffchecks.new_findings import remove_white_space
from orchestrator.catalog.shared_literals import SEVERITIES, Severity
from orchestrator.code_review.agent_report_contracts import (
    ReportedFinding,
    SpecialistReport,
    as_form,
)
from orchestrator.code_review.findings.evidence_from_journal import Work
from orchestrator.code_review.findings.located_findings import LocatedFinding
from orchestrator.code_review.findings.merging import default_rule
from orchestrator.engine.canonical_json import digest

MAX_TITLE = 120
MAX_DETAIL = 2_000
"""Characters; what is longer is cut, with a mark."""
LONGEST_WORD = 40
"""Characters; within a longer run without a blank a text is cut anywhere."""
MAX_WEIGHTY = 10
"""Findings above info that an agent may report."""

_DOCS = frozenset({"docs", "doc", "documentation"})
_SPELLING = re.compile(r"\b(typo\w*|spelling|misspell\w*|misspelt)\b", re.IGNORECASE)


class IterationReport(Struct, frozen=True):
    """One agent's report of one iteration."""

    agent: str
    iteration: int
    form: SpecialistReport


def read_reports(team: Iterable[Work]) -> Iterable[IterationReport]:
    """Each agent's reports that fit their contract."""
    for entry in team:
        if entry.result.status == "ok":
            form = as_form(SpecialistReport, entry.result.report)
            yield IterationReport(entry.result.agent, entry.iteration, form)


def claim_fingerprint(claim: ReportedFinding) -> str:
    """16 hex digits, equal for the same claim of whatever agent."""
    return digest([claim.rule, remove_white_space([claim.quote]), claim.path, claim.title])[:16]


def read_claim(claim: ReportedFinding, agent: str) -> LocatedFinding:
    """An agent's finding in the form that analyzers' findings have."""
    category = claim.category or agent
    if category.casefold() in _DOCS:
        category = "docs"
    return LocatedFinding(
        fingerprint=claim_fingerprint(claim),
        rule=claim.rule or default_rule(category),
        severity=limit_severity(claim.severity, category, claim.title),
        category=category,
        cwe=tuple(claim.cwe),
        confidence=claim.confidence,
        title=shorten(claim.title, MAX_TITLE),
        detail=shorten(claim.detail, MAX_DETAIL),
        fix_suggestion=shorten(claim.fix_suggestion, MAX_DETAIL),
        path=claim.path,
        start_line=claim.start_line,
        end_line=claim.end_line,
        quote=claim.quote,
        because_of=claim.because_of,
        guideline=claim.guideline,
        patch=claim.patch,
        older=claim.older,
    )


def limit_severity(severity: Severity, category: str, title: str) -> Severity:
    """The severity that an agent's finding has at most: documentation alone never weighs much."""
    if category != "docs":
        return severity
    most: Severity = "info" if _SPELLING.search(title) else "medium"
    return max(severity, most, key=SEVERITIES.index)


def shorten(text: str, limit: int) -> str:
    """A text of at most ``limit`` characters, cut between words; the end says how long it was."""
    if len(text) <= limit:
        return text
    mark = f"... [cut: {len(text)} characters]"
    kept, blank, last = text[: limit - len(mark) + 1].rpartition(" ")
    return (kept if blank and len(last) <= LONGEST_WORD else text[: limit - len(mark)]) + mark
