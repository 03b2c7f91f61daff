"""What checks are asked to do: a struct for each kind of job.

A job crosses the process boundary as JSON; the worker converts it to the type that the function's
annotation names. A name that is not UTF-8 is held with ``surrogateescape``, which JSON keeps.
"""

from typing import Literal

from msgspec import Struct

from diffchecks.file_patterns import suffix_of
from diffchecks.past_fixes import PastFix

Status = Literal["added", "deleted", "modified", "renamed", "copied", "mode", "type"]
Kind = Literal["text", "binary", "media", "symlink", "submodule"]
"""``media``: an image, font, sound, document or translation by its first bytes, or as published."""


class SideJob(Struct, kw_only=True, forbid_unknown_fields=True):
    """Some files of one side.

    Attributes:
        root: the side's directory.
        paths: the files to check, below it.
        file_seconds: processor time that one file may take; 0: any.
        tree: the side's files, for checks that need their names or contents.
    """

    root: str
    paths: list[str]
    file_seconds: float = 0
    tree: list[str] = []


class DataJob(SideJob):
    """One side, by data files; ``data``: their paths."""

    data: list[str]


class PatternsJob(DataJob):
    """One side, by patterns; ``codes``: the wanted ones."""

    codes: list[str]


class SharedPatternsJob(DataJob):
    """One side, by the patterns of several checks; ``codes``: those that each wants."""

    codes: list[list[str]]


class FlowJob(DataJob):
    """One side; ``changed``: each changed file's path here and in ``other_root``, if given."""

    other_root: str = ""
    changed: list[tuple[str | None, str | None]] = []


class ChangedFile(Struct, frozen=True):
    """One file of a change.

    Attributes:
        path: its path in head (in base when it was deleted); forward slashes, never absolute. A
            name that is not UTF-8 is held with ``surrogateescape``.
        old_path: its path in base, None when it was added.
        added: 1-based line numbers in head that the change adds or alters.
        removed: 1-based line numbers in base that the change removes or alters.
        whole: both sides are fully known. False for a file of a patch without a repository, of
            which only the hunks are known: its sides are padded with empty lines so that numbers
            are right.
        skip: why no analyzer looks at it (``binary``, ``lock file``, ...), else None.
        gap: it is skipped because it cannot be read, not because it need not be.
        script: its first line, in head, names an interpreter.
        old_blob, new_blob: object ids, None on the side where it does not exist.
    """

    path: str
    status: Status = "modified"
    kind: Kind = "text"
    old_path: str | None = None
    old_mode: str | None = None
    new_mode: str | None = None
    old_blob: str | None = None
    new_blob: str | None = None
    size: int = 0
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    whole: bool = True
    skip: str | None = None
    gap: bool = False
    script: bool = False

    @property
    def only_moved(self) -> bool:
        """Whether head has base's bytes under another name with the same suffix and mode."""
        ends = {suffix_of(path or "") for path in (self.path, self.old_path)}
        same = self.old_blob == self.new_blob and self.old_mode == self.new_mode
        return self.status == "renamed" and same and len(ends) == 1

    @property
    def in_base(self) -> bool:
        """Whether base holds it as a regular file: not as a link or a submodule."""
        return self.old_blob is not None and (self.old_mode or "100").startswith("100")

    @property
    def in_head(self) -> bool:
        """Whether head holds it as a regular file."""
        return self.new_blob is not None and (self.new_mode or "100").startswith("100")

    @property
    def paths(self) -> tuple[str, ...]:
        """Its paths on both sides."""
        return (self.path, self.old_path) if self.old_path else (self.path,)


class ComparisonJob(Struct, kw_only=True, forbid_unknown_fields=True):
    """Both sides: their directories, their files, and those files that are symbolic links."""

    files: list[ChangedFile]
    base_root: str = ""
    head_root: str = ""
    base_tree: list[str] = []
    head_tree: list[str] = []
    base_links: list[str] = []
    head_links: list[str] = []

    def side(self, name: str) -> tuple[str, list[str], frozenset[str]]:
        """Directory, files and symbolic links of ``base`` or ``head``."""
        root, tree, links = (getattr(self, f"{name}_{part}") for part in ("root", "tree", "links"))
        return root, tree, frozenset(links)


AnyJob = SideJob | ComparisonJob


class DependenciesJob(ComparisonJob):
    """``advisories``: a file of them, empty: none; ``advisory_gaps``: what it lacks, and why.

    Attributes:
        members: manifests of head that may name packages of the repository itself.
    """

    members: list[str] = []
    advisories: str = ""
    advisory_gaps: dict[str, str] = {}


class ExecutedFilesJob(ComparisonJob):
    """``texts``: changed files with names of texts; ``programs``: files that may run them."""

    texts: list[str] = []
    programs: list[str] = []


class ProtectionsJob(ComparisonJob):
    """``fixes``: past security fixes; ``history_unsearched``: why there may be more."""

    fixes: list[PastFix] = []
    history_unsearched: str = ""


class GivenReport(Struct, frozen=True):
    """A report of an analyzer, copied because a resumed run reads it again.

    Attributes:
        name: its name in messages.
        path: where the copy is.
        format: as given with ``--import``; empty: detected from the content.
        error: why there is no copy; empty: there is one.
        tool: which tool wrote it, if its format does not say; empty: unknown.
        made_in: the directory prefix of its absolute paths; empty: unknown.
    """

    name: str
    path: str
    format: str = ""
    error: str = ""
    tool: str = ""
    made_in: str = ""


class ImportedReportsJob(ComparisonJob):
    """``lines``: which results count; ``severities``: ours for a tool's, see the settings."""

    reports: list[GivenReport] = []
    head_commit: str = ""
    lines: str = "added"
    severities: dict[str, str] = {}


class GivenCoverage(Struct, frozen=True):
    """A coverage report, copied because a resumed run reads it again.

    Attributes:
        name: its name in messages.
        path: where the copy is.
        made: modification time, in seconds since the epoch.
    """

    name: str
    path: str
    made: float


class UncoveredLinesJob(ComparisonJob):
    """``head_time``: when head was committed, in seconds; None where it is no commit."""

    reports: list[GivenCoverage] = []
    head_time: float | None = None


class TestRun(Struct):
    """One run of the tests: exit status, the report's name and copy, why there is no copy."""

    code: int
    name: str = ""
    report: str = ""
    error: str = ""


class TestsJob(ComparisonJob):
    """Runs of the change's tests, and of base's tests where the change has altered its own.

    Attributes:
        refused, base_refused: why there are no runs; empty: there are.
        unwritten: path → why a file of head was not there.
        own_tests: changed files that influence the outcome; ``infrastructure``: those of set-up.
        base_runs: base's tests over head's code, then over base's.
    """

    refused: str = ""
    runs: list[TestRun] = []
    unwritten: dict[str, str] = {}
    own_tests: list[str] = []
    infrastructure: list[str] = []
    base_refused: str = ""
    base_runs: list[TestRun] = []


class TypeCheckRun(Struct):
    """One run of a type checker.

    Attributes:
        output: a file of what it printed; ``last``: the last line of errors.
        root, tree: the directory that it ran in, and its files.
    """

    code: int
    output: str
    last: str
    root: str
    tree: list[str]


class TypeCheckJob(ComparisonJob):
    """``refused``, ``base_refused``: why a run is not there; empty: it is, or is not needed."""

    checker: str = ""
    refused: str = ""
    base_refused: str = ""
    head_run: TypeCheckRun | None = None
    base_run: TypeCheckRun | None = None
