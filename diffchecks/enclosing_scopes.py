"""The function, class or heading that encloses each line of a file, as context of findings.

Python is parsed; in other languages, a less indented line above that looks like a definition is
enough, since scopes only distinguish findings with equal text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from diffchecks.check_io import Gap, RawFinding, Source, read
from diffchecks.data_files import read_patterns
from diffchecks.python.source_definitions import definitions_in

_DEFINES = read_patterns("enclosing_scopes")["defines"]
_KEY = re.compile(r"^(\s*)([A-Za-z_][\w.-]*):\s*$")


def run(job: dict[str, Any]) -> dict[str, list[str]]:
    """Path → the scope of each requested line; unreadable files are left out.

    Args:
        job: ``root`` and ``paths`` as for all checks, and ``lines``: path → 1-based numbers.
    """
    found: dict[str, list[str]] = {}
    for path in job["paths"]:
        with suppress(Gap):
            source = Source(path, read(job["root"], path))
            found[path] = list(_scopes(source, job["lines"][path]))
    return found


def lines_without_scope(raws: Iterable[RawFinding]) -> dict[str, list[int]]:
    """Path → the lines of findings whose scope has to be looked up to compare them."""
    numbers: dict[str, set[int]] = {}
    for raw in raws:
        if raw.key is None and raw.scope is None:
            numbers.setdefault(raw.path, set()).add(raw.line)
    return {path: sorted(cited) for path, cited in numbers.items()}


def scopes_by_line(
    found: Mapping[str, Sequence[str]], lines: Mapping[str, Sequence[int]]
) -> dict[tuple[str, int], str]:
    """Path and line → scope, of what ``run`` returned for these lines."""
    return {
        (path, line): scope
        for path, scopes in found.items()
        for line, scope in zip(lines[path], scopes, strict=True)
    }


def _scopes(source: Source, numbers: Sequence[int]) -> Iterator[str]:
    """The dotted name of the innermost scope around each line; empty at the top level."""
    if source.suffix not in {".py", ".pyi"}:
        yield from (_guess(source.lines, line) for line in numbers)
        return
    innermost = [""] * (len(source.lines) + 1)
    for definition in definitions_in(source.text):
        lines = definition.lines
        innermost[lines.start : lines.stop] = [definition.dotted] * len(lines)
    yield from (innermost[line] if 0 < line < len(innermost) else "" for line in numbers)


def _guess(lines: Sequence[str], line: int) -> str:
    if not 0 < line <= len(lines):
        return ""
    indent = _indent(lines[line - 1])
    for text in reversed(lines[max(0, line - 400) : line]):
        found = _DEFINES.match(text) or _KEY.match(text)
        if found and (_indent(text) < indent or text is lines[line - 1]):
            return found[found.lastindex or 0]
    return ""


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
