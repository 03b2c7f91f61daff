"""Decides the outcome, with its reasons, and the exit code, from verified findings.

No text of a model reaches this module; its inputs are verified by code.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Literal

from diffchecks import name_some
from orchestrator.catalog.shared_literals import (
    OUTCOMES,
    SEVERITIES,
    Outcome,
    Severity,
    Support,
    is_as_severe,
)
from orchestrator.catalog.verdict_policy import VerdictPolicy
from orchestrator.code_review.verdict.model import Finding
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK
from orchestrator.wording import count_noun

CATEGORIES = ("security", "qa", "docs", "architecture")

CLAIM_DECIDES_AT: Severity = "high"
"""The least severity at which a finding decides that one model only claims; it never blocks."""

CLAIMED = f"only claimed, below {CLAIM_DECIDES_AT}"
REFUTED = "refuted by the verifier"
UNSURE = "less sure than the policy demands"
"""Why an open finding does not decide."""


class Weight(IntEnum):
    """The effect of an open finding on the outcome."""

    SHOWN = 0
    NEEDS_CHANGES = 1
    BLOCKS = 2


def decide_outcome(
    findings: Sequence[Finding], policy: VerdictPolicy, *, complete: bool
) -> tuple[Outcome, tuple[str, ...]]:
    """The outcome, and the rules of the policy that decided."""
    found: dict[Outcome, dict[str, list[Finding]]] = {outcome: {} for outcome in OUTCOMES}
    for finding in findings:
        outcome, why = outcome_of(finding, policy)
        found[outcome].setdefault(why, []).append(finding)
    if found["block"]:
        return "block", tuple(_reasons(found["block"]))
    reasons = _reasons(found["needs_changes"])
    if not complete:
        reasons.append("the review is incomplete, and incomplete is never merge")
    if reasons:
        return "needs_changes", tuple(reasons)
    reason, light = f"no open finding at or above {policy.needs_changes_at}", found["merge"]
    if whys := [why for why in (CLAIMED, REFUTED) if why in light]:
        reason += " decides: " + "; ".join(f"{_count(light[why])} {why}" for why in whys)
    elif UNSURE in light:
        reason += f" with a confidence of at least {policy.needs_changes_confidence:.2f}"
    return "merge", (reason,)


def _reasons(found: Mapping[str, Sequence[Finding]]) -> list[str]:
    return [f"{_count(same)} at or above {bar}" for bar, same in found.items()]


def outcome_of(finding: Finding, policy: VerdictPolicy) -> tuple[Outcome, str]:
    """The outcome to which a finding leads on its own, and why; none if it is not open."""
    if finding.state != "open":
        return "merge", ""
    support, words = finding.support, str(finding.support)
    if support == "claimed":
        disputed = any(objection.refutes for objection in finding.objections)
        words = "disputed" if disputed else f"claimed by {name_some(finding.reported_by, 5)} only"
    shown = [one.not_shown for one in finding.proofs if one.is_reproduced]
    if support == "proven" and shown and all(shown):  # the harm may be what is not shown
        support, words = "agreed", "proven in part"
    paths = [one.evidence[1:] for one in finding.remarks if one.action == "confirms"]
    if support == "verified" and paths and not any(paths):
        support, words = "agreed", "verified by one quotation"
    return outcome_for(finding.severity, finding.confidence, support, policy, words)


def outcome_for(
    severity: Severity, confidence: float, support: Support, policy: VerdictPolicy, told: str
) -> tuple[Outcome, str]:
    """The outcome to which an open finding leads on its own, and why.

    Args:
        told: how the reason tells the support.

    Returns:
        For a merge, why it does not decide, or empty. Otherwise the severity that it reaches, and
        what its support does not suffice for.
    """
    effect = weight(severity, confidence, policy)
    if effect is Weight.SHOWN:
        return "merge", UNSURE if is_as_severe(severity, policy.needs_changes_at) else ""
    if not _can_decide(severity, support):
        return "merge", REFUTED if support == "refuted" else CLAIMED
    blocks = effect is Weight.BLOCKS
    if blocks and (support == "proven" or (support, severity) == ("verified", "critical")):
        return "block", policy.block_at
    bar = policy.block_at if blocks else policy.needs_changes_at
    if support == "claimed":
        bar = min(bar, CLAIM_DECIDES_AT, key=SEVERITIES.index)
    if blocks:
        return "needs_changes", f"{bar}, {told} and so not blocking"
    return "needs_changes", f"{bar}, {told}" if support == "claimed" else bar


def _can_decide(severity: Severity, support: Support) -> bool:
    claimed = support == "claimed"
    return is_as_severe(severity, CLAIM_DECIDES_AT) if claimed else support != "refuted"


def weight(severity: Severity, confidence: float, policy: VerdictPolicy) -> Weight:
    """The effect of an open finding by the policy."""
    if is_as_severe(severity, policy.block_at) and confidence >= policy.block_confidence:
        return Weight.BLOCKS
    reached = is_as_severe(severity, policy.needs_changes_at)
    if reached and confidence >= policy.needs_changes_confidence:
        return Weight.NEEDS_CHANGES
    return Weight.SHOWN


def _count(findings: Sequence[Finding]) -> str:
    ids = name_some([finding.id for finding in findings], 5)
    return f"{count_noun(len(findings), 'finding')} ({ids})"


def exit_code(
    outcome: Outcome,
    status: Literal["complete", "incomplete"],
    fail_on: str,
    findings: Iterable[Finding] = (),
    *,
    only_new: bool = False,
) -> Literal[0, 1, 3]:
    """The exit code of a review: incomplete comes first, then whether ``fail_on`` is reached.

    Args:
        fail_on: an outcome, ``never``, or bars for ``parse_bars``.
        findings: of the verdict; needed for bars and ``only_new``.
        only_new: ignore findings that the previous review had.
    """
    if status == "incomplete":
        return EXIT_INCOMPLETE
    if fail_on == "never":
        return EXIT_OK
    found = [f for f in findings if not only_new or f.since_previous != "open"]
    if fail_on not in OUTCOMES:
        bars = parse_bars(fail_on)
        return EXIT_GATED if any(_reaches_bar(finding, bars) for finding in found) else EXIT_OK
    if only_new:
        outcome = max((f.outcome for f in found), key=OUTCOMES.index, default="merge")
    return EXIT_OK if OUTCOMES.index(outcome) < OUTCOMES.index(fail_on) else EXIT_GATED


def parse_bars(text: str) -> Mapping[str, Severity]:
    """``high,qa:critical`` as category → severity at which its findings gate; empty: any category.

    Raises:
        ValueError: there is no such category or severity; lists them.
    """
    bars: dict[str, Severity] = {}
    for part in text.split(","):
        category, _, name = part.strip().rpartition(":")
        severity = next((known for known in SEVERITIES if known == name), None)
        if severity is None:
            raise ValueError(f"{name!r} is not a severity; use {', '.join(SEVERITIES)}")
        if category and category not in CATEGORIES:
            raise ValueError(f"{category!r} is not a category; use {', '.join(CATEGORIES)}")
        bars[category] = severity
    return bars


def _reaches_bar(finding: Finding, bars: Mapping[str, Severity]) -> bool:
    bar = bars.get(finding.category, bars.get(""))
    counts = finding.state == "open" and _can_decide(finding.severity, finding.support)
    return counts and bar is not None and is_as_severe(finding.severity, bar)
