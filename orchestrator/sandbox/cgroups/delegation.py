"""The directory below which we may create cgroups, where that part of a hierarchy is delegated.

Version 1 requires only write permission. In version 2 a cgroup that enables controllers for its
children may hold no processes itself, so we first move to a child of our own cgroup. That is done
only where the cgroup is delegated to us and holds no other processes.
"""

import os
import re

from msgspec import Struct

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
        root, mount = (_ESCAPE.sub(_unescape, field) for field in before.split(" ")[3:5])
        is_right = kind == ("cgroup" if version == 1 else "cgroup2")
        if is_right and {*names} <= {*options.split(",")}:
            below = os.path.relpath(path, root).split("/")
            if ".." not in (*path.split("/"), *below):  # what is above the mount is unreachable
                places.append((mount, os.path.normpath(os.path.join(mount, *below))))
    return places


def _unescape(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 8))


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


# --- files of a cgroup ----------------------------------------------------------------------------


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
