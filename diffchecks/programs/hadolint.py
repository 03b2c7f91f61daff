"""Hadolint: selected rules about Dockerfiles and the shell commands in them.

Heredocs are rewritten for its parser, which knows only their simplest form. It needs a blank line
after a heredoc, takes no dash or backslash before the name and no second heredoc of one
instruction, and knows none of ``ADD``. Nor does it know a port's default, copies to ``.``, or a
registry with a port and no dot.
"""

import re
from bisect import bisect_left
from typing import Any, TypeAlias

from diffchecks.check_io import RawFinding
from diffchecks.programs import FileCopies, Linter, one_line

_PARSE_ERROR = "DL1000"
# Comments that suppress findings, or name a shell that it does not know.
_DIRECTIVES = re.compile(rb"(#[ \t]*)(?:hadolint|shellcheck)(?=[ \t])")
Names: TypeAlias = dict[tuple[bytes, bytes], list[int]]
"""The dash of the heredocs that a line may end, and its text → the numbers of such lines."""

BLANK = b"\t \t \t"
"""The line that is added after a heredoc; see ``original_line``."""

_INSTRUCTION = re.compile(rb"\s*(?:ONBUILD\s+)?(?:RUN|COPY|ADD)\s", re.IGNORECASE)
_EXPOSED_DEFAULT = re.compile(rb"(?im)^([ \t]*EXPOSE[ \t].*?\$\{\w+):?-\w*\}")
_HERE = re.compile(rb"(?m)((?:[ \t]|,[ \t]?\")\.)(?=(?:\"[ \t]*\])?[ \t\r]*$)")
_LOCAL_REGISTRY = re.compile(rb"(?im)^([ \t]*FROM[ \t]+(?:--\S+[ \t]+)*[\w-]+)(?=:\d+/)")
# Names for the path of a file with a secret, which is none.
_PATHS = re.compile(rb"(?i)\b\w*(?:secret|token|key|passw)\w*_(?:path|file|dir)(?=[ =][\"']?[./])")
_ADD = re.compile(rb"\bADD\b", re.IGNORECASE)
_OPENER = re.compile(rb"(?<=\s)\d*<<(?P<dash>-?)(?P<quote>[\"']?|\\)(?P<name>[\w.-]+)[\"']?")


class Hadolint(Linter):
    """Hadolint without configuration from the change or comments that suppress findings."""

    def prepare(self, path: str, data: bytes) -> bytes:
        """Remove comments that suppress findings or name a shell, and simplify heredocs."""
        data = _PATHS.sub(lambda name: b"x" * len(name[0]), data)
        data = _LOCAL_REGISTRY.sub(rb"\1.x", data)
        data = _HERE.sub(rb"\1/", _EXPOSED_DEFAULT.sub(rb"\1}", _DIRECTIVES.sub(rb"\1-", data)))
        return simplify_heredocs(data)

    def problem(self, result: Any, copies: FileCopies) -> tuple[str, str] | None:
        """A file with an error of syntax."""
        if result["code"] != _PARSE_ERROR:
            return None
        finding = self.finding(result, copies)
        return finding.path, f": line {finding.line}: {finding.message}"

    def finding(self, result: Any, copies: FileCopies) -> RawFinding:
        """A finding, at its line in the file itself."""
        name = copies.name_of(result["file"])
        return RawFinding(
            result["code"],
            copies.paths[name],
            original_line(copies.text(name), result["line"]),
            one_line(result["message"]).removesuffix("."),
            column=result["column"],
        )


def simplify_heredocs(data: bytes) -> bytes:
    """The Dockerfile with one simple heredoc in an instruction, and a blank line after it."""
    lines, number, out = data.split(b"\n"), 0, list[bytes]()
    names: Names = {}
    for at, line in enumerate(lines if b"<<" in data else ()):
        name = line.removesuffix(b"\r")
        names.setdefault((b"", name), []).append(at)
        names.setdefault((b"-", name.lstrip(b"\t")), []).append(at)
    while number < len(lines):
        first = number
        while number + 1 < len(lines) and lines[number].rstrip().endswith(b"\\"):
            number += 1
        part = lines[first : number + 1]
        if b"<<" in b"".join(part) and _INSTRUCTION.match(part[0]):
            part = _simplify(part, lines, number + 1, names)
            number = first + len(part) - (part[-1] is BLANK) - 1
        out += part
        number += 1
    return b"\n".join(out)


def original_line(text: str, line: int) -> int:
    """The line of the file for a line of its simplified text."""
    return line - text.split("\n")[: line - 1].count(BLANK.decode())


def _simplify(part: list[bytes], lines: list[bytes], after: int, names: Names) -> list[bytes]:
    """An instruction with the heredocs that follow it, of which the first one is kept."""
    bodies = list[bytes]()
    for at, line in enumerate(part):
        for opener in _OPENER.finditer(line):
            ends = names.get((opener["dash"], opener["name"]), [])
            place = bisect_left(ends, after)
            if place == len(ends):  # a shift, or a text about heredocs
                continue
            end = ends[place]
            if bodies:
                bodies += [b""] * (end + 1 - after)
                opened = b""
            else:
                bodies = [*lines[after:end], opener["name"]]
                opened = (b'<<"%s"' if opener["quote"] else b"<<%s") % opener["name"]
            part[at] = part[at].replace(opener[0], opened, 1)
            after = end + 1
    if not bodies:
        return part
    return [_ADD.sub(b"COPY", part[0], count=1), *part[1:], *bodies, BLANK]


LINTER = Hadolint("hadolint")
