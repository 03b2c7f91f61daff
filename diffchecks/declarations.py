"""Our checks, each declared once: what it is about, which files it reads, and what it needs.

Whoever runs checks reads these: the tools of a review, the agents' lists of analyzers, the result
cache, and ``check_trees``.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from diffchecks import file_patterns as names
from diffchecks import jobs
from diffchecks.check_io import CANNOT_PARSE
from diffchecks.path_kinds import is_helm_template, path_kinds

Topic = Literal["security", "qa", "docs", "architecture"]
TOPICS: tuple[Topic, ...] = ("security", "qa", "docs", "architecture")

Needs = Literal["lines", "file", "names", "tree"]
"""What a check cannot do without: lines of a patch; whole files; these and the names of all files;
these and the contents of all files of its kind."""


def _never(path: str) -> bool:
    return False


class Files(Struct, frozen=True):
    """A set of files by their paths.

    Attributes:
        names: patterns of names, see ``file_patterns.matches``.
        also, but: further paths that belong to it, and those that do not.
    """

    names: tuple[str, ...] = ()
    also: Callable[[str], bool] = _never
    but: Callable[[str], bool] = _never

    def __contains__(self, path: str) -> bool:
        return (names.matches(path, self.names) or self.also(path)) and not self.but(path)


NOTHING = Files()
ANY = Files(names.ANY)
PYTHON = Files(names.PYTHON)
MODULES = Files(names.PYTHON_MODULES)


class Check(Struct, frozen=True, kw_only=True):
    """One of our checks.

    Attributes:
        name: of its tool, and of the reporter in the rules unless ``reporter`` is another.
        about: one sentence for those who choose among tools.
        files: those that it examines.
        code: those of them that it reads as code, in their language, not only as text.
        module: below ``diffchecks``; its ``run`` takes a job and returns a ``CheckReply``. Left
            out: the name.
        job: what it is asked. Of a ``ComparisonJob``, every finding is introduced by the change; of
            a ``SideJob``, what is found in head alone.
        data: a directory in ``DATA``; the ``data`` of a job are the paths of its files.
        vendored: it also searches vendored and generated files, for severe findings.
        lock_files: it reads lock files, which reviews leave out otherwise.
        unread: codes of findings that say that it could not read the file.
        given: it judges reports, or the output of programs, which its job holds.
    """

    name: str
    topic: Topic
    about: str
    files: Files
    needs: Needs
    code: Files = NOTHING
    module: str = ""
    reporter: str = ""
    job: type[jobs.AnyJob] = jobs.SideJob
    data: str = ""
    vendored: bool = False
    lock_files: bool = False
    unread: frozenset[str] = frozenset()
    given: bool = False

    def __post_init__(self) -> None:
        for field in ("module", "reporter"):
            if not getattr(self, field):
                force_setattr(self, field, self.name)

    @property
    def compares(self) -> bool:
        """Whether it compares both sides of a change."""
        return issubclass(self.job, jobs.ComparisonJob)

    @property
    def function(self) -> str:
        """The function to call, below ``diffchecks``."""
        return f"{self.module}:run"


def _is_lock_file(path: str) -> bool:
    return "lock_files" in path_kinds(path.lower())


def _fills_templates(path: str) -> bool:
    return names.TEMPLATE_DIRECTORIES.search(path) is not None


_DATA = Files(names.DATA)
_SQL = Files(names.SQL)
_TEMPLATES = Files(names.TEMPLATES)
_MARKDOWN = Files(names.MARKDOWN)
_MANIFESTS = (*names.MANIFESTS, *names.LOCK_FILES)
# What holds commands is searched for a few words only; other tools read it as code, but for units.
_PATTERNS = (*names.PATTERN_LANGUAGES, *names.WITH_PROGRAMS)
_IN_PATTERNS = Files((*names.PATTERN_LANGUAGES, *names.UNITS), also=names.may_be_script)

_SECURITY = (
    Check(
        name="secrets",
        topic="security",
        about="Hardcoded secrets, by kind and by file format.",
        files=ANY,
        needs="lines",
        module="secrets.secret_scan",
        vendored=True,
    ),
    Check(
        name="invisible_characters",
        topic="security",
        about="Invisible and bidirectional characters, and text that addresses a reviewing model.",
        files=ANY,
        needs="lines",
        vendored=True,
    ),
    Check(
        name="active_content",
        topic="security",
        about="Scripts in images and prose, commands in settings, and settings that run a program.",
        files=ANY,
        needs="file",
        vendored=True,
    ),
    Check(
        name="taint",
        topic="security",
        about="Data flow from untrusted input to dangerous operations, in Python.",
        files=Files(names.PYTHON, also=_fills_templates),
        code=PYTHON,
        needs="tree",
        data="taint",
        job=jobs.FlowJob,
    ),
    Check(
        name="patterns",
        topic="security",
        about="Dangerous calls in languages other than Python, and unsafe configuration in Python.",
        files=Files((*_PATTERNS, *names.PYTHON_MODULES), also=names.may_be_script),
        code=_IN_PATTERNS,
        needs="file",
        data="patterns",
        job=jobs.PatternsJob,
        vendored=True,
    ),
    Check(
        name="regular_expressions",
        topic="security",
        about="Regular expressions in Python and JavaScript that take exponential or cubic time.",
        files=Files((*names.PYTHON_MODULES, *names.SCRIPTS)),
        needs="file",
    ),
    Check(
        name="sql",
        topic="security",
        about="Hazards and bugs in SQL: migrations, routines and scripts.",
        files=_SQL,
        code=_SQL,
        needs="file",
    ),
    Check(
        name="templates",
        topic="security",
        about="Values that HTML templates print without the escaping that their context needs.",
        files=_TEMPLATES,
        code=_TEMPLATES,
        needs="file",
    ),
    Check(
        name="infrastructure",
        topic="security",
        about="Dangerous settings in Kubernetes, Helm, Compose, GitLab CI and CloudFormation.",
        files=Files(names.INFRASTRUCTURE, but=_is_lock_file),
        # Of a chart's templates it reads only what is the same once they are filled in.
        code=Files(names.INFRASTRUCTURE, but=is_helm_template),
        needs="file",
        job=jobs.DataJob,
        data="infrastructure",
    ),
    Check(
        name="imported_reports",
        topic="security",
        about="Findings from reports of other analyzers that were passed to the review.",
        files=ANY,
        needs="names",
        module="imported_reports.changed_results",
        job=jobs.ImportedReportsJob,
        given=True,
    ),
    Check(
        name="dependencies",
        topic="security",
        about="Dependencies that are added, loosened, unverified, vulnerable or from elsewhere.",
        files=Files(_MANIFESTS),
        code=Files(tuple(name for name in _MANIFESTS if name != "*.gradle")),  # it is Groovy
        needs="names",
        job=jobs.DependenciesJob,
        lock_files=True,
    ),
    Check(
        name="executed_files",
        topic="security",
        about="Changed files that programs run although their names are those of texts or data.",
        files=ANY,
        needs="names",
        job=jobs.ExecutedFilesJob,
    ),
    Check(
        name="route_guards",
        topic="security",
        about="Leads: Python routes without the guard or owner check of the routes beside them.",
        files=MODULES,
        needs="names",
        module="python.route_guards",
        job=jobs.ComparisonJob,
    ),
    Check(
        name="protections",
        topic="security",
        about="Removed access control, escaping and security fixes; leads: removed checks.",
        files=Files(names.SOURCE_CODE),
        needs="file",
        module="removed_controls",
        job=jobs.ProtectionsJob,
    ),
)

_QA = (
    Check(
        name="parse_check",
        topic="qa",
        about="Python, JSON, YAML and TOML that does not parse, and unreachable Python code.",
        files=Files(names.PARSED_DATA),
        code=_DATA,
        needs="file",
        module="syntax_and_duplicates",
        unread=CANNOT_PARSE,
    ),
    Check(
        name="conflict_markers",
        topic="qa",
        about="Committed merge conflict markers.",
        files=ANY,
        needs="lines",
    ),
    Check(
        name="pattern_bugs",
        topic="qa",
        about="Likely bugs in languages other than Python.",
        files=Files(_PATTERNS, also=names.may_be_script),
        code=_IN_PATTERNS,
        needs="file",
        module="patterns",
        reporter="patterns",
        data="patterns",
        job=jobs.PatternsJob,
    ),
    Check(
        name="complexity",
        topic="qa",
        about="Python functions that became hard to follow.",
        files=MODULES,
        code=MODULES,
        needs="file",
        module="python.complexity",
        job=jobs.ComparisonJob,
    ),
    Check(
        name="tests_touched",
        topic="qa",
        about="Removed or weakened tests, and source changes without a test.",
        files=ANY,
        needs="names",
        module="test_quality.weakened_tests",
        job=jobs.ComparisonJob,
    ),
    Check(
        name="uncovered_lines",
        topic="qa",
        about="Changed lines that no test executes, from a coverage report that was passed in.",
        files=Files(names.TESTABLE_CODE),
        needs="names",
        module="test_quality.uncovered_lines",
        job=jobs.UncoveredLinesJob,
        given=True,
    ),
    Check(
        name="run_tests",
        topic="qa",
        about="The change's tests, run in a sandbox with the command that base configures.",
        files=ANY,
        needs="names",
        module="test_quality.failed_tests",
        job=jobs.TestsJob,
        given=True,
    ),
    Check(
        name="typecheck",
        topic="qa",
        about="Type errors that the change introduces in any file, by base's type checker.",
        files=NOTHING,
        needs="names",
        module="type_errors",
        job=jobs.TypeCheckJob,
        given=True,
    ),
)

_DOCS = (
    Check(
        name="docstrings",
        topic="docs",
        about="Missing docstrings, and docstrings that name removed parameters.",
        files=MODULES,
        code=MODULES,
        needs="file",
        module="doc_quality.docstrings",
        job=jobs.ComparisonJob,
    ),
    Check(
        name="links",
        topic="docs",
        about="Broken relative links and anchors in Markdown.",
        files=_MARKDOWN,
        code=_MARKDOWN,
        needs="names",
        module="doc_quality.markdown_links",
    ),
    Check(
        name="stale_references",
        topic="docs",
        about="Documentation that mentions a removed public name.",
        files=Files(names.REFERENCING_FILES),
        needs="tree",
        module="doc_quality.stale_references",
        job=jobs.ComparisonJob,
    ),
    Check(
        name="changelog",
        topic="docs",
        about="Source changes without a changelog entry.",
        files=Files(names.CHANGELOG_FILES),
        needs="tree",
        module="doc_quality.changelog",
        job=jobs.ComparisonJob,
    ),
)

_ARCHITECTURE = (
    Check(
        name="duplicated_blocks",
        topic="architecture",
        about="Added Python code blocks that already exist elsewhere.",
        files=MODULES,
        code=MODULES,
        needs="tree",
        module="python.duplicated_blocks",
        job=jobs.ComparisonJob,
    ),
    Check(
        name="api_breakage",
        topic="architecture",
        about="Public Python API that the change breaks.",
        files=PYTHON,
        code=PYTHON,
        needs="tree",
        module="api.api_breakage",
        job=jobs.ComparisonJob,
    ),
    Check(
        name="import_graph",
        topic="architecture",
        about="New import cycles, coupling, and the modules that depend on the change.",
        files=MODULES,
        code=MODULES,
        needs="tree",
        module="imports.import_graph_changes",
        job=jobs.ComparisonJob,
    ),
    Check(
        name="layering",
        topic="architecture",
        about="Imports that violate the repository's import contracts (import-linter).",
        files=MODULES,
        code=MODULES,
        needs="names",
        module="imports.broken_contracts",
        job=jobs.ComparisonJob,
    ),
)

CHECKS = (*_SECURITY, *_QA, *_DOCS, *_ARCHITECTURE)
