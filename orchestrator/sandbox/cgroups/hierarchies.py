"""The cgroup hierarchies that this process is in, parsed from ``/proc/self``."""

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
