"""Waivers: findings that a person has accepted in base's policy are marked, not dropped.

Dismissals and preferences of the repository's memory are waivers with additional conditions.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from diffchecks.rules import IMPORTED, RuleTable
from orchestrator.catalog.catalog import VERDICT
from orchestrator.catalog.data_file_layers import Layer, locate_text
from orchestrator.catalog.repository_memory import Dismissal, Preference
from orchestrator.catalog.shared_literals import is_as_severe
from orchestrator.catalog.verdict_policy import VerdictPolicy, Waiver
from orchestrator.code_review.findings.located_findings import LocatedFinding
from orchestrator.code_review.findings.placed_dismissals import PlacedDismissal, why_reopened
from orchestrator.code_review.verdict.decision import matches
from orchestrator.code_review.verdict.document_parts import WaiverState, WaiverUse
from orchestrator.code_review.verdict.model import Finding
from orchestrator.data_directories import DISMISSED, PREFERENCES, WAIVERS
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.engine.ports import SystemClock
from orchestrator.errors import ConfigError


def check_waivers(policy: VerdictPolicy, rules: RuleTable, sources: Sequence[Layer]) -> None:
    """Check that the waivers name existing rules."""
    for waiver in policy.waivers:
        rule = waiver.rule
        if rule is not None and rule not in rules.rules and not rule.startswith(IMPORTED):
            files = [WAIVERS, DISMISSED, PREFERENCES, VERDICT]
            places = [locate_text(sources, file, rule) for file in files]
            place = next((place for place in places if place[1]), places[-1])
            from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

            near = get_close_matches(rule, rules.rules, n=1)
            hint = f"did you mean {near[0]}?" if near else "`diffcourt catalog --rules` lists them"
            raise ConfigError(f"there is no rule {rule}; {hint}", *place)


async def run_day(policy: VerdictPolicy, journal: Journal) -> str:
    """The day on which the run began, YYYY-MM-DD in UTC; empty if no waiver expires."""
    if all(waiver.until is None for waiver in policy.waivers):
        return ""

    async def perform() -> EffectResult:
        return EffectResult(datetime.fromtimestamp(SystemClock().now(), UTC).date().isoformat())

    day: str = await journal.effect("intake/day", None, perform)
    return day


def matching_waivers(
    policy: VerdictPolicy, finding: LocatedFinding | Finding
) -> tuple[Waiver, ...]:
    """The waivers that match a finding, expired ones included."""
    return tuple(
        waiver
        for waiver in policy.waivers
        if not lowers(waiver) and matches_finding(waiver, finding)
    )


def lowers(waiver: Waiver) -> bool:
    """Whether it only lowers the severity of findings."""
    return isinstance(waiver, Preference) and waiver.severity != "off"


def matches_finding(waiver: Waiver, finding: LocatedFinding | Finding) -> bool:
    """Whether a waiver matches a finding."""
    if isinstance(waiver, PlacedDismissal):
        return waiver.means(finding)
    least = waiver.below_confidence if isinstance(waiver, Preference) else None
    if least is not None and finding.confidence >= least:
        return False
    named = waiver.rule == finding.rule or waiver.fingerprint == finding.fingerprint
    return named and any(matches(finding.path, pattern) for pattern in waiver.paths)


def has_expired(waiver: Waiver, day: str) -> bool:
    """Whether its last day is before a day, YYYY-MM-DD."""
    return waiver.until is not None and day > waiver.until.isoformat()


def describe_waivers(
    findings: Iterable[Finding], policy: VerdictPolicy, paths: Iterable[str], day: str
) -> tuple[WaiverUse, ...]:
    """The waivers that were used, have expired, or have no file to which they could apply.

    Others are not listed: their findings may exist outside of this change. Entries of the memory
    are listed separately.

    Args:
        paths: every file of head.
        day: YYYY-MM-DD, the day the run began on.
    """
    found, every = list(findings), list(paths)
    uses: list[WaiverUse] = []
    for waiver in policy.waivers:
        if isinstance(waiver, Dismissal | Preference):
            continue
        matched = tuple(one.id for one in found if matches_finding(waiver, one))
        state: WaiverState
        if has_expired(waiver, day):
            state = "expired"
        elif matched:
            state = "used"
        elif not applies_to_any(waiver, every):
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


def applies_to_any(waiver: Waiver, paths: Iterable[str]) -> bool:
    """Whether a waiver can apply to any of these files."""
    return any(matches(path, pattern) for path in paths for pattern in waiver.paths)


def apply_waivers(
    findings: Iterable[Finding], policy: VerdictPolicy, day: str
) -> tuple[Finding, ...]:
    """The findings, those that a waiver matches marked with its reason.

    Args:
        day: YYYY-MM-DD, the day the run began on.
    """
    return tuple(_apply_waivers(finding, policy, day) for finding in findings)


def _apply_waivers(finding: Finding, policy: VerdictPolicy, day: str) -> Finding:
    waivers = matching_waivers(policy, finding)
    valid = [waiver for waiver in waivers if not has_expired(waiver, day)]
    dismissals = [waiver for waiver in valid if isinstance(waiver, PlacedDismissal)]
    plain = [waiver for waiver in valid if not isinstance(waiver, PlacedDismissal)]
    if dismissals and not plain and (why := why_reopened(finding, dismissals)):
        last = dismissals[-1]
        said = f"{last.who or 'a person'} dismissed it{f' on {last.on}' if last.on else ''}"
        return replace(finding, waiver=f"{said} ({last.why}), and it is open again: {why}")
    for waiver in plain or valid:
        if waiver.by or finding.severity != "critical":
            by = f" ({waiver.by})" if waiver.by else ""
            return replace(finding, state="waived", waiver=f"{waiver.why}{by}")
    if valid:
        unnamed = f"not waived: a critical finding needs a person's name, as by: ({valid[0].why})"
        return replace(finding, waiver=unnamed)
    if waivers:
        ended = f"its waiver held until {waivers[0].until} ({waivers[0].why})"
        return replace(finding, waiver=ended)
    return _lower(finding, policy, day)


def _lower(finding: Finding, policy: VerdictPolicy, day: str) -> Finding:
    """The finding as severe as people want its rule to be at most; critical only by name."""
    for waiver in policy.waivers:
        if not isinstance(waiver, Preference) or waiver.severity == "off":
            continue
        if has_expired(waiver, day) or not matches_finding(waiver, finding):
            continue
        if is_as_severe(waiver.severity, finding.severity):
            continue
        if waiver.by or finding.severity != "critical":
            by = f" ({waiver.by})" if waiver.by else ""
            why = f"{waiver.severity} instead of {finding.severity}: {waiver.why}{by}"
            return replace(finding, severity=waiver.severity, waiver=why)
        unnamed = f"still critical: to lower that takes a person's name, as by: ({waiver.why})"
        return replace(finding, waiver=unnamed)
    return finding
