"""The verdict as plain text: the outcome first, then its reasons, findings and gaps."""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from math import inf, isfinite
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec.structs import replace
from rich.cells import cell_len

from orchestrator.catalog.shared_literals import Outcome
from orchestrator.code_review.verdict.document_parts import describe_tier
from orchestrator.code_review.verdict.model import RunUsage, Verdict, name_counts
from orchestrator.errors import answer_command, approve_command, resume_command
from orchestrator.report import findings_text, review_gaps_text
from orchestrator.report.ranking import describe_outcome, headline, rank_findings
from orchestrator.report.terminal_escaping import escape_line, escape_unprintable
from orchestrator.report.text_layout import (
    MIN_WIDTH,
    UNBOUNDED,
    TextLayout,
    format_duration,
    truncate,
)
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
    parts = [
        f"time {format_duration(usage.seconds)}" + _format_limit(usage, "seconds", format_duration),
        f"iterations {usage.iterations}" + _format_limit(usage, "iterations"),
        *([f"model calls {usage.model_calls:,}"] if verdict.used_model else []),
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


Detail = Literal["short", "brief", "full", "verbose"]
"""One line a finding; at most 100 lines; all that concerns the change; also how the review went."""
DETAILS: tuple[Detail, ...] = get_args(Detail)

MAX_LINES = 100
ROOM_FOR_FINDINGS = 45
"""Lines that a short report keeps for its findings, before other lists."""
ITEMS = (8, 4, 2, 1)
"""Entries of each other list, the most that leave this room."""

SHORT_ITEMS = 10
"""Gaps, and findings, in a report of one line each."""

_STYLE: dict[Outcome, str] = {"merge": "green", "needs_changes": "yellow", "block": "red"}
_OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def render_verdict(
    verdict: Verdict,
    *,
    width: int = 80,
    color: bool = False,
    repo: Path | None = None,
    detail: Detail = "brief",
) -> str:
    """The whole report, ending in a newline.

    Text from the change or from a model is escaped where it is not printable, so that it can
    neither move the cursor nor imitate a line of the report.

    Args:
        repo: the ``--repo`` that the user gave; repeated in suggested commands.
    """
    where = f" --repo {escape_unprintable(shlex.quote(str(repo)))}" if repo else ""
    show = f"diffcourt show {escape_unprintable(verdict.run_id)}{where}"
    run = "" if detail == "brief" else f" {escape_unprintable(verdict.run_id)}"
    page = TextLayout(
        max(width, MIN_WIDTH),
        color,
        items=None,
        more=show,
        fix=f"diffcourt fix{where}{run}",
        verbose=detail == "verbose",
    )
    if detail == "short":
        return _join([_render_short(replace(page, items=SHORT_ITEMS), verdict)])
    if detail != "brief":
        top, bottom = _sections(page, verdict, repo)
        findings = findings_text.render_open(page, verdict)
        details = render_details(page, verdict) if detail == "verbose" else []
        return _join([*top, findings, *bottom, *details, _render_closing(page, verdict)])
    page = replace(page, items=ITEMS[0])
    if _is_clean(verdict):
        return _join([_render_clean(page, verdict)])
    for items in ITEMS:
        page = replace(page, items=items)
        top, bottom = _sections(page, verdict, repo)
        bottom.append(_render_closing(page, verdict))
        room = MAX_LINES - _join([*top, *bottom]).count("\n") - 1
        if room >= ROOM_FOR_FINDINGS:
            break
    for items in (ITEMS[0], 1):
        findings = findings_text.render_open(replace(page, items=items), verdict, max(room, 1))
        if len(findings) <= room:
            break
    return _join([*top, findings, *bottom])


def _join(sections: list[list[str]]) -> str:
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _sections(
    page: TextLayout, verdict: Verdict, repo: Path | None
) -> tuple[list[list[str]], list[list[str]]]:
    """What stands above the findings, and what below."""
    questions = review_gaps_text.questions_to_author(verdict)
    top = [
        _render_header(page, verdict),
        _render_approvals(page, verdict, repo),
        _render_questions(page, verdict, repo),
        page.section("Questions to the author", questions, first="  - ", limit=4),
    ]
    bottom = [
        review_gaps_text.render_skipped(page, verdict),
        review_gaps_text.render_required_checks(page, verdict),
        findings_text.render_rejected(page, verdict, older=True),
        findings_text.render_rejected(page, verdict, older=False),
        findings_text.render_waived(page, verdict),
        review_gaps_text.render_agents_gaps(page, verdict),
        review_gaps_text.render_uncertain(page, verdict),
        _render_answers(page, verdict),
        _render_next_step(page, verdict),
    ]
    return top, bottom


def _is_clean(verdict: Verdict) -> bool:
    """Whether there is nothing that a person has to look at."""
    return (
        verdict.verdict == "merge"
        and not verdict.findings
        and not verdict.rejected
        and not any(entry.gap for entry in verdict.skipped)
        and not verdict.stop.uncertain
        and not verdict.questions
        and not verdict.approvals
        and all(check.status in {"ran", "not_applicable"} for check in verdict.required_checks)
        and all(agent.status == "ok" and not agent.gaps for agent in verdict.agents)
    )


def _render_short(page: TextLayout, verdict: Verdict) -> list[str]:
    """The outcome, what is incomplete and the open findings, a line each, and what to do next.

    A title gives way to the width; place, severity and id are whole.
    """
    lines = _render_outcome(page, verdict) + _render_excluded(page, verdict)
    if not verdict.change.files:
        lines += _render_notes(page, verdict)
    gaps = review_gaps_text.list_incomplete(page, verdict)
    for text in gaps[: page.items]:
        lines += page.wrap(escape_line(text), rest="  ", limit=3)
    lines += page.omitted(len(gaps), "gap")
    ranked = rank_findings(verdict)
    causes = [*ranked.at_length, *ranked.also_noticed]
    for number, cause in enumerate(causes[: page.items]):
        if number == len(ranked.at_length):
            lines.append("Also noticed:")
        lines.append(findings_text.format_line(cause, page.width))
    left = sum(map(len, causes[SHORT_ITEMS:]))
    lines += page.omitted(SHORT_ITEMS + left, "finding")
    return lines + _render_next_step(page, verdict) + _render_closing(page, verdict)


def _render_excluded(page: TextLayout, verdict: Verdict) -> list[str]:
    excluded = escape_line(review_gaps_text.describe_excluded(verdict))
    return page.wrap(excluded, first="Not reviewed, and no gap: ", limit=2) if excluded else []


def _render_clean(page: TextLayout, verdict: Verdict) -> list[str]:
    """A review without anything to do, in a few lines."""
    lines = _render_outcome(page, verdict) + _render_change(page, verdict)
    if verdict.lead_summary:
        text = escape_line(verdict.lead_summary)
        lines += page.wrap(text, first="Lead     ", limit=UNBOUNDED)
    ended = verdict.stop.detail.rstrip(".")
    lines += page.wrap(escape_line(f"Finished: {ended}."), limit=1)
    lines += _render_excluded(page, verdict)
    lines += _render_notes(replace(page, items=1), verdict, rows=2)
    if verdict.used_model:
        lines += _render_cost(page, verdict)
    return lines + page.wrap(page.more, first="Agents, checks and usage: ")


def _count_findings(verdict: Verdict) -> str:
    return name_counts(verdict.findings) or "no findings"


def _render_header(page: TextLayout, verdict: Verdict) -> list[str]:
    lines = _render_outcome(page, verdict) + _render_change(page, verdict)
    reasons = [reason.rstrip(".") for reason in verdict.reasons]
    if verdict.stop.reason != "done":
        reasons.append(f"the review stopped early ({verdict.stop.reason}): {verdict.stop.detail}")
    if reasons:
        text = escape_line("; ".join(reasons))
        lines += page.wrap(text, first="Why      ", limit=page.cut(3))
    if verdict.lead_summary:
        text = escape_line(verdict.lead_summary)
        lines += page.wrap(text, first="Lead     ", limit=UNBOUNDED)
    return lines + _render_notes(page, verdict)


def _render_outcome(page: TextLayout, verdict: Verdict) -> list[str]:
    """What happened and who read the change; then the verdict, what is missing and was found."""
    gaps = sum(entry.gap for entry in verdict.skipped)
    status = f"review {verdict.status}" + (f" ({count_noun(gaps, 'gap')})" if gaps else "")
    first, *others = page.wrap(headline(verdict))
    facts = (verdict.verdict, status, _count_findings(verdict), describe_reliance(verdict))
    return [_paint(page, verdict, first), *others, *page.inline_list(facts, first="Verdict  ")]


def _paint(page: TextLayout, verdict: Verdict, text: str) -> str:
    """A line that begins with the outcome; green only where somebody read the change."""
    outcome = describe_outcome(verdict).partition(",")[0]
    unread = verdict.verdict == "merge" and not verdict.is_read
    style = "bold" if unread else _STYLE[verdict.verdict]
    return page.paint(text[: len(outcome)], style) + text[len(outcome) :]


def describe_reliance(verdict: Verdict) -> str:
    """``confidence 0.90``, or that no judge rated the review; empty without a model."""
    if not verdict.used_model:
        return ""
    return "not judged" if verdict.confidence is None else f"confidence {verdict.confidence:.2f}"


def _render_change(page: TextLayout, verdict: Verdict) -> list[str]:
    change = verdict.change
    files = count_noun(change.files, "file")
    sides = f"{_format_revision(change.base)}..{_format_revision(change.head)}"
    if change.base == f"before {change.head}":  # a patch without a repository
        sides = _format_revision(change.head)
    lines = f"+{change.added_lines:,} -{change.removed_lines:,}"
    shown = page.inline_list((sides, files, lines), first="Change   ")
    if depth := review_gaps_text.describe_depth(verdict):
        shown += page.wrap(depth, first="Read     ", limit=UNBOUNDED)
    if effort := describe_effort(verdict):
        shown += page.wrap(escape_line(effort), first="Effort   ", limit=2)
    if since := describe_since_previous(verdict):
        shown += page.wrap(escape_line(since), first="Since    ", limit=2)
    if override := verdict.override:
        text = (
            f"to {override.verdict} by {override.by} at {override.at}, for this head only: "
            f"{override.reason}"
        )
        shown += page.wrap(escape_line(text), first="Override ", limit=4)
    return shown


def describe_effort(verdict: Verdict) -> str:
    """``trivial (4 changed lines); by generalist``; empty where no model took part."""
    by = ", ".join(dict.fromkeys(agent.agent for agent in verdict.agents)) or "nobody"
    return f"{describe_tier(verdict.assignment)}; by {by}" if verdict.assignment else ""


def describe_since_previous(verdict: Verdict) -> str:
    """``the review of 3f2a1bc0d1e2: 1 new, 2 open, 3 fixed``; empty without a previous review."""
    previous = verdict.previous
    if previous is None:
        return ""
    states = Counter(one.since_previous for one in verdict.findings if one.state == "open")
    looked = {entry.path for entry in verdict.checked}
    again = sum(one.path in looked for one in previous.not_reported)
    counts = {
        "new": states["new"],
        "reopened": states["reopened"],
        "open as before": states["open"],
        "fixed": len(previous.fixed),
        "not reported again": again,
        "not looked at": len(previous.not_reported) - again,
        "settled": sum(entry.cause == "settled" for entry in verdict.rejected),
    }
    found = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
    return f"the review of {_format_revision(previous.head)}: {found or 'no findings'}"


def _render_notes(page: TextLayout, verdict: Verdict, rows: int = 2) -> list[str]:
    """What the checkout or the accounting says about the review."""
    notes = (*verdict.change.notes, *verdict.usage.notes)
    lines: list[str] = []
    for note in notes[: page.items]:
        lines += page.wrap(escape_line(note), first="Note     ", limit=page.cut(rows))
    return lines + page.omitted(len(notes), "note")


def _format_revision(name: str) -> str:
    """A commit id cut to twelve digits, any other name as it is."""
    return name[:12] if _OBJECT_ID.fullmatch(name) else truncate(escape_unprintable(name), 40)


def _render_approvals(page: TextLayout, verdict: Verdict, repo: Path | None) -> list[str]:
    """Calls that wait for a person, each with the commands that decide it."""
    if not verdict.approvals:
        return []
    lines = [page.heading("Waiting for your approval")]
    for call in verdict.approvals[: page.items]:
        text = f"{call.agent} requests {call.tool} {call.arguments}"
        lines += page.wrap(escape_line(text), first="  ", limit=page.cut(8))
        command = approve_command(verdict.run_id, call.approval, repo)
        lines.append(f"    {escape_unprintable(command)}   (or deny)")
    command = resume_command(verdict.run_id, repo)
    lines += page.omitted(len(verdict.approvals))
    return [*lines, f"  Then: {escape_unprintable(command)}"]


def _render_questions(page: TextLayout, verdict: Verdict, repo: Path | None) -> list[str]:
    """Open questions that the run waits for, each with the command that answers it."""
    waiting = [question for question in verdict.questions if not question.answer]
    lines = [page.heading("Waiting for your answer")] if waiting else []
    for question in waiting[: page.items]:
        name = question.name if len(waiting) > 1 else ""
        command = answer_command(verdict.run_id, name, repo)
        lines += page.wrap(escape_line(question.question), first="  ", limit=page.cut(8))
        lines.append(f"    {escape_unprintable(command)}")
    return lines + page.omitted(len(waiting))


def _render_answers(page: TextLayout, verdict: Verdict) -> list[str]:
    """The questions that a person has answered."""
    answered = [question for question in verdict.questions if question.answer]
    lines = [page.heading("Answered questions")] if answered else []
    for question in answered[: page.items]:
        lines += page.wrap(escape_line(question.question), first="  ", limit=page.cut(4))
        answer = f"{question.answered_by}, {question.answered_at}: {question.answer}"
        lines += page.wrap(escape_line(answer), first="    ", limit=page.cut(8))
    return lines + page.omitted(len(answered))


def _render_next_step(page: TextLayout, verdict: Verdict) -> list[str]:
    """The next action for a person; what the run waits for stands on top with its command."""
    waiting = verdict.approvals or any(not question.answer for question in verdict.questions)
    if waiting or verdict.verdict == "merge" or not verdict.stop.next_human_action:
        return []
    return page.wrap(escape_line(verdict.stop.next_human_action), first="Next     ", limit=16)


def _render_cost(page: TextLayout, verdict: Verdict) -> list[str]:
    used = [f"time {format_duration(verdict.usage.seconds)}", *describe_cost(verdict.usage)]
    return [page.paint(line, "dim") for line in page.inline_list(used, first="Used     ")]


def _render_closing(page: TextLayout, verdict: Verdict) -> list[str]:
    """What a short report's review used, and the outcome once more, where the prompt comes back."""
    lines = _render_cost(page, verdict) if verdict.used_model and page.items is not None else []
    outcome = describe_outcome(verdict).partition(",")[0]
    rest = f"exit {verdict.exit_code} · {page.more}"
    text = f"  {_count_findings(verdict)} · {rest}"
    if cell_len(outcome + text) > page.width:
        open_ones = sum(finding.state == "open" for finding in verdict.findings)
        text = f"  {count_noun(open_ones, 'finding')} · {rest}"
    return [*lines, _paint(page, verdict, outcome + text)]
