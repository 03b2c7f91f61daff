"""Cgroups: limits on memory, processes and processors for all processes in one together.

Resource limits of a process hold for one process. A program that starts many is limited by its
cgroup, and ended with it. A process enters a cgroup by writing to its ``cgroup.procs``, which we
open and pass on, before the process is confined.

They are created where a part of a hierarchy is delegated to us. Version 1 requires only write
permission. In version 2 a cgroup that enables controllers for its children may hold no processes
itself, so we first move to a child of our own cgroup. That is done only where the cgroup is
delegated to us and holds no other processes.
"""

import fcntl
import itertools
import os
import re
import signal
import threading
import time
from contextlib import suppress

from msgspec import Struct

from orchestrator.errors import SandboxError
from orchestrator.sandbox.program_permissions import ResourceLimits

CONTROLLERS = ("memory", "pids", "cpu")
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Hierarchy(Struct, frozen=True):
    """A cgroup hierarchy, and this process's place in it.

    Attributes:
        controllers: those of ``CONTROLLERS`` that belong to it; of version 2 every one that has no
            hierarchy of its own, whether or not it is enabled for our cgroup.
        cgroup: the directory of this process's own cgroup.
    """

    version: int
    controllers: tuple[str, ...]
    mount: str
    cgroup: str


def hierarchies(own_cgroups: str, mounts: str) -> list[Hierarchy]:
    """The hierarchies that hold one of ``CONTROLLERS`` and are mounted here.

    Args:
        own_cgroups: ``/proc/self/cgroup``.
        mounts: ``/proc/self/mountinfo``.
    """
    paths: dict[tuple[str, ...], str] = {}
    for line in own_cgroups.splitlines():
        _, controllers, path = line.split(":", 2)
        paths[tuple(controllers.split(",")) if controllers else ()] = path
    version_1 = {name for names in paths for name in names}
    found: list[Hierarchy] = []
    for names, path in paths.items():
        version = 1 if names else 2
        usable = tuple(it for it in CONTROLLERS if (it in names if names else it not in version_1))
        places = _directories(mounts, version, names, path) if usable else []
        if places:
            found.append(Hierarchy(version, usable, *places[0]))
    return found


def _directories(
    mounts: str, version: int, names: tuple[str, ...], path: str
) -> list[tuple[str, str]]:
    """Where a hierarchy is mounted, and the directory of the cgroup ``path`` there."""
    places = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        fields = before.split(" ")[3:5]
        root, mount = (_ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), one) for one in fields)
        is_right = kind == ("cgroup" if version == 1 else "cgroup2")
        if is_right and {*names} <= {*options.split(",")}:
            below = os.path.relpath(path, root).split("/")
            if ".." not in (*path.split("/"), *below):  # what is above the mount is unreachable
                places.append((mount, os.path.normpath(os.path.join(mount, *below))))
    return places


LEAF = "diffcourt.main"
"""The child that we move to ourselves, in version 2."""
_DELEGATION_ATTRIBUTES = ("trusted.delegate", "user.delegate")
"""Extended attributes that systemd sets on a cgroup that it has delegated."""


class NotDelegatedError(Exception):
    """No cgroups can be created; says why."""


def find_parent(hierarchy: Hierarchy) -> tuple[str, tuple[str, ...]]:
    """Find the directory for our cgroups, and the controllers that these can have."""
    if hierarchy.version == 1:
        if not os.access(hierarchy.cgroup, os.W_OK):
            raise NotDelegatedError("our cgroup is not writable")
        return hierarchy.cgroup, hierarchy.controllers
    directory = hierarchy.cgroup
    if os.path.basename(directory) == LEAF:
        directory = os.path.dirname(directory)
    offered = _read_words(directory, "cgroup.controllers")
    usable = tuple(it for it in CONTROLLERS if it in offered and it in hierarchy.controllers)
    if not usable:
        raise NotDelegatedError("our cgroup has no such controllers")
    enabled = _read_words(directory, "cgroup.subtree_control")
    disabled = [name for name in usable if name not in enabled]
    if disabled:
        if not _is_delegated(directory, hierarchy.mount):
            raise NotDelegatedError("our cgroup is not delegated to us")
        enter_leaf(directory)
        for name in disabled:
            write(directory, "cgroup.subtree_control", f"+{name}")
    elif not os.access(directory, os.W_OK):
        raise NotDelegatedError("our cgroup is not writable")
    return directory, usable


def _is_delegated(directory: str, mount: str) -> bool:
    if os.geteuid() != 0:
        ours = os.stat(directory).st_uid == os.geteuid()
        return ours and os.access(os.path.join(directory, "cgroup.subtree_control"), os.W_OK)
    if directory == mount:  # of a container, unless it is the machine's
        return os.path.exists(os.path.join(directory, "cgroup.type"))
    return any(_attribute(directory, name) == b"1" for name in _DELEGATION_ATTRIBUTES)


def _attribute(directory: str, name: str) -> bytes:
    try:
        return os.getxattr(directory, name)
    except OSError:
        return b""


def enter_leaf(directory: str) -> None:
    """Move from a version 2 cgroup to a child of it, with all processes that we started."""
    members = processes(directory)
    if not all(_is_ours(number) for number in members):
        raise NotDelegatedError("our cgroup contains processes of others")
    leaf = os.path.join(directory, LEAF)
    os.makedirs(leaf, exist_ok=True)
    for number in members:
        try:
            write(leaf, "cgroup.procs", str(number))
        except ProcessLookupError:  # it has ended
            continue


def _is_ours(number: int) -> bool:
    """Whether a process is this one or descends from it; true of one that has ended."""
    while number not in {0, 1, os.getpid()}:
        try:
            with open(f"/proc/{number}/stat", encoding="ascii", errors="replace") as stat:
                number = int(stat.read().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return True
    return number == os.getpid()


def processes(directory: str) -> list[int]:
    """The ids of the processes in a cgroup, 0 for one that is invisible to us."""
    return [int(number) for number in _read_words(directory, "cgroup.procs")]


def write(directory: str, name: str, value: str) -> None:
    """Write one of a cgroup's files."""
    number = os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(number, value.encode("ascii"))
    finally:
        os.close(number)


def _read_words(directory: str, name: str) -> list[str]:
    with open(os.path.join(directory, name), encoding="ascii") as file:
        return file.read().split()


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
