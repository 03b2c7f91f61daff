"""How findings are described to agents in briefs."""

from typing import Any

from orchestrator.code_review.verdict.model import Finding, Rejected

MAX_TEXT = 500
"""Characters of each text, unless a brief has less room."""


def describe(finding: Finding, *, longest: int = MAX_TEXT, quoted: bool = True) -> dict[str, Any]:
    """A finding as an agent is shown it.

    Args:
        quoted: with the text at its lines.
    """
    shown = {
        "id": finding.id,
        "fingerprint": finding.fingerprint,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "state": finding.state,
        "support": finding.support,
        "title": shorten(finding.title, longest),
        "detail": shorten(finding.detail, longest),
        "path": finding.path,
        "side": finding.evidence.side,
        "start_line": finding.start_line,
        "end_line": finding.end_line,
        "quote": shorten(finding.evidence.quote, longest),
        "reported_by": list(finding.reported_by),
        "remarks": [f"{one.by}: {shorten(one.reason, longest)}" for one in finding.objections],
    }
    if (rule := finding.guideline) is not None:
        shown["guideline"] = f"{rule.path}:{rule.line}: {shorten(rule.quote, longest)}"
    if not quoted:
        del shown["quote"], shown["fingerprint"]
    return shown


def describe_rejected(
    entry: Rejected, *, longest: int = MAX_TEXT, quoted: bool = True
) -> dict[str, Any]:
    """A finding that does not count, and why."""
    shown = describe(entry.finding, longest=longest, quoted=quoted)
    del shown["support"], shown["state"]
    return {**shown, "reason": shorten(entry.reason, longest)}


def shorten(text: str, longest: int = MAX_TEXT) -> str:
    """A text cut to a number of characters, with dots if it was longer."""
    return text if len(text) <= longest else f"{text[:longest]}..."
