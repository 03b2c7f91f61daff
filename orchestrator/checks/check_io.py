"""What every check of this package shares: reading the files of a job, and the shape of a reply.

A job is JSON: ``{"root": directory, "paths": [path below it, ...], ...}``. A reply is a
``CheckReply``. A name that is not UTF-8 is held with ``surrogateescape``, which JSON keeps.
"""

import codecs
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from orchestrator.checks.packed_files import read_file
from orchestrator.checks.path_kinds import is_illustrative

LARGEST = 8 << 20


Confidence = Annotated[float, Meta(ge=0, le=1)]


class ReportedRule(Struct, frozen=True, forbid_unknown_fields=True):
    """What a tool of somebody else says of its own rule, bounded and in one line each.

    Attributes:
        tool, rule: names as they are in a rule's id.
        severity: one of ours.
        category: ``security`` or ``qa``.
        own: ``tool:code`` pairs by which our rule table may know the same rule.
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
    """Text of a finding's file that a fix replaces.

    Attributes:
        start_line, start_column: 1-based, in characters; the first one that is replaced.
        end_line, end_column: 1-based; the first character after it. Equal to the start: ``text``
            is inserted there.
        text: what stands there instead.
    """

    start_line: int
    start_column: int
    end_line: int
    end_column: int
    text: str


class RawFinding(Struct, frozen=True, forbid_unknown_fields=True):
    """One finding as a check or an external program reports it.

    Attributes:
        code: the reporter's own code, such as ``S602``; the rule table says what it means.
        path: of the file, below the root that was analyzed.
        line, end_line: 1-based and inclusive; ``end_line`` is ``line`` where it is left out.
        column: 1-based, in characters, where the finding begins in ``line``; 0: not known.
        message: one sentence without a full stop, with no secret in it.
        key: what identifies the finding in place of the cited text, such as a symbol's name for a
            rule about a whole function; None: the text does.
        scope: dotted name of the enclosing function or class; None: not known to the reporter.
        detail: further text for a person.
        redact: substrings of the cited lines that must not be printed.
        removed_path, removed_line: the line of base whose removal causes the finding; 0: none does.
        reported: the rule of an imported report; None: the rule table has it.
        steps: the way of a value, the source first; ``detail`` has it as text.
        edits: what would mend it, in its file; empty: the reporter knows nothing.
        from_request: a value that comes with a request gets there.
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
    reported: ReportedRule | None = None
    steps: tuple[FlowStep, ...] = ()
    edits: tuple[Edit, ...] = ()
    from_request: bool = False

    def __post_init__(self) -> None:
        if self.end_line < self.line:
            force_setattr(self, "end_line", self.line)


CANNOT_PARSE = frozenset({"python", "json", "yaml", "toml"})
"""Codes of ``parse_check`` for a file that does not parse."""

NOTHING_TO_COMPARE = "nothing_to_compare"
"""The fact that says why a check that compares both sides had nothing to compare."""


NOTE = "note"
"""The fact that is a sentence for people, which the verdict repeats; it is no gap."""


class CheckReply(Struct, frozen=True, forbid_unknown_fields=True):
    """What one run of a check reports; it crosses the process boundary as JSON.

    Attributes:
        examined: paths of the files that were looked at.
        gaps: path → why the file could not be looked at.
        facts: what the check learned that is no finding, as JSON.
    """

    findings: list[RawFinding] = []
    examined: list[str] = []
    gaps: dict[str, str] = {}
    facts: dict[str, Any] = {}


def nothing_to_compare(why: str) -> CheckReply:
    """Return the reply of a check that does not apply to a change; it has examined nothing."""
    return CheckReply(facts={NOTHING_TO_COMPARE: why})


class Gap(Exception):
    """This file cannot be judged; ``str()`` says why, to follow its path."""


class NotApplicable(Exception):
    """There is nothing in this file that the check looks for: it has not examined it."""


@dataclass(frozen=True)
class Source:
    """A file of a job: its path and content."""

    path: str
    data: bytes

    @cached_property
    def text(self) -> str:
        """The content; bytes that are not UTF-8 are kept as lone surrogates."""
        for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
            if self.data.startswith(mark):
                return self.data.decode(encoding, "replace")
        return self.data.decode("utf-8", "surrogateescape")

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
        return os.path.splitext(self.name)[1]

    @property
    def is_illustrative(self) -> bool:
        """Whether its values are likely made up: a test, a sample or a document, by its path."""
        return is_illustrative(self.path)


def read(root: str, path: str, most: int = LARGEST) -> bytes:
    """The bytes of one file of a job, of which there may be so many."""
    try:
        data = read_file(root, path, most + 1)
    except OSError as error:
        raise Gap(f"could not be read: {error.strerror}") from None
    if len(data) > most:
        raise Gap(f"larger than {most >> 20} MiB")
    return data


def check_files(job: dict[str, Any], look: Callable[[Source], Iterable[RawFinding]]) -> CheckReply:
    """Look at every file of a job; a file that breaks the look is a gap, the others go on."""
    reply = CheckReply()
    for path in job["paths"]:
        try:
            found = list(look(Source(path, read(job["root"], path))))
        except Gap as gap:
            reply.gaps[path] = str(gap)
        except NotApplicable:
            continue
        except RecursionError:
            reply.gaps[path] = "nested too deeply to be parsed"
        except MemoryError:
            reply.gaps[path] = "needs too much memory to be parsed"
        else:
            reply.examined.append(path)
            reply.findings.extend(sorted(found, key=lambda finding: (finding.line, finding.code)))
    return reply
