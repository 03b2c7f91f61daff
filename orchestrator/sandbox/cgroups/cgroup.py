"""A control group: bounds on memory, processes and processors for all that runs in it together.

Limits of a process hold for one process. What starts many of them is bound by its group, and is
ended with it. A process that is to be in a group writes itself there, through files that we opened,
before it gives up anything.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import threading
import time
from contextlib import suppress

from orchestrator.errors import SandboxError
from orchestrator.sandbox.cgroups.delegation import NotOursError, branch, processes, write
from orchestrator.sandbox.cgroups.hierarchies import WANTED, Hierarchy, hierarchies
from orchestrator.sandbox.program_policy import Limits

PREFIX = "diffcourt-"
END_SECONDS = 5.0
_LONGEST = 4096
_WORDS = {"memory": "memory", "pids": "processes", "cpu": "processors"}
_numbers = itertools.count()
_one_at_a_time = threading.Lock()


def together() -> Limits:
    """What all programs of a review may use together: half of the machine's memory.

    It is never less than one of them may have alone.
    """
    alone = Limits()
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return Limits(memory=max(alone.memory, half), processes=4 * alone.processes)


def settings(version: int, limits: Limits, cores: int) -> dict[str, list[tuple[str, str]]]:
    """What is written in a group's files, by controller.

    A group is to get as much of busy processors as one process for each of them would: it never
    waits where nobody else does, and starves nobody.
    """
    memory, pids = str(limits.memory), ("pids.max", str(limits.processes))
    if version == 1:
        bounds = [("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory)]
        return {"memory": bounds, "pids": [pids], "cpu": [("cpu.shares", str(1024 * cores))]}
    bounds = [("memory.max", memory), ("memory.swap.max", "0")]
    weight = str(min(10_000, 100 * cores))
    return {"memory": bounds, "pids": [pids], "cpu": [("cpu.weight", weight)]}


class Group:
    """A group in each tree that has a controller we want; where there is none, it binds nothing.

    Args:
        limits: memory and processes of all that will be in it.

    Attributes:
        limits: as given.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._parts: list[_Part] = []
        self._faults: dict[str, str] = {}
        with _one_at_a_time:
            for tree in _trees():
                try:
                    self._parts.append(_Part(tree, limits))
                except (OSError, NotOursError) as fault:
                    why = getattr(fault, "strerror", None) or str(fault)
                    self._faults |= dict.fromkeys(tree.controllers, why)

    @property
    def holds(self) -> tuple[str, ...]:
        """Which of ``WANTED`` are in force."""
        return tuple(name for part in self._parts for name in part.controllers)

    @property
    def why(self) -> str:
        """Why the others are not; empty when all are."""
        reasons: dict[str, list[str]] = {}
        for name in WANTED:
            if name not in self.holds:
                fault = self._faults.get(name, "there are no such control groups")
                reasons.setdefault(fault, []).append(_WORDS[name])
        return "; ".join(f"{', '.join(names)}: {fault}" for fault, names in reasons.items())

    def require(self, controllers: tuple[str, ...]) -> None:
        """Hold these, or be refused.

        Raises:
            SandboxError: one of them does not hold.
        """
        if not {*controllers} <= {*self.holds}:
            raise SandboxError(f"limits by control groups no longer hold: {self.why}")

    def entered(self, count: int) -> None:
        """Keep the parts that who was to come in got into: the first ones."""
        for part in self._parts[count:]:
            self._faults |= dict.fromkeys(part.controllers, "the kernel let no program in")
            part.close()
        del self._parts[count:]

    @property
    def entrances(self) -> list[int]:
        """Descriptors; a process that writes 0 to each of them is in the group."""
        return [part.entrance for part in self._parts if part.entrance >= 0]

    def shut(self) -> None:
        """Close the entrances: who is to come in has them."""
        for part in self._parts:
            part.shut()

    def killed(self) -> int:
        """How many processes the kernel has ended for want of memory."""
        return max((part.killed() for part in self._parts), default=0)

    def excess(self) -> str:
        """Why, where the kernel has ended something for want of memory."""
        return f"ended: over {self.limits.memory >> 20} MB of memory, with what ran beside it"

    def close(self) -> None:
        """End all that is in it, and remove it."""
        parts, self._parts = self._parts, []  # who still asks hears of nothing
        for part in parts:
            part.close()


def _trees() -> list[Hierarchy]:
    try:
        with open("/proc/self/cgroup") as own, open("/proc/self/mountinfo") as mounts:
            return hierarchies(own.read(), mounts.read())
    except OSError:  # another system, or a kernel without them
        return []


class _Part:
    """The group in one tree. Who holds its lock is its owner; a stale one is anybody's to end."""

    def __init__(self, tree: Hierarchy, limits: Limits) -> None:
        parent, self.controllers = branch(tree)
        _sweep(parent)
        self._path = os.path.join(parent, f"{PREFIX}{os.getpid()}-{next(_numbers)}")
        self.entrance = self._lock = self._events = -1
        os.mkdir(self._path)
        try:
            self._lock = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            files = settings(tree.version, limits, len(os.sched_getaffinity(0)))
            for controller in self.controllers:
                (first, value), *more = files[controller]
                write(self._path, first, value)
                for name, bound in more:
                    with suppress(FileNotFoundError):  # swap is not counted here
                        write(self._path, name, bound)
            entrance = os.path.join(self._path, "cgroup.procs")
            self.entrance = os.open(entrance, os.O_WRONLY | os.O_CLOEXEC)
            if "memory" in self.controllers:
                name = "memory.oom_control" if tree.version == 1 else "memory.events"
                self._events = os.open(os.path.join(self._path, name), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.close()
            raise

    def shut(self) -> None:
        if self.entrance >= 0:
            os.close(self.entrance)
        self.entrance = -1

    def killed(self) -> int:
        said = os.pread(self._events, _LONGEST, 0).split() if self._events >= 0 else []
        return int(said[said.index(b"oom_kill") + 1]) if b"oom_kill" in said else 0

    def close(self) -> None:
        self.shut()
        _end(self._path)
        for number in (self._lock, self._events):
            if number >= 0:
                os.close(number)


def _sweep(parent: str) -> None:
    """End groups whose owner is dead: it has let go of the lock, and its number is nobody's."""
    for name in os.listdir(parent):
        owner = name.removeprefix(PREFIX).partition("-")[0]
        if not name.startswith(PREFIX) or not owner.isdecimal():
            continue
        if os.path.exists(f"/proc/{owner}"):
            continue
        with suppress(OSError):  # somebody else's, or another one of us was faster
            lock = os.open(os.path.join(parent, name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _end(os.path.join(parent, name))
            finally:
                os.close(lock)


def _end(path: str) -> None:
    """End all processes of a group, and remove it; what cannot be ended is left to the next sweep.

    Until none is left: while one is looked at, another may be made.
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
            write(path, "pids.max", "0")  # nothing new
        for number in processes(path):
            with suppress(OSError):
                _kill_one(path, number)


def _kill_one(path: str, number: int) -> None:
    """End one process of a group, and no other that has got its number since."""
    handle = os.pidfd_open(number)
    try:
        if number in processes(path):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)
