"""The process that forks the workers, from our side; ``worker_main`` is what it runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.errors import SandboxError
from orchestrator.sandbox import bubblewrap, scratch_directory
from orchestrator.sandbox.cgroups.cgroup import Group, together
from orchestrator.sandbox.confinement import available, system_rules
from orchestrator.sandbox.kernel_calls import kill_group
from orchestrator.sandbox.launcher import PACKAGE, Level, installed
from orchestrator.sandbox.run_program import clean_environment
from orchestrator.sandbox.worker_main import MEMORY, NOT_CONFINED, OUT_OF_MEMORY

MAIN = Path(__file__).with_name("worker_main.py")
END_SECONDS = 2.0


class EndedError(Exception):
    """The worker ended before it replied.

    Args:
        code: its exit code, or the negative number of the signal that ended it.
        excess: why, where the kernel ended it for want of memory.
    """

    def __init__(self, code: int, excess: str = "") -> None:
        if excess:
            super().__init__(excess)
        elif code == NOT_CONFINED:
            super().__init__("could not be confined; `diffcourt doctor` says what is possible here")
        elif code == OUT_OF_MEMORY:
            super().__init__(f"needed more than {MEMORY >> 20} MiB of memory")
        elif code < 0:
            super().__init__(f"was ended by signal {-code} ({signal.strsignal(-code)})")
        else:
            super().__init__(f"ended with exit code {code}")


def _box(reads: Sequence[Path]) -> dict[str, Any]:
    """What ``confine`` is told in each worker."""
    return {
        "reads": [os.fspath(path) for path in (*reads, scratch_directory.folder())],
        "canary": os.fspath(scratch_directory.canary()),
        "system": system_rules(installed()),
        "writes": [],
        "program": "",
    }


def _room(home: Path, reads: Sequence[Path]) -> list[str]:
    """The command that makes a room with what workers may read."""
    bwrap = bubblewrap.find()
    if bwrap is None:
        raise SandboxError("a worker could not be started: bwrap is not installed")
    ours = [] if home == PACKAGE.parent else [home]
    folders = [path.resolve() for path in (*ours, *reads, scratch_directory.folder())]
    return bubblewrap.room(bwrap, (*installed(), *folders), (scratch_directory.canary(),))


class Nursery:
    """A process that imports once what checks need, and its forks. Starting it waits for nothing.

    Args:
        size: how many workers.
        home: the folder they import from.
        modules: what is imported before the first fork.
        reads: what workers may read besides our installation and the temporary files.
        level: how workers are confined. A room ends with the thread that makes it.

    Attributes:
        ends: our end of each place's socket.

    Raises:
        SandboxError: it could not be started.
    """

    def __init__(
        self, size: int, home: Path, modules: Sequence[str], reads: Sequence[Path], level: Level
    ) -> None:
        prefix = _room(home, reads) if level == "bubblewrap" else []
        pairs = [socket.socketpair() for _ in range(size)]
        self.ends = [ours for ours, _ in pairs]
        theirs = [end.fileno() for _, end in pairs]
        numbers = ",".join(map(str, theirs))
        box = json.dumps(_box(reads)) if available() else ""
        self._group, self._killed = Group(together()), 0
        groups = self._group.entrances
        try:
            self._process = subprocess.Popen(
                [
                    *(*prefix, sys.executable, "-I", str(MAIN), str(home), numbers, box),
                    *(",".join(map(str, groups)), bubblewrap.outside() if prefix else ""),
                    *modules,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=clean_environment(),
                pass_fds=[*theirs, *groups],
                start_new_session=True,
            )
        except OSError as fault:
            self.let_go()
            raise SandboxError(f"a worker could not be started: {fault.strerror}") from None
        finally:
            self._group.shut()
            for _, end in pairs:
                end.close()

    def let_go(self) -> None:
        """Close our ends, and end what is left of the control group."""
        for end in self.ends:
            end.close()
        self._group.close()

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def replace(self, place: int, token: str) -> None:
        """Have a place's worker killed; the next one there says the token when it is ready."""
        assert self._process.stdin is not None
        with suppress(OSError):  # the nursery is gone, and its workers with it
            self._process.stdin.write(f"{place} {token}\n".encode("ascii"))
            self._process.stdin.flush()

    def ended(self, code: int) -> EndedError:
        """How a worker ended."""
        before, self._killed = self._killed, self._group.killed()
        return EndedError(code, self._group.excess() if self._killed > before else "")

    def last_words(self) -> str:
        """The last line of standard error, which only a failed start can have written to."""
        assert self._process.stderr is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        if self.alive:
            return "it closed its output"
        lines = self._process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else str(EndedError(self._process.returncode))

    def close(self) -> None:
        """End the process, the workers and everything that they started."""
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            kill_group(self._process.pid)
            self._process.wait()
        self._process.stderr.close()
        self.let_go()
