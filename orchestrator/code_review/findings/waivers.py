"""Waivers: findings that a person has accepted in base's policy are marked, not dropped.

Dismissals and preferences of the repository's memory are waivers with additional conditions; what
entries of the memory did is part of the verdict.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from diffchecks.rules import IMPORTED, RuleTable
from orchestrator.catalog.catalog import VERDICT
from orchestrator.catalog.data_file_layers import Layer, locate_text
from orchestrator.catalog.repository_memory import Dismissal, Preference
from orchestrator.catalog.shared_literals import SEVERITIES, is_as_severe
from orchestrator.catalog.verdict_policy import VerdictPolicy, Waiver
from orchestrator.code_review.findings.finding_context import ContextBlock, leads_to
from orchestrator.code_review.findings.located_findings import LocatedFinding
from orchestrator.code_review.tools.path_globs import matches_any
from orchestrator.code_review.verdict.document_parts import (
    FindingContext,
    MemoryEffect,
    MemoryUse,
    WaiverState,
    WaiverUse,
)
from orchestrator.code_review.verdict.model import Finding
from orchestrator.data_directories import DISMISSED, MEMORY, OVERLAY, PREFERENCES, WAIVERS
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.engine.ports import SystemClock
from orchestrator.errors import ConfigError


class PlacedDismissal(Dismissal, frozen=True, kw_only=True):
    """A dismissal, with the place of its finding in a change.

    Attributes:
        means: whether a finding is the one that was dismissed.
        added: path in head → the lines that the change adds.
        path: its file in head, which may have been renamed; empty where it is not placed.
        now: the block that contains it now; None if it is not placed.
        in_base: digests of the blocks that contain the same text in base.
        is_edited: its file exists but not its text, so it dismisses nothing.
    """

    means: Callable[[LocatedFinding | Finding], bool]
    added: Callable[[str], frozenset[int]]
    path: str = ""
    now: ContextBlock | None = None
    in_base: frozenset[str] = frozenset()
    is_edited: bool = False

    @property
    def has_moved_on(self) -> bool:
        """Whether the change alters the block of the finding since it was dismissed."""
        known = self.about.context if self.about else ""
        if not known or self.now is None:
            return False
        return self.now.digest != known and self.now.digest not in self.in_base


def why_reopened(finding: Finding, dismissals: Sequence[PlacedDismissal]) -> str:
    """Why a dismissed finding is open again; empty if it stays dismissed.

    Args:
        dismissals: all that match it and have not expired; at least one.
    """
    dismissals = [one for one in dismissals if not one.is_edited]
    if not dismissals:
        return "the line changed since"
    abouts, last = [one.about for one in dismissals if one.about], dismissals[-1]
    context = finding.context
    if context is not None and context.flow not in {"", *(one.flow for one in abouts)}:
        for way in _new_ways(finding, context, last):
            return way
    if (now := last.now) is not None and all(one.has_moved_on for one in dismissals):
        what = f"the function around it ({now.scope})" if now.scope else "the lines around it"
        return f"{what} at {last.path}:{now.start}-{now.end} changed since"
    known = min((one.severity for one in abouts), key=SEVERITIES.index)
    proved = finding.support == "proven"
    if not is_as_severe(known, finding.severity) and (proved or finding.severity == "critical"):
        who = "an analyzer proves" if proved else "agents report"
        return f"{who} it as {finding.severity}, and it was dismissed as {known}"
    return ""


def _new_ways(
    finding: Finding, context: FindingContext, dismissal: PlacedDismissal
) -> Iterator[str]:
    """Changed lines that lead to a finding from outside of its function."""
    block = ContextBlock(context.start_line, context.end_line, context.scope, context.lines)
    for side, path, line in leads_to(finding, block):
        if side == "base":
            yield f"{path}:{line}, which the change removes, leads to it"
        elif line in dismissal.added(path):
            yield f"{path}:{line}, which the change adds, leads to it"


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
    return named and matches_any(finding.path, waiver.paths)


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
        expired = has_expired(waiver, day)
        if not (expired or matched) and applies_to_any(waiver, every):
            continue
        state: WaiverState = "expired" if expired else "used" if matched else "unmatched"
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
    return any(matches_any(path, waiver.paths) for path in paths)


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
        dismissal = f"{last.who or 'a person'} dismissed it{f' on {last.on}' if last.on else ''}"
        return replace(finding, waiver=f"{dismissal} ({last.why}), and it is open again: {why}")
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


def describe_memory(
    findings: Iterable[Finding], policy: VerdictPolicy, paths: Iterable[str], day: str
) -> tuple[MemoryUse, ...]:
    """The entries that had an effect, have expired, or cannot apply to anything.

    Args:
        findings: as they are with waivers applied.
        paths: every file of head.
        day: YYYY-MM-DD, the day the run began on.
    """
    found, every = list(findings), list(paths)
    uses: list[MemoryUse] = []
    for waiver in policy.waivers:
        if not isinstance(waiver, Dismissal | Preference):
            continue
        matched = [one for one in found if matches_finding(waiver, one)]
        if effect := _effect(waiver, matched, every, day):
            uses.append(
                MemoryUse(
                    file=f"{OVERLAY}/{DISMISSED if isinstance(waiver, Dismissal) else PREFERENCES}",
                    entry=waiver.rule or waiver.fingerprint or "",
                    effect=effect,
                    why=waiver.why,
                    by=waiver.who if isinstance(waiver, Dismissal) else waiver.by,
                    until=str(waiver.until or ""),
                    findings=tuple(one.id for one in matched),
                )
            )
    return (*uses, *_cited(found))


def _effect(
    waiver: Dismissal | Preference, matched: Sequence[Finding], paths: Sequence[str], day: str
) -> MemoryEffect | None:
    if has_expired(waiver, day):
        return "expired"
    if matched:
        if not waiver.by and all(one.severity == "critical" for one in matched):
            return "unnamed"
        if isinstance(waiver, Preference) and waiver.severity != "off":
            return "lowered" if any(one.waiver for one in matched) else None
        waived = any(one.state == "waived" for one in matched)
        if isinstance(waiver, PlacedDismissal) and waiver.is_edited:
            return None if waived else "reopened"
        return "dismissed" if waived else "reopened"
    return None if _is_there(waiver, paths) else "unmatched"


def _is_there(waiver: Waiver, paths: Sequence[str]) -> bool:
    """Whether head has a file that an entry can apply to, under any name."""
    about = waiver.about if isinstance(waiver, Dismissal) else None
    if about is None:
        return applies_to_any(waiver, paths)
    renamed = isinstance(waiver, PlacedDismissal) and waiver.path
    return bool(renamed) or about.path in paths


def _cited(findings: Iterable[Finding]) -> list[MemoryUse]:
    """The lines of the memory's texts on which findings are based."""
    lines: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        line = finding.guideline
        if line and line.path.startswith(f"{OVERLAY}/{MEMORY}/"):
            lines.setdefault((line.path, line.quote), []).append(finding.id)
    return [
        MemoryUse(file=file, entry=text, effect="cited", findings=tuple(ids))
        for (file, text), ids in lines.items()
    ]
