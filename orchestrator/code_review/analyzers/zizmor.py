"""Zizmor: selected audits of GitHub workflows, actions and Dependabot configuration."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from diffchecks.check_io import RawFinding
from orchestrator.code_review.analyzers.external_program_analyzers import (
    FileCopies,
    ProgramAnalyzer,
    ProgramReport,
)
from orchestrator.code_review.analyzers.program_execution import ProgramFailed, one_line

_OPTIONS = (
    "--offline", "--no-config", "--no-ignores", "--no-progress", "--color=never", "--quiet",
    "--format=json-v1", "--no-exit-codes", "--strict-collection",
    "--persona=regular", "--min-severity=medium", "--min-confidence=medium",
)  # fmt: skip
_CANNOT_PARSE = (1, 3)  # exit codes: one input, or every input, is no workflow or action
_CONFIDENCE = MappingProxyType({"Low": 0.4, "Medium": 0.7, "High": 1.0})

# GitHub reads these in the root only; elsewhere they are templates.
_WORKFLOW = re.compile(r"\.github/workflows/[^/]+\.ya?ml")
_DEPENDABOT = re.compile(r"\.github/dependabot\.ya?ml")
_ACTION = re.compile(r"(?:.*/)?action\.ya?ml", re.DOTALL)
_RUNS = re.compile(rb"^runs\s*:", re.MULTILINE)

# Text that the author of an issue or a pull request controls.
_UNTRUSTED_INPUT = re.compile(
    r"github\.head_ref\b|github\.event\.(?:issue|pull_request|comment|review|discussion|"
    r"workflow_run|head_commit|commits|pages)\b[^}]*\."
    r"(?:title|body|message|ref|label|email|name|page_name|head_branch|default_branch"
    r"|display_title)\b"
)
_BRANCH_REF = re.compile(r"@(?:main|master|trunk|dev|devel|develop|HEAD)\b")
_CHECKS_OUT_PULL_REQUEST = re.compile(
    r"(?:^|[\s{,-])[\"']?(?:ref|repository)[\"']?\s*:.*"
    r"(?:head_ref|pull_request\.(?:head|number)|event\.number|workflow_run\.head|refs/pull/)"
    r"|\bgh pr checkout\b|\bgit fetch\b.*\bpull/",
    re.MULTILINE,
)

# Only some findings of these audits are defects; the cited line, or the whole file, tells which.
_AT_LINE = MappingProxyType(
    {
        "excessive-permissions": re.compile(r"write-all"),
        "template-injection": _UNTRUSTED_INPUT,
        "unpinned-uses": _BRANCH_REF,
    }
)
_IN_FILE = MappingProxyType({"dangerous-triggers": _CHECKS_OUT_PULL_REQUEST})


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

    async def analyze(self, copies: FileCopies) -> ProgramReport:
        """Run zizmor; a file that it cannot parse is a gap, and the others are analyzed."""
        results, unparsed = await self._results(list(copies.paths), copies)
        found = (self._finding(result, copies) for result in results)
        why = "zizmor cannot parse it as a workflow, an action or Dependabot configuration"
        return ProgramReport(
            [f for f in found if f is not None], {copies.paths[name]: why for name in unparsed}
        )

    async def _results(self, names: list[str], copies: FileCopies) -> tuple[list[Any], list[str]]:
        """Its results, and the copies that it cannot parse: found by bisection."""
        try:
            documents = await self.program.json(_OPTIONS, names, copies.directory)
        except ProgramFailed as error:
            if error.code not in _CANNOT_PARSE:
                raise
            if len(names) == 1:
                return [], names
            middle = len(names) // 2
            results, unparsed = await self._results(names[:middle], copies)
            more_results, more_unparsed = await self._results(names[middle:], copies)
            return results + more_results, unparsed + more_unparsed
        return [result for document in documents for result in document], []

    def _finding(self, result: Mapping[str, Any], copies: FileCopies) -> RawFinding | None:
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
