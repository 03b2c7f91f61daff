"""The ``bwrap`` command that puts the launcher in namespaces of its own.

Files that are not named do not exist there. ``bwrap`` creates the namespaces once, and the launcher
in them confines each program further: namespaces for each program would cost 16 ms and more of
waiting for the kernel, thirty times in a review.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from orchestrator.program_search import find_program
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.namespace_verification import describe_request
from orchestrator.sandbox.process_confinement import SYSTEM_FILES, SYSTEM_PROGRAMS

INSTALL_HINT = "apt-get install bubblewrap   (or dnf, pacman, apk add: the package has that name)"
ALLOW_NAMESPACES = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
"""Lets ordinary users create namespaces where AppArmor forbids it, as on Ubuntu 24.04 and later."""
RUNNERS_HINT = (
    f"a GitHub runner has it after `sudo apt-get install bubblewrap` and `sudo {ALLOW_NAMESPACES}`,"
    " a GitLab runner with `privileged = true` in an image with bubblewrap; see docs/tests.md"
)
TMP_BYTES = 64 << 20
SHARED_BYTES = 16 << 20
_DIRECTORIES = ("/usr/local/bin", "/usr/bin", "/bin", "/run/current-system/sw/bin")
_MOUNTED_BY_BWRAP = ("/dev/", "/proc/")
_CAPABILITIES = {
    "DAC_OVERRIDE": 1, "DAC_READ_SEARCH": 2, "KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8,
}  # fmt: skip
"""What a root launcher needs to give programs a user of their own, and to kill them."""


def find_bwrap() -> str | None:
    """Path of ``bwrap``, in system directories only; None when it is not installed."""
    return find_program("bwrap", os.pathsep.join(_DIRECTORIES))


def _asked(
    reads: Iterable[Path | str], writes: Iterable[Path | str]
) -> dict[str, tuple[str, bool]]:
    """Path → the option that mounts it in new namespaces, and whether it may be written there."""
    system = [
        path for path in (*SYSTEM_PROGRAMS, *SYSTEM_FILES) if not path.startswith(_MOUNTED_BY_BWRAP)
    ]
    return {
        **dict.fromkeys(system, ("--ro-bind-try", False)),
        **{os.fspath(path): ("--ro-bind", False) for path in reads},
        **{os.fspath(path): ("--bind", True) for path in writes},
    }


def namespace_request(reads: Iterable[Path | str], writes: Iterable[Path | str]) -> str:
    """What ``namespace_command`` asks for, as ``namespace_error`` takes it."""
    paths = {path: writable for path, (_, writable) in _asked(reads, writes).items()}
    return describe_request(scratch_directory.host_file(), paths, _CAPABILITIES.values())


def namespace_command(
    bwrap: str, reads: Iterable[Path | str], writes: Iterable[Path | str]
) -> list[str]:
    """The command that creates the namespaces, up to the program that it runs."""
    argv = [
        bwrap, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
        "--unshare-cgroup-try", "--die-with-parent", "--new-session",
        "--proc", "/proc", "--dev", "/dev",
        "--perms", "1777", "--size", str(SHARED_BYTES), "--tmpfs", "/dev/shm",  # noqa: S108 - its own
        "--perms", "1777", "--size", str(TMP_BYTES), "--tmpfs", "/tmp",  # noqa: S108
    ]  # fmt: skip
    if os.geteuid() == 0:
        argv += ["--cap-drop", "ALL"]
        argv += [part for name in _CAPABILITIES for part in ("--cap-add", f"CAP_{name}")]
    else:
        argv += ["--unshare-user"]
    # Shallow first, so that no mount hides one that lies below it.
    named = _asked(reads, writes)
    parents = {str(parent) for path in named for parent in Path(path).parents}
    for path in sorted(parents - {"/", "/tmp"}, key=lambda path: (path.count("/"), path)):  # noqa: S108
        if path not in named:  # left to bwrap, only root could pass through it
            argv += ["--perms", "0755", "--dir", path]
    for path in sorted(named, key=lambda path: (path.count("/"), path)):
        argv += [named[path][0], path, path]
    return [*argv, "--remount-ro", "/", "--chdir", "/", "--"]
