"""How a review went, as text: its quality by criterion, agents, iterations, guards and usage."""

from collections.abc import Callable, Sequence
from math import inf, isfinite
from typing import Any

from rich.cells import cell_len

from orchestrator.code_review.verdict.model import RunUsage, Verdict
from orchestrator.report.terminal_escaping import escape_line
from orchestrator.report.text_layout import TextLayout, format_duration
from orchestrator.wording import count_noun

NAME_WIDTH = 28
SECTIONS = (
    "quality", "agents", "assignment", "ruled_out", "escalated", "iterations", "guidance",
    "memory", "guards", "ended",
)  # fmt: skip


def render_details(page: TextLayout, verdict: Verdict) -> list[list[str]]:
    """The sections that only ``show`` and ``--verbose`` print."""
    from orchestrator.report.page_templates import render_lines, text_macros  # noqa: PLC0415 - slow

    criteria = [c for c in verdict.score.criteria if verdict.used_model or c.kind == "measured"]
    several = len({agent.iteration for agent in verdict.agents}) > 1
    names = [
        escape_line(agent.agent + (f" (iteration {agent.iteration})" if several else ""))
        for agent in verdict.agents
    ]
    ruled_out = [
        f"{one.path}: {one.question} {one.why} ({agent.agent})"
        for agent in verdict.agents
        for one in agent.ruled_out
    ]
    more: dict[str, tuple[Any, ...]] = {
        "quality": (criteria, _width_of("criterion", [escape_line(c.id) for c in criteria])),
        "agents": (names, _width_of("agent", names)),
        "ruled_out": (list(dict.fromkeys(ruled_out)),),
    }
    macros = text_macros("details.txt")
    told = [render_lines(page, macros, name, verdict, *more.get(name, ())) for name in SECTIONS]
    return [*told, _render_usage(page, verdict)]


def _width_of(head: str, names: Sequence[str]) -> int:
    return min(max(map(cell_len, [*names, head])), NAME_WIDTH)


def _render_usage(page: TextLayout, verdict: Verdict) -> list[str]:
    """Resources used, with their limits, and what ran."""
    usage = verdict.usage
    calls = "model calls" if verdict.used_model else "playbook steps"
    parts = [
        f"time {format_duration(usage.seconds)}" + _format_limit(usage, "seconds", format_duration),
        f"iterations {usage.iterations}" + _format_limit(usage, "iterations"),
        f"{calls} {usage.model_calls:,}",
        f"tool calls {usage.tool_calls:,}" + _format_limit(usage, "tool_calls"),
        *describe_cost(usage),
    ]
    lines = page.inline_list(parts, first="Used     ")
    origin = verdict.provenance
    models = origin.models if verdict.used_model else ()
    by = ", ".join(
        (f"diffcourt {origin.version}", f"provider {origin.provider}", *filter(None, models))
    )
    lines += page.wrap(escape_line(by), first="By       ")
    if verdict.artifacts:
        files = count_noun(len(verdict.artifacts), "file")
        lines.append(f"Output   {files} in the run's directory: what programs printed, and patches")
    return [page.paint(line, "dim") for line in lines]


def describe_cost(usage: RunUsage) -> list[str]:
    """Tokens and money used, with their limits; empty where there are none."""
    parts: list[str] = []
    tokens = usage.input_tokens + usage.output_tokens + usage.uncertain_tokens
    if tokens:
        parts.append(f"tokens {tokens:,}{_format_cached(usage)}" + _format_limit(usage, "tokens"))
    if usage.usd:
        unsure = f" (USD {usage.uncertain_usd:.4f} of it uncertain)" if usage.uncertain_usd else ""
        parts.append(f"USD {usage.usd:.4f}{unsure}" + _format_limit(usage, "usd"))
    return parts


def _format_cached(usage: RunUsage) -> str:
    """Cached tokens and the money they saved; empty for none."""
    if not usage.cached_tokens:
        return ""
    saved = f", which saved USD {usage.saved_usd:.4f}" if usage.saved_usd > 0 else ""
    return f" ({usage.cached_tokens:,} cached{saved})"


def _format_limit(
    usage: RunUsage, name: str, render: Callable[[float], str] = "{:,.10g}".format
) -> str:
    maximum = usage.limits.get(name, inf)
    return f" of {render(maximum)}" if isfinite(maximum) else ""
