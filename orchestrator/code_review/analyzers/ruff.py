"""Ruff: chosen rules about bugs and security in Python files."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import anyio.to_thread
from msgspec.structs import replace

from diffchecks.check_io import Edit, Gap, RawFinding
from diffchecks.file_patterns import may_be_script
from diffchecks.path_kinds import is_test
from diffchecks.script_languages import interpreter
from orchestrator.code_review.analyzers.external_program_analyzers import (
    FileCopies,
    ProgramAnalyzer,
    ProgramReport,
)
from orchestrator.code_review.analyzers.program_execution import one_line

# The newest that ruff knows, so that new syntax is no error and most names are known. What the
# project supports is unknown here, so rules about what an older Python lacks do not apply.
TARGET = "py315"
SYNTAX = "invalid-syntax"
UNDEFINED = "F821"
# Names that no file defines: gettext.install() and IPython add them.
BUILTINS = 'builtins = ["_", "get_ipython", "display"]'

_OPTIONS = (
    "check", "--isolated", "--no-cache", "--quiet", "--exit-zero", "--output-format=json",
    f"--target-version={TARGET}", f"--config={BUILTINS}",
)  # fmt: skip
_NOTEBOOK = ".ipynb"
_SUFFIXES = (".py", ".pyi", ".pyw", _NOTEBOOK)
# Range suppressions work in spite of --ignore-noqa, so the copy must not have them.
_SUPPRESSION = re.compile(rb"(#\s*ruff\s*):")
# For these codes a `noqa` says that something is intended: a re-export, a name kept alive.
_NOQA_HONORED = frozenset({"E722", "F401", "F811", "F841", "RUF006"})
_INTENDED = re.compile(r"reportUnusedImport|unused-import|re-?export", re.IGNORECASE)
_MIN_REEXPORTS = 5  # this many unused imports in one module are re-exports
_SECRET_WORDS = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|signature|sign\(|hmac|auth", re.IGNORECASE
)
_SUPPRESSED = re.compile(r"#\s*ruff\s*;")  # what `prepare` makes of such a comment
# Fixes that ruff calls unsafe, and why they are none: what changes is the defect itself. Those of
# SIM220 to SIM223 make a mistake permanent, PIE794 drops the value that counts, and RUF033 changes
# how a class is called, so they are left out.
_SOUND_FIXES = frozenset(
    {
        "ASYNC105",  # a coroutine that nothing awaits never runs
        "B006",  # `None` for the default, which the body replaces with a new object
        "F601",  # proposed only where the key has the same value both times
        "F841",  # what has an effect stays; unsafe only because a comment may go
        "PLE1519",  # the decorator that the name asks for
        "PLE1520",
        "PLW0133",  # an exception that is made and not raised
        "PLW1507",  # a copy of `os.environ` that writes to the environment is none
        "RUF024",  # an object of its own for each key
        "RUF026",  # what the keyword was meant to say
        "RUF030",  # the printed text, as the message that an assertion shows
        "RUF032",  # the number that is written, and not the nearest one in binary
        "RUF064",  # the mode that is written, read as octal
    }
)
# What is usual in a notebook: the value of a cell's last line is shown, a cell may await, and cells
# repeat imports and definitions.
_NOT_IN_NOTEBOOKS = frozenset({"B015", "B018", "F401", "F704", "F811", "PLE1142"})
_SECURITY = re.compile(r"S\d+")
_DEFINITION = re.compile(r"\s*(?:(?:async\s+)?def|class)\s+")
_CONTEXT_LINES = 3  # around a hash, which show what it is for

# A code that also stands for something harmless; the message tells which it is.
_HARMLESS = MappingProxyType(
    {
        "F401": re.compile(r"find_spec"),  # imported only to test whether it exists
        "S103": re.compile(r"mask `0o\d*[0145]`"),  # the world may run it but not write to it
        "S502": re.compile(r"SSLv23"),  # despite its name, the newest version that both sides know
        "S503": re.compile(r"SSLv23"),
        "S602": re.compile(r"seems safe"),  # a constant command
        "S604": re.compile(r"seems safe"),
        "S605": re.compile(r"seems safe"),
        "T100": re.compile(r"^Import for"),  # a debugger's front end imports it too
    }
)


class Ruff(ProgramAnalyzer):
    """Ruff without configuration from the change."""

    name = "ruff"
    package = "ruff"

    def wants(self, path: str) -> bool:
        """Whether it is a Python file, stub or notebook by its name, or may be a script."""
        return path.endswith(_SUFFIXES) or may_be_script(path)

    def copy_name(self, number: int, path: str) -> str:
        """A neutral name, but packages and stubs keep theirs: ruff treats them differently."""
        pure = PurePosixPath(path)
        if pure.stem == "__init__":
            return f"d{number}/{pure.name}"
        return f"f{number}{'.py' if pure.suffix in {'', _NOTEBOOK} else pure.suffix}"

    def parts(self, path: str, data: bytes) -> Iterable[bytes]:
        """The file in UTF-8, since ruff reports nothing in a file of another encoding.

        No part of a file without a suffix unless its first line names Python.
        """
        if path.endswith(_NOTEBOOK):
            return _notebook_parts(data)
        if not path.endswith(_SUFFIXES) and not (interpreter(data) or "").startswith("python"):
            return []
        start = data.split(b"\n", 2)[:2]
        if not any(b"coding" in line for line in start) and _is_utf8(data):
            return [data]
        # Imported here: it compiles expressions, for files of a kind that few changes have.
        from diffchecks.python.source_encoding import decode_python  # noqa: PLC0415

        try:
            return [decode_python(data).encode("utf-8")]
        except (SyntaxError, ValueError) as error:
            raise Gap(str(error)) from None

    def prepare(self, path: str, data: bytes) -> bytes:
        """Remove the comments that suppress findings in spite of the options."""
        return _SUPPRESSION.sub(rb"\1;", data)

    async def analyze(self, copies: FileCopies) -> ProgramReport:
        """Run ruff; a file with a syntax error is a gap, and its findings are dropped."""
        if await anyio.to_thread.run_sync(copies.mention, b"noqa"):
            results = await self._results(self.codes - _NOQA_HONORED, copies, "--ignore-noqa")
            results += await self._results(self.codes & _NOQA_HONORED, copies)
        else:  # then both say the same, and one run takes half the time
            results = await self._results(self.codes, copies)
        gaps: dict[str, str] = {}
        for result in results:
            if result["code"] in {SYNTAX, None}:
                path = copies.path_of(result["filename"])
                where = f"line {result['location']['row']}"
                gaps.setdefault(
                    path, one_line(f"ruff cannot parse it: {where}: {result['message']}")
                )
        found = [f for r in results if (f := self._finding(r, copies)) and f.path not in gaps]
        imports = Counter(f.path for f in found if f.code == "F401")
        kept = [f for f in found if f.code != "F401" or imports[f.path] < _MIN_REEXPORTS]
        return ProgramReport(list(_one_per_name(kept)), gaps)

    async def _results(self, codes: frozenset[str], copies: FileCopies, *more: str) -> list[Any]:
        if not codes:
            return []
        options = [*_OPTIONS, *more, f"--select={','.join(sorted(codes))}"]
        documents = await self.program.json(options, list(copies.paths), copies.directory)
        return [result for document in documents for result in document]

    def _finding(self, result: Mapping[str, Any], copies: FileCopies) -> RawFinding | None:
        code, message = result["code"], result["message"]
        name = copies.name_of(result["filename"])
        path = copies.paths[name]
        if code not in self.codes:
            return None
        if path.endswith(_NOTEBOOK) and code in _NOT_IN_NOTEBOOKS:
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
            end_line=end["row"] - (end["column"] == 1),
            column=start["column"],
            message=one_line(message).removesuffix("."),
            # The security rules know calls by their names and see no data flow.
            confidence=0.8 if _SECURITY.fullmatch(code) else 1.0,
            edits=_edits(result, copies, name),
        )


def _notebook_parts(data: bytes) -> list[bytes]:
    """The Python code of a notebook, on the lines where it is."""
    # Imported here, as only changes with notebooks need it.
    from diffchecks.python.notebook_code import extract_notebook_code  # noqa: PLC0415

    python = extract_notebook_code(data.decode("utf-8", "replace")).python
    return [] if python is None else [python.encode("utf-8", "replace")]


def _one_per_name(found: Iterable[RawFinding]) -> Iterator[RawFinding]:
    """Only the first use of each undefined name; one that base uses too comes from elsewhere."""
    told = set[tuple[str, str]]()
    for finding in sorted(found, key=lambda one: (one.path, one.line, one.column)):
        if finding.code != UNDEFINED:
            yield finding
        elif (finding.path, finding.message) not in told:
            told.add((finding.path, finding.message))
            yield replace(finding, key=finding.message)


def _edits(result: Mapping[str, Any], copies: FileCopies, name: str) -> tuple[Edit, ...]:
    """Ruff's own fix, if it is sound."""
    fix = result["fix"]
    if not fix or (fix["applicability"] != "safe" and result["code"] not in _SOUND_FIXES):
        return ()
    if any(_SUPPRESSED.search(edit["content"]) for edit in fix["edits"]):
        return ()
    places = ((edit["location"], edit["end_location"], edit["content"]) for edit in fix["edits"])
    return copies.edits(
        name,
        [
            ((start["row"], start["column"]), (end["row"], end["column"]), text)
            for start, end, text in places
        ],
    )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_unintended(result: Mapping[str, Any], copies: FileCopies, name: str) -> bool:
    """Whether no comment marks an unused import as intended for another tool."""
    row = result["location"]["row"]
    return not _INTENDED.search(copies.text(name, row, row))


def _is_undefined_name(result: Mapping[str, Any], copies: FileCopies, name: str) -> bool:
    """False for a quoted type in a test, where an unknown name is often intended."""
    row, column = result["location"]["row"], result["location"]["column"]
    before = copies.text(name, row, row)[: column - 1]
    return not before.endswith(("'", '"')) or not is_test(copies.paths[name])


def _redefines(result: Mapping[str, Any], copies: FileCopies, name: str) -> bool:
    """False for an argument of a test, which requests an imported fixture by name."""
    row, column = result["location"]["row"], result["location"]["column"]
    before = copies.text(name, row, row)[: column - 1]
    return bool(_DEFINITION.fullmatch(before)) or not is_test(copies.paths[name])


def _protects_secret(result: Mapping[str, Any], copies: FileCopies, name: str) -> bool:
    """Whether words of secrecy are near a weak hash; else it may be a cache key."""
    row = result["location"]["row"]
    return bool(_SECRET_WORDS.search(copies.text(name, row - _CONTEXT_LINES, row + _CONTEXT_LINES)))


_IN_CONTEXT: Mapping[str, Callable[[Mapping[str, Any], FileCopies, str], bool]] = MappingProxyType(
    {
        "F401": _is_unintended,
        "F811": _redefines,
        UNDEFINED: _is_undefined_name,
        "S303": _protects_secret,
        "S324": _protects_secret,
    }
)
