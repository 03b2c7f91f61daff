"""Findings as text: open ones by weight and cause with evidence, then waived and rejected ones."""

import shlex
from collections import Counter
from collections.abc import Sequence
from textwrap import dedent

from rich.cells import cell_len, chop_cells

from orchestrator.catalog.shared_literals import SEVERITIES
from orchestrator.code_review.verdict.document_parts import BASE_FAILS, TEMPLATE
from orchestrator.code_review.verdict.model import Finding, Rejected, Verdict, name_counts
from orchestrator.report.ranking import Cause, group_by, rank_findings
from orchestrator.report.terminal_escaping import escape_code_lines, escape_line, quote_path
from orchestrator.report.text_layout import DEEP_INDENT, UNBOUNDED, TextLayout, truncate
from orchestrator.wording import count_noun

QUOTE_LINES = 6
ROWS_PER_LINE = 3
"""Rows of the terminal that one long line of a quotation may take."""
PLACES = 12
"""Further places of a cause that are listed in a short report."""
MIN_TITLE = 30
"""Cells that a title has on a line, however long its finding's path."""
PROVERS = 2
"""Tools that are named as having proven a patch; the verdict has all."""
GRAVE = ("critical", "high")
_STYLE = {"critical": "red", "high": "red", "medium": "yellow", "low": "blue", "info": "bold"}


def format_location(finding: Finding) -> str:
    """``path:line``, which editors and terminals recognize, and whether it is a line of base."""
    return _format_place(finding.path, finding.start_line, finding.evidence.side == "base")


def _format_place(path: str, line: int, removed: bool) -> str:
    return f"{quote_path(path)}:{line}{' (removed)' if removed else ''}"


def _render_quote(page: TextLayout, text: str, first_line: int) -> list[str]:
    if not text.strip():
        return []
    quoted = escape_code_lines(text)
    shown = dedent("\n".join(quoted[: page.cut(QUOTE_LINES)])).split("\n")
    digits = len(str(first_line + len(shown) - 1))
    room = page.width - digits - 9
    lines: list[str] = []
    for number, line in enumerate(shown, first_line):
        rows = chop_cells(line[: 2 * room * ROWS_PER_LINE], room) or [""]
        lines.append(page.paint(f"      {number:>{digits}} | ", "dim") + rows[0])
        lines += [f"{DEEP_INDENT}{'':>{digits}} {row}" for row in rows[1:ROWS_PER_LINE]]
        if len(rows) > ROWS_PER_LINE:
            lines[-1] = lines[-1][:-3] + "..."
    if len(quoted) > len(shown):
        left = count_noun(len(quoted) - len(shown), "more line")
        lines.append(page.paint(f"      {'':>{digits}} | ({left})", "dim"))
    return lines


def _describe_source(finding: Finding) -> str:
    """Id, rule, CWE numbers, reporters, confidence, and what others say of an agent's claim."""
    parts = [finding.id, finding.rule, *(f"CWE-{number}" for number in finding.cwe)]
    by = ", ".join(finding.reported_by[:6])
    if len(finding.reported_by) > 6:
        by += f" and {len(finding.reported_by) - 6} more"
    confidence = f", confidence {finding.confidence:.2f}" if finding.confidence < 1 else ""
    more = f", {support}" if (support := describe_support(finding)) else ""
    if finding.lowered_from:
        more += f", reported as {finding.lowered_from}"
        more += ", beyond its author's weightiest" if finding.severity == "info" else ""
    if finding.carried_over:
        more += ", carried over from the previous review"
    source = f"[{', '.join(filter(None, parts))}] by {by or 'unknown'}{confidence}{more}"
    return escape_line(source)


def describe_support(finding: Finding, *, short: bool = False) -> str:
    """Why to believe a finding, and whose word a claim is; empty if all is proven; unescaped."""
    support = finding.support_told
    if finding.support == "proven":
        return support if support != "proven" else ""
    if support == "claimed" and not short:
        support += f": the word of {', '.join(finding.reported_by[:3]) or 'an agent'} alone"
    older = any(proof.state == "not_introduced" for proof in finding.proofs)
    return f"{support}, and {BASE_FAILS}" if older else support


def _render_title(page: TextLayout, finding: Finding, limit: int) -> list[str]:
    where = format_location(finding)
    first, *others = page.wrap(
        escape_line(finding.title), first=f"  {where}  ", rest=DEEP_INDENT, limit=limit
    )
    if len(first) < 2 + len(where):  # a narrow page breaks a long path
        return [first, *others]
    return ["  " + page.paint(where, "bold") + first[2 + len(where) :], *others]


def _render_entry(page: TextLayout, cause: Cause) -> list[str]:
    """A finding with its evidence, and the other places of the same cause."""
    finding = cause[0]
    whole = page.cut(12 if finding.severity in GRAVE else 4)
    lines = _render_title(page, finding, page.cut(4))
    lines += _render_quote(page, finding.evidence.quote, finding.start_line)
    if finding.because_of is not None:
        named = finding.because_of
        place = _format_place(named.path, named.line, named.removed)
        lines += page.wrap(f"because of {place}", first="      ", rest=DEEP_INDENT, limit=2)
        lines += _render_quote(page, finding.cause_quote, named.line)
    if finding.guideline is not None:
        rule = finding.guideline
        first = f"      rests on {_format_place(rule.path, rule.line, removed=False)}: "
        lines += page.wrap(escape_line(rule.quote), first=first, rest=DEEP_INDENT, limit=2)
    if finding.detail.strip() and escape_line(finding.detail) != escape_line(finding.title):
        lines += _render_why(page, finding.detail, whole)
    lines += _render_proofs(page, finding)
    if finding.fix_suggestion:
        lines += _render_text(page, "fix", finding.fix_suggestion, page.cut(4))
    lines += _render_patch(page, cause)
    for prefix, text in dict.fromkeys((*_agents_words(finding), *_contradictions(finding))):
        lines += _render_text(page, prefix, text, whole)
    waiver = [escape_line(finding.waiver)] if finding.waiver else []
    for text in (*waiver, _describe_source(finding)):
        lines += [
            page.paint(line, "dim")
            for line in page.wrap(text, first="      ", rest=DEEP_INDENT, limit=3)
        ]
    return lines + _render_places(page, cause)


def _render_proofs(page: TextLayout, finding: Finding) -> list[str]:
    """The claims that a test shows; in a full report also the tests, and what shows nothing."""
    lines: list[str] = []
    for proof in finding.proofs:
        if proof.is_reproduced:
            how = "two ways disagree" if proof.oracle == "same" else "base passes, head fails"
            text = f"{proof.whole_claim} ({how}: {proof.exception}: {proof.value})"
            lines += _render_text(page, "shown by a test", text, page.cut(3))
            text = f"{proof.path}, run by: {shlex.join(proof.command)}"
            lines += _render_text(page, "add this test", text, page.cut(3))
        elif page.verbose:
            words = proof.state.replace("_", " ")
            lines += _render_text(
                page, f"test {words}", f"{proof.claim}: {proof.reason}", UNBOUNDED
            )
        if page.verbose and proof.is_reproduced:
            lines += [f"{DEEP_INDENT}{row}" for row in escape_code_lines(proof.test)]
    return lines


def _render_patch(page: TextLayout, cause: Cause) -> list[str]:
    """What code found out about the patch, how to apply it, and in a full report the diff."""
    finding, fix = cause[0], cause[0].fix
    if fix is None or (fix.state == "refused" and not page.verbose):
        return []
    if fix.state == "refused":
        return _render_text(page, "patch refused", f"by {fix.source}: {fix.reason}", UNBOUNDED)
    # Reading patches takes a tenth of a second to import, and most reviews have none.
    from orchestrator.code_review.fixes import patch_files  # noqa: PLC0415

    same: list[str] = []
    for one in cause[:PLACES]:
        if one.fix and one.fix.state == fix.state and not {*same} & {*one.fix.excludes}:
            same.append(one.id)
    proof = f"verified by {name_provers(finding, page.cut(PROVERS))}"
    if not fix.is_verified:
        proof = f"applies, not proven to fix it ({fix.reason or 'only agents report it'})"
    changed = sum(file.changed_lines for file in patch_files.patched_files(fix))
    count = count_noun(changed, "line")
    beside = f", not with {', '.join(fix.excludes[:PLACES])}" if fix.excludes else ""
    text = f"{proof} ({count}{beside}): {page.fix} {shlex.join(same)}"
    lines = _render_text(page, "patch", text, page.cut(3))
    if page.items is None:
        lines += [f"{DEEP_INDENT}{row}" for row in escape_code_lines(fix.patch)]
    return lines


def fix_command(finding: Finding, file: str = "") -> str:
    """The command that applies a patch; the ID of a forged verdict adds no other; unescaped.

    Args:
        file: of the verdict, for readers whose clone does not have the run.
    """
    return f"diffcourt fix {f'{file} ' if file else ''}{shlex.quote(finding.id)}"


def name_provers(finding: Finding, most: int = PROVERS) -> str:
    """The tools that proved the patch, those that reported the finding first; unescaped.

    The agent that wrote it is named: a patch that satisfies tools can still leave the defect.
    """
    tools = finding.fix.proved_by if finding.fix else ()
    shown = sorted(tools, key=lambda tool: not tool.startswith(finding.reported_by))[:most]
    more = f" and {len(tools) - len(shown)} more" if len(tools) > len(shown) else ""
    source = finding.fix.source if finding.fix else ""
    by_code = source in {"", TEMPLATE} or any(tool.startswith(source) for tool in tools)
    return ", ".join(shown) + more + ("" if by_code else f"; written by {source}")


def _render_text(page: TextLayout, prefix: str, text: str, limit: int) -> list[str]:
    return page.wrap(escape_line(text), first=f"      {prefix}: ", rest=DEEP_INDENT, limit=limit)


def _render_why(page: TextLayout, detail: str, limit: int) -> list[str]:
    """Why a finding is one; below it the steps of a flow, a line each."""
    first, *steps = filter(str.strip, detail.splitlines())
    lines = _render_text(page, "why", first, limit)
    for number, step in enumerate(steps):
        more = page.wrap(escape_line(step), first=DEEP_INDENT, rest=f"{DEEP_INDENT}  ", limit=limit)
        if len(lines) + len(more) + (number < len(steps) - 1) > limit:
            left = len(steps) - number
            return [*lines, f"{DEEP_INDENT}and {count_noun(left, 'line')} more"]
        lines += more
    return lines


def _render_places(page: TextLayout, cause: Cause) -> list[str]:
    """The other places of a cause with their IDs; of many, the number."""
    first, *others = cause
    if not others:
        return []
    if len(others) > page.cut(PLACES):
        files = len({finding.path for finding in others})
        places = count_noun(len(others), "more place")
        text = f"{places} in {count_noun(files, 'file')}: {page.more}"
        return page.wrap(text, first="      also at ", rest=DEEP_INDENT)
    text = ", ".join(
        f"{format_location(finding)}{_difference(finding, first)} [{escape_line(finding.id)}]"
        for finding in others
    )
    return page.wrap(text, first="      also at ", rest=DEEP_INDENT, limit=UNBOUNDED)


def _difference(finding: Finding, first: Finding) -> str:
    """What a finding says that its place and the first one of its cause do not tell."""
    if "dependencies" in finding.reported_by:
        return f": {escape_line(finding.detail.removeprefix(f'{finding.title}: '))}"
    return "" if finding.title == first.title else f": {escape_line(finding.title)}"


def _agents_words(finding: Finding) -> list[tuple[str, str]]:
    """Agents' own texts on a finding that is shown under another's title, equal ones once."""
    reporters: dict[tuple[str, str], list[str]] = {}
    for report in finding.reports:
        words = [
            text.rstrip(".")
            for text in (report.title, report.detail, report.reason)
            if text and text not in {finding.title, finding.detail}
        ]
        if words and not report.proved:
            at = f" at {report.path}:{report.start_line}" if report.path else ""
            reporters.setdefault((at, ". ".join(words)), []).append(report.by)
    return [
        (escape_line(f"{', '.join(by)} {'add' if len(by) > 1 else 'adds'}{at}"), words)
        for (at, words), by in reporters.items()
    ]


def _contradictions(finding: Finding) -> list[tuple[str, str]]:
    """Why the verifier or its author stands by it, and who rates it differently or disputes it."""
    remarks = [(f"{one.by} {one.action} it", one.reason) for one in finding.remarks]
    if not finding.objections:
        return remarks
    texts = [
        f"{report.by} rates it {report.severity}"
        for report in finding.reports
        if report.severity != finding.severity
    ]
    texts += [
        f"{objection.by} disputes it: {objection.reason} (kept: {objection.why_not})"
        for objection in finding.objections
    ]
    return [*remarks, *(("but", text) for text in texts)]


def render_open(page: TextLayout, verdict: Verdict, room: int = UNBOUNDED) -> list[str]:
    """Open findings: those told at length by severity and cause, then the others.

    Args:
        room: lines that they may take. What does not fit at length has a line, the rest is counted.
    """
    ranked = rank_findings(verdict, everything=page.items is None)
    rest = [*ranked.at_length, *ranked.also_noticed]
    counts, every = (
        Counter(_section_of(finding) for cause in causes for finding in cause)
        for causes in (ranked.at_length, rest)
    )
    lines: list[str] = []
    section = ""
    for cause in ranked.at_length:
        first = _section_of(cause[0])
        number = f"{counts[first]:,}"
        if every[first] > counts[first]:
            number += f" of {every[first]:,}"
        head = ["", page.heading(f"{first.capitalize()} ({number})", _STYLE.get(first, ""))]
        entry = [*(head if first != section else [""]), *_render_entry(page, cause)]
        if lines and len(lines) + len(entry) + min(len(rest) - 1, 6) + 5 > room:
            break
        lines += entry
        section = first
        rest.pop(0)
    return (lines + _render_noticed(page, rest, room - len(lines)))[1:]


def _render_noticed(page: TextLayout, causes: Sequence[Cause], room: int) -> list[str]:
    """A line for each of the other findings; those without room are counted."""
    if not causes:
        return []
    lines = ["", page.heading(f"Also noticed ({sum(map(len, causes)):,})")]
    for number, cause in enumerate(causes):
        line = f"  {format_line(cause, page.width - 2)}"
        entry = [line] if cell_len(line) <= page.width else page.wrap(line.strip(), first="  ")
        if len(lines) + len(entry) + 3 > room:
            left = [finding for other in causes[number:] for finding in other]
            text = f"and {len(left):,} more ({name_counts(left)}): {page.more}"
            return [*lines, *page.wrap(text, first="  ")]
        lines += entry
    return [*lines, "", *page.wrap(f"All at length: {page.more}", first="  ")]


def format_line(cause: Cause, width: int) -> str:
    """A cause on one line: the title gives way to the width; place, severity and ID are whole."""
    finding = cause[0]
    start = f"{format_location(finding)}: {finding.severity}: "
    end = f", {support}" if (support := describe_support(finding, short=True)) else ""
    end += f" (and {count_noun(len(cause) - 1, 'more place')})" if len(cause) > 1 else ""
    end += f" [{escape_line(finding.id)}]"
    room = max(width - cell_len(start + end), MIN_TITLE)
    return f"{start}{truncate(escape_line(finding.title), room)}{end}"


def _section_of(finding: Finding) -> str:
    """The heading under which a finding is listed; refuted ones are listed separately."""
    return "refuted" if finding.support == "refuted" else finding.severity


def render_waived(page: TextLayout, verdict: Verdict) -> list[str]:
    """Findings that a waiver accepts: shown, and not counted."""
    accepted = [finding for finding in verdict.findings if finding.state == "waived"]
    if not accepted:
        return []
    lines = [page.heading(f"Waived ({len(accepted):,}): accepted, not counted")]
    for finding in accepted[: page.items]:
        text = f"{finding.severity}: {finding.title} [{finding.rule}]"
        text += f"; {finding.waiver}" if finding.waiver else ""
        lines += page.wrap(
            escape_line(text),
            first=f"  {format_location(finding)}  ",
            rest=DEEP_INDENT,
            limit=page.cut(2),
        )
    return lines + page.omitted(len(accepted))


def render_rejected(page: TextLayout, verdict: Verdict, *, older: bool) -> list[str]:
    """Reported findings that are not counted, by weight and cause, each with its reason.

    Args:
        older: those that base has already, which are true of the code; otherwise the others.
    """
    listed = {entry.finding.id for entry in verdict.rejected}
    marked = [
        Rejected(finding=finding, reason="marked as rejected")
        for finding in verdict.findings
        if finding.state == "rejected" and finding.id not in listed
    ]
    entries = sorted(
        (one for one in (*verdict.rejected, *marked) if (one.cause == "older") == older),
        key=lambda entry: (SEVERITIES.index(entry.finding.severity), -entry.finding.confidence),
    )
    if not entries:
        return []
    groups = group_by(
        entries,
        lambda entry: (
            entry.finding.severity,
            entry.finding.rule,
            entry.finding.title,
            entry.reason,
        ),
    )
    name = "In base already" if older else "Rejected"
    lines = [page.heading(f"{name} ({len(entries):,}): reported, not counted")]
    for group in groups[: page.items]:
        finding = group[0].finding
        first = f"  {format_location(finding)}  {finding.severity}: "
        title = f"{finding.title} [{finding.id}]"
        lines += page.wrap(escape_line(title), first=first, rest=DEEP_INDENT, limit=page.cut(2))
        lines += page.wrap(escape_line(group[0].reason), first=DEEP_INDENT, limit=page.cut(2))
        lines += _render_places(page, [entry.finding for entry in group])
    return lines + page.omitted(len(groups))
