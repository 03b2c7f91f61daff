"""What one program may touch, and how much of the machine it may use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Limits:
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


@dataclass(frozen=True, slots=True)
class Box:
    """The paths and powers of one program. Nothing outside can be opened, and nothing is inherited.

    The system's programs and libraries, our own installation and the program itself can always be
    read. There is never a network beyond this machine.

    Attributes:
        reads: files and folders, with all below them, that it may read.
        writes: files and folders that it may read, write, and remove from.
        runs: ``ours``: a program that we trust to read hostile text. ``change``: code of the
            change under review; it may run what it was given, and its files are made its own.
        loopback: it may use sockets among its own processes; only where they reach nobody else.
    """

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    runs: Literal["ours", "change"] = "ours"
    loopback: bool = False
