"""Linters of others, as pure functions: which files each sees, how it is called, what it reports.

A linter sees copies under neutral names in an otherwise empty directory. So it finds no
configuration of the change, no file name can pass for an option or break its output, and
suppression comments can be removed from the copy. Its findings are mapped back to the real paths.

``Linter.check`` says what to run; the caller runs it, confined if the files are not to be trusted.
"""

import codecs
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, field
from msgspec.structs import replace

from diffchecks.check_io import CheckReply, Edit, Gap, RawFinding
from diffchecks.data_files import read_yaml
from diffchecks.fixes.smallest_edit import are_apart, smallest_edit
from diffchecks.safe_paths import SafeDirectory

MAX_ARGV_BYTES = 100_000  # of file names in one run
MAX_FILES = 10_000  # in one run
_MAX_LINE = 200
_ABOVE, _NEAR = 60, 4_000  # lines and characters that are searched for an intention

TABLES: Mapping[str, Mapping[str, Any]] = read_yaml("programs.yaml")
"""What ``tables/programs.yaml`` says of each linter."""

Ended = tuple[int, bytes, bytes]
"""Exit code, standard output and standard error of a run."""

Steps = Generator[list[str] | CheckReply, Ended, None]
"""Arguments of one run after the other, for each of which its end is sent; then the reply."""


class LinterError(Exception):
    """A linter did not do its work; ``str()`` is one line that says why."""


def one_line(text: str) -> str:
    """A program's text as one line for a report: at most 200 printable characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= _MAX_LINE else flat[: _MAX_LINE - 1] + "…"


def describe_failure(name: str, code: int, errors: bytes) -> str:
    """What a program said that ended with an exit code of failure, in one line."""
    why = one_line(errors.decode(errors="replace")) or "no message on stderr"
    return f"{name} ended with exit code {code}: {why}"


def batches(
    names: Iterable[str], max_files: int = MAX_FILES, max_bytes: int = MAX_ARGV_BYTES
) -> Iterator[list[str]]:
    """Split file names into parts that fit a command line."""
    part: list[str] = []
    size = 0
    for name in names:
        cost = len(os.fsencode(name)) + 1 + 8  # its NUL and its pointer
        if part and (size + cost > max_bytes or len(part) == max_files):
            yield part
            part, size = [], 0
        part.append(name)
        size += cost
    if part:
        yield part


class FileCopies(Struct):
    """Copies of files under review, or of parts of them.

    Attributes:
        directory: holds the copies and nothing else.
        paths: name of a copy below ``directory`` → path in the side.
        gaps: path → why there is no copy of it.
        line_ends: name of a copy → its line end, if all positions in the copy are those in the
            file.
        lines: name of a copy → its lines, read once: a large one may have thousands of findings.
    """

    directory: Path
    paths: dict[str, str] = {}
    gaps: dict[str, str] = {}
    line_ends: dict[str, str] = {}
    lines: dict[str, list[str]] = field(default_factory=dict)

    def name_of(self, reported: str) -> str:
        """The name of the copy that a program reports by an absolute or a relative path."""
        name = os.path.relpath(self.directory / reported, self.directory)
        if name not in self.paths:
            raise LinterError(f"a finding names a file that was not given: {one_line(reported)}")
        return name

    def path_of(self, reported: str) -> str:
        """The path in the side of the file that a program reports."""
        return self.paths[self.name_of(reported)]

    def text(self, name: str, first: int = 1, last: int | None = None) -> str:
        """Lines ``first`` to ``last`` of a copy, 1-based and inclusive, as far as they exist."""
        if name not in self.lines:
            text = (self.directory / name).read_text("utf-8", "replace")  # any newline becomes \\n
            self.lines[name] = text.split("\n")
        return "\n".join(self.lines[name][max(0, first - 1) : last])

    def mention(self, word: bytes) -> bool:
        """Whether a copy contains a word in upper or lower case; ``word`` is in lower case."""
        return any(word in (self.directory / name).read_bytes().lower() for name in self.paths)

    def edits(
        self, name: str, replacements: Iterable[tuple[int, int, int, int, str]]
    ) -> tuple[Edit, ...]:
        """Replacements that a program proposes in a copy, as minimal edits of the file.

        Args:
            replacements: line and column of the first character, of the one after the last, and
                the new text.

        Returns:
            No edits if the copy is not identical to the file, or if two replacements overlap.
        """
        end_of_line = self.line_ends.get(name)
        if end_of_line is None:
            return ()
        edits: list[Edit] = []
        for line, column, end_line, end_column, text in sorted(replacements):
            lines = self.text(name, line, end_line).split("\n")
            lines[-1] = lines[-1][: end_column - 1]
            old, new = "\n".join(lines)[column - 1 :], text.replace("\r\n", "\n")
            if old != new:
                edit = smallest_edit((line, column), old, new)
                edits.append(replace(edit, text=edit.text.replace("\n", end_of_line)))
        return tuple(edits) if are_apart(edits) else ()


def is_utf8(data: bytes) -> bool:
    """Whether it is a text in this encoding."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _line_end(data: bytes) -> str | None:
    """The line end of a file; None if tools could count its lines or columns differently."""
    returns = data.count(b"\r")
    if returns != data.count(b"\r\n") or not is_utf8(data):
        return None
    if not returns:
        return "\n"
    return "\r\n" if returns == data.count(b"\n") else None


class Execution(Struct, frozen=True):
    """How a linter is run, as ``tables/programs.yaml`` says.

    Attributes:
        package: that contains it; in the extra ``analyzers`` of Diffcourt.
        options: before those that ``Linter.arguments`` adds.
        results: keys of the lists, one in the other, that lead to its results; none: they are all.
        suffix: of all copies.
        exit_codes: that mean success.
        not_parsed: exit codes that mean that it cannot parse one of its files.
        syntax: codes that are reported of files that it cannot parse as well.
        max_files: in one run.
        memory_limit: False where none fits it.
        intended: code → what shows that a finding is intended; see ``Linter._is_intended``.
    """

    package: str
    options: tuple[str, ...]
    results: tuple[str, ...] = ()
    suffix: str = ""
    exit_codes: tuple[int, ...] = (0,)
    not_parsed: tuple[int, ...] = ()
    syntax: tuple[str, ...] = ()
    max_files: int = MAX_FILES
    memory_limit: bool = True
    intended: Mapping[str, str] = {}


class Linter(ABC):
    """A program that reports findings as JSON; ``tables/checks.yaml`` declares its checks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.execution = convert(TABLES[name], Execution)

    def copy_name(self, number: int, path: str) -> str:
        """A neutral name for the ``number``-th copy, relative to the directory of copies."""
        return f"f{number}{self.execution.suffix}"

    def parts(self, path: str, data: bytes) -> Iterable[bytes]:
        """The parts of a file that each get a copy; line numbers stay those of the file."""
        return [data]

    def prepare(self, path: str, data: bytes) -> bytes | None:
        """The content that is written to a copy; None when the program does not apply to it."""
        return data

    def arguments(self, codes: Collection[str], copies: FileCopies) -> Iterable[Sequence[str]]:
        """The further options of each run over all copies, which have it report these codes."""
        return [()]

    def problem(self, result: Any, copies: FileCopies) -> tuple[str, str] | None:
        """The file that the program cannot parse, and why, if it reports that."""
        return None

    @abstractmethod
    def finding(self, result: Any, copies: FileCopies) -> RawFinding | None:
        """The finding that the program reports; None for one that does not count."""

    def select(self, findings: list[RawFinding]) -> list[RawFinding]:
        """The findings that count beside the others."""
        return findings

    def check(
        self, root: Path, paths: Sequence[str], directory: Path, codes: Collection[str]
    ) -> Steps:
        """Check files below a root: what to run in a directory, and then the reply.

        Args:
            directory: an empty one, for the copies; the program needs to read no other.
            codes: the program's codes that count; no other is reported.

        Raises:
            LinterError: the program failed, or its output is not what was expected.
        """
        found: list[RawFinding] = []
        gaps = dict[str, str]()
        try:
            # Programs report paths without symbolic links.
            copies = self._copy(root, paths, directory.resolve())
            for more in self.arguments(codes, copies) if copies.paths else ():
                for names in batches(copies.paths, self.execution.max_files):
                    for result in (yield from self._run([*self.execution.options, *more], names)):
                        if problem := self.problem(result, copies):
                            why = one_line(f"{self.name} cannot parse it{problem[1]}")
                            gaps.setdefault(problem[0], why)
                        elif finding := self.finding(result, copies):
                            found += [] if self._is_intended(finding, copies) else [finding]
        except (LookupError, TypeError, AttributeError):
            raise LinterError(f"{self.name} printed JSON with an unknown structure") from None
        kept = [one for one in found if one.path not in gaps or one.code in self.execution.syntax]
        counted = {each for each in self.select(kept) if each.code in codes}
        yield CheckReply(
            sorted(counted, key=lambda f: (f.path, f.line, f.code, f.message)),
            sorted({*copies.paths.values()} - gaps.keys()),
            {**copies.gaps, **gaps},
        )

    def _run(
        self, options: Sequence[str], names: list[str]
    ) -> Generator[list[str], Ended, list[Any]]:
        """What a run reports; of a copy that it cannot parse, found by bisection, the name."""
        code, output, errors = yield [*options, "--", *names]
        if code in self.execution.not_parsed:
            if len(names) == 1:
                return names
            middle = len(names) // 2
            first = yield from self._run(options, names[:middle])
            return first + (yield from self._run(options, names[middle:]))
        if code not in self.execution.exit_codes:
            raise LinterError(describe_failure(self.name, code, errors))
        try:
            document = json.loads(output)
        except ValueError:
            raise LinterError(f"{self.name} printed something other than JSON") from None
        results = [document] if self.execution.results else document
        for key in self.execution.results:
            results = [each for one in results for each in one[key]]
        return list(results)

    def _is_intended(self, finding: RawFinding, copies: FileCopies) -> bool:
        """Whether the text above a finding, and at it after a NUL, shows that it is no defect."""
        sign, at = self.execution.intended.get(finding.code, ""), max(0, finding.column - 1)
        for name in (name for name, path in copies.paths.items() if sign and path == finding.path):
            above, _, text = copies.text(name, finding.line - _ABOVE, finding.line).rpartition("\n")
            if re.search(sign, f"{above}\n{text[:at]}"[-_NEAR:] + f"\0{text[at : at + _NEAR]}"):
                return True
        return False

    def _copy(self, root: Path, paths: Sequence[str], directory: Path) -> FileCopies:
        made = FileCopies(directory)
        with SafeDirectory(root) as side, SafeDirectory(directory) as copies:
            for path in paths:
                try:
                    whole = side.read(path).removeprefix(codecs.BOM_UTF8)
                    parts = list(self.parts(path, whole))
                except OSError as error:
                    made.gaps[path] = f"{self.name} could not read it: {error.strerror}"
                    continue
                except Gap as gap:
                    made.gaps[path] = f"{self.name} cannot read it: {gap}"
                    continue
                for part in parts:
                    data = self.prepare(path, part)
                    if data is not None:
                        name = self.copy_name(len(made.paths), path)
                        copies.write(name, data)
                        made.paths[name] = path
                        if part == whole and (line_end := _line_end(whole)):
                            made.line_ends[name] = line_end
        return made


@cache
def find_linter(name: str) -> Linter:
    """The linter of a module here."""
    linter: Linter = import_module(f"{__name__}.{name}").LINTER
    return linter
