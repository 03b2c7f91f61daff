"""A change limited to some directories or files of its repository, as ``--path`` asks."""

import posixpath
from collections.abc import Sequence

from msgspec.structs import replace

from orchestrator.code_review.change.types import Change, ChangedFile
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


def limit_to_paths(change: Change, paths: Sequence[str]) -> Change:
    """The change with the files at or below these paths, and a note that says so.

    A file that was moved into or out of them counts. Without paths it is the whole change.
    """
    if not paths or "." in paths:
        return change
    files = tuple(file for file in change.files if _is_below(file, paths))
    places = ", ".join(sorted(paths))
    note = f"limited to {places}: {len(files)} of {len(change.files)} changed files are reviewed"
    return replace(change, files=files, notes=(*change.notes, note))


def _is_below(file: ChangedFile, paths: Sequence[str]) -> bool:
    names = {file.path, file.old_path or file.path}
    return any(name == path or name.startswith(f"{path}/") for name in names for path in paths)
