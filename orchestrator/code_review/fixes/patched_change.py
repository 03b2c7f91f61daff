"""The change with a patch applied: the same base, and a head with other contents of some files.

Nothing is written to a repository and git is not called: that would take longer than the analyzers
of a proof.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.code_review.change.contents import Contents
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.git.objects import Kind, Objects
from orchestrator.code_review.change.types import Change, ChangedFile
from orchestrator.code_review.fixes.patches import LineReplacement, apply_replacements


class PatchedFile(Struct, frozen=True):
    """A file of head, and its replaced lines."""

    before: bytes
    replacements: tuple[LineReplacement, ...]

    @property
    def data(self) -> bytes:
        """What it holds with them."""
        return apply_replacements(self.before, self.replacements)


class _PatchedObjects(Objects):
    """The objects of a change, plus some that are in memory only."""

    def __init__(self, contents: Contents, git: Git, blobs: Mapping[str, bytes]) -> None:
        super().__init__(git)
        self._contents, self._blobs = contents, blobs

    async def each(
        self,
        oids: Sequence[str],
        consume: Callable[[str, bytes], Awaitable[None]],
        kind: Kind = "blob",
        *,
        missing_ok: bool = False,
    ) -> None:
        """Hand every object to ``consume``, those in memory first."""
        for oid in (oid for oid in oids if oid in self._blobs):
            await consume(oid, self._blobs[oid])
        others = [oid for oid in oids if oid not in self._blobs]
        await self._contents.objects.each(others, consume, kind, missing_ok=missing_ok)


class PatchedContents(Contents):
    """The contents of both sides, with other contents of some files of head."""

    @classmethod
    async def of(
        cls, change: Change, contents: Contents, files: Mapping[str, bytes]
    ) -> "PatchedContents":
        """The contents of a change with these files of head."""
        blobs = {_blob_id(change, data): data for data in files.values()}
        patched = cls(change, _PatchedObjects(contents, Git.of(change), blobs))
        head = dict(await contents.paths("head"))
        for path, data in files.items():
            head[path] = (head[path][0], _blob_id(change, data))
        patched._listings |= {"base": await contents.paths("base"), "head": head}
        return patched


async def with_patches(
    change: Change, contents: Contents, files: Mapping[str, PatchedFile]
) -> tuple[Change, PatchedContents]:
    """The change and the contents of its sides, with patches of regular files of head.

    Raises:
        PatchRefused: two of them change the same lines.
    """
    data = {path: file.data for path, file in files.items()}
    patched = await PatchedContents.of(change, contents, data)
    listed, known = await contents.paths("head"), {file.path: file for file in change.files}
    for path, file in files.items():
        mode, blob = listed[path]
        before = known.get(path) or ChangedFile(
            path, "modified", "text", path, mode, mode, blob, blob
        )
        known[path] = _with_patch(before, file, _blob_id(change, data[path]), len(data[path]))
    changed = (known[path] for path in sorted(known))
    # A file that equals base with its patch is not part of the change.
    kept = tuple(file for file in changed if file.path not in files or _differs(file))
    return replace(change, files=kept, notes=()), patched


def _differs(file: ChangedFile) -> bool:
    base = file.old_path, file.old_mode, file.old_blob
    return base != (file.path, file.new_mode, file.new_blob)


def _with_patch(before: ChangedFile, file: PatchedFile, blob: str, size: int) -> ChangedFile:
    """A changed file whose head is patched."""
    added, removed = set(before.added), set(before.removed)
    base_lines = _base_lines(len(file.before.split(b"\n")), added, removed)
    replaced = {n + 1 for part in file.replacements for n in range(part.start, part.end)}
    removed |= {base_lines[line] for line in replaced if line in base_lines}
    return replace(
        before,
        new_blob=blob,
        size=size,
        added=tuple(_added(file, added)),
        removed=tuple(sorted(removed)),
    )


def _base_lines(lines: int, added: set[int], removed: set[int]) -> dict[int, int]:
    """Unchanged line of head → its number in base."""
    base = (number for number in count(1) if number not in removed)
    return {line: next(base) for line in range(1, lines + 1) if line not in added}


def _added(file: PatchedFile, added: Iterable[int]) -> Iterator[int]:
    """The lines of the patched file that base does not have."""
    own, parts = set(added), dict[int, list[LineReplacement]]()
    for part in sorted(set(file.replacements)):
        parts.setdefault(part.start, []).append(part)
    number, skip_to = 0, 0
    for line in range(len(file.before.split(b"\n")) + 1):
        for part in parts.get(line, ()):
            for _ in part.lines:
                number += 1
                yield number
            skip_to = max(skip_to, part.end)
        if line >= skip_to:
            number += 1
            if line + 1 in own:
                yield number


def _blob_id(change: Change, data: bytes) -> str:
    """The id that git gives to a file's contents in the change's repository."""
    new = hashlib.sha1 if len(change.head_tree) == 40 else hashlib.sha256
    digest = new(b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()
