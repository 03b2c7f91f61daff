"""What agents say in their reports: findings, and objections to findings. All of it is claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from msgspec import to_builtins

from orchestrator.engine.canonical_json import digest
from orchestrator.review.findings.baseline import normalize
from orchestrator.review.findings.citations import Sources, shown
from orchestrator.review.findings.journal_queries import Work
from orchestrator.review.findings.merging import Defect, unnamed
from orchestrator.review.report_contracts import (
    ReportedFinding,
    ReportedObjection,
    SpecialistReport,
    as_form,
)
from orchestrator.review.rule_table import RuleTable
from orchestrator.review.verdict.model import Objection

TELLING = ("file", "diff", "tool")
"""What an objection may cite: another finding would be one claim resting on another."""


Said = tuple[str, SpecialistReport]
"""An agent, and a report of its."""


def reports(team: Iterable[Work]) -> Iterable[Said]:
    """Each agent's reports that kept their contract."""
    for entry in team:
        if entry.result.status == "ok":
            yield entry.result.agent, as_form(SpecialistReport, entry.result.report)


def fingerprint(claim: ReportedFinding) -> str:
    """Equal for the same claim, whoever makes it."""
    return digest([claim.rule, normalize([claim.quote]), claim.path, claim.title])[:16]


def as_item(claim: ReportedFinding, agent: str) -> dict[str, Any]:
    """A claim in the form that analyzers' findings have."""
    category = claim.category or agent
    return {
        **to_builtins(claim),
        "fingerprint": fingerprint(claim),
        "rule": claim.rule or unnamed(category),
        "category": category,
    }


async def objections(
    sources: Sources, said: Iterable[Said], rules: RuleTable, known: Mapping[str, Defect]
) -> dict[str, list[Objection]]:
    """What agents hold against findings, by the finding's fingerprint.

    Args:
        known: every fingerprint that means a defect.
    """
    held: dict[str, dict[tuple[str, str], ReportedObjection]] = {}
    for agent, report in said:
        for one in report.objections:
            if one.fingerprint in known:
                held.setdefault(known[one.fingerprint].name, {})[agent, one.reason] = one
    found: dict[str, list[Objection]] = {}
    for name, made in held.items():
        faults = {who: await sources.faults(one.evidence, TELLING) for who, one in made.items()}
        against = {agent for (agent, _), fault in faults.items() if not fault}
        standing = _standing(known[name], against, rules)
        found[name] = [
            Objection(
                by=agent,
                reason=reason,
                evidence=tuple(map(shown, one.evidence)),
                why_not=faults[agent, reason] or standing,
            )
            for (agent, reason), one in made.items()
        ]
    return found


def _standing(defect: Defect, against: Set[str], rules: RuleTable) -> str:
    """Why a defect stands against agents that argue well, or empty."""
    for word in defect.words:
        if word.proved and not rules.rules[word.item["rule"]].arguable:
            return f"{word.by} proved it, and {word.item['rule']} is not a matter of judgment"
    others = sorted(defect.vouchers - against)
    return f"{', '.join(others)} said that it is a defect" if others else ""
