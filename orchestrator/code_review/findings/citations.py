"""Checking of citations: every quotation of an agent is looked up in its source.

That of a finding, of an objection, and of a judge's score.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct, to_builtins

from orchestrator.code_review.agent_report_contracts import Citation
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.findings.finding_fingerprints import remove_white_space
from orchestrator.code_review.findings.types import LocatedFinding
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.verdict.model import Cause, Finding
from orchestrator.engine.types import Json
from orchestrator.engine.untrusted_text import escape_markers

MIN_QUOTE = 5
"""Characters without white space; a shorter quotation occurs nearly everywhere."""

MAX_SHOWN_QUOTE = 300
"""Characters of a quotation that a verdict repeats."""

_QUOTABLE = {"title", "detail", "fix_suggestion", "evidence"}


def contains_quote(lines: Iterable[str], quote: str) -> bool:
    """Whether a quotation occurs in these lines, white space apart.

    What an agent is shown has look-alikes of our delimiters escaped, and it quotes what it sees.
    """
    quoted = remove_white_space([escape_markers(quote)])
    return bool(quoted) and quoted in remove_white_space([escape_markers("\n".join(lines))])


async def read_lines(workspace: ReviewWorkspace, side: SideName, path: str) -> list[str]:
    """The lines of a regular file of a side's tree, changed or not; empty where there is none."""
    mode, _ = (await workspace.contents.paths(side)).get(path, ("", ""))
    if not mode.startswith("100"):
        return []
    written, failed = await workspace.side(side, [path])
    return [] if path in failed else workspace.read(written, path)


class Rejection(Struct, frozen=True):
    """Why a finding does not count; ``cause`` is one of a verdict's."""

    cause: Literal["unverified", "outside", "constant"]
    reason: str


async def check_claim(workspace: ReviewWorkspace, finding: LocatedFinding) -> Rejection | None:
    """Why an agent's finding does not count; None when it does."""
    lines = await read_lines(workspace, "head", finding.path)
    if not lines:
        return Rejection("unverified", f"{finding.path} is not a file of head that can be read")
    if not contains_quote(lines[finding.start_line - 1 : finding.end_line], finding.quote):
        where = f"{finding.path}:{finding.start_line}"
        return Rejection("unverified", f"its quote does not stand at {where}")
    if any(finding.start_line <= n <= finding.end_line for n in workspace.added(finding.path)):
        return None
    why = "it lies outside the lines that the change adds, and names no changed line as its cause"
    if finding.because_of is not None:
        why = _check_cause(workspace, finding.because_of)
    return Rejection("outside", why) if why else None


def _check_cause(workspace: ReviewWorkspace, cause: Cause) -> str:
    """Why the line named as the cause is not a changed line; empty when it is one."""
    if cause.removed:
        files = [f for f in workspace.change.files if (f.old_path or f.path) == cause.path]
        changed = any(cause.line in file.removed for file in files)
    else:
        changed = cause.line in workspace.added(cause.path)
    if changed:
        return ""
    verb = "removes" if cause.removed else "adds"
    return f"{cause.path}:{cause.line}, its cause, is no line that the change {verb}"


def format_citation(citation: Citation) -> str:
    """A citation in one line, for a person."""
    return f"{citation.source} {citation.name}: {citation.quote[:MAX_SHOWN_QUOTE]}"


class Sources(Struct, frozen=True):
    """What can be cited in a review, besides the files of the change."""

    workspace: ReviewWorkspace
    findings: Mapping[str, Finding]
    answers: Callable[[str], Iterable[str]]

    async def check(self, citations: Sequence[Citation], allowed: Collection[str] = ()) -> str:
        """Why these citations are no evidence; empty when there are some and each is correct.

        Args:
            allowed: the kinds of source that count here; empty: all.
        """
        if not citations:
            return "it gives no evidence"
        for citation in citations:
            if allowed and citation.source not in allowed:
                return f"a {citation.source} is no evidence here"
            if why := await self._check_one(citation):
                return why
        return ""

    async def _check_one(self, citation: Citation) -> str:
        if len(remove_white_space([citation.quote])) < MIN_QUOTE:
            return f"its quote of {citation.source} {citation.name} is too short to show anything"
        if any(contains_quote([text], citation.quote) for text in await self._texts(citation)):
            return ""
        return f"its quote does not stand in {citation.source} {citation.name}"

    async def _texts(self, citation: Citation) -> list[str]:
        """The texts of a source."""
        match citation.source:
            case "file":
                return ["\n".join(await read_lines(self.workspace, "head", citation.name))]
            case "diff":
                return await self._changed_lines(citation.name)
            case "finding":
                finding = self.findings.get(citation.name)
                return [] if finding is None else _finding_texts(finding)
            case "tool":
                return [t for answer in self.answers(citation.name) for t in _answer_texts(answer)]

    async def _changed_lines(self, path: str) -> list[str]:
        """The lines that the change adds to a file, and those that it removes."""
        texts: list[str] = []
        for file in self.workspace.change.files:
            if path in {file.path, file.old_path}:
                head = await read_lines(self.workspace, "head", file.path)
                base = await read_lines(self.workspace, "base", file.old_path or file.path)
                for lines, numbers in ((head, file.added), (base, file.removed)):
                    texts.append("\n".join(lines[n - 1] for n in numbers if n <= len(lines)))
        return texts


def _answer_texts(answer: str) -> list[str]:
    """A tool's answer, and where it is JSON each string in it."""
    try:
        return [answer, *_strings_in(json.loads(answer))]
    except (ValueError, RecursionError):
        return [answer]


def _finding_texts(finding: Finding) -> list[str]:
    fields = to_builtins(finding)
    return _strings_in([fields[name] for name in fields if name in _QUOTABLE])


def _strings_in(value: Json) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for each in value for text in _strings_in(each)] if isinstance(value, list) else []
