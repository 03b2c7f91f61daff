"""The client of the fork server, the process that forks workers; it runs ``fork_server_main``."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.errors import SandboxError
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.bubblewrap import PACKAGE, installation_directories, new_namespaces
from orchestrator.sandbox.cgroups.cgroup import Cgroup, shared_limits
from orchestrator.sandbox.fork_server_main import MEMORY, NOT_CONFINED, OUT_OF_MEMORY
from orchestrator.sandbox.kernel_calls import hide_from_other_processes, kill_process_group
from orchestrator.sandbox.launcher_client import Level
from orchestrator.sandbox.process_confinement import is_available, system_rules
from orchestrator.sandbox.process_start import ISOLATED_PYTHON, start_process
from orchestrator.sandbox.run_program import clean_environment

MAIN = Path(__file__).with_name("fork_server_main.py")
END_SECONDS = 2.0


class WorkerEndedError(Exception):
    """The worker ended before it replied.

    Args:
        code: its exit code, or the negative number of the signal that ended it.
        memory_error: set where the kernel ended it for lack of memory.
    """

    def __init__(self, code: int, memory_error: str = "") -> None:
        if memory_error:
            super().__init__(memory_error)
        elif code == NOT_CONFINED:
            super().__init__("could not be confined; `diffcourt doctor` says what is possible here")
        elif code == OUT_OF_MEMORY:
            super().__init__(f"needed more than {MEMORY >> 20} MiB of memory")
        elif code == -signal.SIGPROF:
            super().__init__("took too much processor time for one file")
        elif code < 0:
            super().__init__(f"was ended by signal {-code} ({signal.strsignal(-code)})")
        else:
            super().__init__(f"ended with exit code {code}")


def _confinement(reads: Sequence[Path]) -> dict[str, Any]:
    """The arguments of ``confine`` in each worker."""
    return {
        "reads": [os.fspath(path) for path in (*reads, scratch_directory.work_directory())],
        "canary": os.fspath(scratch_directory.canary_file()),
        "system": system_rules(installation_directories()),
        "writes": [],
        "program": "",
    }


class ForkServer:
    """A process that imports once what checks need, and forks workers. Creating it does not wait.

    Args:
        home: the directory they import from.
        modules: modules imported before the first fork.
        reads: what workers may read besides our installation and the temporary files.
        level: how workers are confined. With bubblewrap, the fork server ends with the thread that
            creates it.

    Attributes:
        sockets: our end of each worker slot's socket.
    """

    def __init__(
        self, size: int, home: Path, modules: Sequence[str], reads: Sequence[Path], level: Level
    ) -> None:
        prefix, namespaces = list[str](), ""
        if level == "bubblewrap":
            ours = [] if home == PACKAGE.parent else [home]
            paths = [path.resolve() for path in (*ours, *reads, scratch_directory.work_directory())]
            prefix, namespaces = new_namespaces(paths, [scratch_directory.canary_file()])
        pairs = [socket.socketpair() for _ in range(size)]
        self.sockets = [ours for ours, _ in pairs]
        theirs = [child_end.fileno() for _, child_end in pairs]
        numbers = ",".join(map(str, theirs))
        confinement = json.dumps(_confinement(reads)) if is_available() else ""
        hide_from_other_processes()
        self._cgroup, self._oom_kills = Cgroup(shared_limits()), 0
        cgroup_files = self._cgroup.procs_files
        try:
            self._process = start_process(
                [
                    *(*prefix, *ISOLATED_PYTHON, str(MAIN), str(home), numbers, confinement),
                    *(",".join(map(str, cgroup_files)), namespaces),
                    *modules,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=clean_environment(),
                pass_fds=[*theirs, *cgroup_files],
            )
        except OSError as error:
            self._release()
            raise SandboxError(f"a worker could not be started: {error.strerror}") from None
        finally:
            self._cgroup.close_procs_files()
            for _, child_end in pairs:
                child_end.close()

    def _release(self) -> None:
        """Close our sockets, and end what is left in the cgroup."""
        for end in self.sockets:
            end.close()
        self._cgroup.close()

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def replace(self, slot: int, token: str) -> None:
        """Have a slot's worker killed; the next one there sends the token when it is ready."""
        assert self._process.stdin is not None
        with suppress(OSError):  # the fork server has exited, and its workers with it
            self._process.stdin.write(f"{slot} {token}\n".encode("ascii"))
            self._process.stdin.flush()

    def worker_error(self, code: int) -> WorkerEndedError:
        """The error of a worker that ended with an exit code."""
        before, self._oom_kills = self._oom_kills, self._cgroup.oom_kills()
        return WorkerEndedError(code, self._cgroup.oom_error if self._oom_kills > before else "")

    def start_error(self) -> str:
        """The last line of standard error, to which only a failed start can have written."""
        assert self._process.stderr is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        if self.alive:
            return "it closed its output"
        lines = self._process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else str(WorkerEndedError(self._process.returncode))

    def close(self) -> None:
        """End the process, its workers and everything that they started."""
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            kill_process_group(self._process.pid)
            self._process.wait()
        self._process.stderr.close()
        self._release()
