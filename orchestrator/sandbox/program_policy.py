"""What one program may touch, and how much of the machine it may use."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Bounds of one program; they hold before its first instruction.

    Attributes:
        seconds: wall time.
        memory: bytes of address space, 0 for none.
        output: bytes of standard output that are kept; more is an error, never a silent cut.
        file_size: bytes of the largest file it may write, 0 for no limit.
        files: descriptors it may have open.
        processes: processes and threads at once; they are counted where it has a user or a
            user namespace of its own.
    """

    seconds: float = 60.0
    memory: int = 4 << 30
    output: int = 64 << 20
    file_size: int = 256 << 20
    files: int = 1024
    processes: int = 1024


class Box(Struct, frozen=True):
    """The paths of one program. Nothing else can be opened, nothing is inherited, and no network.

    The system's programs and libraries, our own installation and the program itself can always be
    read.

    Attributes:
        reads: files and folders, with all below them, that it may read.
        writes: files and folders that it may read, write, and remove from.
    """

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
