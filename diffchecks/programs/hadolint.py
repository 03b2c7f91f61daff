"""Hadolint: selected rules about Dockerfiles and the shell commands in them."""

import re
from typing import Any

from diffchecks.check_io import RawFinding
from diffchecks.dockerfile_heredocs import original_line, simplify_heredocs
from diffchecks.programs import FileCopies, Linter, one_line

_PARSE_ERROR = "DL1000"
# Comments that suppress findings, or name a shell that it does not know.
_DIRECTIVES = re.compile(rb"(#[ \t]*)(?:hadolint|shellcheck)(?=[ \t])")


class Hadolint(Linter):
    """Hadolint without configuration from the change or comments that suppress findings."""

    def copy_name(self, number: int, path: str) -> str:
        """A neutral name with the suffix of Dockerfiles."""
        return f"f{number}.Dockerfile"

    def prepare(self, path: str, data: bytes) -> bytes:
        """Remove comments that suppress findings or name a shell, and simplify heredocs."""
        return simplify_heredocs(_DIRECTIVES.sub(rb"\1-", data))

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


LINTER = Hadolint("hadolint")
