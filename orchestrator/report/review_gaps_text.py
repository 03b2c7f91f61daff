"""The gaps of a review as text: files, required checks, and what agents could not do."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from pathlib import PurePosixPath

from msgspec.structs import replace

from orchestrator.code_review.verdict.document_parts import AgentReport, Checked
from orchestrator.code_review.verdict.model import OPEN_QUESTION, Skipped, Verdict
from orchestrator.engine.budget import THE_LIMIT
from orchestrator.report.ranking import group_by
from orchestrator.report.terminal_escaping import escape_line, quote_path
from orchestrator.report.text_layout import DEEP_INDENT, TextLayout, truncate
from orchestrator.wording import count_noun

WHOLE_CHANGE = "*"
_REASON = re.compile(r"symbolic link|submodule|[^:;,]+")
GROUPED_FROM = 4
"""Files with the same reason from which they are shown as one entry."""
EXAMPLES = 3


def render_skipped(page: TextLayout, verdict: Verdict) -> list[str]:
    """Files that were not reviewed: gaps first, then files that policy excludes."""
    if not verdict.skipped:
        return []
    by_policy = [entry for entry in verdict.skipped if not entry.gap]
    gaps = [entry for entry in verdict.skipped if entry.gap]
    lines = [page.heading("Not reviewed")]
    if gaps:
        lines.append(page.paint("  Gaps (these make the review incomplete)", "yellow"))
        lines += _render_groups(page, gaps)
    if by_policy:
        lines.append("  Not counted as gaps (left out by policy, or unreadable in base as well)")
        lines += _render_groups(page, by_policy)
    return lines


def list_incomplete(page: TextLayout, verdict: Verdict) -> list[str]:
    """What makes a review incomplete, a text each: where, and why; empty for a complete one."""
    if verdict.status == "complete":
        return []
    gaps = join_tools((entry for entry in verdict.skipped if entry.gap), page.items)
    texts = [
        f"{_name_files(paths)}: not reviewed{tool and f' by {tool}'}: {why}"
        for (tool, why), paths in _group_by_reason(gaps)
    ]
    texts += [
        f"required check {check.name} {_format_status(check.status)}: {check.detail}"
        for check in verdict.required_checks
        if not check.is_satisfied and not _is_told(check.detail, verdict)
    ]
    if verdict.stop.reason != "done":
        texts.append(f"stopped early ({verdict.stop.reason}): {verdict.stop.detail}")
    return texts


def _name_place(path: str) -> str:
    return "whole change" if path == WHOLE_CHANGE else quote_path(path)


def _is_told(text: str, verdict: Verdict) -> bool:
    """Whether a text repeats why a part was not reviewed."""
    return any(entry.why in text for entry in verdict.skipped if entry.gap)


def describe_depth(verdict: Verdict) -> str:
    """How many files were read as code, as text and not at all, and what no agent has read.

    Empty if all were read as code and, with a model, by an agent.
    """
    files, depth = count_noun(verdict.change.files, "file"), verdict.depth
    if not depth.text + depth.none + depth.unread_hunks:
        return ""
    text = [entry for entry in verdict.checked if entry.depth == "text"]
    seen = {entry.path for entry in verdict.checked}
    seen.add(WHOLE_CHANGE)
    none = [entry for entry in verdict.skipped if not entry.tool and entry.path not in seen]
    parts = [
        f"{depth.code:,} read as code" if depth.code else "",
        _count_kinds(depth.text, "as text only", map(_name_text, text)),
        _count_kinds(depth.none, "not read", map(_name_skip, none)),
    ]
    unread = [
        f"{escape_line(entry.path)}:{hunk.first}"
        for entry in verdict.checked
        for hunk in entry.hunks
        if not hunk.read_by
    ]
    hunks = f"; {len(unread):,} of {count_noun(depth.hunks, 'hunk')} by no agent"
    named = f" ({', '.join([*unread[:EXAMPLES], *(['...'] if len(unread) > EXAMPLES else [])])})"
    return f"{files}: {', '.join(part for part in parts if part)}{hunks + named if unread else ''}"


def _count_kinds(count: int, how: str, kinds: Iterable[str]) -> str:
    """``2 as text only (.tf, .kt)``, with the most frequent kinds; empty for no files."""
    names = [name for name, _ in Counter(kinds).most_common()]
    more = ["..."] if len(names) > EXAMPLES else []
    return f"{count:,} {how} ({', '.join([*names[:EXAMPLES], *more])})" if count else ""


def _name_text(entry: Checked) -> str:
    """A template's kind, else the ending of a file's name, or the name itself."""
    if entry.template:
        return f"{entry.template} template"
    name = PurePosixPath(entry.path)
    return escape_line(truncate(name.suffix or name.name, 20))


def _name_skip(entry: Skipped) -> str:
    """The beginning of a reason, without the file's own facts: ``binary``, ``lock file``."""
    words = _REASON.match(entry.why)
    return escape_line(truncate(words[0].strip() if words else entry.why, 20))


def describe_excluded(verdict: Verdict) -> str:
    """The files that policy excludes, in one line; empty for none."""
    groups = _group_by_reason(entry for entry in verdict.skipped if not entry.gap)
    return "; ".join(f"{_name_files(paths)}: {why}" for (_, why), paths in groups)


def _name_files(paths: Sequence[str]) -> str:
    return _name_place(paths[0]) + (f" and {len(paths) - 1} more" if paths[1:] else "")


def _group_by_reason(entries: Iterable[Skipped]) -> list[tuple[tuple[str, str], list[str]]]:
    groups = group_by(entries, lambda entry: (entry.tool, entry.why))
    return [((same[0].tool, same[0].why), [entry.path for entry in same]) for same in groups]


def _render_groups(page: TextLayout, entries: Iterable[Skipped]) -> list[str]:
    """One line per file, or one per reason where many files share it."""
    blocks: list[list[str]] = []
    for (tool, why), paths in _group_by_reason(join_tools(entries, page.items)):
        reason = (f"{tool}: " if tool else "") + why
        if len(paths) < GROUPED_FROM or page.items is None:
            blocks += [_render_file(page, path, reason) for path in paths]
        else:
            blocks.append(_render_group(page, paths, reason))
    lines = [line for block in blocks[: page.items] for line in block]
    return lines + page.omitted(len(blocks))


def join_tools(entries: Iterable[Skipped], items: int | None = None) -> list[Skipped]:
    """One entry for a file that several tools could not examine for the same reason.

    Args:
        items: where lists are cut, few of the tools are named; None: all.
    """
    found = []
    for same in group_by(entries, lambda entry: (entry.path, entry.why)):
        tools = [entry.tool for entry in same if entry.tool]
        shown = tools if items is None else tools[:EXAMPLES]
        more = f" and {len(tools) - len(shown)} more" if len(tools) > len(shown) else ""
        found.append(replace(same[0], tool=f"{', '.join(shown)}{more}"))
    return found


def _render_file(page: TextLayout, path: str, reason: str) -> list[str]:
    where = f"    {_name_place(path)}  " if path else "    "
    return page.wrap(escape_line(reason), first=where, rest=DEEP_INDENT, limit=page.cut(3))


def _render_group(page: TextLayout, paths: Sequence[str], reason: str) -> list[str]:
    named = ", ".join(quote_path(path) for path in paths[:EXAMPLES])
    first = f"    {count_noun(len(paths), 'file')}: "
    lines = page.wrap(escape_line(reason), first=first, rest=DEEP_INDENT, limit=3)
    return lines + page.wrap(f"{named}, ...", first="      ", rest=DEEP_INDENT, limit=2)


def render_required_checks(page: TextLayout, verdict: Verdict) -> list[str]:
    """Required checks that did not plainly run; where everything is shown, their numbers too."""
    counts = Counter(check.status for check in verdict.required_checks)
    found = [c for c in verdict.required_checks if c.status not in {"ran", "not_applicable"}]
    if not counts or (page.items is not None and not found):
        return []
    summary = ", ".join(f"{count} {_format_status(name)}" for name, count in counts.items())
    lines = [page.heading(f"Required checks: {summary}")]
    for check in found[: page.items]:
        first = f"  {escape_line(check.name)}  {_format_status(check.status)}"
        new = check.detail and not _is_told(check.detail, verdict)
        detail = f"{first}: {escape_line(check.detail)}" if new else first
        lines += page.wrap(detail.strip(), first="  ", rest=DEEP_INDENT, limit=page.cut(3))
    return lines + page.omitted(len(found))


def _format_status(status: str) -> str:
    """A check's status in words."""
    if status == "passed_by_own_tests":
        return "passed, by the change's own tests"
    return status.replace("_", " ")


def render_agents_gaps(page: TextLayout, verdict: Verdict) -> list[str]:
    """Agents that did not finish, and what agents say they could not look at."""
    # An agent may name the analyzer (ruff) where the list of files names its tool (ruff_bugs).
    known = {f"{skip.path}: {skip.why}" for skip in verdict.skipped}
    known |= {skip.why for skip in verdict.skipped if skip.path == WHOLE_CHANGE}
    raised = {one.number for one in verdict.iterations if one.limit_raised}
    texts = list(
        dict.fromkeys(
            f"{agent.agent}{text}"
            for agent in verdict.agents
            if not _reported_later(agent, verdict)
            for text in _describe_agent(agent, known, raised)
        )
    )
    return page.section("What agents could not do", texts, rest=DEEP_INDENT)


def _reported_later(agent: AgentReport, verdict: Verdict) -> bool:
    """Whether an agent that did not finish did so in a later iteration."""
    return agent.status != "ok" and any(
        (later.agent, later.status) == (agent.agent, "ok") and later.iteration > agent.iteration
        for later in verdict.agents
    )


def _describe_agent(agent: AgentReport, known: Set[str], raised: Set[int]) -> list[str]:
    past = THE_LIMIT if agent.iteration in raised else "\n"
    gaps = [gap for gap in agent.gaps if past not in gap]
    texts = [f": {gap}" for gap in gaps if not {gap, gap.partition(" ")[2]} & known]
    if agent.status != "ok":
        texts.insert(0, f" ({agent.status}): {agent.summary or 'no reason given'}")
    return texts


def questions_to_author(verdict: Verdict) -> list[str]:
    """What the review would ask the author of the change."""
    return [
        text.removeprefix(OPEN_QUESTION)
        for text in verdict.stop.uncertain
        if text.startswith(OPEN_QUESTION)
    ]


def render_uncertain(page: TextLayout, verdict: Verdict) -> list[str]:
    """What remains uncertain and is nowhere else in the report."""
    gaps = {skip.why for skip in verdict.skipped if skip.gap}
    texts = [
        text
        for text in verdict.stop.uncertain
        if not text.startswith(OPEN_QUESTION) and not any(text.endswith(why) for why in gaps)
    ]
    return page.section("Still uncertain", texts, first="  - ")
