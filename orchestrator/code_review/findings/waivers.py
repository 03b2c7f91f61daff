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
from orchestrator.code_review.verdict.waiver_use import WaiverState, WaiverUse
from orchestrator.data_directories import WAIVERS
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.engine.ports import SystemClock
from orchestrator.errors import ConfigError


def check_waivers(policy: VerdictPolicy, rules: RuleTable, sources: Sequence[Layer]) -> None:
    """Check that the waivers name existing rules."""
    for waiver in policy.waivers:
        rule = waiver.rule
        if rule is not None and rule not in rules.rules and not rule.startswith(IMPORTED):
            file, line = locate_text(sources, WAIVERS, rule)
            place = (file, line) if line else locate_text(sources, VERDICT, rule)
            raise ConfigError(
                f"waivers: there is no rule {rule}; docs/findings.md lists them", *place
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


def _has_expired(waiver: Waiver, day: str) -> bool:
    return waiver.until is not None and day > waiver.until.isoformat()


def describe_waivers(
    findings: Iterable[Finding], policy: VerdictPolicy, paths: Iterable[str], day: str
) -> tuple[WaiverUse, ...]:
    """What became of the waivers: used, expired, or without any file that they could apply to.

    The rest is not listed: a finding that is not of this change may still be there.

    Args:
        paths: every file of head.
        day: YYYY-MM-DD, the day the run began on.
    """
    found = list(findings)
    every = list(paths)
    uses: list[WaiverUse] = []
    for waiver in policy.waivers:
        matched = tuple(
            finding.id
            for finding in found
            if waiver in matching_waivers(policy, finding.rule, finding.fingerprint, finding.path)
        )
        state: WaiverState
        if _has_expired(waiver, day):
            state = "expired"
        elif matched:
            state = "used"
        elif not any(matches(path, pattern) for path in every for pattern in waiver.paths):
            state = "unmatched"
        else:
            continue
        uses.append(
            WaiverUse(
                state,
                waiver.rule or waiver.fingerprint or "",
                waiver.paths,
                waiver.why,
                waiver.by,
                str(waiver.until or ""),
                matched,
            )
        )
    return tuple(uses)


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
    valid = [waiver for waiver in waivers if not _has_expired(waiver, day)]
    for waiver in valid:
        if waiver.by or finding.severity != "critical":
            by = f" ({waiver.by})" if waiver.by else ""
            return replace(finding, state="waived", waiver=f"{waiver.why}{by}")
    if valid:
        unnamed = f"not waived: a critical finding needs a person's name, as by: ({valid[0].why})"
        return replace(finding, waiver=unnamed)
    if waivers:
        ended = f"its waiver held until {waivers[0].until} ({waivers[0].why})"
        return replace(finding, waiver=ended)
    return finding
