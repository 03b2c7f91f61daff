"""The client of the launcher, the process that starts programs; it runs ``launcher_main``."""

import marshal
import os
import socket
import subprocess
import threading
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from orchestrator.errors import SandboxError
from orchestrator.program_search import SAFE_PATH
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.bubblewrap import PACKAGE, installation_directories, new_namespaces
from orchestrator.sandbox.cgroups import Cgroup, shared_limits
from orchestrator.sandbox.kernel_calls import hide_from_other_processes
from orchestrator.sandbox.process_start import ISOLATED_PYTHON, start_process
from orchestrator.sandbox.program_permissions import ResourceLimits

MAIN = Path(__file__).with_name("launcher_main.py")
START_SECONDS = 30.0
END_SECONDS = 2.0

Level = Literal["bubblewrap", "landlock", "none"]


class NotStartedError(SandboxError):
    """The launcher exited before it served anything."""


class Launcher:
    """A process that starts programs for this one. Creating it does not wait for it.

    Args:
        level: how programs are confined.
        reads, writes: what exists in its namespaces, at level ``bubblewrap``.
        limits: what all its programs may use together, where cgroups are available.

    Attributes:
        owner: id of the process that it serves.
        cgroup: the cgroup it is in, once it serves.
    """

    def __init__(
        self,
        level: Level,
        reads: Sequence[Path] = (),
        writes: Sequence[Path] = (),
        limits: ResourceLimits | None = None,
    ) -> None:
        self.owner, self._level = os.getpid(), level
        self.cgroup = Cgroup(limits or shared_limits())
        self._reads, self._writes = tuple(reads), (*writes, scratch_directory.work_directory())
        self._control, self._child_control = socket.socketpair()
        self._control.settimeout(START_SECONDS)
        self._sending, self._is_ready = threading.Lock(), False
        self._jobs: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._seen = {path: _identity(path) for path in (*self._reads, *self._writes)}
        self._process: subprocess.Popen[bytes] | None = None
        self._error = ""
        # bwrap ends with the thread that started it: this one lives as long as the launcher.
        self._thread = threading.Thread(target=self._run, name="launcher", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        cgroup_files = self.cgroup.procs_files
        hide_from_other_processes()
        try:
            with self._child_control:
                self._process = start_process(
                    self._command(cgroup_files),
                    stdout=subprocess.DEVNULL,
                    env={"PATH": SAFE_PATH, "LC_ALL": "C.UTF-8"},
                    pass_fds=[self._child_control.fileno(), *cgroup_files],
                )
        except (OSError, SandboxError) as error:
            self._error = str(error)
            return
        finally:
            self.cgroup.close_procs_files()
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            lines = stderr.read().decode("utf-8", "replace").strip().splitlines()
        self._error = lines[-1] if lines else "it printed no error"
        self._process.wait()

    def _command(self, cgroup_files: Sequence[int]) -> list[str]:
        prefix, namespaces = list[str](), ""
        if self._level == "bubblewrap":
            writes = (*self._writes, scratch_directory.canary_file())
            prefix, namespaces = new_namespaces(self._reads, writes)
        return [
            *(*prefix, *ISOLATED_PYTHON, "-S", str(MAIN), str(PACKAGE.parent)),
            *(str(self._child_control.fileno()), str(scratch_directory.canary_file())),
            *(self._level, namespaces, ",".join(map(str, cgroup_files))),
            *installation_directories(),
        ]

    @property
    def alive(self) -> bool:
        """Whether it serves, or is about to."""
        return self._thread.is_alive()

    @property
    def busy(self) -> bool:
        """Whether somebody still waits for one of its programs."""
        return any(job.fileno() >= 0 for job in self._jobs)

    def can_see(self, reads: Iterable[Path], writes: Iterable[Path]) -> bool:
        """Whether all these paths exist in its namespaces; paths without links in them."""
        if self._level != "bubblewrap":
            return True
        # What was removed and made again is another directory, which is not in its namespaces.
        seen = {path for path, identity in self._seen.items() if _identity(path) == identity}
        needed = ((seen, reads), (seen & {*self._writes}, writes))
        asked = ((within, path) for within, paths in needed for path in paths)
        return not any(within.isdisjoint((path, *path.parents)) for within, path in asked)

    def wait(self) -> None:
        """Wait until it serves.

        Raises:
            NotStartedError: it exited instead.
        """
        if self._is_ready:
            return
        try:
            received = self._control.recv(1)
        except OSError:
            received = b""
        if not received:
            self._thread.join(END_SECONDS)
            raise NotStartedError(f"the sandbox could not be started: {self._error}")
        self._is_ready = True
        self.cgroup.keep_entered(received[0])

    def send(self, request: dict[str, Any], streams: tuple[int, int, int]) -> socket.socket:
        """Have a program started; its status arrives on the socket that is returned."""
        ours, theirs = socket.socketpair()
        body = marshal.dumps(request)
        try:
            with theirs, self._sending:
                socket.send_fds(self._control, [b"j"], [theirs.fileno(), *streams])
                # The launcher reads it at once: it never waits for anything but a fork.
                ours.sendall(len(body).to_bytes(4, "big") + body)
        except OSError:
            ours.close()
            raise SandboxError("the sandbox's launcher process has exited") from None
        ours.setblocking(False)
        self._jobs.add(ours)
        return ours

    def close(self) -> None:
        """End it, and every program that it started."""
        if self.owner != os.getpid():
            self._control.close()  # in a fork of ours: the launcher belongs to the parent
            return
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        self._thread.join(END_SECONDS)
        if self._process is not None and self._thread.is_alive():
            self._process.kill()
            self._thread.join()
        self.cgroup.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
