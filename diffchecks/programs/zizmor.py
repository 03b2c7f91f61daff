"""Zizmor: selected audits of GitHub workflows, actions and Dependabot configuration."""

import re
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from diffchecks.check_io import RawFinding
from diffchecks.programs import TABLES, FileCopies, Linter, one_line

_TABLE = TABLES["zizmor"]
_CONFIDENCE = MappingProxyType({"Low": 0.4, "Medium": 0.7, "High": 1.0})

# In single quotes; zizmor does not find an expression in which quotes are doubled.
_QUOTED = re.compile(
    rb"(?m)((?:^|[:-])[ \t]+)'((?:[^'\n\\]|''){0,999}\$\{\{(?:[^'\n\\]|''){0,999})'"
    rb"(?=[ \t\r]*(?:#.*)?$)"
)
_RUNS = re.compile(rb"^runs\s*:", re.MULTILINE)

_AT_LINE = {code: re.compile(pattern) for code, pattern in _TABLE["at_line"].items()}
_IN_FILE = {code: re.compile(pattern) for code, pattern in _TABLE["in_file"].items()}


def _in_double(text: re.Match[bytes]) -> bytes:
    return text[1] + b'"%s"' % text[2].replace(b"''", b"'").replace(b'"', b'\\"')


class Zizmor(Linter):
    """Zizmor without network access or configuration from the change."""

    def copy_name(self, number: int, path: str) -> str:
        """A neutral name, or directory: zizmor tells the kinds apart by the file's name."""
        return f"f{number}.yml" if _is_workflow(path) else f"d{number}/{PurePosixPath(path).name}"

    def prepare(self, path: str, data: bytes) -> bytes | None:
        """None for an ``action.yml`` of another program."""
        is_action = PurePosixPath(path).stem == "action" and not _is_workflow(path)
        return None if is_action and not _RUNS.search(data) else _QUOTED.sub(_in_double, data)

    def problem(self, result: Any, copies: FileCopies) -> tuple[str, str] | None:
        """A file that is not what its path says."""
        if not isinstance(result, str):
            return None
        return copies.paths[result], " as a workflow, an action or Dependabot configuration"

    def finding(self, result: Any, copies: FileCopies) -> RawFinding | None:
        """A finding, where the cited line or the file shows that it is a defect."""
        code = result["ident"]
        kinds = {place["symbolic"]["kind"]: place for place in reversed(result["locations"])}
        place = kinds["Primary"]
        name = copies.name_of(place["symbolic"]["key"]["Local"]["verbatim_path"])
        span = place["concrete"]["location"]
        line, end_line = span["start_point"]["row"] + 1, span["end_point"]["row"] + 1
        if code in _AT_LINE and not _AT_LINE[code].search(copies.text(name, line, end_line)):
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


def _is_workflow(path: str) -> bool:
    return str(PurePosixPath(path).parent) == ".github/workflows"


LINTER = Zizmor("zizmor")
