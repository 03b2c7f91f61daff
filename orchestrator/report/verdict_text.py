"""The verdict as plain text: the decision first, then its reasons, findings, gaps and usage."""

import re
import shlex
from collections.abc import Callable, Iterable
from math import inf, isfinite
from pathlib import Path

from rich.cells import cell_len

from orchestrator.catalog.shared_literals import Outcome
from orchestrator.code_review.verdict.model import Skipped, Usage, Verdict
from orchestrator.errors import answer_command, approve_command, resume_command
from orchestrator.report import findings_text
from orchestrator.report.terminal_escaping import escape_line, escape_unprintable, quote_path
from orchestrator.report.text_layout import (
    DEEP_INDENT,
    MIN_WIDTH,
    Page,
    count_noun,
    format_duration,
    pad,
    render_omitted,
    truncate,
)

MAX_ROWS = 30
NAME_WIDTH = 28
GROUPED_FROM = 4
"""Files with the same reason from which they are shown as one entry."""
MAX_SKIPPED_ENTRIES = 20
EXAMPLES = 3
_STYLE: dict[Outcome, str] = {"merge": "green", "needs_changes": "yellow", "block": "red"}
_OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def render_verdict(
    verdict: Verdict, *, width: int = 80, color: bool = False, repo: Path | None = None
) -> str:
    """The whole report, ending in a newline.

    Text from the change or from a model is escaped where it is not printable, so that it can
    neither move the cursor nor imitate a line of the report.

    Args:
        repo: the ``--repo`` that the user gave; repeated in suggested commands.
    """
    page = Page(max(width, MIN_WIDTH), color)
    sections = [
        _render_header(page, verdict),
        _render_reasons(page, verdict),
        _render_approvals(page, verdict, repo),
        _render_questions(page, verdict, repo),
        findings_text.render_open(page, verdict),
        _render_skipped(page, verdict),
        _render_required_checks(page, verdict),
        findings_text.render_waived(page, verdict),
        findings_text.render_rejected(page, verdict),
        _render_score(page, verdict),
        _render_agents(page, verdict),
        _render_escalations(page, verdict),
        _render_iterations(page, verdict),
        _render_guards(page, verdict),
        _render_stop_reason(page, verdict),
        _render_next_steps(page, verdict),
        _render_footer(page, verdict, repo),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _render_header(page: Page, verdict: Verdict) -> list[str]:
    counted = findings_text.sort_open_findings(verdict)
    outcome = verdict.verdict.replace("_", " ").upper()
    gaps = sum(entry.gap for entry in verdict.skipped)
    status = "review complete"
    if verdict.status == "incomplete":
        status = "REVIEW INCOMPLETE" + (f" ({count_noun(gaps, 'gap')})" if gaps else "")
    first, *others = page.inline_list(
        (outcome, status, findings_text.count_by_severity(counted) or "no findings")
    )
    lines = [page.paint(outcome, _STYLE[verdict.verdict]) + first[len(outcome) :], *others]
    lines += page.inline_list(_describe_change(verdict), first="Change   ")
    lines += page.inline_list(_describe_score(verdict), first="Score    ")
    for note in verdict.change.notes[:10]:
        lines += page.wrap(escape_line(note), first="Note     ", limit=4)
    if verdict.lead_summary:
        lines += page.wrap(escape_line(verdict.lead_summary), first="Lead     ", limit=6)
    if verdict.summary:
        lines += page.wrap(escape_line(verdict.summary), first="Summary  ", limit=8)
    return lines


def _describe_change(verdict: Verdict) -> list[str]:
    change = verdict.change
    reviewed = len({entry.path for entry in verdict.checked})
    files = count_noun(change.files, "file")
    if reviewed != change.files:
        files += f" ({reviewed:,} reviewed)"
    sides = f"{_format_revision(change.base)}..{_format_revision(change.head)}"
    return [sides, files, f"+{change.added_lines:,} -{change.removed_lines:,}"]


def _describe_score(verdict: Verdict) -> list[str]:
    total = "not scored"
    if verdict.score.total is not None:
        total = f"{verdict.score.total:.2f} (threshold {verdict.score.threshold:.2f})"
    return [total, f"confidence {verdict.confidence:.2f}"]


def _format_revision(name: str) -> str:
    """A commit id cut to twelve digits, any other name as it is."""
    return name[:12] if _OBJECT_ID.fullmatch(name) else truncate(escape_unprintable(name), 40)


def _render_reasons(page: Page, verdict: Verdict) -> list[str]:
    if not verdict.reasons:
        return []
    return [
        page.heading("Why"),
        *page.bullet_list(verdict.reasons, limit=12, rest="more in the JSON"),
    ]


def _render_footer(page: Page, verdict: Verdict, repo: Path | None) -> list[str]:
    where = f" --repo {escape_unprintable(shlex.quote(str(repo)))}" if repo else ""
    show = f"diffcourt show {escape_unprintable(verdict.run_id)}{where}"
    lines = _render_usage(page, verdict.usage)
    origin = verdict.provenance
    by = ", ".join(
        (f"diffcourt {origin.version}", f"provider {origin.provider}", *origin.models[:4])
    )
    lines += [page.paint(line, "dim") for line in page.wrap(escape_line(by), first="By       ")]
    if verdict.artifacts:
        count = len(verdict.artifacts)
        files = "1 file" if count == 1 else f"{count} files"
        lines.append(f"Output   {files} of what programs printed, in the run's directory")
    return [*lines, f"Run      {show}   (--json for everything)"]


def _render_approvals(page: Page, verdict: Verdict, repo: Path | None) -> list[str]:
    """Calls that wait for a person, each with the commands that decide it."""
    if not verdict.approvals:
        return []
    lines = [page.heading("Waiting for your approval")]
    for call in verdict.approvals:
        text = f"{call.agent} requests {call.tool} {call.arguments}"
        lines += page.wrap(escape_line(text), first="  ", limit=8)
        command = approve_command(verdict.run_id, call.approval, repo)
        lines.append(f"    {escape_unprintable(command)}   (or deny)")
    command = resume_command(verdict.run_id, repo)
    return [*lines, f"  Then: {escape_unprintable(command)}"]


def _render_questions(page: Page, verdict: Verdict, repo: Path | None) -> list[str]:
    """Open questions, each with the command that answers it; then the answered ones."""
    waiting = [question for question in verdict.questions if not question.answer]
    lines = [page.heading("Waiting for your answer")] if waiting else []
    for question in waiting:
        name = question.name if len(waiting) > 1 else ""
        command = answer_command(verdict.run_id, name, repo)
        lines += page.wrap(escape_line(question.question), first="  ", limit=8)
        lines.append(f"    {escape_unprintable(command)}")
    answered = [question for question in verdict.questions if question.answer]
    if answered:
        lines += [*([""] if waiting else []), page.heading("Answered questions")]
    for question in answered:
        lines += page.wrap(escape_line(question.question), first="  ", limit=4)
        answer = f"{question.answered_by}, {question.answered_at}: {question.answer}"
        lines += page.wrap(escape_line(answer), first="    ", limit=8)
    return lines


def _render_escalations(page: Page, verdict: Verdict) -> list[str]:
    """Every move to another escalation stage, with its reason."""
    if not verdict.escalations:
        return []
    lines = [page.heading("Escalated")]
    for change in verdict.escalations[:MAX_ROWS]:
        stages = f"{change.from_stage} -> {change.to_stage}"
        text = f"{change.agent} (iteration {change.iteration}) {stages}: {change.why}"
        lines += page.wrap(escape_line(text), first="  ", limit=3)
    return lines + render_omitted(len(verdict.escalations), MAX_ROWS)


def _render_skipped(page: Page, verdict: Verdict) -> list[str]:
    """Files that were not reviewed: gaps first, then files that policy excludes."""
    if not verdict.skipped:
        return []
    by_policy = [entry for entry in verdict.skipped if not entry.gap]
    gaps = [entry for entry in verdict.skipped if entry.gap]
    lines = [page.heading("Not reviewed")]
    if gaps:
        lines.append(page.paint("  Gaps (these make the review incomplete)", "yellow"))
        lines += _render_skipped_groups(page, gaps)
    if by_policy:
        lines.append("  Excluded by policy")
        lines += _render_skipped_groups(page, by_policy)
    return lines


def _render_skipped_groups(page: Page, entries: Iterable[Skipped]) -> list[str]:
    """One line per file, or one per reason where many files share it."""
    groups: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        groups.setdefault((entry.tool, entry.why), []).append(entry.path)
    blocks: list[list[str]] = []
    for (tool, why), paths in groups.items():
        reason = (f"{tool}: " if tool else "") + why
        if len(paths) < GROUPED_FROM:
            blocks += [_render_skipped_file(page, path, reason) for path in paths]
        else:
            blocks.append(_render_skipped_group(page, paths, reason))
    lines = [line for block in blocks[:MAX_SKIPPED_ENTRIES] for line in block]
    if len(blocks) > MAX_SKIPPED_ENTRIES:
        lines.append(f"    and {len(blocks) - MAX_SKIPPED_ENTRIES:,} more in the JSON")
    return lines


def _render_skipped_file(page: Page, path: str, reason: str) -> list[str]:
    where = f"    {quote_path(path)}  " if path else "    "
    return page.wrap(escape_line(reason), first=where, rest=DEEP_INDENT, limit=3)


def _render_skipped_group(page: Page, paths: list[str], reason: str) -> list[str]:
    named = ", ".join(quote_path(path) for path in paths[:EXAMPLES])
    lines = page.wrap(
        escape_line(reason),
        first=f"    {count_noun(len(paths), 'file')}: ",
        rest=DEEP_INDENT,
        limit=3,
    )
    return lines + page.wrap(f"{named}, ...", first="      ", rest=DEEP_INDENT, limit=3)


def _render_required_checks(page: Page, verdict: Verdict) -> list[str]:
    """Numbers of required checks by status, and those that failed or did not run."""
    counts: dict[str, int] = {}
    for check in verdict.required_checks:
        counts[check.status] = counts.get(check.status, 0) + 1
    if not counts:
        return []
    summary = ", ".join(f"{count} {_format_status(name)}" for name, count in counts.items())
    lines = [page.heading(f"Required checks: {summary}")]
    for check in verdict.required_checks:
        if check.status not in {"passed", "not_applicable"}:
            first = f"  {escape_line(check.name)}  {_format_status(check.status)}"
            detail = f"{first}: {escape_line(check.detail)}" if check.detail else first
            lines += page.wrap(detail.strip(), first="  ", rest=DEEP_INDENT, limit=3)
    return lines


def _format_status(status: str) -> str:
    """A check's status in words."""
    if status == "passed_by_own_tests":
        return "passed, by the change's own tests"
    return status.replace("_", " ")


def _format_score(score: float | None) -> str:
    """A score of 0 to 1 with two digits, a dash for None."""
    return "-" if score is None else f"{score:.2f}"


def _render_score(page: Page, verdict: Verdict) -> list[str]:
    """The rubric's criteria as a table."""
    criteria = verdict.score.criteria
    heading = f"Review score: {_describe_score(verdict)[0]}"
    lines = [page.heading(heading)]
    names = [escape_line(criterion.id) for criterion in criteria]
    width = min(max(map(cell_len, [*names, "criterion"])), NAME_WIDTH)
    if criteria:
        lines.append(page.paint(f"  {pad('criterion', width)}  score  weight  why", "dim"))
    for name, criterion in list(zip(names, criteria, strict=True))[:MAX_ROWS]:
        why = escape_line(criterion.why)
        if criterion.evidence:
            why += escape_line(f"; {'; '.join(criterion.evidence)}")
        if criterion.missing:
            why += escape_line(f"; missing: {', '.join(criterion.missing)}")
        first = (
            f"  {pad(name, width)}  {_format_score(criterion.score):>5}  {criterion.weight:>6g}  "
        )
        lines += page.wrap(why, first=first, limit=4)
    return lines + render_omitted(len(criteria), MAX_ROWS)


def _render_agents(page: Page, verdict: Verdict) -> list[str]:
    """Each agent's work in numbers, and the reason when its status is not ok."""
    if not verdict.agents:
        return []
    several = len({agent.iteration for agent in verdict.agents}) > 1
    names = [
        escape_line(agent.agent + (f" (iteration {agent.iteration})" if several else ""))
        for agent in verdict.agents
    ]
    width = min(max(map(cell_len, [*names, "agent"])), NAME_WIDTH)
    head = f"  {pad('agent', width)}  status   files  findings  turns  tool calls"
    lines = [page.heading("Agents"), page.paint(head, "dim")]
    for name, agent in list(zip(names, verdict.agents, strict=True))[:MAX_ROWS]:
        status = pad(agent.status, 7)
        if agent.status != "ok":
            status = page.paint(status, "yellow")
        lines.append(
            f"  {pad(name, width)}  {status}  {agent.checked:>5,}  {len(agent.findings):>8,}"
            f"  {agent.turns:>5,}  {agent.tool_calls:>10,}"
        )
        if agent.status != "ok":
            reason = "; ".join(filter(None, (agent.summary, *agent.gaps[:3])))
            reason = escape_line(reason or "no reason given")
            lines += page.wrap(reason, first="      why: ", rest=DEEP_INDENT, limit=3)
    return lines + render_omitted(len(verdict.agents), MAX_ROWS)


def _render_iterations(page: Page, verdict: Verdict) -> list[str]:
    """What each iteration added; empty for a single iteration."""
    if len(verdict.iterations) < 2:
        return []
    lines = [page.heading("Iterations")]
    for step in verdict.iterations[:MAX_ROWS]:
        text = (
            f"score {_format_score(step.score)}, {count_noun(step.new_findings, 'new finding')}, "
            f"new evidence {step.new_evidence:,}, {count_noun(step.gaps, 'gap')} -> {step.decision}"
        )
        lines += page.wrap(escape_line(text), first=f"  {step.number}  ", limit=3)
    return lines + render_omitted(len(verdict.iterations), MAX_ROWS)


def _render_guards(page: Page, verdict: Verdict) -> list[str]:
    """Decisions of the guards; empty without any."""
    if not verdict.guards:
        return []
    lines = [page.heading("Guards")]
    for ruling in verdict.guards[:MAX_ROWS]:
        times = f", {ruling.count} times" if ruling.count > 1 else ""
        text = f"{ruling.layer} {ruling.guard}: {ruling.action}, {ruling.agent}: {ruling.reason}"
        lines += page.wrap(escape_line(text + times), first="  ", rest="    ", limit=3)
    return lines + render_omitted(len(verdict.guards), MAX_ROWS)


def _render_stop_reason(page: Page, verdict: Verdict) -> list[str]:
    """Why the review stopped, and what remains uncertain."""
    lines = [page.heading("Why the review stopped")]
    lines += page.wrap(
        escape_line(f"{verdict.stop.reason}: {verdict.stop.detail}"), first="  ", rest="    "
    )
    if verdict.stop.uncertain:
        lines += ["", page.heading("Still uncertain"), *page.bullet_list(verdict.stop.uncertain)]
    return lines


def _render_next_steps(page: Page, verdict: Verdict) -> list[str]:
    """Next actions for a person, most urgent first."""
    steps = dict.fromkeys(filter(None, (verdict.stop.next_human_action, *verdict.next_actions)))
    if not steps:
        return []
    return [page.heading("What to do next"), *page.bullet_list(tuple(steps), limit=10)]


def _render_usage(page: Page, usage: Usage) -> list[str]:
    """Resources used, with their limits where there are any."""
    tokens = usage.input_tokens + usage.output_tokens + usage.uncertain_tokens
    parts = [
        f"time {format_duration(usage.seconds)}" + _format_limit(usage, "seconds", format_duration),
        f"iterations {usage.iterations}" + _format_limit(usage, "iterations"),
        f"model calls {usage.model_calls:,}",
        f"tool calls {usage.tool_calls:,}" + _format_limit(usage, "tool_calls"),
    ]
    if tokens:
        parts.append(f"tokens {tokens:,}{_format_cached(usage)}" + _format_limit(usage, "tokens"))
    if usage.usd:
        unsure = f" (USD {usage.uncertain_usd:.4f} of it uncertain)" if usage.uncertain_usd else ""
        parts.append(f"USD {usage.usd:.4f}{unsure}" + _format_limit(usage, "usd"))
    lines = page.inline_list(parts, first="Used     ")
    for note in usage.notes[:10]:
        lines += page.wrap(escape_line(note), first="Note     ", limit=4)
    return [page.paint(line, "dim") for line in lines]


def _format_cached(usage: Usage) -> str:
    """Cached tokens and the money they saved; empty for none."""
    if not usage.cached_tokens:
        return ""
    saved = f", which saved USD {usage.saved_usd:.4f}" if usage.saved_usd > 0 else ""
    return f" ({usage.cached_tokens:,} cached{saved})"


def _format_limit(
    usage: Usage, name: str, render: Callable[[float], str] = "{:,.10g}".format
) -> str:
    maximum = usage.limits.get(name, inf)
    return f" of {render(maximum)}" if isfinite(maximum) else ""
