"""Values that config, reports and verdicts share: environments, severities, outcomes."""

from typing import Literal, TypeAlias

import diffchecks

Environment = Literal["ci", "local"]
"""Where a run takes place: in CI there is no person to ask."""

OFFLINE = "offline"
"""The provider that needs no key, no network and no entry in ``config/models.yaml``."""
HOST = "host"
"""The provider that is the coding agent that called the review: it needs no key and no entry."""

Severity: TypeAlias = diffchecks.Severity
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low", "info")
"""Most severe first."""


def is_as_severe(severity: Severity, limit: Severity) -> bool:
    """Whether a severity reaches another."""
    return SEVERITIES.index(severity) <= SEVERITIES.index(limit)


SEVERE: frozenset[Severity] = frozenset({"critical", "high"})
"""What no earlier review settles, and a person decides where models differ."""

Support = Literal["proven", "verified", "agreed", "claimed", "refuted"]
SUPPORTS: tuple[Support, ...] = ("proven", "verified", "agreed", "claimed", "refuted")
"""Strongest first."""

Ruling = Literal["confirmed", "stopped", "intended", "minor", "refuted", "older", "cannot_tell"]
"""Of the verifier on a claim."""

Outcome = Literal["merge", "needs_changes", "block"]
OUTCOMES: tuple[Outcome, ...] = ("merge", "needs_changes", "block")
"""Most favorable first."""
