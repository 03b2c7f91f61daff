"""The patches of a verdict: as files for ``git apply``, and their lines to show, post or write.

A verdict may be read from an untrusted file, so a patch can be any text.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from diffchecks.fixes.patches import NO_END, FileHunks, LineReplacement, changed_parts, read_patch
from diffchecks.safe_paths import SafeDirectory
from diffchecks.unified_diff import PatchHunk, PatchRefused
from orchestrator.code_review.change.numbered_diff import HunkLine
from orchestrator.code_review.verdict.document_parts import Fix
from orchestrator.code_review.verdict.model import Artifact, Finding, Verdict

DIRECTORY = "fixes"
"""Below the run's directory."""
ALL = "all"
MAX_PATCHES = 50

_ID = re.compile(r"F\d{1,6}")


def patch_files(verdict: Verdict) -> dict[str, bytes]:
    """Finding's id → its verified patch, and ``all`` → the compatible ones as one patch.

    Empty without verified patches. The verdict may be untrusted.
    """
    found = {
        finding.id: (finding, files)
        for finding in verdict.findings
        if finding.fix and finding.fix.is_verified and finding.state == "open"
        if _ID.fullmatch(finding.id) and (files := patched_files(finding.fix))
    }
    chosen = list(found.values())[:MAX_PATCHES]
    patches = {
        finding.id: finding.fix.patch.encode("utf-8", "surrogateescape")
        for finding, _ in chosen
        if finding.fix
    }
    if together := _join_compatible(chosen):
        patches[ALL] = together
    return patches


def _join_compatible(chosen: Iterable[tuple[Finding, Sequence[FileHunks]]]) -> bytes:
    """The patches in order, without those that do not hold together with an earlier one."""
    taken: dict[str, Sequence[FileHunks]] = {}
    together = b""
    for finding, files in chosen:
        if finding.fix and taken.keys().isdisjoint(finding.fix.excludes):
            with suppress(PatchRefused):
                together = join_patches([*taken.values(), files])
                taken[finding.id] = files
    return together


def join_patches(patches: Iterable[Iterable[FileHunks]]) -> bytes:
    """Several patches of the same tree as one; equal changes are merged.

    Raises:
        PatchRefused: two change the same lines.
    """
    hunks: dict[str, list[PatchHunk]] = {}
    for files in patches:
        for file in files:
            hunks.setdefault(file.path, []).extend(file.hunks)
    return b"".join(part for path in sorted(hunks) for part in _join_file(path, hunks[path]))


def _join_file(path: str, hunks: Iterable[PatchHunk]) -> Iterator[bytes]:
    """A file's part of a patch: its header and hunks, with touching hunks merged."""
    known: dict[int, bytes] = {}
    changes: set[LineReplacement] = set()
    places: list[tuple[int, int]] = []
    for hunk in hunks:
        first = hunk.old_start - 1 + (not hunk.old_count)
        old = [text for marker, text in hunk.lines if marker != b"+"]
        known.update(enumerate(old, first))
        changes.update(changed_parts(hunk.lines, first))
        places.append((first, first + len(old)))
    yield b"--- a/%s\n+++ b/%s\n" % ((path.encode("utf-8", "surrogateescape"),) * 2)
    shift = 0
    for first, end in _touching(places):
        inside = [part for part in sorted(changes) if first <= part.start and part.end <= end]
        rows = list(_rows(known, inside, first, end))
        old_count, new_count = end - first, sum(row[:1] != b"-" for row in rows)
        yield b"@@ -%d,%d +%d,%d @@\n" % (
            first + bool(old_count), old_count, first + shift + bool(new_count), new_count
        )  # fmt: skip
        yield from (row if row.endswith(b"\n") else row + b"\n" + NO_END for row in rows)
        shift += new_count - old_count


def _touching(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of lines; those that overlap or touch are merged."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(places):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((first, end))
    return found


def _rows(
    known: Mapping[int, bytes], parts: Iterable[LineReplacement], first: int, end: int
) -> Iterator[bytes]:
    """The lines of a hunk, each with its mark."""
    done = first
    for part in parts:
        if part.start < done:
            raise PatchRefused("another patch changes the same lines")
        yield from (b" " + known[line] for line in range(done, part.start))
        yield from (b"-" + known[line] for line in range(part.start, part.end))
        yield from (b"+" + line for line in part.lines)
        done = part.end
    yield from (b" " + known[line] for line in range(done, end))


def _path(name: str) -> str:
    return f"{DIRECTORY}/{name}.patch"


def patch_artifacts(verdict: Verdict, proofs: Mapping[str, str]) -> tuple[Artifact, ...]:
    """The entries of the verdict for the files of its patches.

    Args:
        proofs: patch → key of the call that proved it.
    """
    patches = {one.id: one.fix.patch for one in verdict.findings if one.fix}
    return tuple(
        Artifact(
            name=name,
            path=_path(name),
            sha256=hashlib.sha256(data).hexdigest(),
            bytes=len(data),
            tool_call=proofs.get(patches.get(name, ""), ""),
        )
        for name, data in patch_files(verdict).items()
    )


def write_patch_files(directory: Path, verdict: Verdict) -> None:
    """Write the patches below a run's directory; a failure is ignored: the verdict has them too."""
    if not (files := patch_files(verdict)):
        return
    with suppress(OSError), SafeDirectory(directory) as run:
        run.make_directory(DIRECTORY)
        for name, data in files.items():
            run.write(_path(name), data, 0o600)


class PatchedLines(Struct, frozen=True):
    """Consecutive lines of head, and their replacement by a patch.

    Attributes:
        start, end: 1-based, inclusive.
        old, new: the lines with their line ends; neither is empty.
    """

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def end(self) -> int:
        """The last line that is replaced."""
        return self.start + len(self.old) - 1


def patched_files(fix: Fix | None) -> list[FileHunks]:
    """The files of a patch; none if there is no patch or it cannot be read."""
    try:
        return read_patch(fix.patch) if fix else []
    except PatchRefused:
        return []


def hunk_rows(hunk: PatchHunk) -> Iterator[HunkLine]:
    """The lines of a hunk with their numbers and line ends, which a file's last one may lack."""
    old, new = hunk.old_start + (not hunk.old_count), hunk.new_start + (not hunk.new_count)
    for marker, text in hunk.lines:
        mark = marker.decode()
        shown = mark + text.decode("utf-8", "surrogateescape")
        yield HunkLine(mark, old if mark != "+" else 0, new if mark != "-" else 0, shown)
        old, new = old + (mark != "+"), new + (mark != "-")


def changed_span(hunk: PatchHunk) -> PatchedLines | None:
    """From the first to the last line that a hunk changes, with the lines between.

    If it only adds or only removes lines, the span includes a neighboring line; None if there is
    none.
    """
    rows = list(hunk_rows(hunk))
    changed = [place for place, row in enumerate(rows) if row.sign != " "]
    first, last = changed[0], changed[-1]
    marks = {row.sign for row in rows[first : last + 1]}
    if not {" ", "-"} & marks or not {" ", "+"} & marks:
        if first:
            first -= 1
        elif last + 1 < len(rows):
            last += 1
        else:
            return None
    part = rows[first : last + 1]
    old, new = (tuple(row.text for row in part if row.sign != mark) for mark in ("+", "-"))
    return PatchedLines(next(row.old for row in part if row.old), old, new)


def only_span(finding: Finding) -> PatchedLines | None:
    """The span that a verified patch replaces; None if there is not exactly one in its file."""
    files = patched_files(finding.fix) if finding.fix and finding.fix.is_verified else []
    if [(file.path, len(file.hunks)) for file in files] != [(finding.path, 1)]:
        return None
    return changed_span(files[0].hunks[0])


def split_line_ends(old: str, new: str) -> tuple[str, str] | None:
    """Two last lines without their line ends; None if these differ."""
    ends = [line[len(line.rstrip("\r\n")) :] for line in (old, new)]
    if ends[0] != ends[1]:
        return None
    return old.removesuffix(ends[0]), new.removesuffix(ends[1])
