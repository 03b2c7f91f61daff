"""What was not looked at, and why: gaps by name first, then what policy leaves out."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.report.terminal_escaping import escape_line, quote_path
from orchestrator.report.text_layout import DEEP_INDENT, Page, count_noun
from orchestrator.review.verdict.model import Skipped, Verdict

GROUPED_FROM = 4
MOST_LINES = 20
EXAMPLES = 3


def gaps(verdict: Verdict) -> list[Skipped]:
    """What makes the review incomplete."""
    return [entry for entry in verdict.skipped if entry.gap]


def not_reviewed(page: Page, verdict: Verdict) -> list[str]:
    """The section that says what this verdict does not know."""
    by_policy = [entry for entry in verdict.skipped if not entry.gap]
    missing = gaps(verdict)
    if not missing and not by_policy:
        return []
    lines = [page.heading("Not reviewed")]
    if missing:
        lines.append(page.paint("  Gaps (these make the review incomplete)", "yellow"))
        lines += _grouped(page, missing)
    if by_policy:
        lines.append("  Left out by policy")
        lines += _grouped(page, by_policy)
    return lines


def _grouped(page: Page, entries: Iterable[Skipped]) -> list[str]:
    """One line per file, or one per reason where many files share it."""
    groups: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        groups.setdefault((entry.tool, entry.why), []).append(entry.path)
    blocks: list[list[str]] = []
    for (tool, why), paths in groups.items():
        said = (f"{tool}: " if tool else "") + why
        if len(paths) < GROUPED_FROM:
            blocks += [_entry(page, path, said) for path in paths]
        else:
            blocks.append(_group(page, paths, said))
    lines = [line for block in blocks[:MOST_LINES] for line in block]
    if len(blocks) > MOST_LINES:
        lines.append(f"    and {len(blocks) - MOST_LINES:,} more in the JSON")
    return lines


def _entry(page: Page, path: str, said: str) -> list[str]:
    where = f"    {quote_path(path)}  " if path else "    "
    return page.wrap(escape_line(said), first=where, rest=DEEP_INDENT, most=3)


def _group(page: Page, paths: list[str], said: str) -> list[str]:
    named = ", ".join(quote_path(path) for path in paths[:EXAMPLES])
    lines = page.wrap(
        escape_line(said), first=f"    {count_noun(len(paths), 'file')}: ", rest=DEEP_INDENT, most=3
    )
    return lines + page.wrap(f"{named}, ...", first="      ", rest=DEEP_INDENT, most=3)


def required_checks(page: Page, verdict: Verdict) -> list[str]:
    """The checks that a complete verdict needs: all counted, those that went wrong named."""
    counts: dict[str, int] = {}
    for check in verdict.required_checks:
        counts[check.status] = counts.get(check.status, 0) + 1
    if not counts:
        return []
    told = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.items())
    lines = [page.heading(f"Required checks: {told}")]
    for check in verdict.required_checks:
        if check.status in {"failed", "not_run"}:
            first = f"  {escape_line(check.name)}  {check.status.replace('_', ' ')}"
            detail = f"{first}: {escape_line(check.detail)}" if check.detail else first
            lines += page.wrap(detail.strip(), first="  ", rest=DEEP_INDENT, most=3)
    return lines
