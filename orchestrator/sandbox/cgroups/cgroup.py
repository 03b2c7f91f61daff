"""A cgroup: limits on memory, processes and processors for all processes in it together.

Resource limits of a process hold for one process. A program that starts many is limited by its
cgroup, and ended with it. A process enters a cgroup by writing to its ``cgroup.procs``, which we
open and pass on, before the process is confined.
"""

import fcntl
import itertools
import os
import signal
import threading
import time
from contextlib import suppress

from orchestrator.errors import SandboxError
from orchestrator.sandbox.cgroups.delegation import (
    CONTROLLERS,
    Hierarchy,
    NotDelegatedError,
    find_parent,
    hierarchies,
    processes,
    write,
)
from orchestrator.sandbox.program_permissions import ResourceLimits

PREFIX = "diffcourt-"
END_SECONDS = 5.0
_MAX_READ = 4096
_NAMES = {"memory": "memory", "pids": "processes", "cpu": "processors"}
_counter = itertools.count()
_creation_lock = threading.Lock()


def shared_limits() -> ResourceLimits:
    """The limits of all programs of a review together: half of the machine's memory.

    They are never less than those of one program.
    """
    single = ResourceLimits()
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return ResourceLimits(memory=max(single.memory, half), processes=4 * single.processes)


def settings(version: int, limits: ResourceLimits, cores: int) -> dict[str, list[tuple[str, str]]]:
    """The files of a cgroup and what is written to them, by controller.

    A cgroup gets as much of busy processors as one process for each of them would: it is never
    slowed down on an idle machine, and starves nobody.
    """
    memory, pids = str(limits.memory), ("pids.max", str(limits.processes))
    if version == 1:
        bounds = [("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory)]
        return {"memory": bounds, "pids": [pids], "cpu": [("cpu.shares", str(1024 * cores))]}
    bounds = [("memory.max", memory), ("memory.swap.max", "0")]
    weight = str(min(10_000, 100 * cores))
    return {"memory": bounds, "pids": [pids], "cpu": [("cpu.weight", weight)]}


class Cgroup:
    """A cgroup in each hierarchy that has one of ``CONTROLLERS``; without any it limits nothing."""

    def __init__(self, limits: ResourceLimits) -> None:
        self.limits = limits
        self._parts: list[_Part] = []
        self._errors: dict[str, str] = {}
        with _creation_lock:
            for hierarchy in _own_hierarchies():
                try:
                    self._parts.append(_Part(hierarchy, limits))
                except (OSError, NotDelegatedError) as error:
                    reason = getattr(error, "strerror", None) or str(error)
                    self._errors |= dict.fromkeys(hierarchy.controllers, reason)

    @property
    def controllers(self) -> tuple[str, ...]:
        """Which of ``CONTROLLERS`` are in force."""
        return tuple(name for part in self._parts for name in part.controllers)

    @property
    def missing_reason(self) -> str:
        """Why the other controllers are not in force; empty when all are."""
        reasons: dict[str, list[str]] = {}
        for name in CONTROLLERS:
            if name not in self.controllers:
                error = self._errors.get(name, "this system has no such cgroups")
                reasons.setdefault(error, []).append(_NAMES[name])
        return "; ".join(f"{', '.join(names)}: {error}" for error, names in reasons.items())

    def require(self, controllers: tuple[str, ...]) -> None:
        """Check that controllers are in force."""
        if not {*controllers} <= {*self.controllers}:
            raise SandboxError(f"cgroup limits are no longer in force: {self.missing_reason}")

    def keep_entered(self, count: int) -> None:
        """Keep the first ``count`` parts, which the process has entered, and remove the others."""
        for part in self._parts[count:]:
            self._errors |= dict.fromkeys(
                part.controllers, "the kernel did not let the process enter"
            )
            part.close()
        del self._parts[count:]

    @property
    def procs_files(self) -> list[int]:
        """Descriptors of ``cgroup.procs``; a process that writes 0 to each enters the cgroup."""
        return [part.procs_file for part in self._parts if part.procs_file >= 0]

    def close_procs_files(self) -> None:
        """Close our copies of ``procs_files``, once a process has inherited them."""
        for part in self._parts:
            part.close_procs_file()

    def oom_kills(self) -> int:
        """How many processes the kernel has killed for lack of memory."""
        return max((part.oom_kills() for part in self._parts), default=0)

    @property
    def oom_error(self) -> str:
        """The error of a program that ran when the kernel killed a process for lack of memory."""
        return f"ended: over {self.limits.memory >> 20} MB of memory, including what ran beside it"

    def close(self) -> None:
        """End all processes in it, and remove it."""
        parts, self._parts = self._parts, []
        for part in parts:
            part.close()


def _own_hierarchies() -> list[Hierarchy]:
    try:
        with open("/proc/self/cgroup") as own, open("/proc/self/mountinfo") as mounts:
            return hierarchies(own.read(), mounts.read())
    except OSError:  # not Linux, or a kernel without cgroups
        return []


class _Part:
    """The cgroup in one hierarchy; locked by its owner, so that others can remove a stale one."""

    def __init__(self, hierarchy: Hierarchy, limits: ResourceLimits) -> None:
        parent, self.controllers = find_parent(hierarchy)
        _remove_stale(parent)
        self._path = os.path.join(parent, f"{PREFIX}{os.getpid()}-{next(_counter)}")
        self.procs_file = self._lock = self._events = -1
        os.mkdir(self._path)
        try:
            self._lock = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            files = settings(hierarchy.version, limits, len(os.sched_getaffinity(0)))
            for controller in self.controllers:
                (first, value), *more = files[controller]
                write(self._path, first, value)
                for name, bound in more:
                    with suppress(FileNotFoundError):  # swap is not counted here
                        write(self._path, name, bound)
            procs = os.path.join(self._path, "cgroup.procs")
            self.procs_file = os.open(procs, os.O_WRONLY | os.O_CLOEXEC)
            if "memory" in self.controllers:
                name = "memory.oom_control" if hierarchy.version == 1 else "memory.events"
                self._events = os.open(os.path.join(self._path, name), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.close()
            raise

    def close_procs_file(self) -> None:
        if self.procs_file >= 0:
            os.close(self.procs_file)
        self.procs_file = -1

    def oom_kills(self) -> int:
        words = os.pread(self._events, _MAX_READ, 0).split() if self._events >= 0 else []
        return int(words[words.index(b"oom_kill") + 1]) if b"oom_kill" in words else 0

    def close(self) -> None:
        self.close_procs_file()
        _remove(self._path)
        for number in (self._lock, self._events):
            if number >= 0:
                os.close(number)


def _remove_stale(parent: str) -> None:
    """Remove cgroups whose owner is dead: the lock is free and the process id unused."""
    for name in os.listdir(parent):
        owner = name.removeprefix(PREFIX).partition("-")[0]
        if not name.startswith(PREFIX) or not owner.isdecimal():
            continue
        if os.path.exists(f"/proc/{owner}"):
            continue
        with suppress(OSError):  # another user's, or another review was faster
            lock = os.open(os.path.join(parent, name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(os.path.join(parent, name))
            finally:
                os.close(lock)


def _remove(path: str) -> None:
    """Kill all processes of a cgroup and remove it; a later review retries what remains.

    It repeats that until none is left, for new processes may be started meanwhile.
    """
    until = time.monotonic() + END_SECONDS
    while time.monotonic() < until:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError:  # not empty yet
            with suppress(OSError):
                _kill(path)
            time.sleep(0.002)
        else:
            return


def _kill(path: str) -> None:
    try:
        write(path, "cgroup.kill", "1")
    except OSError:  # version 1, or a kernel before 5.14
        with suppress(OSError):
            write(path, "pids.max", "0")  # no new processes
        for number in processes(path):
            with suppress(OSError):
                _kill_one(path, number)


def _kill_one(path: str, number: int) -> None:
    """Kill one process of a cgroup, and not another one that has reused its id."""
    pidfd = os.pidfd_open(number)
    try:
        if number in processes(path):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    finally:
        os.close(pidfd)
