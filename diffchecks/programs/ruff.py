"""Ruff: chosen rules about bugs and security in Python files."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from diffchecks.check_io import Edit, Gap, RawFinding
from diffchecks.data_files import read_patterns, read_yaml
from diffchecks.file_patterns import suffix_of
from diffchecks.path_kinds import is_test
from diffchecks.patterns.pattern_loading import DEFAULTS
from diffchecks.programs import TABLES, FileCopies, Linter, is_utf8, one_line
from diffchecks.script_languages import script_language

SYNTAX = "invalid-syntax"
UNDEFINED = "F821"

_TABLE = TABLES["ruff"]
_NOTEBOOK = ".ipynb"
_SUFFIXES = (".py", ".pyi", ".pyw", _NOTEBOOK)
# Range suppressions work in spite of --ignore-noqa, so the copy must not have them.
_SUPPRESSION = re.compile(rb"(#\s*ruff\s*):")
_NOQA_HONORED = frozenset(_TABLE["noqa_honored"])
_PATTERNS = read_patterns("ruff")
_MIN_REEXPORTS = 5  # this many unused imports in one module are re-exports
_SECRET_WORDS = re.compile(_TABLE["secret_words"], re.IGNORECASE)
_PROTOCOLS = re.compile(read_yaml(DEFAULTS)["shared"]["hash_of_a_protocol"], re.IGNORECASE)
_PLACE = itemgetter("row", "column")
_CONTEXT_LINES = 3  # around a hash, which show what it is for

_HARMLESS = {code: re.compile(pattern) for code, pattern in _TABLE["harmless"].items()}


class Ruff(Linter):
    """Ruff without configuration from the change."""

    def copy_name(self, number: int, path: str) -> str:
        """A neutral name, but packages and stubs keep theirs: ruff treats them differently."""
        pure = PurePosixPath(path)
        if pure.stem == "__init__":
            return f"d{number}/{pure.name}"
        suffix = suffix_of(pure.name)
        return f"f{number}{suffix if suffix in {'.pyi', '.pyw'} else '.py'}"

    def parts(self, path: str, data: bytes) -> Iterable[bytes]:
        """The file in UTF-8, since ruff reports nothing in a file of another encoding.

        No part of a file without a suffix unless its first line names Python.
        """
        if path.endswith(_NOTEBOOK):
            # Imported here, as only changes with notebooks need it.
            from diffchecks.python.notebook_code import extract_notebook_code  # noqa: PLC0415

            python = extract_notebook_code(data.decode("utf-8", "replace")).python
            return [] if python is None else [python.encode("utf-8", "replace")]
        if not path.endswith(_SUFFIXES) and script_language(path, data) != "py":
            return []
        start = data.split(b"\n", 2)[:2]
        if not any(b"coding" in line for line in start) and is_utf8(data):
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

    def arguments(self, codes: Collection[str], copies: FileCopies) -> Iterator[list[str]]:
        """Two runs where there is a ``noqa``, which only some codes honor."""
        lenient = _NOQA_HONORED.intersection(codes)
        if not copies.mention(b"noqa"):
            lenient = frozenset(codes)  # then both runs say the same
        if strict := {*codes} - lenient:
            yield ["--ignore-noqa", f"--select={','.join(sorted(strict))}"]
        if lenient:
            yield [f"--select={','.join(sorted(lenient))}"]

    def problem(self, result: Any, copies: FileCopies) -> tuple[str, str] | None:
        """A file with a syntax error."""
        if result["code"] not in {SYNTAX, None}:
            return None
        where = f"line {result['location']['row']}"
        return copies.path_of(result["filename"]), f": {where}: {result['message']}"

    def select(self, findings: list[RawFinding]) -> list[RawFinding]:
        """Without imports of a module that re-exports, and each undefined name once."""
        imports = Counter(f.path for f in findings if f.code == "F401")
        kept = (f for f in findings if f.code != "F401" or imports[f.path] < _MIN_REEXPORTS)
        return list(_one_per_name(kept))

    def finding(self, result: Any, copies: FileCopies) -> RawFinding | None:
        """A finding, unless it is of a kind that is harmless there."""
        code, message = result["code"], result["message"]
        name = copies.name_of(result["filename"])
        path = copies.paths[name]
        if path.endswith(_NOTEBOOK) and code in _TABLE["not_in_notebooks"]:
            return None
        if code in _HARMLESS and _HARMLESS[code].match(f"{message}\n{copies.text(name)}"):
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
            confidence=0.8 if _PATTERNS["security"].fullmatch(code) else 1.0,
            edits=_edits(result, copies, name),
        )


def _one_per_name(found: Iterable[RawFinding]) -> Iterator[RawFinding]:
    """Only the first use of each undefined name; one that base uses too comes from elsewhere."""
    reported = set[tuple[str, str]]()
    for finding in sorted(found, key=lambda one: (one.path, one.line, one.column)):
        if finding.code != UNDEFINED:
            yield finding
        elif (finding.path, finding.message) not in reported:
            reported.add((finding.path, finding.message))
            yield replace(finding, key=finding.message)


def _edits(result: Mapping[str, Any], copies: FileCopies, name: str) -> tuple[Edit, ...]:
    """Ruff's own fix, if it is sound."""
    fix = result["fix"]
    if not fix or (fix["applicability"] != "safe" and result["code"] not in _TABLE["sound_fixes"]):
        return ()
    if any(_PATTERNS["suppressed"].search(edit["content"]) for edit in fix["edits"]):
        return ()
    places = ((edit["location"], edit["end_location"], edit["content"]) for edit in fix["edits"])
    return copies.edits(name, ((*_PLACE(start), *_PLACE(end), text) for start, end, text in places))


def _before(result: Mapping[str, Any], copies: FileCopies, name: str) -> str:
    """The part of the line before what it is about."""
    row, column = _PLACE(result["location"])
    return copies.text(name, row, row)[: column - 1]


def _is_undefined_name(result: Mapping[str, Any], copies: FileCopies, name: str) -> bool:
    """False for a quoted type in a test, and in a file of its data, which gets names from it."""
    is_quoted = _before(result, copies, name).endswith(("'", '"'))
    is_code = _PATTERNS["code"].search(copies.text(name)) is not None
    return (is_code and not is_quoted) or not is_test(copies.paths[name])


def _redefines(result: Mapping[str, Any], copies: FileCopies, name: str) -> bool:
    """False for an argument of a test, which requests an imported fixture by name."""
    is_definition = _PATTERNS["definition"].fullmatch(_before(result, copies, name)) is not None
    return is_definition or not is_test(copies.paths[name])


def _protects_secret(result: Mapping[str, Any], copies: FileCopies, name: str) -> bool:
    """Whether words of secrecy are near a weak hash; else it may be a cache key."""
    row = result["location"]["row"]
    text = copies.text(name, row - _CONTEXT_LINES, row + _CONTEXT_LINES)
    return bool(_SECRET_WORDS.search(text)) and not _PROTOCOLS.search(re.sub("#.*", "", text))


_IN_CONTEXT: Mapping[str, Callable[[Mapping[str, Any], FileCopies, str], bool]] = {
    "F811": _redefines,
    UNDEFINED: _is_undefined_name,
    "S303": _protects_secret,
    "S324": _protects_secret,
}
LINTER = Ruff("ruff")
