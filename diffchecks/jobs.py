"""What checks are asked to do: a struct for each kind of job.

A job crosses the process boundary as JSON; the worker converts it to the type that the function's
annotation names. A name that is not UTF-8 is held with ``surrogateescape``, which JSON keeps.
"""

from msgspec import Struct

from diffchecks.past_fixes import PastFix


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


class FlowJob(DataJob):
    """One side; ``changed``: each changed file's path here and in ``other_root``, if given."""

    other_root: str = ""
    changed: list[tuple[str | None, str | None]] = []


class ChangedFile(Struct, frozen=True):
    """A changed file.

    Attributes:
        path: in head; of a deleted file, in base.
        old_path: in base; None for an added file.
        status: ``added``, ``modified``, ``renamed``, ``deleted`` or ``mode``.
        added, removed: 1-based lines of head and of base.
    """

    path: str
    old_path: str | None = None
    status: str = "modified"
    added: list[int] = []
    removed: list[int] = []

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
