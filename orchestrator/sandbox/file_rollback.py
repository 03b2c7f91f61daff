"""Snapshots of the files that a writing tool may change, restored on failure or later.

A snapshot is complete before the tool runs: only then does it get its name. Nothing outside the
root is touched, and no link is followed: links are kept as links. Writing calls run one at a time:
the changes of two at once could not be told apart.
"""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from msgspec import Struct

from diffchecks.safe_paths import SafeDirectory, create_file
from orchestrator.errors import InputError, NotPermitted

EXCLUDED = frozenset({".git", ".diffcourt/state"})
"""Paths below the root that are neither saved nor restored."""
MAX_BYTES = 1 << 30
MAX_FILES = 100_000
PARTIAL = ".diffcourt-part"
"""The name of a file while it is restored."""

Entry = tuple[str, int, str]
"""``file``, ``link``, ``directory`` or ``other``; permissions; a file's digest, a link's target."""


class Snapshot(Struct, frozen=True):
    """One call's snapshot.

    Attributes:
        ref: the call's key in the journal.
        state: ``begun``, ``committed`` or ``undone``.
    """

    ref: str
    directory: Path
    state: str


class Restored(Struct, frozen=True):
    """What a rollback did with the files that a call changed.

    Attributes:
        paths: restored to their state before the call.
        kept: left as they are, because they are not as the call left them.
    """

    paths: tuple[str, ...]
    kept: tuple[str, ...]


class FileRollback:
    """A ``Rollback`` over the files below a root.

    Args:
        root: the directory that writing tools may change.
        vault: the directory of snapshots; outside the root, or in an excluded path.
        only: paths of the files that a call may change, where that is known; None: any.
    """

    def __init__(self, root: Path, vault: Path, *, only: Collection[str] | None = None) -> None:
        self._root, self._vault = root.resolve(), vault
        self._only = None if only is None else _with_directories(only)
        self._lock, self._lock_ref = anyio.Lock(), ""

    async def begin(self, ref: str) -> None:
        """Save all files before the call changes them.

        Raises:
            NotPermitted: they could not be restored: too many, or not regular files.
        """
        await self._lock.acquire()
        self._lock_ref = ref
        try:
            await to_thread.run_sync(self._save, ref)
        except OSError as error:
            self._unlock(ref)
            raise NotPermitted(f"the files it may change cannot be saved: {error}") from None
        except BaseException:
            self._unlock(ref)
            raise

    async def commit(self, ref: str) -> None:
        """Accept the changes; ``restore`` can still revert them."""
        try:
            await to_thread.run_sync(self._finish, ref)
        finally:
            self._unlock(ref)

    async def undo(self, ref: str) -> None:
        """Restore the files. Idempotent; does nothing where no snapshot was begun."""
        try:
            await to_thread.run_sync(self._undo, ref)
        finally:
            self._unlock(ref)

    def snapshots(self) -> list[Snapshot]:
        """All snapshots, the oldest first."""
        found = []
        for directory in sorted(self._vault.glob("[0-9a-f]*"), key=lambda f: f.stat().st_mtime_ns):
            if not directory.name.endswith(".part"):
                ref = (directory / "ref").read_text("utf-8", "surrogateescape")
                found.append(Snapshot(ref, directory, (directory / "state").read_text()))
        return found

    def restore(self, ref: str, *, force: Collection[str] = ()) -> Restored:
        """Restore the files that a committed call changed and nobody has changed since.

        Args:
            force: paths to restore even though they have been changed since.

        Raises:
            InputError: there is no such call, it changed no such path, or the files cannot be
                restored.
        """
        try:
            return self._restore(ref, force)
        except OSError as error:
            raise InputError(f"cannot be restored: {error}; fix that and run again") from None

    def _restore(self, ref: str, force: Collection[str]) -> Restored:
        directory = self._place(ref)
        if not directory.exists() or (directory / "state").read_text() == "begun":
            names = ", ".join(one.ref for one in self.snapshots() if one.state != "begun") or "none"
            raise InputError(f"no call {ref} changed files in this run; calls that did: {names}")
        before, after = _manifest(directory / "before.json"), _manifest(directory / "after.json")
        changed = {path for path in {**before, **after} if before.get(path) != after.get(path)}
        if others := sorted(set(force) - changed):
            raise InputError(f"{others[0]} was not changed by {ref}, so it cannot be restored")
        with SafeDirectory(self._root) as root, root.locked():  # nobody writes meanwhile
            present = self._entries(root)
            due = {path for path in changed if present.get(path) != before.get(path)}
            chosen = {path for path in due if present.get(path) == after.get(path) or path in force}
            chosen -= _blocked_paths(chosen, before, present)
            _restore_paths(root, directory / "files", before, present, chosen)
        if chosen == due:
            _write(directory / "state", b"undone")
        return Restored(tuple(sorted(chosen)), tuple(sorted(due - chosen)))

    # --- on disk ----------------------------------------------------------------------------

    def _unlock(self, ref: str) -> None:
        if self._lock_ref == ref:
            self._lock_ref = ""
            self._lock.release()

    def _place(self, ref: str) -> Path:
        return self._vault / hashlib.sha256(os.fsencode(ref)).hexdigest()[:32]

    def _save(self, ref: str) -> None:
        directory = self._place(ref)
        if directory.exists() and (directory / "state").read_text() == "begun":
            return  # the state before the first attempt is the one to restore
        shutil.rmtree(directory, ignore_errors=True)
        part = directory.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        (part / "files").mkdir(parents=True)
        with SafeDirectory(self._root) as root:
            entries = self._entries(root)
            self._copy(root, entries, part / "files")
        _write(part / "before.json", json.dumps(entries).encode("ascii"))
        _write(part / "ref", os.fsencode(ref))
        _write(part / "state", b"begun")
        part.rename(directory)

    def _copy(self, root: SafeDirectory, entries: Mapping[str, Entry], files: Path) -> None:
        if len(entries) > MAX_FILES:
            raise NotPermitted(f"more than {MAX_FILES:,} files cannot be restored")
        left = MAX_BYTES
        for path, (kind, _, content) in entries.items():
            if kind == "other":
                raise NotPermitted(f"{path} is not a regular file and cannot be restored")
            if kind == "file" and not (copy := files / content).exists():
                data = root.read(path, left + 1)
                left -= len(data)
                if left < 0:
                    raise NotPermitted(f"more than {MAX_BYTES >> 20} MiB cannot be restored")
                _write(copy, data)

    def _finish(self, ref: str) -> None:
        directory = self._place(ref)
        with SafeDirectory(self._root) as root:
            after = self._entries(root)
        _write(directory / "after.json", json.dumps(after).encode("ascii"))
        _write(directory / "state", b"committed")

    def _undo(self, ref: str) -> None:
        directory = self._place(ref)
        if not directory.exists():
            return  # the snapshot is incomplete, so the call never ran
        before = _manifest(directory / "before.json")
        with SafeDirectory(self._root) as root:
            present = self._entries(root)
            lost = {  # another program may have written it during the call
                path: entry
                for path, entry in present.items()
                if entry[0] == "file" and before.get(path, ("", 0, ""))[2] != entry[2]
            }
            with suppress(OSError, NotPermitted):  # a full disk must not keep the files changed
                self._copy(root, lost, directory / "files")
                if lost:
                    _write(directory / "overwritten.json", json.dumps(lost).encode("ascii"))
            _restore_paths(root, directory / "files", before, present, {**before, **present})
        _write(directory / "after.json", (directory / "before.json").read_bytes())
        _write(directory / "state", b"undone")

    def _entries(self, root: SafeDirectory) -> dict[str, Entry]:
        """Everything below the root: path → entry, directories before their contents."""
        return dict(self._walk(root, ""))

    def _walk(self, root: SafeDirectory, below: str) -> Iterator[tuple[str, Entry]]:
        for name, about, target in _list_directory(root, below):
            path = f"{below}/{name}" if below else name
            if path in EXCLUDED or (self._only is not None and path not in self._only):
                continue
            mode = stat.S_IMODE(about.st_mode)
            if stat.S_ISDIR(about.st_mode):
                yield path, ("directory", mode, "")
                yield from self._walk(root, path)
            elif stat.S_ISLNK(about.st_mode):
                yield path, ("link", 0, target)
            elif stat.S_ISREG(about.st_mode):
                yield path, ("file", mode, _digest(root, path))
            else:
                yield path, ("other", mode, "")


def _with_directories(paths: Collection[str]) -> frozenset[str]:
    """The paths, and the directories that they lie in."""
    above = ("/".join(path.split("/")[:n]) for path in paths for n in range(1, path.count("/") + 1))
    return frozenset((*paths, *above))


def _list_directory(root: SafeDirectory, below: str) -> list[tuple[str, os.stat_result, str]]:
    """A directory's entries by name: (name, status, target of a link)."""
    directory, found = root.open_directory(below), []
    try:
        for name in sorted(os.listdir(directory)):
            about = os.stat(name, dir_fd=directory, follow_symlinks=False)
            is_link = stat.S_ISLNK(about.st_mode)
            found.append((name, about, os.readlink(name, dir_fd=directory) if is_link else ""))
    finally:
        os.close(directory)
    return found


def _blocked_paths(
    chosen: Collection[str], before: Mapping[str, Entry], present: Mapping[str, Entry]
) -> set[str]:
    """The paths that cannot be restored without what somebody else has made or removed."""
    blocked: set[str] = set()

    def will_be_directory(path: str) -> bool:
        entries = before if path in chosen and path not in blocked else present
        return path in entries and entries[path][0] == "directory"

    for path in sorted(chosen):  # a directory comes before what is in it
        above = path.rpartition("/")[0]
        if path in before and above and not will_be_directory(above):
            blocked.add(path)
    removed = {path for path in chosen if path not in before}
    for path in sorted(chosen, reverse=True):
        if path in present and present[path][0] == "directory" and not will_be_directory(path):
            inside = {other for other in present if other.startswith(f"{path}/")}
            if inside - removed:
                blocked.add(path)
                removed.discard(path)
    return blocked


def _restore_paths(
    root: SafeDirectory,
    files: Path,
    before: Mapping[str, Entry],
    present: Mapping[str, Entry],
    paths: Any,
) -> None:
    """Restore paths: first the present files are removed, the deepest first."""
    for path in sorted(paths):
        if path in present and present[path][0] == "directory":
            root.set_mode(path, 0o700)  # else its contents could not be removed
    for path in sorted(paths, reverse=True):
        old, kind = before.get(path), present[path][0] if path in present else ""
        if kind and (old is None or old[0] != kind):
            with root.parent(path) as (directory, name):
                (os.rmdir if kind == "directory" else os.unlink)(name, dir_fd=directory)
    for path in sorted(paths):
        old = before.get(path)
        if old is not None and present.get(path) != old:
            _make(root, path, old, files)
    for path in sorted(paths, reverse=True):  # last: nothing more is written into them
        old = before.get(path)
        if old is not None and old[0] == "directory":
            root.set_mode(path, old[1])


def _make(root: SafeDirectory, path: str, entry: Entry, files: Path) -> None:
    kind, mode, content = entry
    if kind == "directory":
        root.make_directory(path)
        root.set_mode(path, 0o700)
        return
    with root.parent(path) as (directory, name):
        if kind == "link":
            with suppress(FileNotFoundError):
                os.unlink(PARTIAL, dir_fd=directory)
            os.symlink(content, PARTIAL, dir_fd=directory)
        else:
            create_file(directory, PARTIAL, (files / content).read_bytes(), mode, sync=True)
        os.replace(PARTIAL, name, src_dir_fd=directory, dst_dir_fd=directory)


def _write(place: Path, data: bytes) -> None:
    """Write a file that is on disk when this returns, so that a power cut does not empty it."""
    with open(place, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _digest(root: SafeDirectory, path: str) -> str:
    with os.fdopen(root.open(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest(place: Path) -> dict[str, Entry]:
    return {path: tuple(entry) for path, entry in json.loads(place.read_bytes()).items()}
