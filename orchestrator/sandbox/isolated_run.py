"""Run code of the change in bubblewrap namespaces of its own; no process outlives the call."""

import itertools
import json
import os
import re
import resource
import select
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

import anyio
from anyio import to_thread

from orchestrator.engine.program_output_collection import ProgramOutput, record_program
from orchestrator.errors import SandboxError
from orchestrator.program_search import SAFE_PATH
from orchestrator.sandbox import bubblewrap, kernel_calls
from orchestrator.sandbox.cgroups import Cgroup
from orchestrator.sandbox.level_and_launchers import SANDBOX
from orchestrator.sandbox.process_confinement import user_number
from orchestrator.sandbox.process_start import ISOLATED_PYTHON, start_process
from orchestrator.sandbox.program_permissions import ResourceLimits

MAIN = Path(__file__).with_name("isolated_run_main.py")
END_SECONDS = 10.0
CHECK_SECONDS = 0.25
MAX_IDLE_SECONDS, MIN_WORK = 30.0, 0.1
"""A run with a bound on processor time ends where it uses less than this in so many seconds."""
_TELLS_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").is_file()
"""Else nobody knows whether a run only waits."""
ERROR_BYTES = 4096
KEPT_BYTES = 32 << 10
"""Of the beginning of a stream, and of its end."""
NO_SANDBOX = f"no sandbox: {bubblewrap.RUNNERS_HINT}"
_ENVIRONMENT = {"PATH": SAFE_PATH, "LC_ALL": "C.UTF-8", "HOME": "/tmp", "TMPDIR": "/tmp"}  # noqa: S108
_ENVIRONMENT |= {"PYTHONUNBUFFERED": "1", "PYTHONHASHSEED": "0"}  # prints at once, orders sets
_user_numbers = itertools.count(os.getpid() * 31)


class TimeUp(SandboxError):
    """A program was ended because it ran out of time; ``output`` is what it had printed."""

    def __init__(self, bound: str, output: ProgramOutput) -> None:
        self.bound, self.output = bound, output
        super().__init__(f"they ran longer than {bound}")


async def run_isolated(
    argv: Sequence[str],
    tree: Path,
    *,
    reads: Sequence[Path] = (),
    limits: ResourceLimits = ResourceLimits(),
    read_only: bool = False,
    ours: Sequence[Path] = (),
) -> ProgramOutput:
    """Run a hostile program in ``tree``; its output is kept with the tool call that runs it.

    When this returns, all processes that it started are gone, and nothing changes ``tree`` anymore.

    Args:
        argv: the program, looked up in the system's directories, and its arguments.
        tree: a directory of its own, without ``.git`` and not below a link, to read and write.
        reads: absolute paths that it may read besides the system's programs and our installation;
            with any, it may open no Unix socket: a service of the host could make one there.
        read_only: it may not write ``tree``, and may open no Unix socket either.
        ours: directories of our own that it may read, where no service can make a socket.

    Returns:
        What it printed, on one stream, and its exit status; 128 and more for the signal that ended
        it.

    Raises:
        SandboxError: bubblewrap is unavailable or did not isolate it.
        TimeUp: it was ended because it ran out of time.
    """
    if SANDBOX.level != "bubblewrap" or bubblewrap.find_bwrap() is None:
        raise SandboxError(NO_SANDBOX)
    cgroup = SANDBOX.new_cgroup()
    reads, writes = ((*reads, tree), ()) if read_only else (reads, (tree,))
    running = _IsolatedRun(argv, tree, reads, writes, limits, cgroup, ours=ours)
    try:
        await to_thread.run_sync(running.thread.join, abandon_on_cancel=True)
    finally:
        running.stop()
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(running.thread.join)
            await to_thread.run_sync(cgroup.close)
            running.close()
        record_program(running.output())
    return running.result()


class _IsolatedRun:
    """One run. bwrap ends with the thread that started it: ``thread`` lives as long as the run."""

    def __init__(
        self,
        argv: Sequence[str],
        tree: Path,
        reads: Sequence[Path],
        writes: Sequence[Path],
        limits: ResourceLimits,
        cgroup: Cgroup,
        *,
        ours: Sequence[Path],
    ) -> None:
        self._argv, self._tree, self._reads, self._writes = argv, tree, reads, writes
        self._ours, self._limits, self._cgroup = ours, limits, cgroup
        self._stopped, self._stop = os.pipe()
        self._exit_status, self._error, self._time_is_up = -1, "", ""
        self._stdout, self._stderr = _Printed(), _Printed()
        self.thread = threading.Thread(target=self._run_in_thread, name="isolated run", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Kill all its processes; ``thread`` then ends soon."""
        os.write(self._stop, b"s")

    def close(self) -> None:
        """Close its descriptors, once ``thread`` has ended."""
        os.close(self._stop)
        os.close(self._stopped)

    def output(self) -> ProgramOutput:
        """What it printed, as far as it is kept."""
        code = None if self._error or self._exit_status < 0 else self._exit_status
        return ProgramOutput(self._argv[0], code, self._stdout.kept(), self._stderr.kept())

    def result(self) -> ProgramOutput:
        """What it printed, with its exit status; 128 and more for a signal.

        Raises:
            SandboxError: the program did not run to its end.
        """
        if self._time_is_up:
            raise TimeUp(self._time_is_up, self.output())
        if self._error:
            raise SandboxError(self._error)
        return self.output()

    def _run_in_thread(self) -> None:
        try:
            self._run()
        except (OSError, ValueError, subprocess.SubprocessError, SandboxError) as error:
            self._error = str(error)

    def _run(self) -> None:
        user = user_number(next(_user_numbers)) if kernel_calls.can_change_user() else None
        if user is not None:
            if self._writes:
                _change_owner(self._tree, user)
            for directory in self._ours if self._writes else (self._tree, *self._ours):
                _let_others_read(directory)
        with ExitStack() as ours, ExitStack() as theirs:
            info, info_in = _pipe(ours, theirs)
            status, status_in = _pipe(ours, theirs)
            block, unblock = os.pipe()
            ours.callback(os.close, unblock)
            theirs.callback(os.close, block)
            kernel_calls.hide_from_other_processes()
            process = start_process(
                self._command(user, info_in, block, status_in),
                env=_ENVIRONMENT,
                pass_fds=[info_in, block, status_in, *self._cgroup.procs_files],
            )
            for printed, stream in ((self._stdout, process.stdout), (self._stderr, process.stderr)):
                printed.read_in_thread(stream)
                ours.callback(printed.wait)  # called last: it ends when all processes have
            ours.callback(process.wait)
            ours.callback(process.kill)
            theirs.close()
            self._cgroup.close_procs_files()
            pidfd = _first_process(info)
            if pidfd is not None:
                ours.callback(os.close, pidfd)
                with suppress(BrokenPipeError):  # bwrap ended: its stderr says why
                    os.write(unblock, b"u")
                self._wait(pidfd)
            self._exit_status = process.wait(END_SECONDS)
            message = os.read(status, ERROR_BYTES).decode("utf-8", "replace")
            if message != "ready":
                self._stderr.wait()
                stderr = self._stderr.kept()[:ERROR_BYTES].decode("utf-8", "replace").strip()
                reason = message.removeprefix("ready").strip() or stderr or "bwrap ran nothing"
                raise SandboxError(" ".join(reason.split()))
            if self._cgroup.oom_kills():  # then no result is complete, whatever the exit status
                raise SandboxError(self._cgroup.oom_error)

    def _command(self, user: int | None, info: int, block: int, status: int) -> list[str]:
        reads = (*self._reads, *self._ours)
        (bwrap, *options), namespaces = bubblewrap.new_namespaces(reads, self._writes)
        limits = self._limits
        bounds = limits.per_process | {resource.RLIMIT_NPROC: limits.processes}
        return [
            *(bwrap, "--info-fd", str(info), "--block-fd", str(block), *options),
            *(*ISOLATED_PYTHON, "-S", str(MAIN), str(bubblewrap.PACKAGE.parent), namespaces),
            *("" if user is None else str(user), "" if self._reads else "unix"),
            *(str(status), str(self._tree)),
            ",".join(f"{number}={bound}" for number, bound in bounds.items()),
            ",".join(map(str, self._cgroup.procs_files)),
            *self._argv,
        ]

    def _wait(self, pidfd: int) -> None:
        """Wait until the first process of its namespace has ended, which is the last one to end."""
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.register(self._stopped, select.POLLIN)
        ready, bound, end = list[int](), "", time.monotonic() + self._limits.seconds
        most, busy, since = self._limits.processor_seconds, 0.0, time.monotonic()
        while not (ready or bound):
            left = end - time.monotonic()
            ready = [number for number, _ in poll.poll(max(0, min(left, CHECK_SECONDS) * 1000))]
            used = _processor_seconds(pidfd) if most else 0.0
            if left <= 0:
                bound = f"{self._limits.seconds:g} s"
            elif used > most:
                bound = f"{most:g} s of processor time"
            elif used - busy > MIN_WORK:
                busy, since = used, time.monotonic()
            elif most and _TELLS_CHILDREN and time.monotonic() - since > MAX_IDLE_SECONDS:
                bound = f"{MAX_IDLE_SECONDS:g} s in which nothing happened"
        if pidfd in ready:
            return
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        poll.unregister(self._stopped)
        if not poll.poll(END_SECONDS * 1000):
            raise SandboxError("the processes could not be killed")
        self._time_is_up = bound
        raise SandboxError("it ran out of time")


def _processor_seconds(pidfd: int) -> float:
    """What a process and those below it have used; 0 where the kernel does not say."""
    numbers = re.findall(r"(?m)^Pid:\s*(\d+)", Path(f"/proc/self/fdinfo/{pidfd}").read_text())
    ticks = 0
    for number in numbers:  # which grows
        process = Path("/proc", number)
        with suppress(OSError):
            after_name = (process / "stat").read_bytes().rpartition(b")")[2].split()
            ticks += sum(map(int, after_name[11:15]))  # its own, and of children that have ended
            for children in process.glob("task/*/children"):
                numbers += children.read_text().split()
    return ticks / os.sysconf("SC_CLK_TCK")


class _Printed:
    """A stream that is read to its end: its beginning and its end are kept, never more."""

    def __init__(self) -> None:
        self._begin, self._end, self._left_out = b"", b"", 0
        self._thread: threading.Thread | None = None

    def read_in_thread(self, stream: IO[bytes] | None) -> None:
        """Begin to read; the thread ends when nobody can write to the stream anymore."""
        assert stream is not None
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            while data := os.read(stream.fileno(), 1 << 16):
                take = KEPT_BYTES - len(self._begin)
                self._begin += data[:take]
                self._end += data[take:]
                self._left_out += max(0, len(self._end) - KEPT_BYTES)
                self._end = self._end[-KEPT_BYTES:]

    def wait(self) -> None:
        """Wait until all of it was read."""
        if self._thread is not None:
            self._thread.join(END_SECONDS)

    def kept(self) -> bytes:
        """The beginning and the end."""
        note = f"\n[{self._left_out} bytes left out]\n".encode() if self._left_out else b""
        return self._begin + note + self._end


def _pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    """A pipe that we read: its reading and its writing end."""
    read, write = os.pipe()
    ours.callback(os.close, read)
    theirs.callback(os.close, write)
    return read, write


def _first_process(info: int) -> int | None:
    """A pidfd of the namespace's first process, which waits for us; None when it or bwrap ended."""
    received = b""
    while b"}" not in received:
        more = os.read(info, ERROR_BYTES)
        if not more:
            return None
        received += more
    try:
        return os.pidfd_open(json.loads(received)["child-pid"])
    except ProcessLookupError:
        return None


def _change_owner(tree: Path, user: int) -> None:
    """Give all files of a copy of ours to the user that will run in it."""
    for directory, _, files in os.walk(tree):
        os.chown(directory, user, user)
        for name in files:
            os.chown(os.path.join(directory, name), user, user, follow_symlinks=False)


def _let_others_read(tree: Path) -> None:
    """Let other users read files of ours, in a directory of ours that others cannot enter.

    Under a strict umask the user that will run in the tree could not.
    """
    for directory, _, files in os.walk(tree):
        for path in (directory, *(os.path.join(directory, name) for name in files)):
            mode = os.lstat(path).st_mode & 0o777
            wanted = mode | (0o055 if path == directory else 0o044)
            if mode != wanted:
                os.chmod(path, wanted)
