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
    SEVERE,
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


def check(
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


def decide(
    findings: Sequence[Finding], policy: VerdictPolicy, *, complete: bool
) -> tuple[Outcome, tuple[str, ...]]:
    """The outcome, and the rules of the policy that decided."""
    open_findings = [f for f in findings if f.state == "open"]
    outcomes: dict[Outcome, list[Finding]] = {outcome: [] for outcome in OUTCOMES}
    for finding in open_findings:
        outcomes[outcome_of(finding, policy)].append(finding)
    if blocking := outcomes["block"]:
        return "block", (f"{_count(blocking)} at or above {policy.block_at}",)
    by_reason: dict[str, list[Finding]] = {}
    for finding in outcomes["needs_changes"]:
        by_reason.setdefault(_why_changes(finding, policy), []).append(finding)
    reasons = [f"{_count(found)} at or above {reason}" for reason, found in by_reason.items()]
    if not complete:
        reasons.append("the review is incomplete, and incomplete is never merge")
    if reasons:
        return "needs_changes", tuple(reasons)
    reason = f"no open finding at or above {policy.needs_changes_at}"
    severe = [f for f in open_findings if is_as_severe(f.severity, policy.needs_changes_at)]
    heavy = [f for f in severe if weight(f.severity, f.confidence, policy)]
    refuted = [f for f in heavy if f.support == "refuted"]
    claimed = [f for f in heavy if f.support == "claimed"]
    if heavy:
        whys = ((claimed, "only claimed, below high"), (refuted, "refuted by the verifier"))
        reason += " decides: " + "; ".join(f"{_count(f)} {why}" for f, why in whys if f)
    elif severe:
        reason += f" with a confidence of at least {policy.needs_changes_confidence:.2f}"
    return "merge", (reason,)


def _why_changes(finding: Finding, policy: VerdictPolicy) -> str:
    """The severity that a finding reaches, and what its support does not suffice for."""
    severe = weight(finding.severity, finding.confidence, policy) is Weight.BLOCKS
    bar = policy.block_at if severe else policy.needs_changes_at
    support: str = finding.support
    if support == "claimed":
        bar = min(bar, "high", key=SEVERITIES.index)
        disputed = any(objection.refutes for objection in finding.objections)
        support = f"claimed by {name_some(finding.reported_by, 5)} only"
        support = "disputed" if disputed else support
    if severe:
        return f"{bar}, {support} and so not blocking"
    return f"{bar}, {support}" if finding.support == "claimed" else bar


def outcome_of(finding: Finding, policy: VerdictPolicy) -> Outcome:
    """The outcome to which a finding leads on its own; none if it is not open."""
    if finding.state != "open":
        return "merge"
    return outcome_for(finding.severity, finding.confidence, finding.support, policy)


def outcome_for(
    severity: Severity, confidence: float, support: Support, policy: VerdictPolicy
) -> Outcome:
    """The outcome to which an open finding leads on its own."""
    weighs = weight(severity, confidence, policy)
    verified = (support, severity) == ("verified", "critical")
    if weighs is Weight.BLOCKS and (support == "proven" or verified):
        return "block"
    return "needs_changes" if weighs and _can_decide(severity, support) else "merge"


def _can_decide(severity: Severity, support: Support) -> bool:
    return support != "refuted" and (support != "claimed" or severity in SEVERE)


def weight(severity: Severity, confidence: float, policy: VerdictPolicy) -> Weight:
    """The effect of an open finding by the policy."""
    if is_as_severe(severity, policy.block_at) and confidence >= policy.block_confidence:
        return Weight.BLOCKS
    severe = is_as_severe(severity, policy.needs_changes_at)
    if severe and confidence >= policy.needs_changes_confidence:
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
