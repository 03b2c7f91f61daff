"""Where control groups of ours can be made, read from what the kernel says of this process."""

from __future__ import annotations

import os
import re

from msgspec import Struct

WANTED = ("memory", "pids", "cpu")
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Hierarchy(Struct, frozen=True):
    """One tree of control groups, and where in it this process stands.

    Attributes:
        version: 1 or 2.
        controllers: those of ``WANTED`` that belong to it; of version 2 that is every one which
            has no tree of its own, whether or not it is handed down to us.
        mount: the folder that it is mounted on.
        group: the folder of this process's own group.
    """

    version: int
    controllers: tuple[str, ...]
    mount: str
    group: str


def hierarchies(own: str, mounts: str) -> list[Hierarchy]:
    """The trees that hold a controller we want and can be seen from here.

    Args:
        own: ``/proc/self/cgroup``.
        mounts: ``/proc/self/mountinfo``.
    """
    paths: dict[tuple[str, ...], str] = {}
    for line in own.splitlines():
        _, said, path = line.split(":", 2)
        paths[tuple(said.split(",")) if said else ()] = path
    taken = {name for names in paths for name in names}
    found: list[Hierarchy] = []
    for names, path in paths.items():
        version = 1 if names else 2
        wanted = tuple(it for it in WANTED if (it in names if names else it not in taken))
        places = _folders(mounts, version, names, path) if wanted else []
        if places:
            found.append(Hierarchy(version, wanted, *places[0]))
    return found


def _folders(mounts: str, version: int, names: tuple[str, ...], path: str) -> list[tuple[str, str]]:
    """Where a tree is mounted, and the folder of the group ``path`` there."""
    places = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, mount = (_ESCAPE.sub(_character, field) for field in before.split(" ")[3:5])
        right = kind == ("cgroup" if version == 1 else "cgroup2")
        if right and {*names} <= {*options.split(",")}:
            below = os.path.relpath(path, root).split("/")
            if ".." not in (*path.split("/"), *below):  # what is above, we cannot reach
                places.append((mount, os.path.normpath(os.path.join(mount, *below))))
    return places


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 8))
