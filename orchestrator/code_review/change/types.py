"""A change under review, as data and as JSON: two trees of one object store, and its files."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, to_builtins

from diffchecks.jobs import ChangedFile


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

    @property
    def names(self) -> set[str]:
        """The paths of its files, in head and in base."""
        return {path for file in self.files for path in file.paths}


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
