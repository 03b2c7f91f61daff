"""The command that puts the warden in a room of its own: what is not named is not there.

``bwrap`` makes the room once, and the warden in it confines each program further. A room for each
program would cost 16 ms and more of waiting for the kernel's namespaces, thirty times in a review.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.confinement import NAMESPACES, PROGRAMS, SETTINGS

INSTALL = "apt-get install bubblewrap   (or dnf, pacman, apk add: the package has that name)"
TMP_BYTES = 64 << 20
SHARED_BYTES = 16 << 20
_PLACES = ("/usr/local/bin", "/usr/bin", "/bin", "/run/current-system/sw/bin")
_MADE_BY_US = ("/dev/", "/proc/")
_KEPT = ("DAC_OVERRIDE", "DAC_READ_SEARCH", "KILL", "SETGID", "SETUID", "SETPCAP")
"""What root's warden needs to give programs a user of their own, and to end them."""


def find() -> str | None:
    """Where ``bwrap`` is, in the system's own folders only; None when it is not installed."""
    return shutil.which("bwrap", path=os.pathsep.join(_PLACES))


def namespaces() -> str:
    """The namespaces of this process, in the order of ``NAMESPACES``."""
    return ",".join(str(os.stat(f"/proc/self/ns/{name}").st_ino) for name in NAMESPACES)


def outside() -> str:
    """What must not be seen in a room, as ``confine.fault_of_room`` takes it."""
    return f"{namespaces()},{scratch_directory.outside()}"


def room(bwrap: str, reads: Iterable[Path | str], writes: Iterable[Path | str]) -> list[str]:
    """The command, up to what it runs.

    Args:
        bwrap: where it is.
        reads: what can be read in the room, besides the system's programs and libraries.
        writes: what can be written as well.
    """
    argv = [
        bwrap, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
        "--unshare-cgroup-try", "--die-with-parent", "--new-session",
        "--proc", "/proc", "--dev", "/dev",
        "--perms", "1777", "--size", str(SHARED_BYTES), "--tmpfs", "/dev/shm",  # noqa: S108 - its own
        "--perms", "1777", "--size", str(TMP_BYTES), "--tmpfs", "/tmp",  # noqa: S108
    ]  # fmt: skip
    if os.geteuid() == 0:
        argv += ["--cap-drop", "ALL"]
        argv += [word for name in _KEPT for word in ("--cap-add", f"CAP_{name}")]
    else:
        argv += ["--unshare-user"]
    system = [path for path in (*PROGRAMS, *SETTINGS) if not path.startswith(_MADE_BY_US)]
    # Shallow first, so that no mount hides one that lies below it.
    named = {
        **dict.fromkeys(system, "--ro-bind-try"),
        **{os.fspath(path): "--ro-bind" for path in reads},
        **{os.fspath(path): "--bind" for path in writes},
    }
    above = {str(folder) for path in named for folder in Path(path).parents}
    for path in sorted(above - {"/", "/tmp"}, key=lambda path: (path.count("/"), path)):  # noqa: S108
        if path not in named:  # left to bwrap, only root could pass through it
            argv += ["--perms", "0755", "--dir", path]
    for path in sorted(named, key=lambda path: (path.count("/"), path)):
        argv += [named[path], path, path]
    return [*argv, "--remount-ro", "/", "--chdir", "/", "--"]
