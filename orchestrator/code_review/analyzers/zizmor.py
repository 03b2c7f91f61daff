"""Zizmor: selected audits of GitHub workflows, actions and Dependabot configuration."""

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from diffchecks.check_io import RawFinding
from orchestrator.code_review.analyzers.external_program_analyzers import (
    FileCopies,
    ProgramAnalyzer,
)
from orchestrator.code_review.analyzers.program_execution import TABLES, ProgramFailed, one_line

_TABLE = TABLES["zizmor"]
_CANNOT_PARSE = (1, 3)  # exit codes: one input, or every input, is no workflow or action
_CONFIDENCE = MappingProxyType({"Low": 0.4, "Medium": 0.7, "High": 1.0})

# GitHub reads these in the root only; elsewhere they are templates.
_WORKFLOW = re.compile(r"\.github/workflows/[^/]+\.ya?ml")
_DEPENDABOT = re.compile(r"\.github/dependabot\.ya?ml")
_ACTION = re.compile(r"(?:.*/)?action\.ya?ml", re.DOTALL)
_RUNS = re.compile(rb"^runs\s*:", re.MULTILINE)

_AT_LINE = {code: re.compile(pattern) for code, pattern in _TABLE["at_line"].items()}
_IN_FILE = {code: re.compile(pattern) for code, pattern in _TABLE["in_file"].items()}


class Zizmor(ProgramAnalyzer):
    """Zizmor without network access or configuration from the change."""

    name = "zizmor"
    package = "zizmor"

    def wants(self, path: str) -> bool:
        """Whether the file is a workflow, an action or Dependabot configuration, by its path."""
        return any(kind.fullmatch(path) for kind in (_WORKFLOW, _DEPENDABOT, _ACTION))

    def copy_name(self, number: int, path: str) -> str:
        """A neutral name, or directory: zizmor tells the kinds apart by the file's name."""
        if _WORKFLOW.fullmatch(path):
            return f"f{number}.yml"
        return f"d{number}/{PurePosixPath(path).name}"

    def prepare(self, path: str, data: bytes) -> bytes | None:
        """None for an ``action.yml`` of another program."""
        if _ACTION.fullmatch(path) and not _WORKFLOW.fullmatch(path) and not _RUNS.search(data):
            return None
        return data

    async def results(self, copies: FileCopies) -> Iterable[Any]:
        """Run zizmor; of a copy that it cannot parse, found by bisection, the name is a result."""
        return await self._bisect(list(copies.paths), copies.directory)

    async def _bisect(self, names: list[str], directory: Path) -> list[Any]:
        try:
            documents = await self.program.json(_TABLE["options"], names, directory)
        except ProgramFailed as error:
            if error.code not in _CANNOT_PARSE:
                raise
            if len(names) == 1:
                return names
            halves = names[: len(names) // 2], names[len(names) // 2 :]
            return [each for half in halves for each in await self._bisect(half, directory)]
        return [result for document in documents for result in document]

    def problem(self, result: Any, copies: FileCopies) -> tuple[str, str] | None:
        """A file that is not what its path says."""
        if not isinstance(result, str):
            return None
        return copies.paths[result], " as a workflow, an action or Dependabot configuration"

    def finding(self, result: Any, copies: FileCopies) -> RawFinding | None:
        """A finding, where the cited line or the file shows that it is a defect."""
        code = result["ident"]
        if code not in self.codes:
            return None
        kinds = {place["symbolic"]["kind"]: place for place in reversed(result["locations"])}
        place = kinds["Primary"]
        name = copies.name_of(place["symbolic"]["key"]["Local"]["verbatim_path"])
        span = place["concrete"]["location"]
        line, end_line = span["start_point"]["row"] + 1, span["end_point"]["row"] + 1
        if code in _AT_LINE and not _AT_LINE[code].search(copies.text(name, line, line)):
            return None
        if code in _IN_FILE and not _IN_FILE[code].search(copies.text(name)):
            return None
        return RawFinding(
            code=code,
            path=copies.paths[name],
            line=line,
            end_line=end_line,
            column=span["start_point"]["column"] + 1,
            message=one_line(f"{result['desc']}: {place['symbolic']['annotation']}"),
            # The file proves what the audit only assumes.
            confidence=1.0
            if code in _IN_FILE
            else _CONFIDENCE[result["determinations"]["confidence"]],
        )
