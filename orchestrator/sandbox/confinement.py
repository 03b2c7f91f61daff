"""A process gives up what its box does not name, and proves it before anything else runs in it.

Imported by processes that must start fast: next to nothing is imported here.
"""

from __future__ import annotations

import _socket  # ``socket`` imports enumerations, which take longer than all of this
import errno
import os

from orchestrator.sandbox import kernel_calls
from orchestrator.sandbox.seccomp_filter import seccomp_filter, supported

USERS = range(61184, 65520)
"""Numbers that systems keep for services without a user of their own, and still inside of a
container's map. A job that we can give one shares it with nobody: its processes are counted."""

TYPE_CHECKING = False  # ``typing`` and ``collections`` are not needed at run time
if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAMS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
)  # fmt: skip
SETTINGS = (
    "/etc/alternatives", "/etc/group", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu",
    "/dev/random", "/dev/urandom", "/dev/zero", "/dev/full",
)  # fmt: skip
SINKS = ("/dev/null",)
NAMESPACES = ("net", "pid", "mnt", "ipc")
_FAMILIES = (_socket.AF_INET, _socket.AF_UNIX)


class DenialError(Exception):
    """Something that had to be denied was not, or could not be; nothing may run."""


_filters: dict[tuple[bool, bool], bytes] = {}


def calls(own_user: bool, programs: bool) -> bytes:
    """The filter of system calls; made once, for many forks."""
    key = (own_user, programs)
    if key not in _filters:
        _filters[key] = seccomp_filter(metadata=own_user, programs=programs)
    return _filters[key]


def user_of(number: int) -> int:
    """One of ``USERS``, another one for each of that many numbers in a row."""
    return USERS[number % len(USERS)]


def available() -> bool:
    """Whether a process can be confined here."""
    return supported() and kernel_calls.landlock_version() > 0


def confine(
    *,
    reads: list[str],
    writes: list[str],
    canary: str,
    user: int | None,
    program: str,
    system: list[tuple[str, int]],
) -> None:
    """Give up everything but the box, for good, and check that it is gone.

    Args:
        reads, writes: as in ``Box``.
        canary: a file that this process may read and write until now.
        user: the number to become, None to stay who we are.
        program: what will be started; empty: nothing may be.
        system: what ``system_rules`` returned.

    Raises:
        DenialError: a denial is not in force.
        OSError: the kernel refused to confine.
    """
    for mode in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.close(os.open(canary, mode | os.O_CLOEXEC))
        except OSError as fault:
            raise DenialError(f"the canary cannot be opened before: {fault.strerror}") from None
    rules = [
        *system,
        *((path, kernel_calls.READ | kernel_calls.EXECUTE) for path in parts(program)),
        *((path, kernel_calls.READ) for path in reads),
        *((path, kernel_calls.WRITE) for path in writes),
    ]
    if user is not None:
        kernel_calls.become(user)
    kernel_calls.no_new_privileges()
    kernel_calls.restrict_paths(rules)
    kernel_calls.filter_calls(calls(user is not None, bool(program)))
    check(canary, user)


def system_rules(installed: list[str]) -> list[tuple[str, int]]:
    """What every box holds.

    Args:
        installed: the folders of our own installation.
    """
    rights = (
        (kernel_calls.READ | kernel_calls.EXECUTE, (*PROGRAMS, *installed)),
        (kernel_calls.READ, SETTINGS),
        (kernel_calls.READ_FILE | kernel_calls.WRITE_FILE, SINKS),
    )
    real = {os.path.realpath(path): right for right, paths in rights for path in paths}
    return [(path, right) for path, right in real.items() if os.path.exists(path)]


def parts(program: str) -> list[str]:
    """A program's file, and the folders beside it that hold its own parts."""
    if not program:
        return []
    place = os.path.realpath(program)
    home = os.path.dirname(os.path.dirname(place))
    beside = [os.path.join(home, name) for name in ("lib", "libexec")]
    return [place, *(folder for folder in beside if os.path.isdir(folder))]


def fault_of_room(outside: str) -> str:
    """Why this process is not in a room of bubblewrap's; empty when it is.

    Args:
        outside: the namespaces of who started it, and a file that is not in the room.
    """
    *before, file = outside.split(",")
    now = [str(os.stat(f"/proc/self/ns/{name}").st_ino) for name in NAMESPACES]
    shared = [name for name, old, new in zip(NAMESPACES, before, now, strict=True) if old == new]
    if shared:
        return f"bwrap ran, but shares our {', '.join(shared)} namespace"
    if os.path.exists(file):
        return "bwrap ran, but our files can be seen in its room"
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        probe.connect(("192.0.2.1", 9))  # sends nothing: only a way there is looked for
    except OSError:
        return ""
    finally:
        probe.close()
    return "bwrap ran, but there is a way to the network"


def require_groups(entrances: str, entered: int) -> None:
    """Refuse to go on where a control group let nobody in.

    Args:
        entrances: as for ``kernel.enter_groups``.
        entered: what that returned.

    Raises:
        DenialError: one did not.
    """
    if entered < len(entrances.split(",")) and entrances:
        raise DenialError("the kernel let no program into its control group")


def confine_code(outside: str, user: int | None) -> None:
    """Give up what code of the change may not have, in a room of its own, and check that.

    Args:
        outside: as for ``fault_of_room``.
        user: the number to become, None to stay who we are.

    Raises:
        DenialError: it is no room, or a denial is not in force.
        OSError: the kernel refused to confine.
    """
    if fault := fault_of_room(outside):
        raise DenialError(fault)
    if user is not None:
        kernel_calls.become(user, all_files=False)
    kernel_calls.no_new_privileges()
    kernel_calls.filter_calls(seccomp_filter(metadata=True, programs=True, own_room=True))
    if not kernel_calls.is_filtered():
        raise DenialError("no filter of system calls is in force")
    if kernel_calls.can_change_user() or (user is not None and os.getresuid() != (user,) * 3):
        raise DenialError("the program would still run as us")


# --- the canary -----------------------------------------------------------------------------------


def check(canary: str, user: int | None) -> None:
    """Try what must be denied.

    Raises:
        DenialError: one of it succeeded, or the confinement is not ours.
    """
    if not kernel_calls.is_filtered():
        raise DenialError("no filter of system calls is in force")
    if user is not None and {*os.getresuid(), *os.getresgid(), *os.getgroups()} != {user}:
        raise DenialError("the program would still run as us")
    _denied("reading a file outside", os.open, canary, os.O_RDONLY)
    _denied("writing a file outside", os.open, canary, os.O_WRONLY)
    _denied("listing /", os.open, "/", os.O_RDONLY)
    _denied("reading of a process", os.open, "/proc/self/environ", os.O_RDONLY)
    for family in _FAMILIES:
        for kind in (_socket.SOCK_STREAM, _socket.SOCK_DGRAM):
            _denied("the network", _socket.socket, family, kind)


def _denied(what: str, attempt: Callable[..., object], *arguments: object) -> None:
    try:
        attempt(*arguments)
    except OSError as fault:
        if fault.errno in {errno.EPERM, errno.EACCES, errno.ENOENT}:
            return
    raise DenialError(f"{what} is not denied")
