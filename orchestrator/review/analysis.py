"""What analyzers say, as data, and the two kinds of analyzer.

An analyzer is plain machinery behind one of the agents' tools. It never sees the change as a whole
being "good": it reports what it found, what it looked at, and what it could not look at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct, field

if TYPE_CHECKING:
    from orchestrator.review.change.types import Change, ChangedFile

Needs = Literal["lines", "file", "tree"]


class Raw(Struct, frozen=True):
    """One thing one tool says about one place.

    Attributes:
        tool: the analyzer's name, ``ruff``.
        code: the tool's own code, ``S602``; ``tool:code`` is looked up in the rule table.
        path: in the side it speaks of.
        line, end_line: 1-based, inclusive.
        message: one sentence, no trailing full stop needed; secrets already redacted.
        key: identity that replaces the line's text in the fingerprint (a symbol's name, for rules
            about a whole function or file), else None.
        scope: dotted name of the enclosing function or class where the tool knows it, else None
            (it is then worked out from the file).
        detail: further text for a person.
        redact: substrings of the quoted lines that must never be printed.
        confidence: 0 to 1.
    """

    tool: str
    code: str
    path: str
    line: int
    end_line: int
    message: str
    key: str | None = None
    scope: str | None = None
    detail: str = ""
    redact: tuple[str, ...] = ()
    confidence: float = 1.0


class Report(Struct, frozen=True):
    """What one run of an analyzer gave.

    Attributes:
        examined: paths that were really looked at.
        gaps: path → why it could not be looked at (a parse error, too large, ...). Never silent.
        error: set when the analyzer itself failed; then nothing counts as examined.
        facts: what it learned that is no finding, as JSON.
    """

    tool: str
    version: str
    findings: tuple[Raw, ...] = ()
    examined: frozenset[str] = frozenset()
    gaps: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class Side(Struct, frozen=True):
    """One side of the change, on disk: ``root`` holds the exported files that analyzers may read.

    ``root`` lies outside any repository, holds no symbolic links and no ``.git``. Which files stand
    there depends on what was exported: the changed text files always, others when a check asked.
    """

    name: Literal["base", "head"]
    root: Path


class SideAnalyzer(Protocol):
    """Looks at each side on its own; what is new is worked out by comparing the two reports."""

    name: str
    needs: Needs

    @property
    def identity(self) -> str | None:
        """What its answer about a file depends on besides name and content; None: too much."""

    def wants(self, path: str) -> bool:
        """Whether this analyzer reads files of this name; content is its own affair."""

    async def run(self, side: Side, paths: Sequence[str]) -> Report:
        """Analyze the given paths below ``side.root``."""


class ChangeAnalyzer(Protocol):
    """Looks at both sides at once; everything it reports is already brought in by the change."""

    name: str
    needs: Needs

    def wants(self, path: str) -> bool:
        """Whether this analyzer reads files of this name."""

    async def run(
        self, change: Change, base: Side, head: Side, files: Sequence[ChangedFile]
    ) -> Report:
        """Analyze the given changed files."""
