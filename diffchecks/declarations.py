"""Our checks, each declared once in ``tables/checks.yaml``: what it is about, reads and needs.

Whoever runs checks reads these: the tools of a review, the agents' lists of analyzers, the result
cache, and ``check_trees``.
"""

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct, convert
from msgspec.structs import force_setattr

from diffchecks import file_patterns as names
from diffchecks import jobs
from diffchecks.build_files import languages
from diffchecks.data_files import read_yaml
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


class Check(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of our checks.

    Attributes:
        name: of its tool, and of the reporter in the rules unless ``reporter`` is another.
        about: one sentence for those who choose among tools.
        files: those that it examines; its declaration names a set of files.
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
    code: Files = Files()
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


_ALSO: dict[str, Callable[[str], bool]] = {
    "python_and_templates": _fills_templates,
    **dict.fromkeys(("patterns", "patterns_and_modules", "pattern_code"), names.may_be_script),
}
_BUT = {"infrastructure": _is_lock_file, "infrastructure_code": is_helm_template}


def files_of(kind: str) -> Files:
    """The set of files that a declaration names."""
    if kind == "build_files":
        return Files(tuple(name for each in languages().values() for name in each["files"]))
    return Files(names.file_names(kind), _ALSO.get(kind, _never), _BUT.get(kind, _never))


def _read_checks() -> Iterator[Check]:
    for topic, rows in read_yaml("checks.yaml").items():
        for row in rows:
            files = {key: files_of(row[key]) for key in ("files", "code") if key in row}
            job = getattr(jobs, row.get("job", "SideJob"))
            yield convert({**row, **files, "topic": topic, "job": job}, Check)


CHECKS = tuple(_read_checks())
"""All checks, those of a topic together."""
