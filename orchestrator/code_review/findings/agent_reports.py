"""Agents' reports: their findings and their objections to findings, all of it unverified."""

from collections.abc import Iterable, Mapping, Set

from orchestrator.code_review.agent_report_contracts import (
    ReportedFinding,
    ReportedObjection,
    SpecialistReport,
    as_form,
)
from orchestrator.code_review.findings.citations import Sources, format_citation
from orchestrator.code_review.findings.evidence_from_journal import Work
from orchestrator.code_review.findings.finding_fingerprints import remove_white_space
from orchestrator.code_review.findings.merging import MergedFinding, default_rule
from orchestrator.code_review.findings.types import LocatedFinding
from orchestrator.code_review.rule_table import RuleTable
from orchestrator.code_review.verdict.model import Objection
from orchestrator.engine.canonical_json import digest

OBJECTION_SOURCES = ("file", "diff", "tool")
"""What an objection may cite. Citing a finding would support one claim with another."""


AgentReport = tuple[str, SpecialistReport]
"""An agent's name and one of its reports."""


def read_reports(team: Iterable[Work]) -> Iterable[AgentReport]:
    """Each agent's reports that fit their contract."""
    for entry in team:
        if entry.result.status == "ok":
            yield entry.result.agent, as_form(SpecialistReport, entry.result.report)


def claim_fingerprint(claim: ReportedFinding) -> str:
    """16 hex digits, equal for the same claim of whatever agent."""
    return digest([claim.rule, remove_white_space([claim.quote]), claim.path, claim.title])[:16]


def read_claim(claim: ReportedFinding, agent: str) -> LocatedFinding:
    """An agent's finding in the form that analyzers' findings have."""
    category = claim.category or agent
    return LocatedFinding(
        fingerprint=claim_fingerprint(claim),
        rule=claim.rule or default_rule(category),
        severity=claim.severity,
        category=category,
        cwe=tuple(claim.cwe),
        confidence=claim.confidence,
        title=claim.title,
        detail=claim.detail,
        fix_suggestion=claim.fix_suggestion,
        path=claim.path,
        start_line=claim.start_line,
        end_line=claim.end_line,
        quote=claim.quote,
        because_of=claim.because_of,
    )


async def collect_objections(
    sources: Sources,
    reports: Iterable[AgentReport],
    rules: RuleTable,
    known: Mapping[str, MergedFinding],
) -> dict[str, list[Objection]]:
    """The agents' objections, each checked, by the finding's fingerprint."""
    made: dict[str, dict[tuple[str, str], ReportedObjection]] = {}
    for agent, report in reports:
        for objection in report.objections:
            if objection.fingerprint in known:
                fingerprint = known[objection.fingerprint].fingerprint
                made.setdefault(fingerprint, {})[agent, objection.reason] = objection
    checked: dict[str, list[Objection]] = {}
    for fingerprint, objections in made.items():
        errors = {
            key: await sources.check(objection.evidence, OBJECTION_SOURCES)
            for key, objection in objections.items()
        }
        objecting = {agent for (agent, _), error in errors.items() if not error}
        upheld = _why_upheld(known[fingerprint], objecting, rules)
        checked[fingerprint] = [
            Objection(
                by=agent,
                reason=reason,
                evidence=tuple(map(format_citation, objection.evidence)),
                why_not=errors[agent, reason] or upheld,
            )
            for (agent, reason), objection in objections.items()
        ]
    return checked


def _why_upheld(merged: MergedFinding, objecting: Set[str], rules: RuleTable) -> str:
    """Why a finding stands against agents with valid objections; empty when it does not."""
    for report in merged.reports:
        rule = report.finding.rule
        if report.from_analyzer and not rules.rules[rule].arguable:
            return f"{report.reporter} proved it, and {rule} is not a matter of judgment"
    others = sorted(merged.supporters - objecting)
    return f"{', '.join(others)} said that it is a defect" if others else ""
