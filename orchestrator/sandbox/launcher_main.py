"""The launcher process: starts programs, each confined before its first instruction.

Started as a file, isolated and without site (``-I -S``):
``launcher_main.py HOME CONTROL CANARY LEVEL NAMESPACES CGROUP_FILES [INSTALLED ...]``.

CONTROL is an inherited socket. The launcher enters the cgroups whose ``cgroup.procs`` are open as
CGROUP_FILES, and writes one byte to CONTROL when it serves: how many it has entered. Each byte that
arrives there brings four descriptors: a job's own socket, and its standard input, output and error.
The job's socket brings the request: four bytes of length, then a dict written by ``marshal``. The
replies are lines: ``failed REASON`` when it did not become the program, and ``ended CODE``. When a
job's socket is closed, the job is ended; when CONTROL is closed, everything is. NAMESPACES is
what must not be visible in the launcher's namespaces; empty where it has none of its own.

One thread and few imports keep a fork cheap.
"""

from __future__ import annotations

import _socket
import array
import gc
import marshal
import os
import resource
import select
import sys

TYPE_CHECKING = False  # ``typing`` is not needed at run time, nor is ``contextlib``
if TYPE_CHECKING:
    from typing import Any, NoReturn

POLL_MS = 10  # where the kernel has no pidfd to wait for


def _receive_descriptors(control: _socket.socket) -> list[int]:
    """The descriptors of the next job, none at the end."""
    size = _socket.CMSG_SPACE(4 * array.array("i").itemsize)
    data, ancillary, _, _ = control.recvmsg(1, size)
    numbers = array.array("i")
    for level, kind, body in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            numbers.frombytes(body)
    for number in numbers:
        os.set_inheritable(number, False)
    return list(numbers) if data else []


def _read_request(job: int) -> dict[str, Any]:
    with open(job, "rb", closefd=False) as stream:
        size = int.from_bytes(stream.read(4), "big")
        request: dict[str, Any] = marshal.loads(stream.read(size))  # noqa: S302 - our parent's
    return request


class LauncherProcess:
    """Starts programs and ends them with all that they started."""

    def __init__(
        self,
        control: _socket.socket,
        canary: str,
        level: str,
        namespaces: str,
        installed: list[str],
    ) -> None:
        from orchestrator.sandbox import kernel_calls, namespace_verification, process_confinement  # noqa: PLC0415 - HOME is on the path now

        self._confined = level != "none"
        self._error = (
            namespace_verification.namespace_error(namespaces) if level == "bubblewrap" else ""
        )
        self._control, self._canary = control, canary
        self._confinement, self._kernel = process_confinement, kernel_calls
        self._system = process_confinement.system_rules(installed)
        self._change_user = self._confined and kernel_calls.can_change_user()
        # Processes are counted by user, within a user namespace.
        self._counts = self._change_user or level == "bubblewrap"
        if self._confined:
            process_confinement.cached_filter(own_user=self._change_user, programs=True)
        # Two runs side by side rarely share a number; in namespaces of their own all launchers have
        # the same process id.
        namespace = os.stat("/proc/self/ns/pid").st_ino if self._change_user else 0
        self._user = os.getpid() * 31 + namespace
        self._jobs: dict[int, tuple[int, int]] = {}  # socket → process id, its pidfd or -1
        self._abandoned: set[int] = set()  # jobs that nobody waits for any more
        self._poll = select.poll()
        self._poll.register(control.fileno(), select.POLLIN)

    def serve(self) -> None:
        """Start programs until the other end of the control socket is closed."""
        while True:
            has_no_pidfd = any(watch < 0 for _, watch in self._jobs.values())
            for number, _ in self._poll.poll(POLL_MS if has_no_pidfd else None):
                if number != self._control.fileno():
                    self._handle_end(number)
                    continue
                descriptors = _receive_descriptors(self._control)
                if not descriptors:
                    return
                self._start_job(*descriptors)
            if has_no_pidfd:
                for job in list(self._jobs):
                    self._reap(job)

    def end(self) -> None:
        """Kill what still runs."""
        for process, _ in self._jobs.values():
            self._kernel.kill_process_group(process)

    def _start_job(self, job: int, *streams: int) -> None:
        try:
            request = _read_request(job)
        except (ValueError, EOFError, TypeError):  # the client is gone already
            request = None
        if request is not None:
            self._user += 1
            self._fork(request, streams, job)
        else:
            os.close(job)
        for stream in streams:
            os.close(stream)

    def _fork(self, request: dict[str, Any], streams: tuple[int, ...], job: int) -> None:
        try:
            process = os.fork()
        except OSError as error:  # the cgroup holds as many processes as it may
            _send_line(job, f"failed {error.strerror}")
            os.close(job)
            return
        if process == 0:
            self._exec(request, streams, job)
        self._kernel.lead_process_group(process)
        watch = os.pidfd_open(process) if hasattr(os, "pidfd_open") else -1
        self._jobs[job] = process, watch
        self._poll.register(job, select.POLLIN)
        if watch >= 0:
            self._poll.register(watch, select.POLLIN)

    def _exec(self, request: dict[str, Any], streams: tuple[int, ...], job: int) -> NoReturn:
        """In the child: confine the process, then execute the program."""
        try:
            self._kernel.lead_process_group(os.getpid())
            self._kernel.raise_oom_score()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            self._kernel.restore_default_signals()
            os.chdir(request["cwd"])
            counted = [(resource.RLIMIT_NPROC, request["processes"])] if self._counts else []
            for what, bound in (*request["limits"], *counted):
                self._kernel.set_limit(what, bound)
            if self._confined:
                self._confine_to(request)
            os.execve(request["argv"][0], request["argv"], request["env"])  # noqa: S606
        except BaseException as error:  # there is no caller to raise it to
            reason = str(getattr(error, "strerror", None) or error or type(error).__name__)
            _send_line(job, f"failed {reason}")
        finally:
            os._exit(127)

    def _confine_to(self, request: dict[str, Any]) -> None:
        if self._error:
            raise self._confinement.DenialError(self._error)
        user = self._confinement.user_number(self._user) if self._change_user else None
        self._confinement.confine(
            **request["permissions"], canary=self._canary, user=user, system=self._system
        )
        self._kernel.die_with_parent()

    def _handle_end(self, number: int) -> None:
        """Handle a descriptor that became ready: a process has ended, or a client is gone."""
        for job, (_, watch) in list(self._jobs.items()):
            if number == watch:
                self._reap(job)
            elif number == job:
                self._kernel.kill_process_group(self._jobs[job][0])
                self._poll.unregister(job)
                self._abandoned.add(job)

    def _reap(self, job: int) -> None:
        process, watch = self._jobs[job]
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return
        self._kernel.kill_process_group(
            process
        )  # what it left behind, while the number is still its own
        _, status = os.waitpid(process, 0)
        _wait_for_process_group(process)
        del self._jobs[job]
        if job not in self._abandoned:
            self._poll.unregister(job)
        self._abandoned.discard(job)
        if watch >= 0:
            self._poll.unregister(watch)
            os.close(watch)
        _send_line(job, f"ended {os.waitstatus_to_exitcode(status)}")
        os.close(job)


def _send_line(job: int, line: str) -> None:
    try:
        os.write(job, " ".join(line.split()).encode("utf-8", "replace") + b"\n")
    except OSError:  # the client is gone
        return


def _wait_for_process_group(group: int) -> None:
    """Wait until the killed rest of a process group is gone: it counts against our limits."""
    try:
        while True:
            os.waitpid(-group, 0)
    except ChildProcessError:
        return


def main() -> None:
    """Serve until the parent is gone."""
    home, number, canary, level, namespaces, cgroup_files, *installed = sys.argv[1:]
    sys.path.insert(0, home)
    from orchestrator.sandbox import kernel_calls  # noqa: PLC0415 - HOME is on the path now

    kernel_calls.become_subreaper()
    entered = kernel_calls.enter_cgroups(cgroup_files)
    control = _socket.socket(fileno=int(number))
    os.set_inheritable(control.fileno(), False)
    launcher = LauncherProcess(control, canary, level, namespaces, installed)
    gc.disable()
    gc.freeze()  # a collection in a child would copy every page
    try:
        control.send(bytes([entered]))
        launcher.serve()
    finally:
        launcher.end()


if __name__ == "__main__":
    main()
