"""Rewrites heredocs of a Dockerfile for hadolint, whose parser knows only their simplest form.

It needs a blank line after a heredoc, takes no dash or backslash before the name and no second
heredoc of one instruction, and knows none of ``ADD``.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

BLANK = b"\t \t \t"
"""The line that is added after a heredoc; see ``original_line``."""

_INSTRUCTION = re.compile(rb"\s*(?:ONBUILD\s+)?(?:RUN|COPY|(?P<add>ADD))\s", re.IGNORECASE)
_OPENER = re.compile(
    rb"(?<=\s)\d*<<(?P<dash>-?)(?P<quote>[\"']?|\\)(?P<name>[\w.-]+)(?P<end>[\"']?)"
)


class _Heredoc(Struct, frozen=True):
    """A heredoc: the line and the match that open it, and the line with its name alone."""

    line: int
    opener: re.Match[bytes]
    end: int


def simplify_heredocs(data: bytes) -> bytes:
    """The Dockerfile with one simple heredoc in an instruction, and a blank line after it."""
    if b"<<" not in data:
        return data
    lines, number = data.split(b"\n"), 0
    out = list[bytes]()
    while number < len(lines):
        last = _last_of_instruction(lines, number)
        heredocs = _heredocs(lines, number, last) if _INSTRUCTION.match(lines[number]) else []
        end = heredocs[-1].end if heredocs else last
        out += _simplified(lines, number, end, heredocs)
        number = end + 1
    return b"\n".join(out)


def original_line(text: str, line: int) -> int:
    """The line of the file for a line of its simplified text."""
    return line - text.split("\n")[: line - 1].count(BLANK.decode())


def _last_of_instruction(lines: Sequence[bytes], number: int) -> int:
    """The last of its lines, each of which but that continues."""
    while number + 1 < len(lines) and lines[number].rstrip().endswith(b"\\"):
        number += 1
    return number


def _heredocs(lines: Sequence[bytes], first: int, last: int) -> list[_Heredoc]:
    """The heredocs of an instruction; their texts follow it, one after the other."""
    found, after = list[_Heredoc](), last + 1
    for number in range(first, last + 1):
        for opener in _OPENER.finditer(lines[number]):
            tabs = rb"\t*" if opener["dash"] else b""
            name = re.compile(tabs + re.escape(opener["name"]) + rb"\r?")
            end = next((n for n in range(after, len(lines)) if name.fullmatch(lines[n])), 0)
            if end:  # else it is a shift, or a text about heredocs
                found.append(_Heredoc(number, opener, end))
                after = end + 1
    return found


def _simplified(
    lines: Sequence[bytes], first: int, last: int, heredocs: Sequence[_Heredoc]
) -> list[bytes]:
    part = list(lines[first : last + 1])
    if not heredocs:
        return part
    for heredoc in reversed(heredocs[1:]):
        at, place = heredoc.line - first, heredoc.opener.span()
        part[at] = part[at][: place[0]] + b" " * (place[1] - place[0]) + part[at][place[1] :]
    kept = heredocs[0]
    at, place = kept.line - first, kept.opener.span()
    part[at] = part[at][: place[0]] + b"<<" + _quoted(kept.opener) + part[at][place[1] :]
    part[kept.end - first] = kept.opener["name"]
    part[kept.end - first + 1 :] = [b""] * (last - kept.end)
    if add := _INSTRUCTION.match(part[0]):
        start, end = add.span("add")
        part[0] = part[0][:start] + b"COPY" + part[0][end:] if start >= 0 else part[0]
    return [*part, BLANK]


def _quoted(opener: re.Match[bytes]) -> bytes:
    """The name as it is opened, quoted if its text is taken as it stands."""
    return b'"%s"' % opener["name"] if opener["quote"] else opener["name"]
