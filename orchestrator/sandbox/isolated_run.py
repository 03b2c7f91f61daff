"""Run code of the change in a room of bubblewrap's of its own; no process outlives the call."""

from __future__ import annotations

import itertools
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import anyio
from anyio import to_thread

from orchestrator.errors import SandboxError
from orchestrator.sandbox import bubblewrap, kernel_calls, scratch_directory
from orchestrator.sandbox.cgroups.cgroup import Group
from orchestrator.sandbox.confinement import user_of
from orchestrator.sandbox.launcher import PACKAGE, SAFE_PATH, installed
from orchestrator.sandbox.process_sandbox import SANDBOX
from orchestrator.sandbox.program_policy import Limits

MAIN = Path(__file__).with_name("isolated_main.py")
END_SECONDS = 10.0
FAULT_BYTES = 4096
NO_SANDBOX = "tests not run: no sandbox"
_ENVIRONMENT = {"PATH": SAFE_PATH, "LC_ALL": "C.UTF-8", "HOME": "/tmp", "TMPDIR": "/tmp"}  # noqa: S108
_users = itertools.count(os.getpid() * 31)


async def run_code(
    argv: Sequence[str], tree: Path, *, reads: Sequence[Path] = (), limits: Limits = Limits()
) -> int:
    """Run a program that may do what it likes, in ``tree``, with its output thrown away.

    When this returns, all processes that it started are gone, and what lies in ``tree`` stays so.

    Args:
        argv: the program, looked up in the system's folders, and its arguments.
        tree: a folder of its own, without ``.git`` and not below a link, to read and write.
        reads: absolute paths that it may read besides the system's programs and our installation.

    Returns:
        The exit status; 128 and more for the signal that ended it.

    Raises:
        SandboxError: there is no such room here, it is none, or the time was up.
    """
    bwrap = bubblewrap.find()
    if SANDBOX.level != "bubblewrap" or bwrap is None:
        raise SandboxError(NO_SANDBOX)
    group = SANDBOX.new_group()
    room = _Room(bwrap, argv, tree, reads, limits, group)
    try:
        await to_thread.run_sync(room.keeper.join, abandon_on_cancel=True)
    finally:
        room.end()
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(room.keeper.join)
            await to_thread.run_sync(group.close)
            room.close()
    return room.code()


class _Room:
    """One run. bwrap ends with the thread that started it: ``keeper`` lives as long as the room."""

    def __init__(
        self,
        bwrap: str,
        argv: Sequence[str],
        tree: Path,
        reads: Sequence[Path],
        limits: Limits,
        group: Group,
    ) -> None:
        self._bwrap, self._argv, self._tree = bwrap, argv, tree
        self._reads, self._limits, self._group = reads, limits, group
        self._stopped, self._stop = os.pipe()
        self._code, self._fault = -1, ""
        self.keeper = threading.Thread(target=self._keep, name="room", daemon=True)
        self.keeper.start()

    def end(self) -> None:
        """End all that runs in it; ``keeper`` then ends soon."""
        os.write(self._stop, b"s")

    def close(self) -> None:
        """Let go of it, once ``keeper`` has ended."""
        os.close(self._stop)
        os.close(self._stopped)

    def code(self) -> int:
        """The exit status.

        Raises:
            SandboxError: there is none.
        """
        if self._fault:
            raise SandboxError(self._fault)
        return self._code

    def _keep(self) -> None:
        try:
            self._run()
        except (OSError, ValueError, subprocess.SubprocessError, SandboxError) as fault:
            self._fault = f"tests not run: {fault}"

    def _run(self) -> None:
        user = user_of(next(_users)) if kernel_calls.can_change_user() else None
        if user is not None:
            _give(self._tree, user)
        with ExitStack() as ours, ExitStack() as theirs:
            info, told = _pipe(ours, theirs)
            said, say = _pipe(ours, theirs)
            wait, go = os.pipe()
            ours.callback(os.close, go)
            theirs.callback(os.close, wait)
            errors = ours.enter_context(tempfile.TemporaryFile(dir=scratch_directory.folder()))
            process = subprocess.Popen(
                self._command(user, told, wait, say),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=_ENVIRONMENT,
                cwd="/",
                pass_fds=[told, wait, say, *self._group.entrances],
                start_new_session=True,
            )
            ours.callback(process.wait)
            ours.callback(process.kill)
            theirs.close()
            self._group.shut()
            watch = _first_process(info)
            if watch is not None:
                ours.callback(os.close, watch)
                os.write(go, b"g")
                self._wait(watch)
            self._code = process.wait(END_SECONDS)
            word = os.read(said, FAULT_BYTES).decode("utf-8", "replace")
            if word != "ready":
                errors.seek(0)
                heard = errors.read(FAULT_BYTES).decode("utf-8", "replace").strip()
                why = word.removeprefix("ready").strip() or heard or "bwrap ran nothing"
                raise SandboxError(" ".join(why.split()))
            if self._group.killed():  # then no result is whole, whatever the exit status
                raise SandboxError(self._group.excess())

    def _command(self, user: int | None, told: int, wait: int, say: int) -> list[str]:
        room = bubblewrap.room(self._bwrap, (*installed(), *self._reads), (self._tree,))
        room[1:1] = ["--info-fd", str(told), "--block-fd", str(wait)]
        given = self._limits
        bounds = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_NOFILE: given.files,
            resource.RLIMIT_AS: given.memory,
            resource.RLIMIT_FSIZE: given.file_size,
            resource.RLIMIT_NPROC: given.processes,
        }
        return [
            *(*room, sys.executable, "-I", "-S", str(MAIN), str(PACKAGE.parent)),
            bubblewrap.outside(),
            *("" if user is None else str(user), str(say), str(self._tree)),
            ",".join(f"{what}={bound}" for what, bound in bounds.items()),
            ",".join(map(str, self._group.entrances)),
            *self._argv,
        ]

    def _wait(self, watch: int) -> None:
        """Until the room's first process is gone, which is the last one to go."""
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        poll.register(self._stopped, select.POLLIN)
        ready = [number for number, _ in poll.poll(self._limits.seconds * 1000)]
        if watch in ready:
            return
        signal.pidfd_send_signal(watch, signal.SIGKILL)
        poll.unregister(self._stopped)
        if not poll.poll(END_SECONDS * 1000):
            raise SandboxError("what ran could not be ended")
        raise SandboxError(f"they ran longer than {self._limits.seconds:g} s")


def _pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    """A pipe that we read."""
    read, write = os.pipe()
    ours.callback(os.close, read)
    theirs.callback(os.close, write)
    return read, write


def _first_process(info: int) -> int | None:
    """The room's first process, which waits for us; None when bwrap ended instead."""
    said = b""
    while b"}" not in said:
        more = os.read(info, FAULT_BYTES)
        if not more:
            return None
        said += more
    return os.pidfd_open(json.loads(said)["child-pid"])


def _give(tree: Path, user: int) -> None:
    """Make a copy of ours the property of who will run in it."""
    for folder, _, files in os.walk(tree):
        os.chown(folder, user, user)
        for name in files:
            os.chown(os.path.join(folder, name), user, user, follow_symlinks=False)
