"""The system calls that a confined program is refused, as a seccomp filter.

A deny list of calls: programs need too many for an allow list to hold from one release of a C
library to the next. Calls newer than the list do not exist for the program. An allow list of
socket families: of the kernel's 45 or so, a network namespace confines few.
Imported by processes that must start fast: nothing here imports more than ``struct``.
"""

import errno
import os
import struct
import sys

NEWEST = 462
"""``mseal``: the newest call that this list considers."""

_ARCHES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000

_Numbers = dict[str, tuple[int | None, int | None]]
"""Name → number on x86_64 and on aarch64; None where there is no such call."""


def _read_calls() -> dict[str, _Numbers]:
    """The calls of ``system_calls.txt``, by group."""
    groups: dict[str, _Numbers] = {}
    with open(
        os.path.join(os.path.dirname(__file__), "system_calls.txt"), encoding="ascii"
    ) as file:
        for group, name, *numbers in map(str.split, file):
            if group != "#":
                x86, arm = (None if number == "-" else int(number) for number in numbers)
                groups.setdefault(group, {})[name] = x86, arm
    return groups


_CALLS = _read_calls()
_NUMBERS = {name: numbers for group in _CALLS.values() for name, numbers in group.items()}

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
    refused = [*_CALLS["always"]]
    tested["socketpair"] = _pairs(datagrams=own_namespaces and unix_sockets)
    tested["socket"] = _families(unix_sockets=unix_sockets)
    if not own_namespaces:
        # Landlock learned of truncate late; ftruncate needs an open file.
        refused += [*_CALLS["network"], *_CALLS["sessions"], "truncate"]
    if not metadata:
        refused += _CALLS["metadata"]
        tested["utimensat"] = _unless_null(1)
    if not programs:
        refused += _CALLS["programs"]
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
