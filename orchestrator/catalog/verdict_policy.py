"""The verdict policy (``config/verdict.yaml``): what findings and checks mean for the verdict."""

from typing import Annotated

from msgspec import Meta

from orchestrator.catalog.fields import SEVERITIES, Day, Severity, Strict, Unit, Words


class CheckRule(Strict, frozen=True):
    """A check that must have run for the verdict to be complete.

    Attributes:
        tools: all of them must have looked.
        when: glob patterns; the check applies when a changed file matches one of them.
    """

    name: Words
    tools: Annotated[tuple[Words, ...], Meta(min_length=1)]
    when: Annotated[tuple[Words, ...], Meta(min_length=1)]


class Exclusion(Strict, frozen=True):
    """Files that are left out by policy; each is listed in the verdict with ``why``.

    Attributes:
        paths: glob patterns.
    """

    paths: Annotated[tuple[Words, ...], Meta(min_length=1)]
    why: Words


class Waiver(Strict, frozen=True, kw_only=True):
    """Findings that a person has accepted: they stay in the verdict, and do not decide it.

    Attributes:
        rule: the rule's id; or else
        fingerprint: of one finding, as the verdict states it.
        paths: glob patterns; elsewhere the waiver does not hold.
        until: the last day that it holds, as YYYY-MM-DD; None: it holds for good.
        why: for whoever reads the verdict.
    """

    rule: Words | None = None
    fingerprint: Words | None = None
    paths: Annotated[tuple[Words, ...], Meta(min_length=1)] = ("**",)
    until: Day | None = None
    why: Words

    def __post_init__(self) -> None:
        if (self.rule is None) == (self.fingerprint is None):
            raise ValueError("a waiver names a rule or a fingerprint; allowed: one of the two")


class VerdictPolicy(Strict, frozen=True):
    """From findings to an outcome.

    Attributes:
        block_at, needs_changes_at: an open finding at or above this severity decides.
        block_confidence, needs_changes_confidence: findings below it do not decide, 0 to 1.
    """

    block_at: Severity
    block_confidence: Unit
    needs_changes_at: Severity
    needs_changes_confidence: Unit
    required_checks: tuple[CheckRule, ...]
    exclude: tuple[Exclusion, ...]
    waivers: tuple[Waiver, ...]

    def __post_init__(self) -> None:
        if SEVERITIES.index(self.block_at) > SEVERITIES.index(self.needs_changes_at):
            raise ValueError(
                f"block_at ({self.block_at}) may not be milder than "
                f"needs_changes_at ({self.needs_changes_at}); severities: {', '.join(SEVERITIES)}"
            )
        names = [check.name for check in self.required_checks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"required_checks names {', '.join(twice)} twice; allowed: once")
