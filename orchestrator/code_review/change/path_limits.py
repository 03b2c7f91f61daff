"""A change limited to some directories or files of its repository, as ``--path`` asks."""

import posixpath
from collections.abc import Sequence

from msgspec.structs import replace

from orchestrator.code_review.change.contents import SIDES, Contents
from orchestrator.code_review.change.types import Change
from orchestrator.errors import InputError


def normalize_path(path: str) -> str:
    """A path of the repository without ``./`` or a slash at its end.

    Raises:
        InputError: it is empty, absolute or leads out of the repository.
    """
    normal = posixpath.normpath(path) if path else ".."
    if posixpath.isabs(normal) or normal.split("/")[0] == "..":
        raise InputError(
            f"--path {path!r} must be a directory or file of the repository, relative to its root, "
            "such as services/api"
        )
    return normal


def is_in_scope(path: str, paths: Sequence[str]) -> bool:
    """Whether a review of these paths covers a path; without paths it covers all."""
    return not paths or "." in paths or any(_is_below(path, limit) for limit in paths)


async def limit_to_paths(change: Change, paths: Sequence[str]) -> Change:
    """The change with the files at or below these paths, and a note that says so.

    A file that was moved into or out of them counts. Without paths it is the whole change.

    Raises:
        InputError: neither side of the change has such a path.
    """
    if is_in_scope(".", paths):
        return change
    names = change.names
    unchanged = [path for path in paths if not any(_is_below(name, path) for name in names)]
    if unchanged:
        await _check_existence(change, unchanged)
    files = tuple(
        file
        for file in change.files
        if any(_is_below(name, path) for name in file.paths for path in paths)
    )
    places = ", ".join(sorted(paths))
    note = f"limited to {places}: {len(files)} of {len(change.files)} changed files are reviewed"
    return replace(change, files=files, notes=(*change.notes, note))


async def _check_existence(change: Change, paths: Sequence[str]) -> None:
    """A misspelled path must not look like a part of the repository that did not change."""
    async with Contents(change) as contents:
        listed = [name for side in SIDES for name in await contents.paths(side)]
    for path in paths:
        if not any(_is_below(name, path) for name in listed):
            raise InputError(
                f"--path {path}: neither base nor head has such a directory or file; give it "
                "relative to the top of the repository"
            )


def _is_below(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}/")
