"""Findings that a person has accepted, by the policy of base: marked, and never dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from orchestrator.catalog.catalog import VERDICT
from orchestrator.catalog.data_sources import Source, place_of
from orchestrator.catalog.verdict_policy import VerdictPolicy, Waiver
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_records import EffectResult
from orchestrator.engine.ports import SystemClock
from orchestrator.errors import ConfigError
from orchestrator.review.rule_table import RuleTable
from orchestrator.review.verdict.decision import matches
from orchestrator.review.verdict.model import Finding


def check(policy: VerdictPolicy, rules: RuleTable, sources: Sequence[Source]) -> None:
    """Hold the waivers against the rules that there are.

    Raises:
        ConfigError: one names a rule that does not exist, and so would waive nothing.
    """
    for waiver in policy.waivers:
        if waiver.rule is not None and waiver.rule not in rules.rules:
            raise ConfigError(
                f"waivers: there is no rule {waiver.rule}; docs/findings.md lists them",
                *place_of(sources, VERDICT, waiver.rule),
            )


async def today(policy: VerdictPolicy, journal: Journal) -> str:
    """The day the run began on, as YYYY-MM-DD in UTC, where a waiver asks for it; or empty."""
    if all(waiver.until is None for waiver in policy.waivers):
        return ""

    async def perform() -> EffectResult:
        return EffectResult(datetime.fromtimestamp(SystemClock().now(), UTC).date().isoformat())

    day: str = await journal.effect("intake/day", None, perform)
    return day


def speaking_of(
    policy: VerdictPolicy, rule: str, fingerprint: str, path: str
) -> tuple[Waiver, ...]:
    """The waivers of a finding, whether they still hold or not."""
    return tuple(
        waiver
        for waiver in policy.waivers
        if (waiver.rule == rule or waiver.fingerprint == fingerprint)
        and any(matches(path, pattern) for pattern in waiver.paths)
    )


def waived(findings: Iterable[Finding], policy: VerdictPolicy, day: str) -> tuple[Finding, ...]:
    """The findings, those that a waiver speaks of marked with its reason."""
    return tuple(_waived(finding, policy, day) for finding in findings)


def _waived(finding: Finding, policy: VerdictPolicy, day: str) -> Finding:
    waivers = speaking_of(policy, finding.rule, finding.fingerprint, finding.path)
    for waiver in waivers:
        if waiver.until is None or day <= waiver.until.isoformat():
            return replace(finding, state="waived", waiver=waiver.why)
    if waivers:
        ended = f"its waiver held until {waivers[0].until} ({waivers[0].why})"
        return replace(finding, waiver=ended)
    return finding
