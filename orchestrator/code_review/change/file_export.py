"""Write files below a folder: no link is followed, and nothing lands outside of it."""

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from diffchecks.safe_paths import SafeDirectory, unsafe_path_reason
from orchestrator.errors import StoreError
from orchestrator.sandbox import scratch_directory

_FULL = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Say which of our places cannot be written."""
    try:
        yield
    except OSError as refused:
        raise StoreError(f"{place} cannot be written: {refused.strerror}") from None


def make_directory(path: Path) -> None:
    """Make a directory and those above it."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """A directory that is gone afterwards."""
    try:
        folder = tempfile.TemporaryDirectory(dir=scratch_directory.work_directory())
    except OSError as refused:
        raise StoreError(f"no temporary directory can be made: {refused.strerror}") from None
    with folder as path:
        yield Path(path)


def _write_file(folder: SafeDirectory, path: str, data: bytes) -> str | None:
    """Write one file; returns why it could not be written, None when it was."""
    if why := unsafe_path_reason(path):
        return why
    try:
        folder.write(path, data)
    except OSError as refused:
        if refused.errno in _FULL:
            raise StoreError(
                "the disk is full (exporting files); free some space and run again"
            ) from None
        return f"it cannot be written on this file system: {refused.strerror}"
    return None


def write_files(root: Path, items: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    """Write files below ``root``, which is made when it is not there.

    Args:
        root: no symbolic link.

    Returns:
        Path → why it could not be written.

    Raises:
        OSError: ``root`` itself cannot be opened as a directory.
    """
    root.mkdir(parents=True, exist_ok=True)
    with SafeDirectory(root) as folder:
        errors = ((path, _write_file(folder, path, data)) for path, data in sorted(items))
        return {path: why for path, why in errors if why}


def link_files(source: Path, root: Path, paths: Iterable[str]) -> set[str]:
    """Link files that were written below one directory of ours into another one.

    Args:
        root: no symbolic link; made when it is not there.

    Returns:
        The paths that were linked; the others have to be written.
    """
    linked: set[str] = set()
    root.mkdir(parents=True, exist_ok=True)
    with SafeDirectory(root) as folder:
        for path in sorted(paths):
            with suppress(OSError), folder.parent(path, make=True) as (directory, name):
                os.link(source / path, name, dst_dir_fd=directory, follow_symlinks=False)
                linked.add(path)
    return linked
