"""The explanation of a finding in a comment: the finding, its evidence, and its rule."""

from collections.abc import Iterator, Mapping

from diffchecks.rules import Rule
from orchestrator.code_review.verdict.model import Finding
from orchestrator.report.findings_text import format_location
from orchestrator.report.formats.markdown import MAX_CHARACTERS, describe_finding, describe_patch
from orchestrator.report.formats.markdown_text import code, plain
from orchestrator.report.rules_page import render_rule

__all__ = ["MAX_CHARACTERS", "explain_finding", "name_finding"]


def name_finding(finding: Finding) -> str:
    """A finding on one line."""
    where = code(format_location(finding))
    return f"**{finding.severity}: {plain(finding.title)}** {where} {code(finding.identity)}"


def explain_finding(finding: Finding, rules: Mapping[str, Rule]) -> str:
    """The finding with its evidence and fix, and the section of its rule.

    Args:
        rules: those that come with the program, by id; others have no section.
    """
    parts = [describe_finding(finding), "\n".join(f"- {line}" for line in _evidence(finding))]
    parts.append(describe_patch(finding))
    if rule := rules.get(finding.rule):
        parts.append(render_rule(rule).rstrip())
    return "\n\n".join(filter(None, parts))


def _evidence(finding: Finding) -> Iterator[str]:
    """The finding's evidence, and objections to it."""
    by = plain(", ".join(finding.reported_by)) or "nobody"
    yield f"{finding.standing}, confidence {finding.confidence:.2f}, reported by {by}"
    if finding.confirmed_by:
        yield f"confirmed by {plain(', '.join(finding.confirmed_by))}"
    if finding.state != "open":
        yield plain(f"{finding.state}: {finding.waiver}".removesuffix(": "))
    if cause := finding.because_of:
        yield f"because of {code(f'{cause.path}:{cause.line}')} {code(finding.cause_quote)}"
    if rests := finding.guideline:
        yield f"rests on {code(f'{rests.path}:{rests.line}')}: {plain(rests.quote)}"
    if finding.evidence.tool_calls:
        yield f"shown by the calls {plain(', '.join(finding.evidence.tool_calls))}"
    for objection in finding.objections:
        kept = f" (kept: {objection.why_not})" if objection.why_not else ""
        yield plain(f"{objection.by} {objection.verb} it: {objection.reason}{kept}")
