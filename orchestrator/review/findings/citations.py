"""Whether what an agent cites is there. Every quotation of every agent is held against its source
here and nowhere else: a finding's, an objection's, and that of a judge's score.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct, to_builtins

from orchestrator.engine.types import Json
from orchestrator.engine.untrusted_text import escape_markers
from orchestrator.review.change.contents import SideName
from orchestrator.review.findings.baseline import normalize
from orchestrator.review.report_contracts import Citation, Link, ReportedFinding
from orchestrator.review.session import Session
from orchestrator.review.verdict.model import Finding

LEAST_QUOTE = 5
"""Characters, white space apart: what is shorter than that stands nearly everywhere."""


SHOWN_QUOTE = 300
"""Characters of a quotation that a verdict repeats."""

_SAID = {"title", "detail", "fix_suggestion", "evidence"}


def stands(quote: str, lines: Iterable[str]) -> bool:
    """Whether a quotation stands in these lines, white space apart.

    An agent sees text with its look-alikes of our marks disarmed, and quotes what it sees.
    """
    wanted = normalize([escape_markers(quote)])
    return bool(wanted) and wanted in normalize([escape_markers("\n".join(lines))])


async def lines_of(session: Session, side: SideName, path: str) -> list[str]:
    """The lines of a regular file of a side's tree, changed or not; empty where there is none."""
    mode, _ = (await session.contents.paths(side)).get(path, ("", ""))
    if not mode.startswith("100"):
        return []
    written, failed = await session.side(side, [path])
    return [] if path in failed else session.read(written, path)


class Fault(Struct, frozen=True):
    """Why a finding does not count."""

    cause: Literal["unverified", "outside", "constant"]
    why: str


async def claim_fault(session: Session, claim: ReportedFinding) -> Fault | None:
    """Why a finding of an agent does not count; None when it does."""
    lines = await lines_of(session, "head", claim.path)
    if not lines:
        return Fault("unverified", f"{claim.path} is not a file of head that can be read")
    if not stands(claim.quote, lines[claim.start_line - 1 : claim.end_line]):
        where = f"{claim.path}:{claim.start_line}"
        return Fault("unverified", f"its quote does not stand at {where}")
    if any(claim.start_line <= line <= claim.end_line for line in session.added(claim.path)):
        return None
    why = "it lies outside the lines that the change adds, and names no changed line as its cause"
    if claim.because_of is not None:
        why = _link_fault(session, claim.because_of)
    return Fault("outside", why) if why else None


def _link_fault(session: Session, link: Link) -> str:
    """Why a line that is named as the cause is none of the change's, or empty."""
    if link.removed:
        files = [f for f in session.change.files if (f.old_path or f.path) == link.path]
        known = any(link.line in file.removed for file in files)
    else:
        known = link.line in session.added(link.path)
    verb = "removes" if link.removed else "adds"
    return "" if known else f"{link.path}:{link.line}, its cause, is no line that the change {verb}"


def shown(cited: Citation) -> str:
    """A citation in one line, for a person."""
    return f"{cited.source} {cited.name}: {cited.quote[:SHOWN_QUOTE]}"


class Sources(Struct, frozen=True):
    """What can be cited in a review.

    Attributes:
        findings: those that can be cited, by id.
        answers: what a tool answered in this run, by its name.
    """

    session: Session
    findings: Mapping[str, Finding]
    answers: Callable[[str], Iterable[str]]

    async def faults(self, cited: Sequence[Citation], allowed: Collection[str] = ()) -> str:
        """Why these citations are no evidence, or empty: there are some, and each holds.

        Args:
            allowed: the kinds of source that count here; none given: all.
        """
        if not cited:
            return "it gives no evidence"
        for one in cited:
            if allowed and one.source not in allowed:
                return f"a {one.source} is no evidence here"
            if why := await self._fault(one):
                return why
        return ""

    async def _fault(self, cited: Citation) -> str:
        if len(normalize([cited.quote])) < LEAST_QUOTE:
            return f"its quote of {cited.source} {cited.name} is too short to show anything"
        if any(stands(cited.quote, [text]) for text in await self._texts(cited)):
            return ""
        return f"its quote does not stand in {cited.source} {cited.name}"

    async def _texts(self, cited: Citation) -> list[str]:
        match cited.source:
            case "file":
                return ["\n".join(await lines_of(self.session, "head", cited.name))]
            case "diff":
                return await self._changed(cited.name)
            case "finding":
                found = self.findings.get(cited.name)
                return [] if found is None else _texts_in(_said(found))
            case "tool":
                return [text for answer in self.answers(cited.name) for text in _read(answer)]

    async def _changed(self, path: str) -> list[str]:
        """What the change adds to a file, and what it removes from it."""
        texts: list[str] = []
        for file in self.session.change.files:
            if path in {file.path, file.old_path}:
                head = await lines_of(self.session, "head", file.path)
                base = await lines_of(self.session, "base", file.old_path or file.path)
                for lines, numbers in ((head, file.added), (base, file.removed)):
                    texts.append("\n".join(lines[n - 1] for n in numbers if n <= len(lines)))
        return texts


def _read(answer: str) -> list[str]:
    """An answer as it stands, and where it is JSON what its texts say."""
    try:
        return [answer, *_texts_in(json.loads(answer))]
    except (ValueError, RecursionError):
        return [answer]


def _said(finding: Finding) -> dict[str, Json]:
    return {name: said for name, said in to_builtins(finding).items() if name in _SAID}


def _texts_in(value: Json) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for each in value for text in _texts_in(each)] if isinstance(value, list) else []
