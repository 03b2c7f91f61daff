"""Ruff: chosen rules about bugs and security in Python files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from orchestrator.checks.check_protocol import Gap, RawFinding
from orchestrator.checks.path_kinds import is_test
from orchestrator.review.analyzers.executables import one_line
from orchestrator.review.analyzers.external_programs import (
    FileCopies,
    ProgramAnalyzer,
    ProgramReport,
)
from orchestrator.review.analyzers.shebang import interpreter, may_be_script

# The newest that ruff knows: no new syntax is an error, and most names are known. Rules about
# what an older Python lacks are not ours to judge: what the project supports is not known here.
TARGET = "py315"
SYNTAX = "invalid-syntax"
# Names that no file defines: put there by gettext.install() and by IPython.
BUILTINS = 'builtins = ["_", "get_ipython"]'

_OPTIONS = (
    "check", "--isolated", "--no-cache", "--quiet", "--exit-zero", "--output-format=json",
    f"--target-version={TARGET}", f"--config={BUILTINS}",
)  # fmt: skip
_SUFFIXES = (".py", ".pyi", ".pyw")
# Its range comments work in spite of --ignore-noqa, so the copy must not have them.
_DIRECTIVE = re.compile(rb"(#\s*ruff\s*):")
# On these a `noqa` is the author's word that something is meant: a re-export, a name kept alive.
_AUTHORS_WORD = frozenset({"E722", "F401", "F811", "F841", "RUF006"})
_MEANT = re.compile(r"reportUnusedImport|unused-import|re-?export", re.IGNORECASE)
_FACADE = 5  # so many unused imports in one module are there for its users
_SECRECY = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|signature|sign\(|hmac|auth", re.IGNORECASE
)
_SECURITY = re.compile(r"S\d+")
_DEFINES = re.compile(r"\s*(?:(?:async\s+)?def|class)\s+")
_NEAR = 3  # lines around the place that say what a hash is for

# One code sometimes stands for a defect and for a harmless neighbor; its message tells which.
_HARMLESS = MappingProxyType(
    {
        "F401": re.compile(r"find_spec"),  # imported only to see whether it is there
        "S103": re.compile(r"mask `0o\d*[0145]`"),  # the world may run it but not write to it
        "S502": re.compile(r"SSLv23"),  # despite its name: the newest both sides know
        "S503": re.compile(r"SSLv23"),
        "S602": re.compile(r"seems safe"),  # a constant command
        "S604": re.compile(r"seems safe"),
        "S605": re.compile(r"seems safe"),
        "T100": re.compile(r"^Import for"),  # a debugger's own front end imports one, too
    }
)


class Ruff(ProgramAnalyzer):
    """Ruff with no configuration but ours."""

    name = "ruff"
    package = "ruff"

    def wants(self, path: str) -> bool:
        """Whether it is a Python file or stub by its name, or may be a script."""
        return path.endswith(_SUFFIXES) or may_be_script(path)

    def copy_name(self, number: int, path: str) -> str:
        """Neutral, except that ruff treats packages and stubs in ways of their own."""
        pure = PurePosixPath(path)
        if pure.stem == "__init__":
            return f"d{number}/{pure.name}"
        return f"f{number}{pure.suffix or '.py'}"

    def parts(self, path: str, data: bytes) -> Iterable[bytes]:
        """The file in UTF-8, which ruff takes all files for, and is silent about others.

        Nothing of one without an ending whose first line does not ask for Python.
        """
        if not path.endswith(_SUFFIXES) and not (interpreter(data) or "").startswith("python"):
            return []
        start = data.split(b"\n", 2)[:2]
        if not any(b"coding" in line for line in start) and _is_utf8(data):
            return [data]
        # Imported here: it compiles expressions, for files of a kind that few changes have.
        from orchestrator.checks.python.source_encoding import decoded  # noqa: PLC0415

        try:
            return [decoded(data).encode("utf-8")]
        except (SyntaxError, ValueError) as fault:
            raise Gap(str(fault)) from None

    def prepare(self, path: str, data: bytes) -> bytes:
        """Take out the comments that silence ruff in spite of its options."""
        return _DIRECTIVE.sub(rb"\1;", data)

    async def look(self, copies: FileCopies) -> ProgramReport:
        """Run ruff; what it finds in a file with a syntax error is not to be relied on."""
        said = await self._ask(self.codes - _AUTHORS_WORD, copies, "--ignore-noqa")
        said += await self._ask(self.codes & _AUTHORS_WORD, copies)
        gaps: dict[str, str] = {}
        for result in said:
            if result["code"] in {SYNTAX, None}:
                path = copies.paths[copies.name_of(result["filename"])]
                where = f"line {result['location']['row']}"
                gaps.setdefault(
                    path, one_line(f"ruff cannot parse it: {where}: {result['message']}")
                )
        found = [f for r in said if (f := self._finding(r, copies)) and f.path not in gaps]
        imports = Counter(f.path for f in found if f.code == "F401")
        return ProgramReport(
            [f for f in found if f.code != "F401" or imports[f.path] < _FACADE], gaps
        )

    async def _ask(self, codes: frozenset[str], copies: FileCopies, *more: str) -> list[Any]:
        if not codes:
            return []
        options = [*_OPTIONS, *more, f"--select={','.join(sorted(codes))}"]
        documents = await self.program.json(options, list(copies.paths), copies.folder)
        return [result for document in documents for result in document]

    def _finding(self, result: Mapping[str, Any], copies: FileCopies) -> RawFinding | None:
        code, message = result["code"], result["message"]
        name = copies.name_of(result["filename"])
        path = copies.paths[name]
        if code not in self.codes:
            return None
        if code in _HARMLESS and _HARMLESS[code].search(message):
            return None
        if code in _IN_CONTEXT and not _IN_CONTEXT[code](result, copies, name):
            return None
        start, end = result["location"], result["end_location"]
        return RawFinding(
            code=code,
            path=path,
            line=start["row"],
            end_line=max(start["row"], end["row"] - (end["column"] == 1)),
            message=one_line(message).removesuffix("."),
            # The security rules know calls by their names and see no data flow.
            confidence=0.8 if _SECURITY.fullmatch(code) else 1.0,
        )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _left_over(result: Mapping[str, Any], copies: FileCopies, name: str) -> bool:
    """An unused import may say to another tool that it is meant."""
    row = result["location"]["row"]
    return not _MEANT.search(copies.text(name, row, row))


def _is_a_name(result: Mapping[str, Any], copies: FileCopies, name: str) -> bool:
    """In tests a type in quotes that names nothing is often what is tested."""
    row, column = result["location"]["row"], result["location"]["column"]
    before = copies.text(name, row, row)[: column - 1]
    return not before.endswith(("'", '"')) or not is_test(copies.paths[name])


def _hides_a_definition(result: Mapping[str, Any], copies: FileCopies, name: str) -> bool:
    """In tests an argument that has an imported fixture's name is how a fixture is asked for."""
    row, column = result["location"]["row"], result["location"]["column"]
    before = copies.text(name, row, row)[: column - 1]
    return bool(_DEFINES.fullmatch(before)) or not is_test(copies.paths[name])


def _guards_a_secret(result: Mapping[str, Any], copies: FileCopies, name: str) -> bool:
    """A weak hash matters where it guards something, not as the key of a cache."""
    row = result["location"]["row"]
    return bool(_SECRECY.search(copies.text(name, row - _NEAR, row + _NEAR)))


_IN_CONTEXT: Mapping[str, Callable[[Mapping[str, Any], FileCopies, str], bool]] = MappingProxyType(
    {
        "F401": _left_over,
        "F811": _hides_a_definition,
        "F821": _is_a_name,
        "S303": _guards_a_secret,
        "S324": _guards_a_secret,
    }
)
