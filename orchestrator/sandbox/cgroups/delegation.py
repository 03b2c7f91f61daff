"""The folder below which control groups of ours may be made, where that part of a tree is ours.

Version 1 asks for nothing but rights. In version 2 a group that hands controllers down may hold no
processes itself, so we first go into a child of our own group. That is done only where the group
was given to us to divide and nobody else is in it.
"""

from __future__ import annotations

import os

from orchestrator.sandbox.cgroups.hierarchies import WANTED, Hierarchy

LEAF = "diffcourt.main"
"""Where we stand ourselves, in version 2."""
_MARKS = ("trusted.delegate", "user.delegate")
"""What systemd puts on a group that it has given away."""


class NotOursError(Exception):
    """Why no groups can be made."""


def branch(hierarchy: Hierarchy) -> tuple[str, tuple[str, ...]]:
    """The folder, and the controllers that groups made in it have.

    Raises:
        NotOursError: there is none.
        OSError: the kernel refused.
    """
    if hierarchy.version == 1:
        if not os.access(hierarchy.group, os.W_OK):
            raise NotOursError("our control group may not be written")
        return hierarchy.group, hierarchy.controllers
    folder = hierarchy.group
    if os.path.basename(folder) == LEAF:
        folder = os.path.dirname(folder)
    offered = _words(folder, "cgroup.controllers")
    usable = tuple(it for it in WANTED if it in offered and it in hierarchy.controllers)
    if not usable:
        raise NotOursError("our control group has no such controllers")
    closed = [name for name in usable if name not in _words(folder, "cgroup.subtree_control")]
    if closed:
        if not _is_delegated(folder, hierarchy.mount):
            raise NotOursError("our control group is not delegated to us")
        enter_leaf(folder)
        for name in closed:
            write(folder, "cgroup.subtree_control", f"+{name}")
    elif not os.access(folder, os.W_OK):
        raise NotOursError("our control group may not be written")
    return folder, usable


def _is_delegated(folder: str, mount: str) -> bool:
    if os.geteuid() != 0:
        ours = os.stat(folder).st_uid == os.geteuid()
        return ours and os.access(os.path.join(folder, "cgroup.subtree_control"), os.W_OK)
    if folder == mount:  # of a container, unless it is the machine's
        return os.path.exists(os.path.join(folder, "cgroup.type"))
    return any(_mark(folder, name) == b"1" for name in _MARKS)


def _mark(folder: str, name: str) -> bytes:
    try:
        return os.getxattr(folder, name)
    except OSError:
        return b""


def enter_leaf(folder: str) -> None:
    """Go from a group of version 2 into a child of it, with all that we started.

    Raises:
        NotOursError: somebody else is in it.
        OSError: the kernel refused.
    """
    inside = processes(folder)
    if not all(_is_ours(number) for number in inside):
        raise NotOursError("our control group holds processes that are not ours")
    leaf = os.path.join(folder, LEAF)
    os.makedirs(leaf, exist_ok=True)
    for number in inside:
        try:
            write(leaf, "cgroup.procs", str(number))
        except ProcessLookupError:  # it has ended
            continue


def _is_ours(number: int) -> bool:
    """Whether it is this process or descends from it; one that has ended does no harm."""
    while number not in {0, 1, os.getpid()}:
        try:
            with open(f"/proc/{number}/stat", encoding="ascii", errors="replace") as stat:
                number = int(stat.read().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return True
    return number == os.getpid()


# --- files of a group -----------------------------------------------------------------------------


def processes(folder: str) -> list[int]:
    """The numbers of the processes in a group, 0 for one that we cannot see."""
    return [int(number) for number in _words(folder, "cgroup.procs")]


def write(folder: str, name: str, value: str) -> None:
    """Write one of a group's files.

    Raises:
        OSError: it was refused, or there is no such file.
    """
    number = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(number, value.encode("ascii"))
    finally:
        os.close(number)


def _words(folder: str, name: str) -> list[str]:
    with open(os.path.join(folder, name), encoding="ascii") as file:
        return file.read().split()
