"""Waivers: findings that a person has accepted in the policy of base are marked, not dropped."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from orchestrator.catalog.catalog import VERDICT
from orchestrator.catalog.data_file_layers import Layer, locate_text
from orchestrator.catalog.verdict_policy import VerdictPolicy, Waiver
from orchestrator.code_review.rule_table import IMPORTED, RuleTable
from orchestrator.code_review.verdict.decision import matches
from orchestrator.code_review.verdict.model import Finding
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.engine.ports import SystemClock
from orchestrator.errors import ConfigError


def check_waivers(policy: VerdictPolicy, rules: RuleTable, sources: Sequence[Layer]) -> None:
    """Check that the waivers name existing rules."""
    for waiver in policy.waivers:
        rule = waiver.rule
        if rule is not None and rule not in rules.rules and not rule.startswith(IMPORTED):
            raise ConfigError(
                f"waivers: there is no rule {rule}; docs/findings.md lists them",
                *locate_text(sources, VERDICT, rule),
            )


async def run_day(policy: VerdictPolicy, journal: Journal) -> str:
    """The day the run began on, YYYY-MM-DD in UTC; empty where no waiver expires."""
    if all(waiver.until is None for waiver in policy.waivers):
        return ""

    async def perform() -> EffectResult:
        return EffectResult(datetime.fromtimestamp(SystemClock().now(), UTC).date().isoformat())

    day: str = await journal.effect("intake/day", None, perform)
    return day


def matching_waivers(
    policy: VerdictPolicy, rule: str, fingerprint: str, path: str
) -> tuple[Waiver, ...]:
    """The waivers that match a finding, expired ones included."""
    return tuple(
        waiver
        for waiver in policy.waivers
        if (waiver.rule == rule or waiver.fingerprint == fingerprint)
        and any(matches(path, pattern) for pattern in waiver.paths)
    )


def apply_waivers(
    findings: Iterable[Finding], policy: VerdictPolicy, day: str
) -> tuple[Finding, ...]:
    """The findings, those that a waiver matches marked with its reason.

    Args:
        day: YYYY-MM-DD, the day the run began on.
    """
    return tuple(_apply_waivers(finding, policy, day) for finding in findings)


def _apply_waivers(finding: Finding, policy: VerdictPolicy, day: str) -> Finding:
    waivers = matching_waivers(policy, finding.rule, finding.fingerprint, finding.path)
    for waiver in waivers:
        if waiver.until is None or day <= waiver.until.isoformat():
            return replace(finding, state="waived", waiver=waiver.why)
    if waivers:
        ended = f"its waiver held until {waivers[0].until} ({waivers[0].why})"
        return replace(finding, waiver=ended)
    return finding
