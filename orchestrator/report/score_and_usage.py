"""How the verdict came about: score by criterion, agents, rounds, why it stopped, what it used."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite

from rich.cells import cell_len

from orchestrator.report.terminal_escaping import escape_line
from orchestrator.report.text_layout import (
    DEEP_INDENT,
    Page,
    count_noun,
    format_duration,
    pad,
    render_omitted,
)
from orchestrator.review.verdict.model import AgentReport, Verdict
from orchestrator.review.verdict.usage import Usage

MOST_ROWS = 30
NAME_WIDTH = 28


def number(score: float | None) -> str:
    """A score of 0 to 1 with two digits, a dash where there is none."""
    return "-" if score is None else f"{score:.2f}"


def score(page: Page, verdict: Verdict) -> list[str]:
    """The rubric's criteria as a table."""
    criteria = verdict.score.criteria
    total = f"{number(verdict.score.total)}, {verdict.score.threshold:.2f} needed"
    if verdict.score.total is None:
        total = "not scored"
    lines = [page.heading(f"Score of the review: {total}")]
    names = [escape_line(criterion.id) for criterion in criteria]
    width = min(max(map(cell_len, [*names, "criterion"])), NAME_WIDTH)
    if criteria:
        lines.append(page.paint(f"  {pad('criterion', width)}  score  weight  why", "dim"))
    for name, criterion in list(zip(names, criteria, strict=True))[:MOST_ROWS]:
        why = escape_line(criterion.why)
        if criterion.evidence:
            why += escape_line(f"; {'; '.join(criterion.evidence)}")
        if criterion.missing:
            why += escape_line(f"; missing: {', '.join(criterion.missing)}")
        first = f"  {pad(name, width)}  {number(criterion.score):>5}  {criterion.weight:>6g}  "
        lines += page.wrap(why, first=first, most=4)
    return lines + render_omitted(len(criteria), MOST_ROWS)


def agents(page: Page, verdict: Verdict) -> list[str]:
    """What each agent did, with the reason where one did not end well."""
    if not verdict.agents:
        return []
    rounds = len({agent.iteration for agent in verdict.agents}) > 1
    names = [_agent_name(agent, rounds) for agent in verdict.agents]
    width = min(max(map(cell_len, [*names, "agent"])), NAME_WIDTH)
    head = f"  {pad('agent', width)}  status   files  findings  turns  tool calls"
    lines = [page.heading("Agents"), page.paint(head, "dim")]
    for name, agent in list(zip(names, verdict.agents, strict=True))[:MOST_ROWS]:
        status = pad(agent.status, 7)
        if agent.status != "ok":
            status = page.paint(status, "yellow")
        lines.append(
            f"  {pad(name, width)}  {status}  {agent.checked:>5,}  {len(agent.findings):>8,}"
            f"  {agent.turns:>5,}  {agent.tool_calls:>10,}"
        )
        if agent.status != "ok":
            said = "; ".join(filter(None, (agent.summary, *agent.gaps[:3]))) or "no reason given"
            lines += page.wrap(escape_line(said), first="      why: ", rest=DEEP_INDENT, most=3)
    return lines + render_omitted(len(verdict.agents), MOST_ROWS)


def _agent_name(agent: AgentReport, rounds: bool) -> str:
    return escape_line(f"{agent.agent} (round {agent.iteration})" if rounds else agent.agent)


def rounds(page: Page, verdict: Verdict) -> list[str]:
    """Each iteration's gain; nothing when there was one."""
    if len(verdict.iterations) < 2:
        return []
    lines = [page.heading("Iterations")]
    for step in verdict.iterations[:MOST_ROWS]:
        text = (
            f"score {number(step.score)}, {count_noun(step.new_findings, 'new finding')}, "
            f"{step.new_evidence:,} new evidence, {count_noun(step.gaps, 'gap')} -> {step.decision}"
        )
        lines += page.wrap(escape_line(text), first=f"  {step.number}  ", most=3)
    return lines + render_omitted(len(verdict.iterations), MOST_ROWS)


def guards(page: Page, verdict: Verdict) -> list[str]:
    """What the guards ruled; nothing when they had nothing to say."""
    if not verdict.guards:
        return []
    lines = [page.heading("Guards")]
    for ruling in verdict.guards[:MOST_ROWS]:
        times = f", {ruling.count} times" if ruling.count > 1 else ""
        text = f"{ruling.layer} {ruling.guard}: {ruling.action}, {ruling.agent}: {ruling.reason}"
        lines += page.wrap(escape_line(text + times), first="  ", rest="    ", most=3)
    return lines + render_omitted(len(verdict.guards), MOST_ROWS)


def stop(page: Page, verdict: Verdict) -> list[str]:
    """Why it ended, and what stays uncertain."""
    lines = [page.heading("Why it stopped")]
    lines += page.wrap(
        escape_line(f"{verdict.stop.reason}: {verdict.stop.detail}"), first="  ", rest="    "
    )
    if verdict.stop.uncertain:
        lines += ["", page.heading("Still uncertain"), *page.items(verdict.stop.uncertain)]
    return lines


def next_steps(page: Page, verdict: Verdict) -> list[str]:
    """What a person does now, the most pressing first."""
    steps = dict.fromkeys(filter(None, (verdict.stop.next_human_action, *verdict.next_actions)))
    if not steps:
        return []
    return [page.heading("What to do next"), *page.items(tuple(steps), most=10)]


def used(page: Page, usage: Usage) -> list[str]:
    """What the run spent, next to its limits where there are any."""
    tokens = usage.input_tokens + usage.output_tokens + usage.uncertain_tokens
    parts = [
        f"time {format_duration(usage.seconds)}" + _limit(usage, "seconds", format_duration),
        f"iterations {usage.iterations}" + _limit(usage, "iterations"),
        f"model calls {usage.model_calls:,}",
        f"tool calls {usage.tool_calls:,}" + _limit(usage, "tool_calls"),
    ]
    if tokens:
        parts.append(f"tokens {tokens:,}{_cached(usage)}" + _limit(usage, "tokens"))
    if usage.usd:
        parts.append(f"USD {usage.usd:.4f}{_unsure(usage)}" + _limit(usage, "usd"))
    lines = page.facts(parts, first="Used     ")
    for note in usage.notes[:10]:
        lines += page.wrap(escape_line(note), first="Note     ", most=4)
    return [page.paint(line, "dim") for line in lines]


def _cached(usage: Usage) -> str:
    """How much came from a provider's cache, and what that saved; empty for nothing."""
    if not usage.cached_tokens:
        return ""
    saved = f", which saved USD {usage.saved_usd:.4f}" if usage.saved_usd > 0 else ""
    return f" ({usage.cached_tokens:,} cached{saved})"


def _unsure(usage: Usage) -> str:
    """How much of the bill may not come; empty for nothing."""
    return f" (USD {usage.uncertain_usd:.4f} of it uncertain)" if usage.uncertain_usd else ""


def _limit(usage: Usage, name: str, shown: Callable[[float], str] = "{:,.10g}".format) -> str:
    most = usage.limits.get(name, inf)
    return f" of {shown(most)}" if isfinite(most) else ""
