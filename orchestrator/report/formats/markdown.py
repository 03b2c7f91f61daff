"""A summary of the verdict in Markdown, in which untrusted text cannot link, mention or mark up."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from orchestrator.code_review.verdict.document_parts import Fix
from orchestrator.code_review.verdict.model import Finding, Verdict, name_counts
from orchestrator.report import review_gaps_text
from orchestrator.report.findings_text import (
    PLACES,
    describe_support,
    fix_command,
    format_location,
    name_provers,
)
from orchestrator.report.formats import FormatInputs
from orchestrator.report.formats.listing_formats import describe_cause, describe_skip, joined_gaps
from orchestrator.report.ranking import Cause, headline, rank_findings
from orchestrator.report.terminal_escaping import escape_code_lines, escape_line, escape_unprintable
from orchestrator.report.text_layout import truncate
from orchestrator.report.verdict_text import (
    describe_effort,
    describe_reliance,
    describe_since_previous,
)
from orchestrator.wording import count_noun

_MARKUP = re.compile(
    r"[\\`*_{}\[\]<>#+!|~&$@]|:(?=\S)|(?<=www)\.|(?<=\d)\.(?=\s)|(?<=GH)-|^[-=/]", re.IGNORECASE
)
COMMAND = re.compile(r"/\w")
"""How a line begins that GitLab carries out as a quick action, such as ``/merge``."""


def plain(text: str) -> str:
    """Prose on one line in which no character acts as markup, link or mention.

    Punctuation becomes a numeric character reference, which Markdown shows as the character and
    never reads as syntax: ``@team``, ``#1``, ``https://host`` and ``<img>`` have no effect.
    """
    shown = _MARKUP.sub(lambda found: f"&#{ord(found[0])};", escape_line(text))
    return re.sub(" (?= )", "&#160;", shown)  # blanks of code, which Markdown would collapse


def code(text: str) -> str:
    """Text on one line as a code span that its own backticks cannot end."""
    shown = escape_unprintable(text.replace("\n", " "))
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if not shown.strip() or shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def code_block(lines: list[str], language: str = "") -> str:
    """Lines as a fenced block that the lines cannot end.

    Where one could be a quick action of GitLab, which knows few fences, all are indented.
    """
    if any(map(COMMAND.match, lines)):
        lines = [f" {line}" for line in lines]
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence + language, *lines, fence])


MAX_CHARACTERS = 60_000
"""GitHub takes 65,536 characters in a comment and 1 MiB on a job's page."""
LISTED = 20
"""Entries of a list other than that of the findings."""
MAX_LIST = 6_000
"""Characters of such a list."""
QUOTED = 12
"""Lines of a quotation."""
MAX_CELLS = 300
"""Cells of a path, a title, a quoted line or an entry of a list."""
MAX_TEXT_CELLS = 1_000
"""Cells of any other text on one line."""
PATCH_LINES = 80
"""Lines of a patch; one that is longer is named, not shown."""
PATCH = 6_000
"""Characters of a patch."""
DETAIL = 4_000
"""Characters of a finding's reason. All bounds together leave room for the findings."""


def render_markdown(verdict: Verdict, _: FormatInputs) -> str:
    """What happened, the findings told at length, a line for each other, and what is missing.

    Verified patches are shown in the room that the findings leave; findings that do not fit are
    counted.
    """
    ranked = rank_findings(verdict)
    bottom = [*_describe_gaps(verdict), *_describe_uncounted(verdict)]
    parts = _describe_outcome(verdict)
    room = MAX_CHARACTERS - sum(len(part) + 2 for part in (*parts, *bottom)) - 200
    shown: list[tuple[Finding, str]] = []
    rest = list(ranked.also_noticed)
    for number, cause in enumerate(ranked.at_length):
        text = describe_finding(*cause)
        if len(text) + 2 <= room:
            room -= len(text) + 2
            shown.append((cause[0], text))
        else:
            rest.insert(number - len(shown), cause)
    noticed = _describe_noticed(rest, room)
    room -= len(noticed) + 2
    for finding, text in shown:
        parts.append(text)
        patch = "\n\n".join(filter(None, (describe_tests(finding), describe_patch(finding))))
        if patch and len(patch) + 2 <= room:
            room -= len(patch) + 2
            parts.append(patch)
    return "\n\n".join(filter(None, [*parts, noticed, *bottom])) + "\n"


def _describe_noticed(causes: Sequence[Cause], room: int) -> str:
    """A line for each cause, folded away, and the number of findings that do not fit."""
    if not causes:
        return ""
    room -= 200
    lines: list[str] = []
    for cause in causes:
        line = f"- {_describe_title(cause[0])}"
        line += f" (and {count_noun(len(cause) - 1, 'more place')})" if len(cause) > 1 else ""
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    if left := sum(map(len, causes[len(lines) :])):
        lines.append(f"- {count_noun(left, 'further finding')} in the verdict.")
    summary = f"<details><summary>Also noticed ({sum(map(len, causes)):,})</summary>"
    return "\n\n".join([summary, "\n".join(lines), "</details>"])


def _describe_outcome(verdict: Verdict) -> list[str]:
    status = "review complete" if verdict.status == "complete" else "**REVIEW INCOMPLETE**"
    found = name_counts(verdict.findings) or "no findings"
    facts = (f"`{verdict.verdict}`", status, found, describe_reliance(verdict))
    parts = [f"### Diffcourt: {headline(verdict)}", " · ".join(filter(None, facts))]
    if override := verdict.override:
        who = f"Overridden to {override.verdict} by {override.by} at {override.at}"
        parts.append(_prose(f"{who}, for this head only: {override.reason}"))
    if verdict.reasons:
        parts.append(_prose(f"Why: {'; '.join(verdict.reasons)}."))
    if depth := review_gaps_text.describe_depth(verdict):
        parts.append(_prose(f"Read: {depth}."))
    if effort := describe_effort(verdict):
        parts.append(_prose(f"Effort: {effort}."))
    if since := describe_since_previous(verdict):
        parts.append(_prose(f"Since {since}."))
    if verdict.lead_summary:
        parts.append(f"> {_prose(verdict.lead_summary)}")
    questions = review_gaps_text.questions_to_author(verdict)
    return parts + _list("Questions to the author", map(_prose, questions))


def _describe_title(finding: Finding, *, bold: str = "", support: str | None = None) -> str:
    title, place = _prose(finding.title, MAX_CELLS), _place(finding)
    names = " ".join(map(code, filter(None, (finding.rule, finding.identity))))
    support = describe_support(finding, short=True) if support is None else support
    mark = f", {support}" if support else ""
    return f"{bold}{finding.severity}: {title}{bold} {place} ({names}){mark}"


def describe_finding(finding: Finding, *others: Finding, quoted: bool = True) -> str:
    """A finding with its place, rule, identity, reason and advice.

    Args:
        others: those of the same cause; their places are named.
        quoted: with the lines that it cites.
    """
    support = _prose(describe_support(finding), MAX_CELLS)
    lines = [_describe_title(finding, bold="**", support=support)]
    marks: list[str] = (
        [finding.since_previous] if finding.since_previous in {"new", "reopened"} else []
    )
    if finding.lowered_from:
        marks.append(f"reported as {finding.lowered_from}")
    if finding.carried_over:
        marks.append("carried over")
    lines[0] += "".join(f", {mark}" for mark in marks)
    if finding.because_of:
        lines.append(_prose(describe_cause(finding.because_of), MAX_CELLS))
    places = {f"{one.path}:{one.start_line}": None for one in finding.reports if one.path}
    places |= {format_location(one): None for one in others}
    if places:
        named = ", ".join(code(truncate(place, MAX_CELLS)) for place in [*places][:PLACES])
        more = f" and {len(places) - PLACES:,} more" if len(places) > PLACES else ""
        lines.append(f"Also at {named}{more}")
    lines += [
        f"{_prose(one.by)} {one.action} it: {_prose(one.reason, MAX_CELLS)}"
        for one in finding.remarks
        if one.action == "limits" or (one.action == "confirms" and finding.support == "verified")
    ][:1]
    if finding.detail:
        cut = " ..." if len(finding.detail) > DETAIL else ""
        detail = f"{finding.detail[:DETAIL]}{cut}"
        lines.append("  \n".join(map(plain, detail.splitlines())))
    if finding.waiver and finding.state == "open":
        lines.append(_prose(finding.waiver))
    quote = escape_code_lines(finding.evidence.quote)[:QUOTED]
    if quoted and any(quote):
        lines.append(code_block([truncate(line, MAX_CELLS) for line in quote]))
    if finding.fix_suggestion:
        lines.append(f"Fix: {_prose(finding.fix_suggestion)}")
    return "\n\n".join(lines)


def describe_patch(finding: Finding) -> str:
    """A verified patch, folded away; empty where there is none."""
    fix = finding.fix
    if fix is None or not fix.is_verified:
        return ""
    proof = _prose(f"verified by {name_provers(finding)}", MAX_CELLS)
    parts = [f"<details><summary>Patch: {proof}</summary>", diff_block(fix)]
    parts.append(f"Apply it: {apply_command(finding)}")
    return "\n\n".join([*filter(None, parts), "</details>"])


def describe_tests(finding: Finding) -> str:
    """The tests that show it, folded away, to be added to the change; empty where there is none."""
    parts: list[str] = []
    for proof in finding.proofs:
        if proof.is_reproduced:
            how = {"base": "that base passes and head fails", "same": "in which two ways disagree"}
            summary = f"Add this test, {how[proof.oracle]}: {_prose(proof.whole_claim)}"
            test = code_block(escape_code_lines(proof.test), PurePosixPath(proof.path).suffix[1:])
            run = code(truncate(shlex.join(proof.command), MAX_CELLS))
            add = f"Its file is {code(proof.path)}; {run} runs it."
            if finding.fix and finding.fix.is_verified:
                both = f"{fix_command(finding, 'verdict.json')} --with-test"
                add += f" With the patch: {code(both)}"
            parts += [f"<details><summary>{summary}</summary>", test, add, "</details>"]
    return "\n\n".join(parts)


def apply_command(finding: Finding) -> str:
    """The command that applies a finding's patch, given the verdict's file, as a code span."""
    return code(truncate(fix_command(finding, "verdict.json"), MAX_CELLS))


def diff_block(fix: Fix, most: int = PATCH_LINES) -> str:
    """A patch as a fenced block; empty where it has more lines, or too many characters."""
    lines = escape_code_lines(fix.patch)
    if len(lines) > most or len(fix.patch) > PATCH:
        return ""
    return code_block(lines, "diff")


def _describe_gaps(verdict: Verdict) -> list[str]:
    entries = (
        f"{code(truncate(gap.path, MAX_CELLS))}: {_prose(describe_skip(gap), MAX_CELLS)}"
        for gap in joined_gaps(verdict)
    )
    failed = (
        f"{code(check.name)}: {_prose(check.detail or check.status, MAX_CELLS)}"
        for check in verdict.required_checks
        if not check.is_satisfied
    )
    return [*_list("Not reviewed", entries), *_list("Required checks", failed)]


def _describe_uncounted(verdict: Verdict) -> list[str]:
    def told(one: Finding, why: str) -> str:
        return f"{_place(one)} {_prose(one.title, MAX_CELLS)}: {_prose(why, MAX_CELLS)}"

    waived = (told(one, one.waiver) for one in verdict.findings if one.state == "waived")
    older = (told(one.finding, one.reason) for one in verdict.rejected if one.cause == "older")
    accepted = _list("Waived: accepted, not counted", waived)
    return accepted + _list("In base already: reported, not counted", older)


def _list(heading: str, entries: Iterator[str]) -> list[str]:
    """A heading and a list as one part; nothing without entries."""
    found = list(entries)
    if not found:
        return []
    shown: list[str] = []
    room = MAX_LIST
    for entry in found[:LISTED]:
        room -= len(entry)
        if shown and room < 0:
            break
        shown.append(f"- {entry}")
    more = len(found) - len(shown)
    rest = [f"- and {more:,} more"] if more else []
    return [f"#### {heading}", "\n".join([*shown, *rest])]


def _prose(text: str, width: int = MAX_TEXT_CELLS) -> str:
    return plain(truncate(text, width))


def _place(finding: Finding) -> str:
    return code(truncate(format_location(finding), MAX_CELLS))
