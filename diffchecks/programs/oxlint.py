"""Oxlint: selected rules about bugs in JavaScript and TypeScript."""

import re
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath
from typing import Any

from diffchecks.check_io import RawFinding
from diffchecks.patterns.template_code_extraction import (
    ComponentScript,
    extract_scripts,
    is_component,
)
from diffchecks.programs import TABLES, FileCopies, Linter, one_line

_SUPPRESSION = re.compile(rb"\b(?:eslint|oxlint)-(?:disable|enable)")
_BUNDLE = re.compile(TABLES["oxlint"]["bundle"].replace("\n", ""), re.MULTILINE)
_CODE = re.compile(r"([\w-]+)\(([\w-]+)\)")
_DEFAULT_PLUGIN = "eslint"  # its rules are named without the plugin


class Oxlint(Linter):
    """Oxlint without configuration from the change or comments that suppress findings."""

    def copy_name(self, number: int, path: str) -> str:
        """A neutral name with the suffix of the language; ``.d.ts`` marks declarations.

        What is named as a CommonJS module may be read as another one by what runs it.
        """
        pure = PurePosixPath(path)
        suffix = ".js" if pure.suffix == ".cjs" else pure.suffix
        return f"f{number}{'.d' if pure.stem.endswith('.d') else ''}{suffix}"

    def prepare(self, path: str, data: bytes) -> bytes:
        """Remove suppression comments, and bytes that are not UTF-8, which would end the run."""
        text = data.decode("utf-8", "replace")
        return _SUPPRESSION.sub(b"lint-unused", text.encode())

    def parts(self, path: str, data: bytes) -> Iterable[bytes]:
        """Each script of a component in a copy of its own.

        Oxlint itself reads two scripts of a component at most, and none whose tag has several
        lines.
        """
        if not is_component(path):
            return [data]
        found = extract_scripts(path, data.decode("latin-1"))  # keeps every byte
        return [_component(script).encode("latin-1") for script in found]

    def arguments(self, codes: Collection[str], copies: FileCopies) -> Iterable[list[str]]:
        """These rules only."""
        return [[part for code in sorted(codes) for part in ("-D", code)]]

    def problem(self, result: Any, copies: FileCopies) -> tuple[str, str] | None:
        """A diagnostic without a code means that it cannot parse the file."""
        if result.get("code"):
            return None
        where = f" line {result['labels'][0]['span']['line']}:" if result["labels"] else ""
        return copies.path_of(result["filename"]), f":{where} {result['message']}"

    def finding(self, result: Any, copies: FileCopies) -> RawFinding | None:
        """A finding, at the first place that it labels; none in what a bundler wrote."""
        if _BUNDLE.search(copies.text(copies.name_of(result["filename"]))):
            return None
        plugin, rule = _CODE.fullmatch(result["code"]).groups()  # type: ignore[union-attr]
        span = min(
            (label["span"] for label in result["labels"]),
            key=lambda span: (span["line"], span["column"]),
        )
        return RawFinding(
            code=rule if plugin == _DEFAULT_PLUGIN else f"{plugin}/{rule}",
            path=copies.path_of(result["filename"]),
            line=span["line"],
            column=span["column"],
            message=one_line(result["message"]).removesuffix("."),
        )


def _component(script: ComponentScript) -> str:
    lines = "\n" * script.before
    if script.front:
        return f"{lines}---{script.body}\n---\n"
    return f'{lines}<script lang="{script.language}">{script.body}</script>'


LINTER = Oxlint("oxlint")
