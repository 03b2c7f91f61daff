"""What all checks share: reading the files of a job, and the format of replies.

``jobs`` has the jobs.
"""

import codecs
import re
import signal
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import force_setattr, replace

from diffchecks.data_files import read_map, read_patterns
from diffchecks.file_patterns import suffix_of
from diffchecks.jobs import SideJob
from diffchecks.packed_files import read_file
from diffchecks.path_kinds import is_illustrative

if TYPE_CHECKING:
    from ast_grep_py import SgNode

MAX_FILE_BYTES = 8 << 20

Confidence = Annotated[float, Meta(ge=0, le=1)]


class ReportedRule(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule as an external tool describes it; each text is one bounded line.

    Attributes:
        tool, rule: names as in a rule's id.
        severity: one of ours.
        category: ``security`` or ``qa``.
        own: ``tool:code`` pairs under which our rule table may have the same rule.
    """

    tool: str
    rule: str
    title: str
    severity: str
    category: str
    fix: str = ""
    cwe: tuple[int, ...] = ()
    own: tuple[tuple[str, str], ...] = ()


class FlowStep(Struct, frozen=True, forbid_unknown_fields=True):
    """One step of the data flow from a source to a sink.

    Attributes:
        line: 1-based.
        text: a short description.
    """

    path: str
    line: int
    text: str


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """A replacement of text in a finding's file.

    Attributes:
        start_line, start_column: 1-based, in characters; the first replaced character.
        end_line, end_column: 1-based; the first character after it. Equal to the start: ``text``
            is inserted there.
        text: the new text.
    """

    start_line: int
    start_column: int
    end_line: int
    end_column: int
    text: str


class RawFinding(Struct, frozen=True, forbid_unknown_fields=True):
    """One finding as a check or an external program reports it.

    Attributes:
        code: the reporter's own code, such as ``S602``; the rule table maps it to a rule.
        path: of the file, below the root that was analyzed.
        line, end_line: 1-based and inclusive; ``end_line`` defaults to ``line``.
        column: 1-based, in characters; the start of the finding in ``line``; 0: not known.
        message: one sentence without a period or a secret.
        key: identifies the finding instead of the cited text, such as a symbol's name for a rule
            about a whole function; None: the cited text identifies it.
        scope: dotted name of the enclosing function or class; None: not known to the reporter.
        detail: additional text for people.
        redact: substrings of the cited lines that must not be printed.
        removed_path, removed_line: the line of base whose removal causes the finding; 0: none.
        in_base: path and lines are of base, and what is there is removed; only of a comparison.
        reported: the rule of an imported report; None: the rule table has it.
        steps: the data flow, the source first; ``detail`` has it as text.
        edits: a fix in its file; empty: the reporter has none.
        from_request: a value from a request reaches it.
        in_use: its file is no test or sample, whatever its name: other code imports it.
        in_tests: only tests run its place, whatever the name of its file.
        statement: the cited text and what it goes on from and to, without white space.
    """

    code: str
    path: str
    line: int
    message: str
    end_line: int = 0
    column: int = 0
    key: str | None = None
    scope: str | None = None
    detail: str = ""
    redact: tuple[str, ...] = ()
    confidence: Confidence = 1.0
    removed_path: str = ""
    removed_line: int = 0
    in_base: bool = False
    reported: ReportedRule | None = None
    steps: tuple[FlowStep, ...] = ()
    edits: tuple[Edit, ...] = ()
    from_request: bool = False
    in_use: bool = False
    in_tests: bool = False
    statement: str = ""

    def __post_init__(self) -> None:
        if self.end_line < self.line:
            force_setattr(self, "end_line", self.line)


BASE_DOES_NOT_PARSE = "the base version does not parse: line"
"""Begins the gap of a comparison where base's version of a Python file has a syntax error."""

NOTHING_TO_COMPARE = "nothing_to_compare"
"""The fact with the reason why a comparison of both sides had nothing to compare."""

NOTE = "note"
"""The fact with a note for people, which the verdict repeats; it is not a gap."""


class CheckReply(Struct, frozen=True, forbid_unknown_fields=True):
    """The reply of one run of a check; it crosses the process boundary as JSON.

    Attributes:
        examined: paths of the examined files.
        gaps: path → why the file could not be examined.
        facts: results that are not findings, as JSON.
    """

    findings: list[RawFinding] = []
    examined: list[str] = []
    gaps: dict[str, str] = {}
    facts: dict[str, Any] = {}


def nothing_to_compare(why: str) -> CheckReply:
    """Return the reply of a check that does not apply to a change; it has examined nothing."""
    return CheckReply(facts={NOTHING_TO_COMPARE: why})


NOT_PARSED = "its grammar cannot parse"
"""How a gap begins that is none where a program that conforms to the language read the file."""


class Gap(Exception):
    """This file, or a part of it, cannot be checked; ``str()`` says why, after its path.

    What was found before it is raised counts.
    """


class NotApplicable(Exception):
    """The check does not apply to this file, so the file does not count as examined."""


def decode_text(data: bytes) -> str:
    """The text of a file: UTF-16 with a byte order mark, else UTF-8 with ``surrogateescape``.

    A byte order mark is left out, so columns do not count it. Line ends are kept as they are.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")


def parse_program(text: str, grammar: str) -> "SgNode":
    """The root of a text's syntax tree by one of ast-grep's grammars, lone surrogates replaced."""
    from ast_grep_py import SgRoot  # noqa: PLC0415 - 65 ms that only a job with programs pays

    _add_grammar(grammar)
    return SgRoot(text.encode("utf-8", "replace").decode(), grammar).root()


@cache
def _add_grammar(name: str) -> None:
    """Make a grammar known to ast-grep that its wheel does not contain."""
    if name == "perl" and (found := find_spec(f"tree_sitter_{name}._binding")):
        from ast_grep_py import register_dynamic_language  # noqa: PLC0415 - as above

        about: Any = {"library_path": found.origin, "extensions": [name]}
        register_dynamic_language({name: about | {"language_symbol": f"tree_sitter_{name}"}})


@dataclass(frozen=True)
class Source:
    """A file of a job: its path and content."""

    path: str
    data: bytes

    @cached_property
    def text(self) -> str:
        """The content, see ``decode_text``."""
        return decode_text(self.data)

    @cached_property
    def lines(self) -> list[str]:
        """The lines as git counts them, without their ends."""
        return [line.removesuffix("\r") for line in self.text.split("\n")]

    @cached_property
    def name(self) -> str:
        """The last part of the path, in lower case."""
        return self.path.rpartition("/")[2].lower()

    @cached_property
    def suffix(self) -> str:
        """The name's ending in lower case, with its dot; empty when it has none."""
        return suffix_of(self.name)

    @cached_property
    def test_lines(self) -> list[range]:
        """The lines that only tests run, such as those of modules with ``#[cfg(test)]``."""
        part: Any = read_map("maps.yaml", "tests_inside").get(self.suffix)
        if not part or not re.search(part["hint"], self.text):
            return []
        lines = self.text.split("\n")
        found = parse_program(self.text, part["grammar"]).find_all({"rule": part["rule"]})
        spans = (node.range() for node in found if not node.find(kind="ERROR"))
        return [  # without a line that other code begins or ends
            range(
                span.start.line + 1 + bool(lines[span.start.line][: span.start.column].strip()),
                span.end.line + 2 - bool(lines[span.end.line][span.end.column :].strip()),
            )
            for span in spans
        ]

    @property
    def is_illustrative(self) -> bool:
        """Whether its values are likely made up: a test, a sample or a document, by its path."""
        return is_illustrative(self.path)


def read(root: str, path: str, most: int = MAX_FILE_BYTES) -> bytes:
    """Read one file of a job, up to a maximum size."""
    try:
        data = read_file(root, path, most + 1)
    except OSError as error:
        raise Gap(f"could not be read: {error.strerror}") from None
    if len(data) > most:
        raise Gap(f"larger than {most >> 20} MiB")
    return data


def read_if_possible(root: str, path: str) -> bytes:
    """Read one file of a job; empty if it cannot be read, which its own checks report."""
    with suppress(Gap):
        return read(root, path)
    return b""


def read_lines(root: str, path: str) -> list[str] | None:
    """The lines of a file of a job; None: it cannot be read."""
    try:
        return Source(path, read(root, path)).lines
    except Gap:
        return None


_READS_TOML_1_1 = 94  # Rust 1.94


def load_toml(text: str) -> dict[str, Any]:
    """Parse TOML in bounded time; a manifest of Cargo as TOML 1.1, unless it names an older Rust.

    Raises:
        RecursionError: it is nested too deeply, or has keys of hundreds of parts.
    """
    patterns = read_patterns("toml")
    if patterns["long_key"].search(text):
        raise RecursionError
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        rust = patterns["rust"].search(text)
        if patterns["cargo"].search(text) and (rust is None or int(rust[1]) >= _READS_TOML_1_1):
            with suppress(tomllib.TOMLDecodeError):
                return tomllib.loads(_join_inline_tables(text))
        raise


def table(document: Any, *keys: str) -> Mapping[str, Any]:
    """The table under nested keys; what is of another kind has no entries."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def tables(document: Any, *keys: str) -> list[Mapping[str, Any]]:
    """The tables in a list or table under nested keys, without what is of another kind."""
    found = table(document, *keys[:-1]).get(keys[-1])
    listed = found.values() if isinstance(found, dict) else found
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, Iterable) else []


def text_of(value: Any) -> str:
    """A text; empty for a value of another kind."""
    return value if isinstance(value, str) else ""


def _join_inline_tables(text: str) -> str:
    """TOML 1.1 as 1.0: inline tables in one line, without comments and a last comma."""
    depth = 0

    def put(found: re.Match[str]) -> str:
        nonlocal depth
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        return " " if depth and found[0][0] in "\n#," else found[0]

    return read_patterns("toml")["token"].sub(put, text)


def check_files(job: SideJob, look: Callable[[Source], Iterable[RawFinding]]) -> CheckReply:
    """Check every file of a job; see ``check_files_for_all``."""
    (reply,) = check_files_for_all(job, [look])
    return reply


def check_files_for_all(
    job: SideJob, looks: Sequence[Callable[[Source], Iterable[RawFinding]]]
) -> list[CheckReply]:
    """Check every file of a job for several checks; a file for which a check fails is its gap.

    Args:
        job: also ``file_seconds``: processor time that a check may take for one file. Then SIGPROF
            ends the process, since a parser written in C lets no Python code run in the meantime.
        looks: of each check; all are given the same ``Source`` of a file, one after the other.
    """
    replies = [CheckReply() for _ in looks]
    try:
        for path in job.paths:
            open_source = cache(lambda path=path: Source(path, read(job.root, path)))
            for look, reply in zip(looks, replies, strict=True):
                signal.setitimer(signal.ITIMER_PROF, job.file_seconds)
                _check_file(path, open_source, look, reply)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return replies


def _check_file(
    path: str,
    open_source: Callable[[], Source],
    look: Callable[[Source], Iterable[RawFinding]],
    reply: CheckReply,
) -> None:
    found: list[RawFinding] = []
    try:
        source = open_source()
        for finding in look(source):
            in_tests = any(finding.line in lines for lines in source.test_lines)
            found.append(replace(finding, in_tests=True) if in_tests else finding)
    except Gap as gap:
        reply.gaps[path] = str(gap)
    except NotApplicable:
        return
    except RecursionError:
        reply.gaps[path] = "nested too deeply to be parsed"
    except MemoryError:
        reply.gaps[path] = "needs too much memory to be parsed"
    else:
        reply.examined.append(path)
    reply.findings.extend(sorted(found, key=lambda finding: (finding.line, finding.code)))
