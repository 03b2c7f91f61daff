"""What the warden runs: it starts programs for us, each confined before its first instruction.

Started as a file, isolated and without site (``-I -S``):
``launcher_main.py HOME CONTROL CANARY LEVEL OUTSIDE GROUPS [INSTALLED ...]``.
CONTROL is an inherited socket; a byte on it says that the launcher
serves: how many of the control groups whose entrances GROUPS are it has gone into.
Each byte that comes brings four descriptors: a job's own socket, and its standard input, output and
error. The job's socket brings the request: four bytes of length, then what ``marshal`` made of it.
What goes back are lines: ``failed WHY`` when it did not become the program, and ``ended CODE``.
When a job's socket ends, the job does; when CONTROL ends, everything does. OUTSIDE tells a room
what must not be seen in it: namespaces and a file.

One thread, few imports: that is what makes a fork cheap.
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

WAIT_MS = 10  # where the kernel cannot tell of a process's end


def _receive(control: _socket.socket) -> list[int]:
    """The descriptors of the next job, none at the end."""
    room = _socket.CMSG_SPACE(4 * array.array("i").itemsize)
    said, ancillary, _, _ = control.recvmsg(1, room)
    numbers = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            numbers.frombytes(data)
    for number in numbers:
        os.set_inheritable(number, False)
    return list(numbers) if said else []


def _request(job: int) -> dict[str, Any]:
    with open(job, "rb", closefd=False) as stream:
        size = int.from_bytes(stream.read(4), "big")
        request: dict[str, Any] = marshal.loads(stream.read(size))  # noqa: S302 - our parent's
    return request


class Warden:
    """Starts programs and ends them with all that they started."""

    def __init__(
        self, control: _socket.socket, canary: str, level: str, outside: str, installed: list[str]
    ) -> None:
        from orchestrator.sandbox import confinement, kernel_calls  # noqa: PLC0415 - HOME is on the path now

        self._confined = level != "none"
        self._fault = confinement.fault_of_room(outside) if level == "bubblewrap" else ""
        self._control, self._canary = control, canary
        self._confine, self._kernel = confinement, kernel_calls
        self._system = confinement.system_rules(installed)
        self._change_user = self._confined and kernel_calls.can_change_user()
        # Processes are counted by user, within a user namespace.
        self._counts = self._change_user or level == "bubblewrap"
        if self._confined:
            confinement.calls(own_user=self._change_user, programs=True)
        # Two runs side by side rarely share a number; in rooms they are all the same process.
        room = os.stat("/proc/self/ns/pid").st_ino if self._change_user else 0
        self._user = os.getpid() * 31 + room
        self._jobs: dict[int, tuple[int, int]] = {}  # socket → process, its descriptor or -1
        self._left: set[int] = set()  # jobs that nobody waits for any more
        self._poll = select.poll()
        self._poll.register(control.fileno(), select.POLLIN)

    def serve(self) -> None:
        """Until the other end of the control socket is gone."""
        while True:
            blind = any(watch < 0 for _, watch in self._jobs.values())
            for number, _ in self._poll.poll(WAIT_MS if blind else None):
                if number != self._control.fileno():
                    self._look(number)
                    continue
                given = _receive(self._control)
                if not given:
                    return
                self._begin(*given)
            if blind:
                for job in list(self._jobs):
                    self._reap(job)

    def end(self) -> None:
        """Kill what still runs."""
        for process, _ in self._jobs.values():
            self._kernel.kill_group(process)

    def _begin(self, job: int, *streams: int) -> None:
        try:
            request = _request(job)
        except (ValueError, EOFError, TypeError):  # who asked is gone already
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
        except OSError as fault:  # the group holds all the processes that it may
            _say(job, f"failed {fault.strerror}")
            os.close(job)
            return
        if process == 0:
            self._become(request, streams, job)
        self._kernel.lead_group(process)
        watch = os.pidfd_open(process) if hasattr(os, "pidfd_open") else -1
        self._jobs[job] = process, watch
        self._poll.register(job, select.POLLIN)
        if watch >= 0:
            self._poll.register(watch, select.POLLIN)

    def _become(self, request: dict[str, Any], streams: tuple[int, ...], job: int) -> NoReturn:
        """In the child: give up everything, then be the program."""
        try:
            self._kernel.lead_group(os.getpid())
            self._kernel.go_first()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            self._kernel.default_signals()
            os.chdir(request["cwd"])
            counted = [(resource.RLIMIT_NPROC, request["processes"])] if self._counts else []
            for what, bound in (*request["limits"], *counted):
                self._kernel.limit(what, bound)
            if self._confined:
                self._confine_to(request)
            os.execve(request["argv"][0], request["argv"], request["env"])  # noqa: S606
        except BaseException as fault:  # nobody else is there to hear of it
            why = str(getattr(fault, "strerror", None) or fault or type(fault).__name__)
            _say(job, f"failed {why}")
        finally:
            os._exit(127)

    def _confine_to(self, request: dict[str, Any]) -> None:
        if self._fault:
            raise self._confine.DenialError(self._fault)
        user = self._confine.user_of(self._user) if self._change_user else None
        self._confine.confine(**request["box"], canary=self._canary, user=user, system=self._system)
        self._kernel.die_with_parent()

    def _look(self, number: int) -> None:
        """A process has ended, or nobody waits for a job any more."""
        for job, (_, watch) in list(self._jobs.items()):
            if number == watch:
                self._reap(job)
            elif number == job:
                self._kernel.kill_group(self._jobs[job][0])
                self._poll.unregister(job)
                self._left.add(job)

    def _reap(self, job: int) -> None:
        process, watch = self._jobs[job]
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return
        self._kernel.kill_group(process)  # what it left behind, while its number is still its own
        _, status = os.waitpid(process, 0)
        _wait_for_group(process)
        del self._jobs[job]
        if job not in self._left:
            self._poll.unregister(job)
        self._left.discard(job)
        if watch >= 0:
            self._poll.unregister(watch)
            os.close(watch)
        _say(job, f"ended {os.waitstatus_to_exitcode(status)}")
        os.close(job)


def _say(job: int, line: str) -> None:
    try:
        os.write(job, " ".join(line.split()).encode("utf-8", "replace") + b"\n")
    except OSError:  # nobody listens any more
        return


def _wait_for_group(group: int) -> None:
    """Until what was left behind and killed is gone: till then it counts as processes of ours."""
    try:
        while True:
            os.waitpid(-group, 0)
    except ChildProcessError:
        return


def main() -> None:
    """Serve until the parent is gone."""
    home, number, canary, level, outside, groups, *installed = sys.argv[1:]
    sys.path.insert(0, home)
    from orchestrator.sandbox import kernel_calls  # noqa: PLC0415 - HOME is on the path now

    kernel_calls.adopt_orphans()
    entered = kernel_calls.enter_groups(groups)
    control = _socket.socket(fileno=int(number))
    os.set_inheritable(control.fileno(), False)
    warden = Warden(control, canary, level, outside, installed)
    gc.disable()
    gc.freeze()  # a collection in a child would copy every page
    try:
        control.send(bytes([entered]))
        warden.serve()
    finally:
        warden.end()


if __name__ == "__main__":
    main()
