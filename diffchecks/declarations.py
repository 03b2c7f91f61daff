"""Our checks, each declared once in ``tables/checks.yaml``: what it is about, reads and needs.

Whoever runs checks reads these: the tools of a review, the agents' lists of analyzers, the result
cache, and ``check_trees``.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, convert
from msgspec.structs import force_setattr, replace

from diffchecks import DATA, jobs
from diffchecks import file_patterns as names
from diffchecks.build_files import languages
from diffchecks.data_files import parse_yaml, read_yaml, vocabulary
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
    also: Callable[[str], object] = _never
    but: Callable[[str], object] = _never

    def __contains__(self, path: str) -> bool:
        return bool(names.matches(path, self.names) or self.also(path)) and not self.but(path)


class Check(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of our checks.

    Attributes:
        name: of its tool, and of the reporter in the rules unless ``reporter`` is another.
        about: one sentence for those who choose among tools.
        files: those that it examines; its declaration names a set of files.
        code: those of them that it reads as code, in their language, not only as text.
        most: files of the tree, those nearest to the changed ones by name; 0: all.
        reads: further files of both sides that a comparison needs.
        module: below ``diffchecks``; its ``run`` takes a job and returns a ``CheckReply``. Left
            out: the name.
        job: what it is asked. Of a ``ComparisonJob``, every finding is introduced by the change; of
            a ``SideJob``, what is found in head alone.
        data: a directory in ``DATA``; the ``data`` of a job are the paths of its files.
        vendored: it also searches vendored and generated files, for severe findings.
        lock_files: it reads lock files, which reviews leave out otherwise.
        unread: codes of findings that say that it could not read the file.
        given: it judges reports, or the output of programs, which its job holds.
        program: the linter that it runs, a module in ``programs``, and its reporter.
    """

    name: str
    topic: Topic
    about: str
    files: Files
    needs: Needs
    code: Files = Files()
    reads: Files = Files()
    module: str = ""
    reporter: str = ""
    job: type[jobs.AnyJob] = jobs.SideJob
    data: str = ""
    most: int = 0
    vendored: bool = False
    lock_files: bool = False
    unread: frozenset[str] = frozenset()
    given: bool = False
    program: str = ""

    def __post_init__(self) -> None:
        module = f"programs.{self.program}" if self.program else self.name
        force_setattr(self, "module", self.module or module)
        force_setattr(self, "reporter", self.reporter or self.program or self.name)

    @property
    def compares(self) -> bool:
        """Whether it compares both sides of a change."""
        return issubclass(self.job, jobs.ComparisonJob)

    @property
    def rules_topic(self) -> Topic | None:
        """The topic of its rules; None: any, as nothing else reports under its name."""
        reporters = [check.reporter for check in CHECKS]
        return self.topic if reporters.count(self.reporter) > 1 else None

    @property
    def function(self) -> str:
        """The function to call, below ``diffchecks``."""
        return f"{self.module}:run"


_ALSO: dict[str, Callable[[str], bool]] = {
    "python_and_templates": lambda path: bool(vocabulary("page_of_templates").search(path)),
    **dict.fromkeys(
        ("patterns", "patterns_and_modules", "pattern_code", "python_programs", "shell_programs"),
        names.may_be_script,
    ),
}
_BUT: dict[str, Callable[[str], bool]] = {
    "infrastructure": lambda path: "lock_files" in path_kinds(path.lower()),
    "infrastructure_code": is_helm_template,
}


def files_of(kind: str) -> Files:
    """The set of files that a declaration names."""
    if kind == "build_files":
        known = tuple(name for each in languages().values() for name in each["files"])
        return Files((*known, "*.sh"), names.may_be_script)
    also = _ALSO.get(kind) or _expression("also", kind)
    return Files(names.file_names(kind), also, _BUT.get(kind) or _expression("but", kind))


def _expression(part: str, kind: str) -> Callable[[str], object]:
    text = read_yaml("file_patterns.yaml")[part].get(kind)
    return re.compile(text).search if text else _never


def _read_checks() -> Iterator[Check]:
    for topic, rows in read_yaml("checks.yaml").items():
        for row in rows:
            files = {key: files_of(row[key]) for key in ("files", "code", "reads") if key in row}
            job = getattr(jobs, row.get("job", "SideJob"))
            yield convert({**row, **files, "topic": topic, "job": job}, Check)


CHECKS = tuple(_read_checks())
"""All checks, those of a topic together."""


def with_own_languages(check: Check, pattern_files: Sequence[str]) -> Check:
    """The check of patterns, for the languages that a repository adds as well.

    Args:
        pattern_files: the paths of all files of defect patterns, which are valid.
    """
    shipped = {path.name for path in (DATA / "patterns").glob("*.yaml")}
    own = [Path(file) for file in pattern_files if Path(file).name not in shipped]
    contents = [parse_yaml(file.read_bytes()) for file in own]
    added = [f"*{suffix}" for content in contents for suffix in content.get("grammars", ())]
    to_python = any(content.get("extends") == "python" for content in contents)
    python = names.file_names("modules") if to_python else ()
    files, code = check.files, check.code
    return replace(
        check,
        files=replace(files, names=(*files.names, *added, *python)),
        code=replace(code, names=(*code.names, *added)),
    )
