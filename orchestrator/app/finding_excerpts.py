"""Excerpts of a change's diff, whole or around findings, read from git, without secrets."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import anyio
from msgspec import Struct

from diffchecks.check_io import Source
from diffchecks.secrets.redaction import redact_secrets
from diffchecks.secrets.secret_scan import find_secrets_by_line
from orchestrator.app.runs import state_directory
from orchestrator.code_review.change.git.commands import PLAIN_DIFF, Git
from orchestrator.code_review.change.numbered_diff import HunkLine, number_hunk_lines
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.errors import DiffcourtError

AROUND = 6
"""Lines before and after a finding."""
MAX_FILES = 300
MAX_LINES = 60
"""Lines of one excerpt."""
CONTEXT = 3
"""Lines before and after a changed one where a whole change is read."""
MAX_DIFF_LINES = 4_000
"""Lines of one file's diff; what is longer was not written to be read."""

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")

T = TypeVar("T")
Kind = Literal["same", "added", "removed"]
KINDS: Mapping[str, Kind] = {" ": "same", "+": "added", "-": "removed"}


class ExcerptLine(Struct, frozen=True):
    """One line of a diff.

    Attributes:
        old, new: 1-based numbers in base and head; 0 on a side that does not have it.
        text: with secrets redacted.
    """

    kind: Kind
    old: int
    new: int
    text: str

    @property
    def mark(self) -> str:
        """How a diff marks it."""
        return next(mark for mark, kind in KINDS.items() if kind == self.kind)


class FileExcerpt(Struct, frozen=True):
    """What a change does to one file.

    Attributes:
        lines: of the diff; none for a file that is not text or of which only the mode changes.
        omitted: number of further lines.
    """

    path: str
    lines: Sequence[ExcerptLine]
    omitted: int = 0


def read_change(repo: Path | None, verdict: Verdict) -> tuple[FileExcerpt, ...]:
    """The diff of a reviewed change by file; empty if the commits are not available."""
    return _read_commits(repo, verdict, _read_change) or ()


async def _read_change(git: Git, commits: tuple[str, str]) -> tuple[FileExcerpt, ...]:
    options = (*PLAIN_DIFF, "--no-renames")
    names = await git.run("diff", "--name-only", "-z", *options, *commits)
    paths = names.decode("utf-8", "surrogateescape").split("\0")[:-1]
    text = await git.run("diff", f"-U{CONTEXT}", *options, *commits)
    # No line of a file begins so: each has its mark before it.
    parts = text.decode("utf-8", "surrogateescape").split("\ndiff --git ")
    found = []
    for path, part in zip(paths[:MAX_FILES], parts, strict=False):
        lines = list(_parse(part))
        shown = _without_secrets(path, lines[:MAX_DIFF_LINES])
        found.append(FileExcerpt(path, shown, max(len(lines) - MAX_DIFF_LINES, 0)))
    return tuple(found)


def _read_commits(
    repo: Path | None, verdict: Verdict, read: Callable[[Git, tuple[str, str]], Awaitable[T]]
) -> T | None:
    """What is read of base and head; None if they are no commits, or are not in the repository.

    A page without excerpts is better than none.
    """
    commits, place = (verdict.change.base, verdict.change.head), repo or Path()
    if not all(map(_COMMIT.fullmatch, commits)) or not state_directory.inside_repository(place):
        return None

    async def work() -> T:
        return await read(await Git.open(place), commits)

    try:
        return anyio.run(work)
    except DiffcourtError:
        return None


def read_excerpts(repo: Path | None, verdict: Verdict) -> Mapping[str, Sequence[ExcerptLine]]:
    """Id of an open finding → the diff around it; empty if the commits are not available."""
    by_path: dict[str, list[Finding]] = {}
    for finding in verdict.findings:
        if finding.state == "open" and len(by_path) < MAX_FILES:
            by_path.setdefault(finding.path, []).append(finding)

    async def read(git: Git, commits: tuple[str, str]) -> dict[str, Sequence[ExcerptLine]]:
        found: dict[str, Sequence[ExcerptLine]] = {}
        for path, findings in by_path.items():
            options = (*PLAIN_DIFF, f"-U{AROUND}", "--no-renames")
            text = await git.run("diff", *options, *commits, "--", path)
            lines = _without_secrets(path, list(_parse(text.decode("utf-8", "surrogateescape"))))
            for finding in findings:
                found[finding.id] = _around(finding, lines)
        return found

    return _read_commits(repo, verdict, read) or {}


def _parse(diff: str) -> Iterator[ExcerptLine]:
    """The lines of the hunks of one file."""
    for line in number_hunk_lines(diff.split("\n")):
        if isinstance(line, HunkLine) and line.sign in KINDS:
            yield ExcerptLine(KINDS[line.sign], line.old, line.new, line.text.rstrip("\r"))


def _without_secrets(path: str, lines: Sequence[ExcerptLine]) -> list[ExcerptLine]:
    """The lines with what the secret scan finds in them redacted, on both sides."""
    text = "\n".join(line.text for line in lines)
    source = Source(path, text.encode("utf-8", "surrogateescape"))
    secrets: dict[int, list[str]] = {}
    for number, secret in find_secrets_by_line(source):
        secrets.setdefault(number, []).append(secret)
    return [
        ExcerptLine(line.kind, line.old, line.new, redact_secrets(line.text, secrets.get(at, ())))
        for at, line in enumerate(lines, 1)
    ]


def _around(finding: Finding, lines: Sequence[ExcerptLine]) -> Sequence[ExcerptLine]:
    """The lines near a finding on its side; none if the diff does not include it."""
    removed = finding.evidence.side == "base"
    cited = [
        at
        for at, line in enumerate(lines)
        if finding.start_line <= (line.old if removed else line.new) <= finding.end_line
    ]
    if not cited:
        return ()
    return lines[max(cited[0] - AROUND, 0) : cited[-1] + AROUND + 1][:MAX_LINES]
