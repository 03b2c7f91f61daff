"""The effects of the repository's memory on a review, for its verdict."""

from collections.abc import Iterable, Sequence

from orchestrator.catalog.repository_memory import Dismissal, Preference
from orchestrator.catalog.verdict_policy import VerdictPolicy, Waiver
from orchestrator.code_review.findings.placed_dismissals import PlacedDismissal
from orchestrator.code_review.findings.waivers import applies_to_any, has_expired, matches_finding
from orchestrator.code_review.verdict.document_parts import MemoryEffect, MemoryUse
from orchestrator.code_review.verdict.model import Finding
from orchestrator.data_directories import DISMISSED, MEMORY, OVERLAY, PREFERENCES


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
