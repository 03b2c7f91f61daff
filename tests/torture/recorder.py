"""What really happened, seen from outside of the harness: by the kernel, a listener, and a ledger."""

import ctypes
import json
import os
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WATCHED = 0x1 | 0x2 | 0x4 | 0x8 | 0x20 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""Read, written, attributes, opened, moved, made, removed: everything that inotify(7) tells."""


class Watch:
    """The kernel's own record of what is done in a folder and those in it."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self._fd >= 0, os.strerror(ctypes.get_errno())
        self._names: dict[int, str] = {}
        for place in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            number = libc.inotify_add_watch(self._fd, os.fsencode(place), WATCHED)
            assert number >= 0, os.strerror(ctypes.get_errno())
            self._names[number] = str(place)

    def events(self) -> list[str]:
        """What happened since it was last asked."""
        told = []
        while select.select([self._fd], [], [], 0)[0]:
            data = os.read(self._fd, 1 << 16)
            while data:
                number, mask, _, length = struct.unpack_from("iIII", data)
                name = data[16 : 16 + length].rstrip(b"\0")
                told.append(f"{self._names.get(number)}/{os.fsdecode(name)}: event {mask:#x}")
                data = data[16 + length :]
        return told

    def close(self) -> None:
        os.close(self._fd)


class Listener:
    """A port on loopback that nobody has any business with."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]

    def connections(self) -> int:
        """How many have come since it was last asked."""
        found = 0
        while select.select([self._socket], [], [], 0)[0]:
            self._socket.accept()[0].close()
            found += 1
        return found

    def close(self) -> None:
        self._socket.close()


class Ledger:
    """A file that recording tools write to, past everything that the harness knows of."""

    def __init__(self, place: Path) -> None:
        self._fd = os.open(place, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        self._read = 0

    def enter(self, **entry: Any) -> None:
        os.write(self._fd, json.dumps(entry).encode() + b"\n")

    def entries(self) -> Iterator[dict[str, Any]]:
        """What was entered since it was last asked."""
        data = os.pread(self._fd, os.fstat(self._fd).st_size - self._read, self._read)
        self._read += len(data)
        return map(json.loads, data.splitlines())

    def close(self) -> None:
        os.close(self._fd)


def photograph(*folders: Path) -> dict[str, object]:
    """Everything below folders: kind, mode and content."""
    found: dict[str, object] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            about = path.lstat()
            content = os.readlink(path) if path.is_symlink() else ""
            data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path)] = (about.st_mode, content, data)
    return found


@contextmanager
def recording(folder: Path, watched: Path) -> Iterator[tuple[Watch, Listener, Ledger]]:
    """All of it, for the time of a session."""
    watch, listener, ledger = Watch(watched), Listener(), Ledger(folder / "ledger")
    try:
        yield watch, listener, ledger
    finally:
        for one in (watch, listener, ledger):
            one.close()
