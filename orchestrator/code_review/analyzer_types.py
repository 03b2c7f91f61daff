"""The report of an analyzer, and what one is to the tools that run it.

An analyzer is called through a tool of agents. It reports findings, which files it examined and
which it could not; it does not decide about the change.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from diffchecks.check_io import CheckReply, RawFinding
from diffchecks.declarations import Needs

if TYPE_CHECKING:
    from diffchecks.jobs import ChangedFile
    from orchestrator.code_review.change.types import Change

SECONDS_PER_FILE = 0.2


def time_limit(least: float, files: int) -> float:
    """The time limit in seconds for this many files, on a busy machine with two cores."""
    return least + SECONDS_PER_FILE * files


class AnalyzerReport(Struct, frozen=True):
    """The result of one run of an analyzer.

    Attributes:
        tool: the analyzer's name in the rule table, such as ``ruff``.
        version: of the external program, or of this package for its own checks.
        examined: paths of the examined files.
        gaps: path → why the file could not be examined (a parse error, too large, ...).
        error: set if the analyzer itself failed; then no file counts as examined.
        facts: further results as JSON.
    """

    tool: str
    version: str
    findings: tuple[RawFinding, ...] = ()
    examined: frozenset[str] = frozenset()
    gaps: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, tool: str, version: str, reply: CheckReply) -> AnalyzerReport:
        """The report of a tool with a check's reply."""
        found, examined = tuple(reply.findings), frozenset(reply.examined)
        return cls(tool, version, found, examined, reply.gaps, facts=reply.facts)

    def joined(self, other: AnalyzerReport) -> AnalyzerReport:
        """The report on the files of both."""
        facts = {name: [*self.facts.get(name, ()), *more] for name, more in other.facts.items()}
        return replace(
            self,
            findings=(*self.findings, *other.findings),
            examined=self.examined | other.examined,
            gaps={**self.gaps, **other.gaps},
            error=self.error or other.error,
            facts={**self.facts, **facts},
        )


class Side(Struct, frozen=True):
    """One side of the change, on disk: ``root`` holds the exported files that analyzers may read.

    ``root`` lies outside any repository and holds no symbolic links and no ``.git``. The changed
    text files are always exported, others when a check asks for them.
    """

    name: Literal["base", "head"]
    root: Path


class ResultCache(Protocol):
    """Bytes by key. It may drop entries, but never alters one."""

    def get(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """The cached entries of these keys; keys without one are left out."""

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        """Add or replace entries."""


class Analyzer(Protocol):
    """What both kinds of analyzer say of themselves.

    Attributes:
        name: in the rule table.
        vendored: it also searches vendored and generated files, for severe findings.
        lock_files: it reads lock files, which reviews leave out otherwise.
        seconds: what programs of base's configuration may take; None: it runs none.
    """

    name: str
    needs: Needs
    vendored: bool = False
    lock_files: bool = False
    seconds: float | None = None

    @property
    def needs_tree(self) -> bool:
        """Whether it must have all files of the tree."""
        return self.needs in {"names", "tree"}

    @abstractmethod
    def wants(self, path: str) -> bool:
        """Whether this analyzer reads files of this name; the content does not matter here."""

    @abstractmethod
    def files_read(self, report: AnalyzerReport) -> frozenset[str]:
        """Of the files that it examined, those that it read as code, in their language."""


class SideAnalyzer(Analyzer, Protocol):
    """Analyzes each side on its own; comparing the two reports shows what is new.

    Attributes:
        for_others_code: looks only for what counts in vendored and generated files; None: it does.
        is_program: it starts a program, and asks none of our workers.
    """

    for_others_code: SideAnalyzer | None = None
    is_program: bool = False

    @property
    def turn(self) -> AbstractAsyncContextManager[None]:
        """Held while the sides are compared, by one of those that share a pass over files."""
        return nullcontext()

    @property
    def identity(self) -> str | None:
        """A key of all that its report on a file depends on besides the file's path and content.

        None if it also depends on other files; then no result is cached for a file.
        """
        return None

    async def tree_identity(self, side: Side, paths: Sequence[str]) -> str | None:
        """A key of all that its report on these paths depends on; None if that is not known."""
        return None

    @abstractmethod
    async def run(self, side: Side, paths: Sequence[str]) -> AnalyzerReport:
        """Analyze the given paths below ``side.root``."""


class ChangeAnalyzer(Analyzer, Protocol):
    """Analyzes both sides at once; all of its findings are introduced by the change."""

    @abstractmethod
    async def run(
        self, change: Change, base: Side, head: Side, files: Sequence[ChangedFile]
    ) -> AnalyzerReport:
        """Analyze the given changed files."""
