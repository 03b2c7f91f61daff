"""A disk that fails under SQLite: at its interface to the operating system, the VFS.

``install`` puts a layer between SQLite and its own VFS in this process. The layer counts what is
asked of the disk and, at the chosen operation, does one of these:

- ``eio``: the operation fails, once.
- ``enospc``: from there on nothing can be written.
- ``short``: half of a write arrives, then it fails.
- ``lost``: the power goes. What was not synced is gone, and so is the process.
- ``mixed``: the same, but every second write that was not synced has reached the disk.

The structures are those of https://sqlite.org/c3ref/vfs.html and .../io_methods.html.
"""

import ctypes as c
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS = ("eio", "enospc", "short", "lost", "mixed")
FULL = 13
FAILURES = {
    "open": 14, "read": 266, "write": 778, "truncate": 1546, "sync": 1034, "delete": 2570, "shm": 4874,
}  # fmt: skip
"""SQLite's code for each operation that fails (https://sqlite.org/rescode.html)."""
GROWING = {"write", "truncate", "sync", "shm"}

_P, _I, _L = c.c_void_p, c.c_int, c.c_int64
# Names as addresses: SQLite's VFS keeps the one it is given, a copy of ours would not live as long.
OPEN = c.CFUNCTYPE(_I, _P, _P, _P, _I, _P)
DELETE = c.CFUNCTYPE(_I, _P, _P, _I)
READ = c.CFUNCTYPE(_I, _P, _P, _I, _L)
WRITE = c.CFUNCTYPE(_I, _P, _P, _I, _L)
TRUNCATE = c.CFUNCTYPE(_I, _P, _L)
SYNC = c.CFUNCTYPE(_I, _P, _I)
SHM = c.CFUNCTYPE(_I, _P, _I, _I, _I, _P)


class Vfs(c.Structure):
    _fields_ = [
        ("version", _I), ("file_size", _I), ("max_path", _I), ("next", _P), ("name", c.c_char_p),
        ("data", _P), ("open", _P), ("delete", _P),
        *((f"rest{n}", _P) for n in range(12)),
    ]  # fmt: skip


class Methods(c.Structure):
    _fields_ = [
        ("version", _I), ("close", _P), ("read", _P), ("write", _P), ("truncate", _P), ("sync", _P),
        *((f"lock{n}", _P) for n in range(7)),
        ("shm", _P),
        *((f"rest{n}", _P) for n in range(5)),
    ]  # fmt: skip


@dataclass
class File:
    """What is known of an open file: what a power cut would leave, and what came after that."""

    name: str
    synced: bytes
    since: list[tuple[int, bytes]] = field(default_factory=list)


class FaultyDisk:
    """The layer of one process.

    Args:
        kind: what goes wrong; one of ``KINDS``.
        at: at which operation, from 1.
        lies: it says that it has synced, and has not.

    Attributes:
        done: how many operations there were.
    """

    def __init__(self, kind: str, at: int, lies: bool = False) -> None:
        self._kind, self._at, self._lies, self.done = kind, at, lies, 0
        self._files: dict[int, File] = {}
        self._kept: list[Any] = []  # what C points to must not be collected
        self._methods: dict[int, Methods] = {}

    def _fault(self, what: str) -> int:
        """Count an operation; SQLite's code when it is to fail, else 0."""
        self.done += 1
        if self._kind == "enospc" and self.done >= self._at and what in GROWING:
            return FULL if what == "write" else FAILURES[what]
        if self.done != self._at:
            return 0
        if self._kind in {"lost", "mixed"}:
            self._power_cut()
        return FAILURES[what] if self._kind == "eio" else 0

    def _power_cut(self) -> None:
        for file in {file.name: file for file in self._files.values()}.values():
            content = bytearray(file.synced)
            for offset, data in file.since[::2] if self._kind == "mixed" else ():
                content.extend(bytes(max(0, offset + len(data) - len(content))))
                content[offset : offset + len(data)] = data
            Path(file.name).write_bytes(content)
            Path(f"{file.name.removesuffix('-wal')}-shm").unlink(missing_ok=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        """Become this process's default VFS."""
        library = c.CDLL(_library())
        library.sqlite3_vfs_find.restype = c.POINTER(Vfs)
        under = library.sqlite3_vfs_find(None)
        ours = Vfs.from_buffer_copy(under.contents)
        under_open, under_delete = OPEN(ours.open), DELETE(ours.delete)

        def opened(vfs: int, name: int | None, file: int, flags: int, out: int) -> int:
            code: int
            if code := self._fault("open"):
                c.cast(file, c.POINTER(_P))[0] = None  # no methods: SQLite must not close it
                return code
            code = under_open(c.addressof(under.contents), name, file, flags, out)
            if code == 0 and name:
                self._adopt(file, os.fsdecode(c.string_at(name)))
            return code

        def delete(vfs: int, name: int, sync: int) -> int:
            code: int
            if code := self._fault("delete"):
                return code
            gone = os.fsdecode(c.string_at(name))
            self._files = {at: file for at, file in self._files.items() if file.name != gone}
            code = under_delete(c.addressof(under.contents), name, sync)
            return code

        ours.name = b"faulty"
        ours.open, ours.delete = self._pointer(OPEN, opened), self._pointer(DELETE, delete)
        self._kept += [ours, under_open, under_delete]
        library.sqlite3_vfs_register(c.byref(ours), 1)

    def _pointer(self, kind: Any, function: Callable[..., int]) -> int | None:
        made = kind(function)
        self._kept.append(made)
        return c.cast(made, _P).value

    def _adopt(self, file: int, name: str) -> None:
        """Put our methods before the file's own."""
        place = c.cast(file, c.POINTER(_P))
        own = place[0]
        assert own is not None
        if own not in self._methods:
            self._methods[own] = self._wrapped(Methods.from_address(own))
        place[0] = c.addressof(self._methods[own])
        known = next((known for known in self._files.values() if known.name == name), None)
        self._files[file] = known or File(name, Path(name).read_bytes())

    def _wrapped(self, own: Methods) -> Methods:
        ours = Methods.from_buffer_copy(own)
        under_read, under_write = READ(own.read), WRITE(own.write)
        under_truncate, under_sync = TRUNCATE(own.truncate), SYNC(own.sync)

        def read(file: int, into: int, size: int, offset: int) -> int:
            return self._fault("read") or under_read(file, into, size, offset)

        def write(file: int, data: int, size: int, offset: int) -> int:
            if code := self._fault("write"):
                return code
            short = self._kind == "short" and self.done == self._at
            size = size // 2 if short else size
            self._files[file].since.append((offset, c.string_at(data, size)))
            return under_write(file, data, size, offset) or (FAILURES["write"] if short else 0)

        def truncate(file: int, size: int) -> int:
            return self._fault("truncate") or under_truncate(file, size)

        def sync(file: int, flags: int) -> int:
            if code := self._fault("sync") or under_sync(file, flags):
                return code
            known = self._files[file]
            if not self._lies:
                known.synced, known.since = Path(known.name).read_bytes(), []
            return 0

        self._kept += [under_read, under_write, under_truncate, under_sync]
        ours.read, ours.write = self._pointer(READ, read), self._pointer(WRITE, write)
        ours.truncate, ours.sync = self._pointer(TRUNCATE, truncate), self._pointer(SYNC, sync)
        if own.shm is not None:  # a rollback journal shares no memory
            ours.shm = self._pointer(SHM, self._shm(SHM(own.shm)))
        return ours

    def _shm(self, under: Any) -> Callable[..., int]:
        self._kept.append(under)
        return lambda *asked: self._fault("shm") or under(*asked)


def _library() -> str | None:
    """What holds the SQLite that the interpreter uses."""
    import _sqlite3

    return getattr(_sqlite3, "__file__", None)


def available() -> bool:
    """Whether this Python lets the layer in: a static build may hide SQLite's functions."""
    return hasattr(c.CDLL(_library()), "sqlite3_vfs_register")
