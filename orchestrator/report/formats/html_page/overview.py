"""What the page says around the findings: the change, coverage, agents, cost."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from orchestrator.code_review.verdict.model import Verdict
from orchestrator.report.formats.open_findings import describe_skip, joined_gaps
from orchestrator.report.page_templates import render
from orchestrator.report.text_layout import format_duration
from orchestrator.report.verdict_text import describe_reliance
from orchestrator.wording import count_noun

MAX_FILES = 3_000
Facts = Sequence[tuple[str, str]]
Rows = Sequence[Sequence[Any]]


def list_facts(verdict: Verdict) -> Facts:
    """The change, and how it was reviewed."""
    change = verdict.change
    reliance = describe_reliance(verdict)
    return [
        ("Change", f"{change.base[:12]}..{change.head[:12]}"),
        ("Files", f"{change.files:,}"),
        ("Lines", f"+{change.added_lines:,} −{change.removed_lines:,}"),
        ("Verdict", verdict.verdict),
        ("Review", ", ".join(filter(None, (verdict.status, reliance)))),
    ]


def list_agents(verdict: Verdict) -> Rows:
    """Agents by iteration."""
    return [
        (
            one.iteration,
            one.agent,
            one.status,
            f"{one.turns:,}",
            f"{one.tool_calls:,}",
            f"{len(one.findings):,}",
            one.summary,
        )
        for one in verdict.agents
    ]


def list_rounds(verdict: Verdict) -> Rows:
    """What was decided after each iteration."""
    return [
        (one.number, "none" if one.score is None else f"{one.score:.2f}", one.decision)
        for one in verdict.iterations
    ]


def list_costs(verdict: Verdict) -> Facts:
    """What the review took."""
    used = verdict.usage
    return [
        ("Time", format_duration(used.seconds)),
        ("Model calls", f"{used.model_calls:,}"),
        ("Tool calls", f"{used.tool_calls:,}"),
        ("Tokens", f"{used.input_tokens + used.output_tokens:,}"),
        ("Cost", f"${used.usd:.4f}"),
    ]


def render_coverage(verdict: Verdict) -> Markup:
    """How deep each file was read, what was not, and the required checks of the policy."""
    depth = verdict.depth
    counts = {"code": depth.code, "text": depth.text, "none": depth.none}
    total, bars, start = sum(counts.values()), [], 0.0
    for kind, count in counts.items():
        width = 100 * count / (total or 1)
        bars.append((kind, start, width))
        start += width
    words = (
        f"{depth.code:,} of {count_noun(total, 'file')} read as code, {depth.text:,} as text only, "
        f"{depth.none:,} not read"
    )
    return render(
        "coverage.html",
        verdict=verdict,
        files=total,
        bars=bars,
        words=words,
        gaps=[(entry.path, describe_skip(entry)) for entry in joined_gaps(verdict)],
        depths=[
            (entry.path, entry.depth, ", ".join((*entry.by, *entry.read_by)))
            for entry in verdict.checked[:MAX_FILES]
        ],
        left_out=[(entry.path, describe_skip(entry)) for entry in verdict.skipped if not entry.gap],
        checks=[
            (check.name, check.status.replace("_", " "), check.detail)
            for check in verdict.required_checks
            if check.status != "not_applicable"
        ],
    )
