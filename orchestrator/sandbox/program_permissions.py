"""What one program may open, and how much of the machine it may use."""

import resource
from pathlib import Path

from msgspec import Struct


class ResourceLimits(Struct, frozen=True):
    """Resource limits of one program; they hold before its first instruction.

    Attributes:
        seconds: wall time.
        processor_seconds: of all its processes, 0 for no limit; only isolated runs have one.
        memory: bytes of address space, 0 for no limit.
        data: bytes of memory that it may write, 0 for no limit; for programs that reserve more
            address space than they use.
        output: bytes of standard output; more is an error, and never cut silently.
        file_size: bytes of the largest file it may write, 0 for no limit.
        processes: processes and threads at once; counted where it has a user or a user namespace
            of its own.
    """

    seconds: float = 60.0
    processor_seconds: float = 0
    memory: int = 4 << 30
    data: int = 0
    output: int = 64 << 20
    file_size: int = 256 << 20
    files: int = 1024
    processes: int = 1024

    @property
    def per_process(self) -> dict[int, int]:
        """The system's limits of each process, by their ``RLIMIT_`` numbers."""
        optional = {
            resource.RLIMIT_AS: self.memory,
            resource.RLIMIT_DATA: self.data,
            resource.RLIMIT_FSIZE: self.file_size,
        }
        given = {number: bound for number, bound in optional.items() if bound}
        return given | {resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: self.files}


class Permissions(Struct, frozen=True):
    """The paths that one program may open; nothing else, nothing inherited, and no network.

    The system's programs and libraries, our own installation and the program itself can always be
    read.

    Attributes:
        reads: files and directories, with everything below them, that it may read.
        writes: files and directories that it may read, write, and remove from.
        executes: files and directories that it may read, and whose programs it may start.
    """

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    executes: tuple[Path, ...] = ()
