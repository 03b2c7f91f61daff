"""A change under review, as data and as JSON: two trees of one object store, and its files."""

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Literal

from msgspec import Struct, to_builtins

Status = Literal["added", "deleted", "modified", "renamed", "copied", "mode", "type"]
Kind = Literal["text", "binary", "media", "symlink", "submodule"]
"""``media``: an image, font or sound by its name and its first bytes, or a published program."""


class ChangedFile(Struct, frozen=True):
    """One file of a change.

    Attributes:
        path: its path in head (in base when it was deleted); forward slashes, never absolute. A
            name that is not UTF-8 is held with ``surrogateescape``.
        old_path: its path in base, None when it was added.
        added: 1-based line numbers in head that the change adds or alters.
        removed: 1-based line numbers in base that the change removes or alters.
        whole: both sides are fully known. False for a file of a patch without a repository, of
            which only the hunks are known: its sides are padded with empty lines so that numbers
            are right.
        skip: why no analyzer looks at it (``binary``, ``lock file``, ...), else None.
        gap: it is skipped because it cannot be read, not because it need not be.
        script: its first line, in head, names an interpreter.
        old_blob, new_blob: object ids, None on the side where it does not exist.
    """

    path: str
    status: Status
    kind: Kind = "text"
    old_path: str | None = None
    old_mode: str | None = None
    new_mode: str | None = None
    old_blob: str | None = None
    new_blob: str | None = None
    size: int = 0
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    whole: bool = True
    skip: str | None = None
    gap: bool = False
    script: bool = False

    @property
    def only_moved(self) -> bool:
        """Whether head has base's bytes under another name with the same suffix and mode."""
        ends = {PurePosixPath(path or "").suffix for path in (self.path, self.old_path)}
        same = self.old_blob == self.new_blob and self.old_mode == self.new_mode
        return self.status == "renamed" and same and len(ends) == 1

    @property
    def in_base(self) -> bool:
        """Whether base holds it as a regular file: not as a link or a submodule."""
        return self.old_blob is not None and (self.old_mode or "100").startswith("100")

    @property
    def in_head(self) -> bool:
        """Whether head holds it as a regular file."""
        return self.new_blob is not None and (self.new_mode or "100").startswith("100")


class Change(Struct, frozen=True):
    """What is reviewed. Everything is named by object id, so a resumed run sees the same bytes.

    Attributes:
        base, head: what a person would call the two sides (a commit id, ``worktree``, a patch).
        base_tree, head_tree: tree object ids; every content is read from these.
        git_dir: the repository that holds the objects (or an extra store with alternates).
        object_dir: an extra object directory written for this run (worktree or patch), or None.
        has_tree: False for a patch without a repository: only the hunks are known.
        policy_commit: the commit from which ``.diffcourt/`` is read, None when there is none.
        notes: sentences a person should read (shallow clone, empty diff, ...).
        title, description: what its author says of it, untrusted; empty where nothing is known.
    """

    base: str
    head: str
    base_tree: str
    head_tree: str
    git_dir: str
    object_dir: str | None = None
    has_tree: bool = True
    policy_commit: str | None = None
    files: tuple[ChangedFile, ...] = ()
    notes: tuple[str, ...] = ()
    title: str = ""
    description: str = ""


def change_to_json(change: Change) -> dict[str, Any]:
    """A change as JSON; runs of line numbers are kept as ``[first, last]``."""
    document: dict[str, Any] = to_builtins(change)
    for file in document["files"]:
        for name in ("added", "removed"):
            file[name] = to_ranges(file[name])
    return document


def change_from_json(document: Mapping[str, Any]) -> Change:
    """The inverse of ``change_to_json``."""
    files = tuple(
        ChangedFile(**{**file, **{name: _from_ranges(file[name]) for name in ("added", "removed")}})
        for file in document["files"]
    )
    return Change(**{**document, "files": files, "notes": tuple(document["notes"])})


def to_ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Runs of ascending numbers as ``[first, last]``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def _from_ranges(ranges: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(number for first, last in ranges for number in range(first, last + 1))
