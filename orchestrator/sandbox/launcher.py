"""The warden, from our side; ``warden_main`` is what it runs."""

from __future__ import annotations

import marshal
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from orchestrator.errors import SandboxError
from orchestrator.sandbox import bubblewrap, scratch_directory
from orchestrator.sandbox.cgroups.cgroup import Group, together
from orchestrator.sandbox.program_policy import Limits

MAIN = Path(__file__).with_name("launcher_main.py")
PACKAGE = Path(__file__).resolve().parents[1]
SAFE_PATH = "/usr/local/bin:/usr/bin:/bin"
START_SECONDS = 30.0
END_SECONDS = 2.0

Level = Literal["bubblewrap", "landlock", "none"]


class NotStartedError(SandboxError):
    """The warden ended before it served anything."""


def installed() -> list[str]:
    """The folders of our own installation, which hold nothing but programs."""
    return sorted({sys.prefix, sys.base_prefix, str(PACKAGE)})


class Warden:
    """A process that starts programs for this one. Starting it waits for nothing.

    Args:
        level: how programs are confined.
        reads, writes: what there is in the room, at level ``bubblewrap``.
        limits: what everything that it starts may use together, where control groups are there.

    Attributes:
        owner: the process that it serves.
        group: the control group it is in, once it serves.
    """

    def __init__(
        self,
        level: Level,
        reads: Sequence[Path] = (),
        writes: Sequence[Path] = (),
        limits: Limits | None = None,
    ) -> None:
        self.owner, self._level = os.getpid(), level
        self.group = Group(limits or together())
        self._reads, self._writes = tuple(reads), (*writes, scratch_directory.folder())
        self._control, self._theirs = socket.socketpair()
        self._control.settimeout(START_SECONDS)
        self._sending, self._serves = threading.Lock(), False
        self._jobs: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._process: subprocess.Popen[bytes] | None = None
        self._fault = ""
        # bwrap ends with the thread that started it: this one lives as long as the warden.
        self._keeper = threading.Thread(target=self._keep, name="warden", daemon=True)
        self._keeper.start()

    def _keep(self) -> None:
        entrances = self.group.entrances
        try:
            with self._theirs:
                self._process = subprocess.Popen(
                    self._command(entrances),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env={"PATH": SAFE_PATH, "LC_ALL": "C.UTF-8"},
                    cwd="/",
                    pass_fds=[self._theirs.fileno(), *entrances],
                    start_new_session=True,
                )
        except (OSError, SandboxError) as fault:
            self._fault = str(fault)
            return
        finally:
            self.group.shut()
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            told = stderr.read().decode("utf-8", "replace").strip().splitlines()
        self._fault = told[-1] if told else "it said nothing"
        self._process.wait()

    def _command(self, entrances: Sequence[int]) -> list[str]:
        inside = ""
        prefix: list[str] = []
        if self._level == "bubblewrap":
            bwrap = bubblewrap.find()
            if bwrap is None:
                raise SandboxError("bwrap is not installed")
            writes = (*self._writes, scratch_directory.canary())
            prefix = bubblewrap.room(bwrap, (*installed(), *self._reads), writes)
            inside = bubblewrap.outside()
        return [
            *(*prefix, sys.executable, "-I", "-S", str(MAIN), str(PACKAGE.parent)),
            *(str(self._theirs.fileno()), str(scratch_directory.canary()), self._level, inside),
            *(",".join(map(str, entrances)), *installed()),
        ]

    @property
    def alive(self) -> bool:
        """Whether it serves, or is about to."""
        return self._keeper.is_alive()

    @property
    def busy(self) -> bool:
        """Whether somebody still waits for a program of its."""
        return any(job.fileno() >= 0 for job in self._jobs)

    def has(self, reads: Iterable[Path], writes: Iterable[Path]) -> bool:
        """Whether all of that is in its room; paths without links in them."""
        if self._level != "bubblewrap":
            return True
        everything = (*self._reads, *self._writes)
        return all(_is_below(path, everything) for path in reads) and all(
            _is_below(path, self._writes) for path in writes
        )

    def wait(self) -> None:
        """Wait until it serves.

        Raises:
            NotStartedError: it ended instead.
        """
        if self._serves:
            return
        try:
            said = self._control.recv(1)
        except OSError:
            said = b""
        if not said:
            self._keeper.join(END_SECONDS)
            raise NotStartedError(f"the sandbox could not be started: {self._fault}")
        self._serves = True
        self.group.entered(said[0])

    def send(self, request: dict[str, Any], streams: tuple[int, int, int]) -> socket.socket:
        """Have a program started; what becomes of it is said on the socket that is returned.

        Raises:
            SandboxError: the warden is gone.
        """
        ours, theirs = socket.socketpair()
        body = marshal.dumps(request)
        try:
            with theirs, self._sending:
                socket.send_fds(self._control, [b"j"], [theirs.fileno(), *streams])
                # The warden reads it at once: it never waits for anything but a fork.
                ours.sendall(len(body).to_bytes(4, "big") + body)
        except OSError:
            ours.close()
            raise SandboxError("the sandbox's warden is gone") from None
        ours.setblocking(False)
        self._jobs.add(ours)
        return ours

    def close(self) -> None:
        """End it, and every program that it started."""
        if self.owner != os.getpid():
            self._control.close()  # a fork of ours: the warden is its parent's
            return
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        self._keeper.join(END_SECONDS)
        if self._process is not None and self._keeper.is_alive():
            self._process.kill()
            self._keeper.join()
        self.group.close()


def _is_below(path: Path, folders: Iterable[Path]) -> bool:
    return any(path == folder or folder in path.parents for folder in folders)
