"""Which lines of a file belong to which function, class or heading: a finding's surroundings.

Python is read exactly; elsewhere a definition-like line above, less indented, is near enough:
scopes only tell apart findings whose text is equal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_DEFINES = re.compile(
    r"^\s*(?:export\s+|public\s+|private\s+|protected\s+|static\s+|async\s+|final\s+)*"
    r"(?:function|func|def|class|interface|struct|impl|fn|module|trait|enum|type)\s+"
    r"(?:\([^)]*\)\s*)?([A-Za-z_$][\w$.]*)"
)
_KEY = re.compile(r"^(\s*)([A-Za-z_][\w.-]*):\s*$")


class Scopes:
    """The scopes of one file's lines."""

    def __init__(self, path: str, lines: Sequence[str]) -> None:
        self._lines = lines
        self._python = path.endswith((".py", ".pyi"))
        self._known = _python_scopes(lines) if self._python else []

    def of(self, line: int) -> str:
        """Dotted name of the innermost scope around a 1-based line; empty at the top."""
        if self._python:
            around = [name for start, end, name in self._known if start <= line <= end]
            return max(around, key=lambda name: name.count("."), default="")
        return self._guess(line)

    def _guess(self, line: int) -> str:
        if not 0 < line <= len(self._lines):
            return ""
        indent = _indent(self._lines[line - 1])
        for text in reversed(self._lines[max(0, line - 400) : line]):
            found = _DEFINES.match(text) or _KEY.match(text)
            if found and (_indent(text) < indent or text is self._lines[line - 1]):
                return found.group(found.re.groups)
        return ""


def _python_scopes(lines: Sequence[str]) -> list[tuple[int, int, str]]:
    from orchestrator.review.checks.python_source import enclosing_scopes  # noqa: PLC0415 - seldom

    return sorted(enclosing_scopes("\n".join(lines)))


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
