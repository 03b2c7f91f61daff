"""The context of a finding: its function or the surrounding lines, and what leads to it.

Functions are found by indentation, in any language. That is precise enough, since the context only
decides whether a person is asked about a dismissed finding again.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.new_findings import remove_white_space
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.findings.citations import read_lines
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.verdict.document_parts import FindingContext
from orchestrator.code_review.verdict.model import Finding
from orchestrator.data_directories import read_table
from orchestrator.engine.canonical_json import digest

NEAR = 10
"""Lines above and below a finding that stands in no function, up to the next blank line."""

MAX_BLOCK = 200
"""Lines above and below a finding that are of its function at most."""

MAX_SCOPE = 120
"""Characters of a function's first line that are kept."""

_LINES: Mapping[str, str] = read_table(__file__, "code_lines.yaml")
_TEXTS = {name: re.compile(text) for name, text in _LINES.items()}
_CONTROL, _TYPE, _DEFINES = _TEXTS["control"], _TEXTS["type"], _TEXTS["defines"]
_ABOVE, _COMMENT, _SAYS_NOTHING = _TEXTS["above"], _TEXTS["comment"], _TEXTS["says_nothing"]


class ContextBlock(Struct, frozen=True):
    """The lines of a function, or those around a finding outside of functions.

    Attributes:
        start, end: 1-based and inclusive.
        scope: the function's first line; empty outside of functions.
        digest: of its text without white space and comment lines; 16 hex digits.
    """

    start: int
    end: int
    scope: str
    digest: str

    @property
    def name(self) -> str:
        """The function's name; empty where none is found."""
        return _defined_name(self.scope)


def _defined_name(head: str) -> str:
    """What the first line of a function defines; empty where nothing is found."""
    names = [name for name in _TEXTS["name"].findall(head) if not _DEFINES.fullmatch(name)]
    known = _TEXTS["assigned"].search(head) or _TEXTS["named"].search(head)
    return known[known.lastindex or 0] if known else next(iter(names), "")


def find_block(lines: Sequence[str], start: int, end: int) -> ContextBlock:
    """The block that contains lines of a file.

    Args:
        start, end: 1-based and inclusive, of lines that the file has.
    """
    header = _find_header(lines, start)
    if header is None:
        first, last = _paragraph(lines, start, end)
    else:
        first, last = _function(lines, header, end)
        first = max(first, start - MAX_BLOCK)
    code = [line for line in lines[first - 1 : last] if not _COMMENT.match(line)]
    scope = lines[header - 1].strip()[:MAX_SCOPE] if header else ""
    return ContextBlock(first, last, scope, digest([remove_white_space(code)])[:16])


def _find_header(lines: Sequence[str], start: int) -> int | None:
    """The first line of the function that contains a line or begins there."""
    if _is_header(lines[start - 1]):
        return start
    for first, last in heads(lines, start, start - 1 - MAX_BLOCK):
        begins = _is_signed(lines, last) or _is_header(lines[last - 1])
        if begins and not _CONTROL.match(lines[first - 1]):
            return first
    return None


def _is_signed(lines: Sequence[str], number: int) -> bool:
    """Whether a signature of one or more lines, with the body's brace below, begins at a line."""
    while number < len(lines) and lines[number - 1].rstrip().endswith(","):
        number += 1
    ends, below = lines[number - 1].rstrip().endswith(")"), "".join(lines[number : number + 1])
    return ends and below.strip() == "{"


def heads(lines: Sequence[str], start: int, above: int = 0) -> Iterator[tuple[int, int]]:
    """First and last line of what begins each part below ``above`` it is in, innermost first."""
    indent, opened = _indent(lines[start - 1]), False
    for number in range(start - 1, max(0, above), -1):
        text = lines[number - 1]
        if not text.strip() or _COMMENT.match(text):
            continue
        if _indent(text) < indent or (opened and _indent(text) == indent):
            indent, opened = _indent(text), text.strip() == "{"
            if not opened:
                yield _signature_start(lines, number), number
            if not opened and indent == 0:
                return


def enclosing_names(lines: Sequence[str], start: int) -> frozenset[str]:
    """The names of the functions, types and keys that a line is in."""
    found = set[str]()
    for text in (lines[first - 1] for first, _ in heads(lines, start)):
        if not _CONTROL.match(text):
            keys = [key for one in _TEXTS["key"].finditer(text) for key in one.groups() if key]
            found.update(keys)
            if not keys or "(" in text:  # C returns a ``struct x *`` from a function
                found.add(_defined_name(text))
    return frozenset(found - {""})


def find_statement(lines: Sequence[str], start: int, end: int) -> tuple[int, int, int]:
    """The first and last line of code in these lines or below, and the last that belongs to it.

    Comments, decorators and attributes belong to what is below them.
    """
    while start < len(lines) and _SAYS_NOTHING.match(lines[start - 1]):
        start += 1
    end = last = max(start, end)
    while last < min(len(lines), end + NEAR) and _indent(lines[last]) > _indent(lines[end - 1]):
        last += 1
    return start, end, end if any(map(_is_header, lines[start - 1 : end])) else last


def _is_header(text: str) -> bool:
    if _CONTROL.match(text) or _COMMENT.match(text):
        return False
    near = text.rstrip()[-MAX_SCOPE:]
    opens = _TEXTS["opens"].search(near) and not _TYPE.search(near)
    return bool(opens or _DEFINES.search(_TEXTS["string"].sub("", text[: 2 * MAX_SCOPE])))


def _signature_start(lines: Sequence[str], number: int) -> int:
    """The first line of a signature of several lines, by its last line with closing brackets."""
    text = lines[number - 1]
    if not text.lstrip().startswith(")"):
        return number
    for above in range(number - 1, max(0, number - NEAR * 5), -1):
        line = lines[above - 1]
        if line.strip() and _indent(line) <= _indent(text):
            return above
    return number


def _function(lines: Sequence[str], header: int, end: int) -> tuple[int, int]:
    """A function's first line, with decorators and attributes, and its last."""
    indent, first = _indent(lines[header - 1]), header
    while first > 1 and _ABOVE.match(lines[first - 2]) and _indent(lines[first - 2]) == indent:
        first -= 1
    last = header
    for number in range(header + 1, min(len(lines), end + MAX_BLOCK) + 1):
        text = lines[number - 1]
        if text.strip() and not _COMMENT.match(text):
            inside = _indent(text) > indent
            if not inside and not (_indent(text) == indent and _TEXTS["closes"].match(text)):
                break
            last = number
    return first, max(last, end)


def _paragraph(lines: Sequence[str], start: int, end: int) -> tuple[int, int]:
    first, last = start, min(end, len(lines))
    while first > max(1, start - NEAR) and lines[first - 2].strip():
        first -= 1
    while last < min(len(lines), end + NEAR) and lines[last].strip():
        last += 1
    return first, last


def _indent(text: str) -> int:
    wide = text.expandtabs(4)
    return len(wide) - len(wide.lstrip())


async def add_contexts(
    workspace: ReviewWorkspace, findings: Iterable[Finding]
) -> tuple[Finding, ...]:
    """The findings with their contexts, if their files can be read."""
    files: dict[tuple[SideName, str], list[str]] = {}

    async def read(side: SideName, path: str) -> list[str]:
        if (side, path) not in files:
            files[side, path] = await read_lines(workspace, side, path)
        return files[side, path]

    found: list[Finding] = []
    for finding in findings:
        lines = await read(finding.evidence.side, finding.path)
        if not 1 <= finding.start_line <= finding.end_line <= len(lines):
            found.append(finding)
            continue
        block = find_block(lines, finding.start_line, finding.end_line)
        flow = [
            [path, remove_white_space((await read(side, path))[line - 1 : line])]
            for side, path, line in leads_to(finding, block)
        ]
        context = FindingContext(
            lines=block.digest,
            flow=digest(sorted(flow))[:16] if flow else "",
            scope=block.scope,
            start_line=block.start,
            end_line=block.end,
        )
        found.append(replace(finding, context=context))
    return tuple(found)


def leads_to(finding: Finding, block: ContextBlock) -> list[tuple[SideName, str, int]]:
    """Side, path and line of what leads to a finding from outside of its block.

    That is the data flow that an analyzer traced and, of causes that agents name, lines that call
    the function: an agent could name any other line.
    """
    places: list[tuple[SideName, str, int]] = [
        ("head", step.path, step.line) for step in finding.steps
    ]
    cause = finding.because_of
    if cause is not None:
        calls = block.name and re.search(rf"\b{re.escape(block.name)}\s*\(", finding.cause_quote)
        if calls or finding.support == "proven":
            places.append(("base" if cause.removed else "head", cause.path, cause.line))
    return [
        (side, path, line)
        for side, path, line in dict.fromkeys(places)
        if (side, path) != (finding.evidence.side, finding.path)
        or not block.start <= line <= block.end
    ]
