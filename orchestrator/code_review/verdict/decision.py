"""Computes the outcome, with its reasons, from verified findings, gaps and required checks.

No text of a model reaches this module; its inputs are verified by code.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from pathspec.patterns.gitignore.basic import GitIgnoreBasicPattern

from diffchecks import name_some
from orchestrator.catalog.shared_literals import (
    OUTCOMES,
    SEVERITIES,
    Outcome,
    Severity,
    Support,
    is_as_severe,
)
from orchestrator.catalog.verdict_policy import CheckRule, VerdictPolicy
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.verdict.model import Finding, RequiredCheck
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


def excluded(change: Change, policy: VerdictPolicy) -> dict[str, str]:
    """The changed files that the policy excludes: path → why."""
    return {
        file.path: exclusion.why
        for file in change.files
        for exclusion in reversed(policy.exclude)
        if any(matches(file.path, pattern) for pattern in exclusion.paths)
    }


@lru_cache(maxsize=512)
def _glob(pattern: str) -> GitIgnoreBasicPattern:
    return GitIgnoreBasicPattern(pattern)


def matches(path: str, pattern: str) -> bool:
    """Whether a glob of the policy matches a path, by the rules of ``.gitignore``."""
    glob = _glob(pattern)
    return bool(glob.include) and glob.match_file(path) is not None


def concerned(rule: CheckRule, paths: Iterable[str]) -> list[str]:
    """Those of the files for which a check is required."""
    return list(_matching(tuple(rule.when), tuple(paths)))


@lru_cache(maxsize=64)  # planning asks for each check again and again, of all files of the change
def _matching(patterns: tuple[str, ...], paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for path in paths if any(matches(path, pattern) for pattern in patterns))


def required(rules: Iterable[CheckRule], paths: Sequence[str]) -> list[CheckRule]:
    """The checks that the policy requires for these files."""
    return [rule for rule in rules if concerned(rule, paths)]


class ToolHealth(Struct, frozen=True):
    """The health of a tool, over all its calls.

    Attributes:
        error: its last error; empty if the last call succeeded.
        own_tests: why only the change's own tests passed; empty if others passed too.
        nothing: why it had nothing to compare; empty if it had.
        found: the number of its findings.
    """

    error: str
    gaps: frozenset[str]
    given: frozenset[str] = frozenset()
    own_tests: str = ""
    nothing: str = ""
    found: int = 0


def check_required(
    rule: CheckRule,
    due: Mapping[str, frozenset[str]] | None,
    tools: Mapping[str, ToolHealth],
    off: Mapping[str, str],
) -> RequiredCheck:
    """Whether a required check has run.

    Args:
        due: tool → the paths that it must examine; None: the check does not apply.
        off: tool → why no agent was given it.
    """
    if due is None:
        return RequiredCheck(name=rule.name, status="not_applicable")
    silent = [name for name in rule.tools if name not in tools]
    if silent:
        whys = "; ".join(dict.fromkeys(off[name] for name in silent if name in off))
        detail = f"{', '.join(silent)} did not run{f': {whys}' if whys else ''}"
        return RequiredCheck(name=rule.name, status="not_run", detail=detail)
    broken = [f"{name}: {tools[name].error}" for name in rule.tools if tools[name].error]
    missed = sorted(
        frozenset[str]().union(
            *(
                tools[name].gaps | (due.get(name, frozenset()) - tools[name].given)
                for name in rule.tools
            )
        )
    )
    if broken or missed:
        seen = "; ".join([*broken, *(_missed(path, rule.tools) for path in missed[:3])])
        more = f" and {len(missed) - 3} more" if len(missed) > 3 else ""
        return RequiredCheck(name=rule.name, status="failed", detail=seen + more)
    if all(tools[name].nothing for name in rule.tools):
        why = "; ".join(f"{name}: {tools[name].nothing}" for name in rule.tools)
        return RequiredCheck(name=rule.name, status="not_applicable", detail=why)
    own = "; ".join(tools[name].own_tests for name in rule.tools if tools[name].own_tests)
    if own:
        return RequiredCheck(name=rule.name, status="passed_by_own_tests", detail=own)
    found = sum(tools[name].found for name in rule.tools)
    what = count_noun(found, "finding") if found else "found nothing"
    return RequiredCheck(name=rule.name, status="ran", detail=f"{', '.join(rule.tools)}: {what}")


def _missed(path: str, tools: Sequence[str]) -> str:
    """What a check has not examined; a gap under its tool's name concerns no single file."""
    return f"{path} did not do all of its work" if path in tools else f"did not look at {path}"


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
    told: str = finding.support
    if told == "claimed":
        disputed = any(objection.refutes for objection in finding.objections)
        told = "disputed" if disputed else f"claimed by {name_some(finding.reported_by, 5)} only"
    return outcome_for(finding.severity, finding.confidence, finding.support, policy, told)


def outcome_for(
    severity: Severity, confidence: float, support: Support, policy: VerdictPolicy, told: str = ""
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
    noun = "finding" if len(findings) == 1 else "findings"
    return f"{len(findings)} {noun} ({ids})"


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
