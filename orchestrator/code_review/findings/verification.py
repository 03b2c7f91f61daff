"""Checks the verifier's verdicts: that a text exists shows nothing, so quotations must connect.

A confirmation quotes the finding's own place, and another place that shares a name with it or with
a quotation that does. A refutation quotes other code, connected in the same way or of the same
function. Comments, and prose about code, show nothing.
"""

import re
from collections.abc import Mapping, Sequence
from keyword import kwlist

from msgspec import Struct

from orchestrator.code_review.agent_report_contracts import ClaimVerdict, QuotedCode, VerifierReport
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.findings.citations import MAX_SHOWN_QUOTE, changed_lines, read_lines
from orchestrator.code_review.findings.finding_context import find_block
from orchestrator.code_review.findings.quote_location import Place, find_quote
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.verdict.model import Finding

MAX_LINES = 20
"""Of one quotation; a vague range shows nothing."""

_PROSE = (".md", ".rst", ".txt", ".adoc")
_COMMENT = re.compile(r"(?:^|(?<=\s))(?:#(?!\[|\w)|//|--\s|/\*|\*\s|<!--).*", re.MULTILINE)
_NAME = re.compile(r"[^\W\d][\w$]{2,}")
_COMMON = {
    *kwlist, "and", "boolean", "case", "catch", "char", "const", "default", "double", "end",
    "enum", "export", "extends", "false", "final", "float", "func", "function", "impl", "int",
    "interface", "let", "long", "match", "mut", "new", "nil", "not", "null", "package", "private",
    "protected", "pub", "public", "self", "static", "str", "string", "String", "struct", "super",
    "switch", "this", "throw", "throws", "true", "type", "undefined", "use", "val", "var", "void",
}  # fmt: skip
"""Words of languages, which connect nothing."""


class _Quoted(Struct, frozen=True):
    """A quotation at its place, with the names in its code."""

    side: SideName
    path: str
    place: Place
    names: frozenset[str]


class _Own(Struct, frozen=True):
    """The finding's place, with the names in it and of its function, and the function's lines."""

    finding: Finding
    names: frozenset[str]
    block: Place
    changed: bool

    def overlaps(self, quoted: _Quoted) -> bool:
        """Whether a quotation has a line of the finding."""
        start, end = self.finding.start_line, self.finding.end_line
        return self._has_file(quoted) and quoted.place[0] <= end and start <= quoted.place[1]

    def contains(self, quoted: _Quoted, lines: Place) -> bool:
        """Whether a quotation has no lines but these of the finding's file."""
        inside = lines[0] <= quoted.place[0] and quoted.place[1] <= lines[1]
        return self._has_file(quoted) and inside

    def caused_by(self, quoted: _Quoted) -> bool:
        """Whether a quotation has the changed line that causes the finding."""
        cause = self.finding.because_of
        if cause is None or (quoted.side == "base") is not cause.removed:
            return False
        return quoted.path == cause.path and quoted.place[0] <= cause.line <= quoted.place[1]

    def connected(self, quotes: Sequence[_Quoted]) -> list[_Quoted]:
        """The quotations that lead to the finding, name by name."""
        found, names, rest = list[_Quoted](), self.names, list(quotes)
        while near := [one for one in rest if one.names & names or self.caused_by(one)]:
            found += near
            names = names.union(*(one.names for one in near))
            rest = [one for one in rest if one not in near]
        return found

    def _has_file(self, quoted: _Quoted) -> bool:
        return (quoted.side, quoted.path) == (self.finding.evidence.side, self.finding.path)


async def check_verdicts(
    workspace: ReviewWorkspace, report: VerifierReport, asked: Mapping[str, Finding]
) -> tuple[Mapping[str, ClaimVerdict], list[str]]:
    """The verdicts that count, by the claim's id, and a line for each that does not.

    Args:
        asked: id → finding, of the claims that the verifier was asked about.
    """
    valid: dict[str, ClaimVerdict] = {}
    errors: list[str] = []
    by_claim: dict[str, list[ClaimVerdict]] = {name: [] for name in asked}
    for one in report.verdicts:
        by_claim.setdefault(one.finding, []).append(one)
    for name, given in by_claim.items():
        why = "nothing is said of it"
        if name not in asked:
            why = "there is no such claim"
        elif len(given) > 1:
            why = f"it has {len(given)} verdicts"
        elif given:
            why = _opposite(given[0], by_claim) or await _error(workspace, given[0], asked)
        if why:
            errors.append(f"verdict on {name}: {why}")
        else:
            valid[name] = given[0]
    return valid, errors


def _opposite(given: ClaimVerdict, by_claim: Mapping[str, Sequence[ClaimVerdict]]) -> str:
    """Why a verdict contradicts that on its duplicate; empty if it does not."""
    for others in by_claim.values():
        for other in others:
            linked = other.finding == given.duplicate_of or other.duplicate_of == given.finding
            if linked and {given.verdict, other.verdict} == {"confirmed", "refuted"}:
                return f"it is {given.verdict}, and {other.finding}, the same, {other.verdict}"
    return ""


async def _error(
    workspace: ReviewWorkspace, given: ClaimVerdict, asked: Mapping[str, Finding]
) -> str:
    """Why a verdict does not count; empty if it does."""
    # Imported here because only reviews with a model need its phrases.
    from orchestrator.guards.prompt_injection import InjectionGuard  # noqa: PLC0415

    other = given.duplicate_of
    if other and (other not in asked or other == given.finding):
        return f"there is no other claim {other!r}"
    if not given.reason.strip():
        return "it gives no reason"
    if InjectionGuard().detect(f"{given.reason}\n{given.one_place}"):
        return "its reason gives instructions to its reader"
    if given.verdict == "cannot_tell":
        return ""
    if not given.quotes:
        return "it quotes nothing"
    own = await _own_place(workspace, asked[given.finding])
    quotes = list[_Quoted]()
    for quoted in given.quotes:
        found = await _locate(workspace, quoted, own.finding)
        if isinstance(found, str):
            return found
        quotes.append(found)
    return (_not_shown if given.verdict == "confirmed" else _not_stopped)(own, quotes, given)


def _not_shown(own: _Own, quotes: Sequence[_Quoted], given: ClaimVerdict) -> str:
    """Why a path does not lead to the finding."""
    place = f"{own.finding.path}:{own.finding.start_line}"
    others = [one for one in quotes if not own.overlaps(one)]
    if len(others) == len(quotes):
        return f"it quotes nothing at {place}, the place of the claim"
    if own.connected(others):
        return ""
    if others:
        return f"no other quotation shares a name with {place}; quote what leads there"
    if not given.one_place.strip():
        return "it quotes one place; quote what leads to it, or say in one_place why that is enough"
    if not own.changed:
        return "it quotes one place, which the change does not touch; quote what the change does"
    names = frozenset[str]().union(*(one.names for one in quotes))
    return "" if names else "its quotation names nothing, and so shows nothing alone"


def _not_stopped(own: _Own, quotes: Sequence[_Quoted], given: ClaimVerdict) -> str:
    """Why quotations do not refute a finding."""
    lines = own.finding.start_line, own.finding.end_line
    others = [one for one in quotes if not own.contains(one, lines)]
    if not others:
        return f"it quotes only the claim's own lines; quote what stops {given.finding}"
    prose = own.finding.path.endswith(_PROSE)
    code = [one for one in others if prose or not one.path.endswith(_PROSE)]
    if not code:
        return "the repository's texts say nothing about what code does; quote code"
    if own.connected(code) or any(own.contains(one, own.block) for one in code):
        return ""
    return "its quotations share no name with the claim's place; quote what stops it there"


async def _own_place(workspace: ReviewWorkspace, finding: Finding) -> _Own:
    side, start, end = finding.evidence.side, finding.start_line, finding.end_line
    lines = await read_lines(workspace, side, finding.path)
    block = find_block(lines, start, end) if end <= len(lines) else None
    changed = changed_lines(workspace, side, finding.path)
    return _Own(
        finding,
        _names("\n".join([*lines[start - 1 : end], block.name if block else ""])),
        (block.start, block.end) if block else (start, end),
        any(start <= line <= end for line in changed),
    )


async def _locate(
    workspace: ReviewWorkspace, quoted: QuotedCode, finding: Finding
) -> _Quoted | str:
    """A quotation at its place, nearest to the finding's, or why it has none."""
    path = await workspace.known_path(quoted.file)
    old = {file.path: file.old_path or file.path for file in workspace.change.files}
    sides: list[tuple[SideName, str]] = [("head", path), ("base", old.get(path, path))]
    sides.sort(key=lambda one: one[0] != finding.evidence.side)
    for side, name in sides:
        lines = await read_lines(workspace, side, name)
        places = find_quote(lines, quoted.quote) if _NAME.search(quoted.quote) else []
        if places:
            near = min(places, key=lambda place: _distance(place, finding))
            if near[1] - near[0] >= MAX_LINES:
                return f"its quotation of {quoted.file} has more than {MAX_LINES} lines"
            text = "\n".join(lines[near[0] - 1 : near[1]])
            if not name.endswith(_PROSE) and not _COMMENT.sub("", text).strip():
                return f"its quotation of {quoted.file} is a comment, which shows nothing"
            return _Quoted(side, name, near, _names(_COMMENT.sub("", text)))
    return f"its quotation is not in {quoted.file}"


def _distance(place: Place, finding: Finding) -> int:
    return max(place[0] - finding.end_line, finding.start_line - place[1], 0)


def _names(text: str) -> frozenset[str]:
    return frozenset(_NAME.findall(text)) - _COMMON


def as_evidence(quotes: Sequence[QuotedCode]) -> tuple[str, ...]:
    """Quotations in a line each, for a person."""
    return tuple(f"{one.file}: {one.quote[:MAX_SHOWN_QUOTE]}" for one in quotes)
