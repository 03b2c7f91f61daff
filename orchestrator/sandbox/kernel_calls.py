"""System calls that a process confines itself with, made through the C library.

Imported by processes that must start fast: nothing here imports more than it needs.
"""

from __future__ import annotations

import ctypes
import os
import resource
import stat
import sys

TYPE_CHECKING = False  # ``typing`` and ``collections`` are not needed at run time
if TYPE_CHECKING:
    from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_VERSION = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
_MAKE_DEVICES = 1 << 6 | 1 << 11
_MAKE_SOCKET = 1 << 9
_TRUNCATE = 1 << 14
_FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE
READ = READ_FILE | READ_DIR
_OLDEST_RIGHTS = (1 << 13) - 1
WRITE = ((1 << 15) - 1) & ~(EXECUTE | _MAKE_DEVICES | _MAKE_SOCKET)
"""Reading, writing, making and removing what is no device and no socket."""
_ALL_TCP, _ALL_SCOPES = 3, 3

_NO_NEW_PRIVS, _IS_NO_NEW_PRIVS, _GET_SECCOMP, _SET_SECCOMP = 38, 39, 21, 22
_PARENT_DEATH, _GET_PARENT_DEATH, _DUMPABLE, _SECUREBITS, _SUBREAPER, _AMBIENT = 1, 2, 4, 28, 36, 47
_FILTER_MODE, _AMBIENT_RAISE = 2, 2
_KEEP_ACROSS_SETUID = 1 << 2  # SECBIT_NO_SETUID_FIXUP: or access(2) would ignore what is kept
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2
_SETGID, _SETUID, _SETPCAP = 6, 7, 8
_CAPABILITIES_V3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
for _name in ("prctl", "syscall", "signal", "capset"):
    getattr(_libc, _name, None)  # looked up once, and not after each fork

_Header = ctypes.c_uint32 * 2
_Sets = ctypes.c_uint32 * 6


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(option: int, *arguments: int) -> int:
    given = map(ctypes.c_ulong, (*arguments, 0, 0, 0, 0)[:4])
    return _checked(_libc.prctl(option, *given), f"prctl {option}")


def landlock_version() -> int:
    """The version of Landlock that the kernel supports, 0 for none."""
    version: int = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    return max(0, version)


def restrict_paths(rules: Iterable[tuple[str, int]]) -> None:
    """Restrict this process and its children to paths, by Landlock."""
    version = landlock_version()
    extra = sum(1 << bit for bit, since in ((13, 2), (14, 3), (15, 5)) if version >= since)
    handled = _OLDEST_RIGHTS | extra
    tcp = _ALL_TCP if version >= 4 else 0
    attributes = _Ruleset(handled, tcp, _ALL_SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    created = _libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0)
    ruleset = _checked(created, "Landlock")
    for path, rights in rules:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FOR_FILES  # noqa: PLW2901 - the kernel refuses a directory's rights on a file
        beneath = _Beneath(rights & handled, descriptor)
        added = _libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(beneath), 0)
        _checked(added, f"Landlock, {path}")
        os.close(descriptor)
    _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "Landlock")
    os.close(ruleset)


def no_new_privileges() -> None:
    """Keep executed programs from gaining privileges by set-user-id."""
    _prctl(_NO_NEW_PRIVS, 1)


def install_seccomp_filter(steps: bytes) -> None:
    """Install a seccomp filter: an array of ``sock_filter``."""
    buffer = ctypes.create_string_buffer(steps, len(steps))
    program = _Program(len(steps) // 8, ctypes.addressof(buffer))
    _prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.addressof(program))


def is_filtered() -> bool:
    """Whether a seccomp filter is in force and no privileges can be gained."""
    return _prctl(_GET_SECCOMP) == _FILTER_MODE and _prctl(_IS_NO_NEW_PRIVS) == 1


def hide_from_other_processes() -> None:
    """Keep our environment, memory and descriptors from other processes of the same user.

    On Linux a child could read them under ``/proc``, whatever its own environment is. What a child
    executes is not affected. Root is not kept out.
    """
    if sys.platform == "linux":
        _prctl(_DUMPABLE, 0)


def become_subreaper() -> None:
    """Become the parent of descendants whose own parent exits; only Linux can."""
    if sys.platform == "linux":
        _prctl(_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends; only Linux can."""
    if sys.platform == "linux":
        _prctl(_PARENT_DEATH, 9)


def parent_death_signal() -> int:
    """The signal that this process gets when the thread that started it ends; 0 for none."""
    number = ctypes.c_int()
    _prctl(_GET_PARENT_DEATH, ctypes.addressof(number))
    return number.value


def enter_cgroups(procs_files: str) -> int:
    """Move this process into cgroups, up to the first that refuses.

    Args:
        procs_files: descriptors of their open ``cgroup.procs``, with commas between; closed here.

    Returns:
        How many were entered.
    """
    numbers = [int(number) for number in procs_files.split(",") if number]
    entered = 0
    try:
        for number in numbers:
            os.write(number, b"0")
            entered += 1
    except OSError:  # the count tells the process that opened them
        pass
    for number in numbers:
        os.close(number)
    return entered


def raise_oom_score() -> None:
    """Have the kernel kill this process first when its cgroup is out of memory."""
    try:
        number = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:  # no /proc: the largest one goes first
        return
    os.write(number, b"1000")
    os.close(number)


def set_limit(number: int, bound: int) -> None:
    """Set a resource limit of this process irrevocably, or keep a stricter one."""
    hard = resource.getrlimit(number)[1]
    bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
    resource.setrlimit(number, (bound, bound))


def lead_process_group(process: int) -> None:
    """Make a process the leader of its own process group, so that its children end with it.

    After a fork, child and parent both call this: whichever runs first.
    """
    try:
        os.setpgid(process, process)
    except OSError:  # it has done so itself and executes another program by now, or is gone
        return


def kill_process_group(group: int) -> None:
    """Kill all processes of a process group."""
    try:
        os.killpg(group, 9)
    except OSError:  # no process is left
        return


def restore_default_signals() -> None:
    """Restore the signals that Python ignores: programs do not expect that."""
    for number in (13, 25):  # SIGPIPE, SIGXFSZ
        _libc.signal(number, ctypes.c_void_p(0))


def effective_capabilities() -> int:
    """The capabilities of this process, a bit for each number."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next(int(line[8:], 16) for line in status if line.startswith("CapEff:"))


def can_change_user() -> bool:
    """Whether this process is root and has the capabilities to change its user."""
    if os.geteuid() != 0:
        return False
    held = effective_capabilities()
    return all(held >> bit & 1 for bit in (_SETUID, _SETGID, _SETPCAP, _DAC_OVERRIDE))


def change_user(user: int, *, all_files: bool = True) -> None:
    """Change to a user without privileges.

    Args:
        all_files: keep the capability to ignore file permissions, where Landlock restricts paths.
    """
    _prctl(_SECUREBITS, _KEEP_ACROSS_SETUID)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    rights = (_DAC_OVERRIDE, _DAC_READ_SEARCH) if all_files else ()
    kept = sum(1 << right for right in rights)
    header = _Header(_CAPABILITIES_V3, 0)
    sets = _Sets(kept, kept, kept, 0, 0, 0)
    _checked(_libc.capset(ctypes.byref(header), ctypes.byref(sets)), "capset")
    for right in rights:
        _prctl(_AMBIENT, _AMBIENT_RAISE, right)
