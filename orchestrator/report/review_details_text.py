"""How a review went, as text: its quality by criterion, agents, iterations, guards and usage."""

from collections.abc import Callable
from math import inf, isfinite

from rich.cells import cell_len

from orchestrator.code_review.verdict.model import RunUsage, Verdict
from orchestrator.report.terminal_escaping import escape_line
from orchestrator.report.text_layout import TextLayout, format_duration, pad
from orchestrator.wording import count_noun

NAME_WIDTH = 28


def render_details(page: TextLayout, verdict: Verdict) -> list[list[str]]:
    """The sections that only ``show`` and ``--verbose`` print."""
    ruled_out = [
        f"{one.path}: {one.question} {one.why} ({agent.agent})"
        for agent in verdict.agents
        for one in agent.ruled_out
    ]
    escalations = [
        f"{change.agent} (iteration {change.iteration}) {change.from_stage} -> {change.to_stage}: "
        f"{change.why}"
        for change in verdict.escalations
    ]
    memory = [
        f"{use.file}: {use.entry}: {use.effect} {', '.join(use.findings)}".rstrip()
        + (f"; {use.why}" if use.why else "")
        + (f" ({use.by})" if use.by else "")
        for use in verdict.memory
    ]
    guards = [
        f"{ruling.layer} {ruling.guard}: {ruling.action}, {ruling.agent}: {ruling.reason}"
        + (f", {ruling.count} times" if ruling.count > 1 else "")
        for ruling in verdict.guards
    ]
    guidance = [
        f"{one.path}{f' for {one.applies_to}' if one.applies_to else ''}: {one.shown:,} of "
        f"{count_noun(one.lines, 'line')} shown{f'; {one.why_not}' if one.why_not else ''}"
        for one in verdict.guidance
    ]
    ended = f"{verdict.stop.reason}: {verdict.stop.detail}"
    return [
        _render_quality(page, verdict),
        _render_agents(page, verdict),
        _render_assignment(page, verdict),
        page.section("Looked into and ruled out", list(dict.fromkeys(ruled_out)), rest="    "),
        page.section("Escalated", escalations),
        _render_iterations(page, verdict),
        page.section("Guidance of the repository, as of base", guidance, rest="    "),
        page.section("Memory, as of base", memory, rest="    "),
        page.section("Guards", guards, rest="    "),
        page.section("Why the review ended", [ended], rest="    ", limit=4),
        _render_usage(page, verdict),
    ]


def _format_score(score: float | None) -> str:
    """A score of 0 to 1 with two digits, a dash for None."""
    return "-" if score is None else f"{score:.2f}"


def _render_quality(page: TextLayout, verdict: Verdict) -> list[str]:
    """The rubric's criteria as a table; without a model, only those that code measures."""
    criteria = [c for c in verdict.score.criteria if verdict.used_model or c.kind == "measured"]
    total = "not scored"
    if verdict.score.total is not None:
        total = f"{verdict.score.total:.2f} (threshold {verdict.score.threshold:.2f})"
    heading = f"Quality of the review: {total}" if verdict.used_model else "Measured by code"
    if not criteria:
        return [page.heading(heading)] if verdict.used_model else []
    names = [escape_line(criterion.id) for criterion in criteria]
    width = min(max(map(cell_len, [*names, "criterion"])), NAME_WIDTH)
    column = "score" if verdict.used_model else "share"
    lines = [page.heading(heading)]
    lines.append(page.paint(f"  {pad('criterion', width)}  {column}  weight  why", "dim"))
    for name, criterion in zip(names, criteria, strict=True):
        why = escape_line(criterion.why)
        if criterion.evidence:
            why += escape_line(f"; {'; '.join(criterion.evidence)}")
        if criterion.missing:
            why += escape_line(f"; missing: {', '.join(criterion.missing)}")
        score = _format_score(criterion.score)
        first = f"  {pad(name, width)}  {score:>5}  {criterion.weight:>6g}  "
        lines += page.wrap(why, first=first, limit=page.cut(4))
    return lines


def _render_agents(page: TextLayout, verdict: Verdict) -> list[str]:
    """Each agent's work in numbers."""
    if not verdict.agents:
        return []
    several = len({agent.iteration for agent in verdict.agents}) > 1
    names = [
        escape_line(agent.agent + (f" (iteration {agent.iteration})" if several else ""))
        for agent in verdict.agents
    ]
    width = min(max(map(cell_len, [*names, "agent"])), NAME_WIDTH)
    turns = "turns" if verdict.used_model else "steps"
    head = f"  {pad('agent', width)}  status   files  findings  {turns}  tool calls"
    lines = [page.heading("Agents"), page.paint(head, "dim")]
    for name, agent in zip(names, verdict.agents, strict=True):
        status = pad(agent.status, 7)
        if agent.status != "ok":
            status = page.paint(status, "yellow")
        lines.append(
            f"  {pad(name, width)}  {status}  {agent.checked:>5,}  {len(agent.findings):>8,}"
            f"  {agent.turns:>5,}  {agent.tool_calls:>10,}"
        )
    return lines


def _render_assignment(page: TextLayout, verdict: Verdict) -> list[str]:
    """How many agents reviewed the change and why, and what each was given; empty offline."""
    found = verdict.assignment
    if found is None:
        return []
    text = f"pattern {found.pattern}{' (auto)' if found.auto else ''}: {found.reason}"
    lines = [page.heading("Assignment"), *page.wrap(escape_line(text), first="  ")]
    for share in found.shares:
        files = count_noun(len(share.paths), "file")
        text = f"{share.agent}: {files}, {share.tokens:,} tokens: {', '.join(share.paths)}"
        lines += page.wrap(escape_line(text), first="  ", rest="    ", limit=page.cut(3))
    for agent, packs in found.packs.items():
        text = f"knowledge packs of {agent}: {', '.join(packs)}"
        lines += page.wrap(escape_line(text), first="  ", rest="    ")
    return lines


def _render_iterations(page: TextLayout, verdict: Verdict) -> list[str]:
    """What each iteration added; empty for a single iteration."""
    if len(verdict.iterations) < 2:
        return []
    lines = [page.heading("Iterations")]
    for step in verdict.iterations:
        score = f"score {_format_score(step.score)}, " if verdict.used_model else ""
        raised = "; a person has raised a limit" if step.limit_raised else ""
        text = (
            f"{score}{count_noun(step.new_findings, 'new finding')}, "
            f"new evidence {step.new_evidence:,}, {count_noun(step.gaps, 'gap')} -> "
            f"{step.decision}{raised}"
        )
        lines += page.wrap(escape_line(text), first=f"  {step.number}  ", limit=page.cut(3))
    return lines


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
