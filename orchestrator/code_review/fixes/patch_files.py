"""The verified patches of a verdict as files for ``git apply``: each one, and all as one."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from diffchecks.fixes.patches import NO_END, FileHunks, LineReplacement, PatchRefused, changed_parts
from diffchecks.safe_paths import SafeDirectory
from diffchecks.unified_diff import PatchHunk
from orchestrator.code_review.fixes.patch_lines import patched_files
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
    kept = {
        finding.id: finding.fix.patch.encode("utf-8", "surrogateescape")
        for finding, _ in chosen
        if finding.fix
    }
    if together := _join_compatible(chosen):
        kept[ALL] = together
    return kept


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
