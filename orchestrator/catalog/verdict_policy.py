"""The verdict policy (``config/verdict.yaml``): what findings and checks mean for the verdict."""

from datetime import date
from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.catalog.shared_literals import SEVERITIES, Severity, is_as_severe
from orchestrator.engine.field_types import NonEmptyStr, Strict, UnitFloat


class CheckRule(Strict, frozen=True):
    """A check that must have run for the verdict to be complete.

    Attributes:
        tools: all of them must have run.
        when: glob patterns; the check applies when a changed file matches one of them.
    """

    name: NonEmptyStr
    tools: Annotated[tuple[NonEmptyStr, ...], Meta(min_length=1)]
    when: Annotated[tuple[NonEmptyStr, ...], Meta(min_length=1)]


class Exclusion(Strict, frozen=True):
    """Files that the policy excludes; the verdict lists each with ``why``."""

    paths: Annotated[tuple[NonEmptyStr, ...], Meta(min_length=1)]
    why: NonEmptyStr


class Waiver(Strict, frozen=True, kw_only=True):
    """Findings that a person has accepted: the verdict lists them, and they do not decide it.

    Attributes:
        rule: id of a rule; either this or ``fingerprint``.
        fingerprint: of one finding, as in the verdict.
        paths: glob patterns of the files that the waiver applies to.
        until: the last day on which it applies; None: it does not expire.
        why: the reason, shown in the verdict.
        by: the person who accepts it; a finding of severity critical is waived by a person only.
    """

    rule: NonEmptyStr | None = None
    fingerprint: NonEmptyStr | None = None
    paths: Annotated[tuple[NonEmptyStr, ...], Meta(min_length=1)] = ("**",)
    until: date | None = None
    why: NonEmptyStr
    by: str = ""

    def __post_init__(self) -> None:
        if (self.rule is None) == (self.fingerprint is None):
            raise ValueError("a waiver names a rule or a fingerprint; allowed: one of the two")


class WaiverFile(Strict, frozen=True):
    """The file ``.diffcourt/waivers.yaml``."""

    waivers: tuple[Waiver, ...] = ()


class VerdictPolicy(Strict, frozen=True):
    """How findings decide the outcome.

    Attributes:
        block_at, needs_changes_at: an open finding at or above this severity decides.
        block_confidence, needs_changes_confidence: findings below it do not decide, 0 to 1.
        unread: what it is where nobody read a program, or anything of the change, as code: a gap,
            or only a note.
    """

    block_at: Severity
    block_confidence: UnitFloat
    needs_changes_at: Severity
    needs_changes_confidence: UnitFloat
    unread: Literal["gap", "note"]
    required_checks: tuple[CheckRule, ...]
    exclude: tuple[Exclusion, ...]
    waivers: tuple[Waiver, ...]

    def __post_init__(self) -> None:
        if not is_as_severe(self.block_at, self.needs_changes_at):
            raise ValueError(
                f"block_at ({self.block_at}) may not be less severe than "
                f"needs_changes_at ({self.needs_changes_at}); severities: {', '.join(SEVERITIES)}"
            )
        names = [check.name for check in self.required_checks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"required_checks names {', '.join(twice)} twice; allowed: once")
