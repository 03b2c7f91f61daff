"""Patches in comments at lines: a suggestion that a person can commit, or a diff to read.

Forges may alter the text of a suggestion. So there is one only if every forge commits exactly the
proven bytes.
"""

from orchestrator.code_review.fixes.patch_lines import PatchedLines, only_span
from orchestrator.code_review.fixes.patches import CONTEXT_LINES, MAX_CHANGED_LINES
from orchestrator.code_review.verdict.model import Finding
from orchestrator.report.findings_text import name_provers
from orchestrator.report.formats.markdown import apply_command, diff_block
from orchestrator.report.formats.markdown_text import COMMAND, code_block, plain

SHORT = 30
"""Lines of a diff that a comment shows."""
MAX_CHARACTERS = 8_000
"""Of a suggestion."""


def find_suggestion(finding: Finding, lines: frozenset[int]) -> PatchedLines | None:
    """The suggestion for a finding; None if there is none.

    It requires a verified patch with a single place, at the finding and within the lines of the
    request's diff, whose text a forge does not change: forges drop carriage returns, blank lines at
    both ends and a missing last line end, and execute lines that look like commands.

    Args:
        lines: of the finding's file, at which a comment can stand.
    """
    span, fix = only_span(finding), finding.fix
    if span is None or fix is None or "\r" in fix.patch:
        return None
    first, last = span.start - CONTEXT_LINES, span.end + CONTEXT_LINES
    if last < finding.start_line or first > finding.end_line:
        return None
    if not lines.issuperset(range(span.start, span.end + 1)):
        return None
    text = "".join(span.new)
    whole = all(line.endswith("\n") for line in (*span.old, *span.new))
    legible = text.replace("\n", "").replace("\t", "").isprintable()
    short = len(span.new) <= MAX_CHANGED_LINES and len(text) <= MAX_CHARACTERS
    filled = span.new[0].strip() and span.new[-1].strip()
    inert = not any(map(COMMAND.match, span.new))
    return span if whole and legible and short and filled and inert else None


def suggestion_block(text: str, opening: str) -> str:
    """A suggestion in Markdown; the text is neither escaped nor shortened.

    Args:
        text: the new lines, without the last line end.
        opening: what the forge takes for the start of one, such as ``suggestion``.
    """
    return code_block(text.split("\n"), opening)


def describe_proof(finding: Finding) -> str:
    """Which tools verified a finding's patch, as one line of Markdown; empty if none did."""
    if finding.fix is None or not finding.fix.is_verified:
        return ""
    return f"Patch, verified by {plain(name_provers(finding)[:300])}:"


def diff_to_read(finding: Finding) -> str:
    """The patch as a diff, if it is short, and the command that applies it."""
    if finding.fix is None or not finding.fix.is_verified:
        return ""
    command = apply_command(finding)
    block = diff_block(finding.fix, SHORT)
    return f"{block}\n\nApply it: {command}" if block else command
