"""Checks citations: every quotation of an agent is looked up in its source.

This applies to findings, objections, a judge's scores, and lines of the repository's guidance.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from diffchecks.new_findings import remove_white_space
from orchestrator.code_review.agent_report_contracts import Citation
from orchestrator.code_review.change.contents import SIDES, SideName
from orchestrator.code_review.findings.located_findings import LocatedFinding, Rejection
from orchestrator.code_review.findings.quote_location import (
    MIN_QUOTE,
    NEAR_LINES,
    REDACTED,
    FileText,
    Place,
    find_quote,
    nearest_place,
)
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.verdict.document_parts import Guideline
from orchestrator.code_review.verdict.model import Cause, Finding
from orchestrator.engine.types import Json

MAX_QUOTE = 300
"""Characters of a guideline that a verdict repeats."""


def guidance_texts(workspace: ReviewWorkspace, path: str) -> list[str]:
    """The texts of base's guidance with this path."""
    return ["\n".join(one.lines) for one in workspace.guidance if one.path == path]


def hold_guideline(
    workspace: ReviewWorkspace, finding: LocatedFinding
) -> LocatedFinding | Rejection:
    """The finding with its guideline at the actual line, or why it has none.

    A line of guidance that an agent names as the cause is the guideline.
    """
    finding = _cause_as_guideline(workspace, finding)
    cited = finding.guideline
    if cited is None:
        return finding
    for one in workspace.guidance:
        if one.path != cited.path or not one.lines:
            continue
        line = cited.line - one.first_line + 1
        if not cited.quote.strip() and 0 < line <= len(one.lines) and one.lines[line - 1].strip():
            place: tuple[int, int] | None = line, line
        else:
            places = FileText(one.lines).find(cited.quote)
            place = nearest_place(places, (line, line), cited.quote, ())
        if place is not None:
            start, end = place
            quote = "\n".join(one.lines[start - 1 : end]).strip()[:MAX_QUOTE]
            held = Guideline(one.path, start + one.first_line - 1, quote)
            return replace(finding, guideline=held)
    if not guidance_texts(workspace, cited.path):
        return Rejection("unverified", f"its guideline: base has no guidance {cited.path}")
    return Rejection("unverified", f"its guideline: its quote is not in {cited.path}")


def keep_guideline(workspace: ReviewWorkspace, finding: LocatedFinding) -> LocatedFinding:
    """The finding with its guideline if that is valid, else without."""
    held = hold_guideline(workspace, finding)
    return replace(finding, guideline=None) if isinstance(held, Rejection) else held


def _cause_as_guideline(workspace: ReviewWorkspace, finding: LocatedFinding) -> LocatedFinding:
    cause = finding.because_of
    if cause is None or finding.guideline or cause.path == finding.path:
        return finding
    if cause.line in workspace.added(cause.path) or not guidance_texts(workspace, cause.path):
        return finding
    return replace(finding, because_of=None, guideline=Guideline(cause.path, cause.line, ""))


NOT_INTRODUCED = "not introduced: base has it too"
CONTEXT_LINES = 10
"""How far from a changed line a finding may stand that names no cause."""

MAX_SHOWN_QUOTE = 300
"""Characters of a quotation that a verdict repeats."""

_QUOTABLE = {"title", "detail", "fix_suggestion", "evidence"}


async def read_lines(workspace: ReviewWorkspace, side: SideName, path: str) -> list[str]:
    """The lines of a regular file of a side, changed or not; empty if there is none."""
    entry = (await workspace.contents.paths(side)).get(path)
    if entry is None or not entry[0].startswith("100"):
        return []
    written, failed = await workspace.side(side, [path])
    return [] if path in failed else workspace.read(written, path)


async def locate_finding(
    workspace: ReviewWorkspace, finding: LocatedFinding
) -> LocatedFinding | Rejection:
    """An agent's finding at the lines of its quotation, or why it does not count.

    The cited line numbers only select among several places of the quotation: a wrong number does
    not invalidate a finding, and a wide range proves nothing. A text that the change removes is
    quoted from base. A finding close to a changed line has that line as its cause, unless the agent
    names another.
    """
    guided = hold_guideline(workspace, finding)
    if isinstance(guided, Rejection):
        return guided
    finding = guided
    path = await workspace.known_path(finding.path)
    if cause := finding.because_of:
        named = await workspace.known_path(cause.path)
        finding = replace(finding, because_of=replace(cause, path=named))
    cited = finding.start_line, finding.end_line
    outside: Rejection | None = None
    readable = False
    for side in SIDES[::-1]:
        old = next((f for f in workspace.change.files if f.path == path), None)
        name = (old.old_path or path) if old and side == "base" else path
        lines = await read_lines(workspace, side, name)
        readable |= bool(lines)
        changed = changed_lines(workspace, side, name)
        places = find_quote(lines, finding.quote)
        place = nearest_place(places, cited, finding.quote, changed)
        if place is None:
            continue
        start, end = place
        text = finding.quote if REDACTED in finding.quote else "\n".join(lines[start - 1 : end])
        if finding.older:
            return Rejection("older", f"{NOT_INTRODUCED}, says its author")
        located = replace(finding, path=name, side=side, start_line=start, end_line=end, quote=text)
        if held := with_cause(workspace, located, changed):
            return await with_cause_quote(workspace, held)
        outside = outside or Rejection("outside", _why_outside(finding.because_of))
    if outside:
        return outside
    if not readable:
        return Rejection("unverified", f"{finding.path} is not a readable file")
    return Rejection("unverified", f"its quote is not in {finding.path}")


def changed_lines(workspace: ReviewWorkspace, side: SideName, path: str) -> frozenset[int]:
    """The lines of a side that the change adds or, in base, removes."""
    if side == "head":
        return workspace.added(path)
    files = [file for file in workspace.change.files if (file.old_path or file.path) == path]
    return frozenset(line for file in files for line in file.removed)


def with_cause(
    workspace: ReviewWorkspace, located: LocatedFinding, changed: Collection[int]
) -> LocatedFinding | None:
    """The finding with the changed line that causes it; None if the change does not cause it.

    A cause that is a few lines off is corrected, like a quotation.
    """
    removed = located.side == "base"
    if any(located.start_line <= line <= located.end_line for line in changed):
        return replace(located, because_of=None)
    if removed:
        return None
    if (named := located.because_of) is not None:
        sides: tuple[SideName, ...] = ("base", "head") if named.removed else ("head", "base")
        for side in sides:
            lines = changed_lines(workspace, side, named.path)
            if line := _nearest_line(lines, (named.line, named.line), NEAR_LINES):
                return replace(located, because_of=Cause(named.path, line, side == "base"))
    line = _nearest_line(changed, (located.start_line, located.end_line), CONTEXT_LINES)
    return replace(located, because_of=Cause(located.path, line)) if line else None


async def with_cause_quote(workspace: ReviewWorkspace, located: LocatedFinding) -> LocatedFinding:
    """The finding with the text of the line that causes it."""
    if (cause := located.because_of) is None:
        return located
    lines = await read_lines(workspace, "base" if cause.removed else "head", cause.path)
    text = lines[cause.line - 1].strip() if cause.line <= len(lines) else ""
    return replace(located, cause_quote=text[:MAX_SHOWN_QUOTE])


def _nearest_line(lines: Collection[int], place: Place, within: int) -> int | None:
    """The line nearest to a place's first line, within a maximum distance."""
    near = [line for line in lines if place[0] - within <= line <= place[1] + within]
    return min(near, key=lambda line: (abs(line - place[0]), line), default=None)


def _why_outside(cause: Cause | None) -> str:
    if cause is None:
        return (
            "it is outside the lines that the change adds, and names no changed line as its cause"
        )
    verb = "removes" if cause.removed else "adds"
    return f"{cause.path}:{cause.line}, its cause, is not a line that the change {verb}"


def format_citation(citation: Citation) -> str:
    """A citation in one line, for a person."""
    return f"{citation.source} {citation.name}: {citation.quote[:MAX_SHOWN_QUOTE]}"


class CitableSources(Struct, frozen=True):
    """The sources that can be cited besides the files of the change."""

    workspace: ReviewWorkspace
    findings: Mapping[str, Finding]
    answers: Callable[[str], Iterable[str]]

    async def check(self, citations: Sequence[Citation], allowed: Collection[str] = ()) -> str:
        """Why these citations are no evidence; empty if there are any and all are correct.

        Args:
            allowed: the kinds of source that count; empty: all.
        """
        if not citations:
            return "it gives no evidence"
        for citation in citations:
            if allowed and citation.source not in allowed:
                return f"a {citation.source} is not evidence here"
            if why := await self._check_one(citation):
                return why
        return ""

    def rest_on_guidance(self, citations: Sequence[Citation]) -> bool:
        """Whether only guidance is cited, which proves nothing about what code does."""
        return bool(citations) and all(
            one.source == "file" and guidance_texts(self.workspace, one.name) for one in citations
        )

    async def _check_one(self, citation: Citation) -> str:
        if len(remove_white_space([citation.quote])) < MIN_QUOTE:
            return f"its quote of {citation.source} {citation.name} is too short to show anything"
        if not await self._holds(citation):
            return f"its quote is not in {citation.source} {citation.name}"
        return ""

    async def _holds(self, citation: Citation) -> bool:
        """Whether a source has the quotation."""
        texts: list[str] = []
        match citation.source:
            case "file":
                path = await self.workspace.known_path(citation.name)
                head = await read_lines(self.workspace, "head", path)
                texts = ["\n".join(head), *guidance_texts(self.workspace, path)]
            case "diff":
                return await self._is_in_hunk(citation)
            case "finding" if finding := self.findings.get(citation.name):
                fields = to_builtins(finding)
                texts = _strings_in([fields[name] for name in fields if name in _QUOTABLE])
            case "tool":
                texts = [t for one in self.answers(citation.name) for t in _answer_texts(one)]
        return any(find_quote(text.split("\n"), citation.quote) for text in texts)

    async def _is_in_hunk(self, citation: Citation) -> bool:
        """Whether a place of the quotation holds a changed line; context may stand around it."""
        name = await self.workspace.known_path(citation.name)
        for file in self.workspace.change.files:
            if name not in {file.path, file.old_path}:
                continue
            for side in SIDES:
                path = file.path if side == "head" else file.old_path or file.path
                changed = changed_lines(self.workspace, side, path)
                lines = await read_lines(self.workspace, side, path)
                for first, last in find_quote(lines, citation.quote):
                    if any(first <= line <= last for line in changed):
                        return True
        return False


def _answer_texts(answer: str) -> list[str]:
    """A tool's answer and, if it is JSON, each string in it."""
    try:
        return [answer, *_strings_in(json.loads(answer))]
    except (ValueError, RecursionError):
        return [answer]


def _strings_in(value: Json) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for each in value for text in _strings_in(each)] if isinstance(value, list) else []
