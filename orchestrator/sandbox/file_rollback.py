"""Files that a writing tool may change, as they were: put back on failure, or once more later.

A snapshot is taken before the tool runs and is whole before it does: it appears under its name only
then. Nothing outside the root is touched, and no link is followed: links are kept as links. One
writing call at a time: what two change side by side could not be told apart.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from msgspec import Struct

from orchestrator.errors import InputError, NotPermitted
from orchestrator.sandbox.safe_paths import SafeDirectory, create_file

LEFT_OUT = frozenset({".git", ".diffcourt/state"})
"""Paths below the root that are neither kept nor put back."""
MOST_BYTES = 1 << 30
MOST_FILES = 100_000
PART = ".diffcourt-part"
"""A file on its way back; it takes its own name when it is whole."""

Entry = tuple[str, int, str]
"""``file``, ``link``, ``folder`` or ``other``; permissions; a file's digest, a link's target."""


class Snapshot(Struct, frozen=True):
    """One call's snapshot in the vault.

    Attributes:
        ref: the call's key in the journal.
        state: ``begun``, ``committed`` or ``undone``.
    """

    ref: str
    folder: Path
    state: str


class FileRollback:
    """A ``Rollback`` over the files below a root.

    Args:
        root: the folder that writing tools may change.
        vault: where snapshots are kept; outside the root, or in what is left out of it.
    """

    def __init__(self, root: Path, vault: Path) -> None:
        self._root, self._vault = root.resolve(), vault
        self._lock, self._held = anyio.Lock(), ""

    async def begin(self, ref: str) -> None:
        """Keep everything, before the call changes it.

        Raises:
            NotPermitted: it could not be put back: too much, or no ordinary file.
        """
        await self._lock.acquire()
        self._held = ref
        try:
            await to_thread.run_sync(self._keep, ref)
        except OSError as fault:
            self._let_go(ref)
            raise NotPermitted(f"what it may change cannot be kept: {fault}") from None
        except BaseException:
            self._let_go(ref)
            raise

    async def commit(self, ref: str) -> None:
        """Let the effect stand; it can still be put back by ``restore``."""
        try:
            await to_thread.run_sync(self._finish, ref)
        finally:
            self._let_go(ref)

    async def undo(self, ref: str) -> None:
        """Put back what is not as it was; again does nothing more, nor where nothing was begun."""
        try:
            await to_thread.run_sync(self._put_back, ref)
        finally:
            self._let_go(ref)

    def snapshots(self) -> list[Snapshot]:
        """What is in the vault, the oldest first."""
        found = []
        for folder in sorted(self._vault.glob("[0-9a-f]*"), key=lambda f: f.stat().st_mtime_ns):
            if not folder.name.endswith(".part"):
                ref = (folder / "ref").read_text("utf-8", "surrogateescape")
                found.append(Snapshot(ref, folder, (folder / "state").read_text()))
        return found

    def restore(self, ref: str, *, force: bool = False) -> list[str]:
        """Put back what a committed call changed; returns the paths.

        Args:
            force: also what was changed again since.

        Raises:
            InputError: there is no such call, or what it changed has been changed since, or cannot
                be put back.
        """
        try:
            return self._restore(ref, force)
        except OSError as fault:
            raise InputError(f"cannot be put back: {fault}; see to it and run again") from None

    def _restore(self, ref: str, force: bool) -> list[str]:
        folder = self._place(ref)
        if not folder.exists() or (folder / "state").read_text() == "begun":
            raise InputError(f"no call {ref} changed files in this run")
        before, after = _manifest(folder / "before.json"), _manifest(folder / "after.json")
        changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
        with SafeDirectory(self._root) as root:
            now = self._entries(root)
            since = sorted(path for path in changed if now.get(path) != after.get(path))
            if since and not force:
                raise InputError(
                    f"{since[0]} has been changed since (and {len(since) - 1} more); "
                    "use --force to restore them anyway"
                )
            _make_as(root, folder / "files", before, now, changed)
        _write(folder / "state", b"undone")
        return sorted(changed)

    # --- on disk ----------------------------------------------------------------------------

    def _let_go(self, ref: str) -> None:
        if self._held == ref:
            self._held = ""
            self._lock.release()

    def _place(self, ref: str) -> Path:
        return self._vault / hashlib.sha256(os.fsencode(ref)).hexdigest()[:32]

    def _keep(self, ref: str) -> None:
        folder = self._place(ref)
        if folder.exists() and (folder / "state").read_text() == "begun":
            return  # the way things were before it first ran is what counts
        shutil.rmtree(folder, ignore_errors=True)
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        (part / "files").mkdir(parents=True)
        with SafeDirectory(self._root) as root:
            entries = self._entries(root)
            self._copy(root, entries, part / "files")
        _write(part / "before.json", json.dumps(entries).encode("ascii"))
        _write(part / "ref", os.fsencode(ref))
        _write(part / "state", b"begun")
        part.rename(folder)

    def _copy(self, root: SafeDirectory, entries: Mapping[str, Entry], files: Path) -> None:
        if len(entries) > MOST_FILES:
            raise NotPermitted(f"more than {MOST_FILES:,} files could not be put back")
        left = MOST_BYTES
        for path, (kind, _, content) in entries.items():
            if kind == "other":
                raise NotPermitted(f"{path} is no ordinary file, and could not be put back")
            if kind == "file" and not (copy := files / content).exists():
                data = root.read(path, left + 1)
                left -= len(data)
                if left < 0:
                    raise NotPermitted(f"more than {MOST_BYTES >> 20} MiB could not be put back")
                _write(copy, data)

    def _finish(self, ref: str) -> None:
        folder = self._place(ref)
        with SafeDirectory(self._root) as root:
            after = self._entries(root)
        _write(folder / "after.json", json.dumps(after).encode("ascii"))
        _write(folder / "state", b"committed")

    def _put_back(self, ref: str) -> None:
        folder = self._place(ref)
        if not folder.exists():
            return  # the snapshot was not whole, so the call never ran
        before = _manifest(folder / "before.json")
        with SafeDirectory(self._root) as root:
            now = self._entries(root)
            _make_as(root, folder / "files", before, now, {**before, **now})
        _write(folder / "after.json", (folder / "before.json").read_bytes())
        _write(folder / "state", b"undone")

    def _entries(self, root: SafeDirectory) -> dict[str, Entry]:
        """Everything below the root: path → entry, folders before what is in them."""
        return dict(self._walk(root, ""))

    def _walk(self, root: SafeDirectory, below: str) -> Iterator[tuple[str, Entry]]:
        for name, about, target in _listed(root, below):
            path = f"{below}/{name}" if below else name
            if path in LEFT_OUT:
                continue
            mode = stat.S_IMODE(about.st_mode)
            if stat.S_ISDIR(about.st_mode):
                yield path, ("folder", mode, "")
                yield from self._walk(root, path)
            elif stat.S_ISLNK(about.st_mode):
                yield path, ("link", 0, target)
            elif stat.S_ISREG(about.st_mode):
                yield path, ("file", mode, _digest(root, path))
            else:
                yield path, ("other", mode, "")


def _listed(root: SafeDirectory, below: str) -> list[tuple[str, os.stat_result, str]]:
    """What is in a folder, by name: (name, its own status, where it leads if it is a link)."""
    folder, found = root.open_directory(below), []
    try:
        for name in sorted(os.listdir(folder)):
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            is_link = stat.S_ISLNK(about.st_mode)
            found.append((name, about, os.readlink(name, dir_fd=folder) if is_link else ""))
    finally:
        os.close(folder)
    return found


def _make_as(
    root: SafeDirectory,
    files: Path,
    before: Mapping[str, Entry],
    now: Mapping[str, Entry],
    paths: Any,
) -> None:
    """Make these paths as they were: first what is there now goes, the deepest first."""
    for path in sorted(paths):
        if path in now and now[path][0] == "folder":
            root.set_mode(path, 0o700)  # else what is in it could not be taken out
    for path in sorted(paths, reverse=True):
        was, kind = before.get(path), now[path][0] if path in now else ""
        if kind and (was is None or was[0] != kind):
            with root.parent(path) as (folder, name):
                (os.rmdir if kind == "folder" else os.unlink)(name, dir_fd=folder)
    for path in sorted(paths):
        was = before.get(path)
        if was is not None and now.get(path) != was:
            _make(root, path, was, files)
    for path in sorted(paths, reverse=True):  # last: nothing more is written into them
        was = before.get(path)
        if was is not None and was[0] == "folder":
            root.set_mode(path, was[1])


def _make(root: SafeDirectory, path: str, entry: Entry, files: Path) -> None:
    kind, mode, content = entry
    if kind == "folder":
        root.make_directory(path)
        root.set_mode(path, 0o700)
        return
    with root.parent(path) as (folder, name):
        if kind == "link":
            with suppress(FileNotFoundError):
                os.unlink(PART, dir_fd=folder)
            os.symlink(content, PART, dir_fd=folder)
        else:
            create_file(folder, PART, (files / content).read_bytes(), mode, sync=True)
        os.replace(PART, name, src_dir_fd=folder, dst_dir_fd=folder)


def _write(place: Path, data: bytes) -> None:
    """On disk when it returns: a snapshot that a power cut empties would be no way back."""
    with open(place, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _digest(root: SafeDirectory, path: str) -> str:
    with os.fdopen(root.open(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest(place: Path) -> dict[str, Entry]:
    return {path: tuple(entry) for path, entry in json.loads(place.read_bytes()).items()}
