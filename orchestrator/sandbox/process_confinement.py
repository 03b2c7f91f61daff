"""Confine this process to its permissions, and test that before anything else runs in it.

Imported by processes that must start fast: next to nothing is imported here.
"""

from __future__ import annotations

import _socket  # ``socket`` imports enumerations, which take longer than all of this
import errno
import os

from orchestrator.sandbox import kernel_calls
from orchestrator.sandbox.namespace_verification import namespace_error
from orchestrator.sandbox.seccomp_filter import seccomp_filter, supported

USERS = range(61184, 65520)
"""User ids that systems reserve for services without a user of their own, and that are inside of a
container's id map. A job that gets one shares it with no other: its processes are counted."""

TYPE_CHECKING = False  # ``typing`` and ``collections`` are not needed at run time
if TYPE_CHECKING:
    from collections.abc import Callable

SYSTEM_PROGRAMS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
)  # fmt: skip
SYSTEM_FILES = (
    "/etc/alternatives", "/etc/group", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu",
    "/dev/random", "/dev/urandom", "/dev/zero", "/dev/full",
)  # fmt: skip
NULL_DEVICES = ("/dev/null",)
_VSOCK, _CRYPTO, _UNNAMED = 40, 38, 255
"""Families that no namespace confines, and one that no kernel has: Python lacks some by name."""
_REFUSED_IN_NAMESPACES = (_VSOCK, _CRYPTO, _UNNAMED)
_REFUSED_ALWAYS = (_socket.AF_INET, _socket.AF_UNIX, *_REFUSED_IN_NAMESPACES)


class DenialError(Exception):
    """Something that must be denied is not; the program may not run."""


_filters: dict[tuple[bool, bool], bytes] = {}


def cached_filter(own_user: bool, programs: bool) -> bytes:
    """The seccomp filter; made once, for many forks."""
    key = (own_user, programs)
    if key not in _filters:
        _filters[key] = seccomp_filter(metadata=own_user, programs=programs)
    return _filters[key]


def user_number(number: int) -> int:
    """One of ``USERS``; consecutive numbers get different ones."""
    return USERS[number % len(USERS)]


def is_available() -> bool:
    """Whether a process can be confined here."""
    return supported() and kernel_calls.landlock_version() > 0


def confine(
    *,
    reads: list[str],
    writes: list[str],
    canary: str,
    user: int | None,
    program: list[str],
    system: list[tuple[str, int]],
    executes: list[str] | None = None,
) -> None:
    """Confine this process to its permissions, irrevocably, and test that.

    Args:
        reads, writes, executes: as in ``Permissions``.
        canary: a file that this process may read and write before.
        user: the user id to change to, None to keep ours.
        program: ``program_files`` of the program to execute; empty: none may be executed.
        system: what ``system_rules`` returned.

    Raises:
        DenialError: a denial is not in force.
        OSError: the kernel refused to confine.
    """
    for mode in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.close(os.open(canary, mode | os.O_CLOEXEC))
        except OSError as error:
            raise DenialError(
                f"the canary cannot be opened before the confinement: {error.strerror}"
            ) from None
    rules = [
        *system,
        *((path, kernel_calls.READ | kernel_calls.EXECUTE) for path in program),
        *((path, kernel_calls.READ | kernel_calls.EXECUTE) for path in executes or ()),
        *((path, kernel_calls.READ) for path in reads),
        *((path, kernel_calls.WRITE) for path in writes),
    ]
    if user is not None:
        kernel_calls.change_user(user)
    kernel_calls.no_new_privileges()
    kernel_calls.restrict_paths(rules)
    kernel_calls.install_seccomp_filter(cached_filter(user is not None, bool(program)))
    check_denials(canary, user)


def system_rules(installed: list[str]) -> list[tuple[str, int]]:
    """The paths that every program may open, and how.

    Args:
        installed: the directories of our own installation.
    """
    rights = (
        (kernel_calls.READ | kernel_calls.EXECUTE, (*SYSTEM_PROGRAMS, *installed)),
        (kernel_calls.READ, SYSTEM_FILES),
        (kernel_calls.READ_FILE | kernel_calls.WRITE_FILE, NULL_DEVICES),
    )
    real = {os.path.realpath(path): right for right, paths in rights for path in paths}
    return [(path, right) for path, right in real.items() if os.path.exists(path)]


def program_files(program: str) -> list[str]:
    """A program's file, and the directories beside it that hold its own libraries."""
    if not program:
        return []
    path = os.path.realpath(program)
    prefix = os.path.dirname(os.path.dirname(path))
    beside = [os.path.join(prefix, name) for name in ("lib", "libexec")]
    return [path, *(directory for directory in beside if os.path.isdir(directory))]


def require_cgroups(procs_files: str, entered: int) -> None:
    """Check that this process has entered all its cgroups.

    Args:
        procs_files: as for ``kernel_calls.enter_cgroups``.
        entered: what that returned.
    """
    if entered < len(procs_files.split(",")) and procs_files:
        raise DenialError("the kernel did not let the process enter its cgroup")


def confine_test_code(namespaces: str, user: int | None, *, unix_sockets: bool) -> None:
    """Confine this process to what code of the change may have, in namespaces of its own.

    Args:
        namespaces: as for ``namespace_error``.
        user: the user id to change to, None to keep ours.
        unix_sockets: it may open Unix sockets.
    """
    if error := namespace_error(namespaces):
        raise DenialError(error)
    if user is not None:
        kernel_calls.change_user(user, all_files=False)
    kernel_calls.no_new_privileges()
    kernel_calls.install_seccomp_filter(
        seccomp_filter(metadata=True, programs=True, own_namespaces=True, unix_sockets=unix_sockets)
    )
    if not kernel_calls.is_filtered():
        raise DenialError("no seccomp filter is in force")
    if kernel_calls.can_change_user() or (user is not None and os.getresuid() != (user,) * 3):
        raise DenialError("the program would still run as the user of diffcourt")
    _sockets_denied(*_REFUSED_IN_NAMESPACES, *([] if unix_sockets else [_socket.AF_UNIX]))


def check_denials(canary: str, user: int | None) -> None:
    """Try what must be denied."""
    if not kernel_calls.is_filtered():
        raise DenialError("no seccomp filter is in force")
    if user is not None and {*os.getresuid(), *os.getresgid(), *os.getgroups()} != {user}:
        raise DenialError("the program would still run as the user of diffcourt")
    _denied("reading a file outside", os.open, canary, os.O_RDONLY)
    _denied("writing a file outside", os.open, canary, os.O_WRONLY)
    _denied("listing /", os.open, "/", os.O_RDONLY)
    _denied("reading of a process", os.open, "/proc/self/environ", os.O_RDONLY)
    _sockets_denied(*_REFUSED_ALWAYS)


def _sockets_denied(*families: int) -> None:
    # A kernel without the family would answer with another error than the filter.
    for family in families:
        for kind in (_socket.SOCK_STREAM, _socket.SOCK_DGRAM):
            _denied(f"a socket of family {family:d}", _socket.socket, family, kind)


def _denied(what: str, attempt: Callable[..., object], *arguments: object) -> None:
    try:
        attempt(*arguments)
    except OSError as error:
        if error.errno in {errno.EPERM, errno.EACCES, errno.ENOENT}:
            return
    raise DenialError(f"{what} is not denied")
