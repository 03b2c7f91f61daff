"""The system calls that a confined program is refused, as a seccomp filter.

A deny list of calls: programs need too many for an allow list to hold from one release of a C
library to the next. Calls newer than the list do not exist for the program. An allow list of
socket families: of the kernel's 45 or so, a network namespace confines few.
Imported by processes that must start fast: nothing here imports more than ``struct``.
"""

import errno
import struct
import sys

NEWEST = 462
"""``mseal``: the newest call that this list considers."""

_ARCHES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000

_Numbers = dict[str, tuple[int | None, int | None]]
"""Name → number on x86_64 and on aarch64; None where there is no such call."""

_ALWAYS: _Numbers = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "pidfd_getfd": (438, 438), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219),
    "add_key": (248, 217), "request_key": (249, 218), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "move_mount": (429, 429), "open_tree": (428, 428),
    "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "acct": (163, 89), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262), "syslog": (103, 116), "vhangup": (153, 58), "iopl": (172, None),
    "ioperm": (173, None), "modify_ldt": (154, None), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186),
    "msgsnd": (69, 189), "msgrcv": (70, 188), "semget": (64, 190), "semop": (65, 193),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
}  # fmt: skip
_NETWORK: _Numbers = {
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242),
}  # fmt: skip
_SESSIONS: _Numbers = {"setsid": (112, 157), "setpgid": (109, 154)}
"""Calls that leave the process group that is killed with the program."""
_METADATA: _Numbers = {
    "chmod": (90, None), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "setxattr": (188, 5), "lsetxattr": (189, 6), "removexattr": (197, 14),
    "lremovexattr": (198, 15),
}  # fmt: skip
"""Changes to files by path, which Landlock does not control; file permissions deny them to programs
that run as a user of their own."""
_PROGRAMS: _Numbers = {"execve": (59, 221), "execveat": (322, 281)}
_TESTED: _Numbers = {
    "socketpair": (53, 199), "clone": (56, 220), "clone3": (435, 435), "truncate": (76, 45),
    "ioctl": (16, 29), "utimensat": (280, 88),
}  # fmt: skip
"""Calls that depend on their arguments, or on what else confines the program."""
_NUMBERS = {**_ALWAYS, **_NETWORK, **_SESSIONS, **_METADATA, **_PROGRAMS, **_TESTED}

_NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW flag
_TERMINAL = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX: typing into somebody's terminal
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _PACKET = 1, 5
_NETLINK_ROUTE = 0

_LOAD, _EQUAL, _GREATER, _AT_LEAST, _ANY_OF, _AND, _RETURN = (
    0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06,
)  # fmt: skip
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_REFUSED, _UNKNOWN = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS

Step = tuple[int, int, int, int]


def supported() -> bool:
    """Whether the numbers of this machine's calls are known."""
    return sys.platform == "linux" and _machine() in _ARCHES


def _machine() -> str:
    # ``platform`` and ``sysconfig`` take longer to import than everything else here.
    import os  # noqa: PLC0415

    return os.uname().machine


def _argument(index: int, steps: list[Step]) -> list[Step]:
    """Steps that test the low half of an argument."""
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * index), *steps]


def _pairs(*, datagrams: bool) -> list[Step]:
    """Allow ``socketpair`` for Unix sockets; a datagram socket of a pair can send anywhere."""
    connected = [(_AND, 0, 0, 0xF), (_EQUAL, 2, 0, _STREAM), (_EQUAL, 1, 0, _PACKET)]
    return [
        *_argument(0, [(_EQUAL, 1, 0, _UNIX), (_RETURN, 0, 0, _REFUSED)]),
        *([] if datagrams else _argument(1, [*connected, (_RETURN, 0, 0, _REFUSED)])),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _families(*, unix_sockets: bool) -> list[Step]:
    """Allow ``socket`` for the families that a network namespace confines.

    Of netlink, only the list of interfaces and addresses, which resolvers read.
    """
    allowed = (_INET, _INET6, *([_UNIX] if unix_sockets else []))
    tests = [step for each in allowed for step in ((_EQUAL, 0, 1, each), (_RETURN, 0, 0, _ALLOW))]
    return [
        *_argument(0, [*tests, (_EQUAL, 1, 0, _NETLINK), (_RETURN, 0, 0, _REFUSED)]),
        *_argument(2, [(_EQUAL, 1, 0, _NETLINK_ROUTE), (_RETURN, 0, 0, _REFUSED)]),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _refuse_argument(index: int, code: int, values: tuple[int, ...]) -> list[Step]:
    """Refuse the call when the comparison of its argument with one of the values holds."""
    tests = [step for value in values for step in ((code, 0, 1, value), (_RETURN, 0, 0, _REFUSED))]
    return [*_argument(index, tests), (_RETURN, 0, 0, _ALLOW)]


def _unless_null(index: int) -> list[Step]:
    """Refuse the call when it names a path; without one it concerns an open file."""
    return [
        *_argument(index, [(_EQUAL, 0, 2, 0)]),
        (_LOAD, 0, 0, _ARGUMENTS + 8 * index + 4),
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _REFUSED),
        (_RETURN, 0, 0, _ALLOW),
    ]


def seccomp_filter(
    *, metadata: bool, programs: bool, own_namespaces: bool = False, unix_sockets: bool = True
) -> bytes:
    """The filter as an array of ``sock_filter``.

    Args:
        metadata: changing permissions, owners and times by path is allowed.
        programs: starting programs is allowed.
        own_namespaces: it has namespaces of its own, so sockets and sessions cannot leave them.
        unix_sockets: those can be opened there; not where a file of the host could be one.
    """
    column, arch = _ARCHES[_machine()]
    tested: dict[str, list[Step]] = {
        "clone": _refuse_argument(0, _ANY_OF, (_NEW_NAMESPACES,)),
        "clone3": [(_RETURN, 0, 0, _UNKNOWN)],  # its flags lie in memory: the caller uses clone
        "ioctl": _refuse_argument(1, _EQUAL, _TERMINAL),
    }
    refused = [*_ALWAYS]
    tested["socketpair"] = _pairs(datagrams=own_namespaces and unix_sockets)
    tested["socket"] = _families(unix_sockets=unix_sockets)
    if not own_namespaces:
        # Landlock learned of truncate late; ftruncate needs an open file.
        refused += [*_NETWORK, *_SESSIONS, "truncate"]
    if not metadata:
        refused += _METADATA
        tested["utimensat"] = _unless_null(1)
    if not programs:
        refused += _PROGRAMS
    tested |= {name: [(_RETURN, 0, 0, _REFUSED)] for name in refused}
    steps: list[Step] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
        (_GREATER, 0, 1, NEWEST),
        (_RETURN, 0, 0, _UNKNOWN),
    ]
    for name, then in tested.items():
        number = _NUMBERS[name][column]
        if number is not None:
            steps += [(_EQUAL, 0, len(then), number), *then]
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *step) for step in steps)
