"""Oxlint: chosen rules about bugs in JavaScript and TypeScript."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from orchestrator.checks.check_protocol import RawFinding
from orchestrator.checks.patterns.embedded_code import Script, is_component, scripts
from orchestrator.review.analyzers.executables import one_line
from orchestrator.review.analyzers.external_programs import (
    FileCopies,
    ProgramAnalyzer,
    ProgramReport,
)

_SUFFIXES = frozenset({".js", ".jsx", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx"})
_DIRECTIVE = re.compile(rb"\b(?:eslint|oxlint)-(?:disable|enable)")
_CODE = re.compile(r"([\w-]+)\(([\w-]+)\)")
_PARSERS_OWN = "eslint"  # its rules are named without their plugin


class Oxlint(ProgramAnalyzer):
    """Oxlint with no configuration, and no comments that silence it."""

    name = "oxlint"
    package = "oxlint"

    def wants(self, path: str) -> bool:
        """Whether it is a script, or a component with scripts in it, by its name."""
        return PurePosixPath(path).suffix in _SUFFIXES or is_component(path)

    def copy_name(self, number: int, path: str) -> str:
        """Neutral, but the suffix names the language, and ``.d.ts`` what is declared only."""
        suffixes = PurePosixPath(path).suffixes
        return f"f{number}{'.d' if suffixes[-2:-1] == ['.d'] else ''}{suffixes[-1]}"

    def prepare(self, path: str, data: bytes) -> bytes:
        """Take out the comments that silence it, and bytes that would end its whole run."""
        text = data.decode("utf-8", "replace")
        return _DIRECTIVE.sub(b"lint-unused", text.encode())

    def parts(self, path: str, data: bytes) -> Iterable[bytes]:
        """Each script of a component as if it were its only one.

        By itself oxlint reads two of them at the most, and none whose tag has several lines.
        """
        if not is_component(path):
            return [data]
        found = scripts(path, data.decode("latin-1"))  # which keeps every byte as it is
        return [_component(script).encode("latin-1") for script in found]

    async def look(self, copies: FileCopies) -> ProgramReport:
        """Run oxlint; what has no rule's code is a file that it cannot parse."""
        asked = [part for code in sorted(self.codes) for part in ("-D", code)]
        options = ["--disable-nested-config", "--no-ignore", "--threads=1", "--format=json"]
        documents = await self.program.json(
            [*options, "-A", "all", *asked], list(copies.paths), copies.folder, ok=(0, 1)
        )
        said = [each for document in documents for each in document["diagnostics"]]
        gaps: dict[str, str] = {}
        for each in said:
            if not each.get("code"):
                where = f"line {each['labels'][0]['span']['line']}: " if each["labels"] else ""
                why = one_line(f"oxlint cannot parse it: {where}{each['message']}")
                gaps.setdefault(copies.paths[copies.name_of(each["filename"])], why)
        found = [self._finding(each, copies) for each in said if each.get("code")]
        return ProgramReport([each for each in found if each.path not in gaps], gaps)

    def _finding(self, said: Mapping[str, Any], copies: FileCopies) -> RawFinding:
        plugin, rule = _CODE.fullmatch(said["code"]).groups()  # type: ignore[union-attr]
        line = min(label["span"]["line"] for label in said["labels"])
        return RawFinding(
            code=rule if plugin == _PARSERS_OWN else f"{plugin}/{rule}",
            path=copies.paths[copies.name_of(said["filename"])],
            line=line,
            end_line=line,
            message=one_line(said["message"]).removesuffix("."),
        )


def _component(script: Script) -> str:
    lines = "\n" * script.before
    if script.front:
        return f"{lines}---{script.body}\n---\n"
    return f'{lines}<script lang="{script.language}">{script.body}</script>'
