"""The ``bwrap`` command that puts the launcher in namespaces of its own.

Files that are not named do not exist there. ``bwrap`` creates the namespaces once, and the launcher
in them confines each program further: namespaces for each program would cost 16 ms and more of
waiting for the kernel, thirty times in a review.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from diffchecks import DATA
from orchestrator.errors import SandboxError
from orchestrator.program_search import find_program
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.namespace_verification import describe_request
from orchestrator.sandbox.process_confinement import SYSTEM_FILES, SYSTEM_PROGRAMS

PACKAGE = Path(__file__).resolve().parents[1]
INSTALL_HINT = "apt-get install bubblewrap   (or dnf, pacman, apk add: the package has that name)"
ALLOW_NAMESPACES = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
"""Lets ordinary users create namespaces where AppArmor forbids it, as on Ubuntu 24.04 and later."""
RUNNERS_HINT = (
    f"a GitHub runner has it after `sudo apt-get install bubblewrap` and `sudo {ALLOW_NAMESPACES}`,"
    " a GitLab runner with `privileged = true` in an image with bubblewrap; see docs/tests.md"
)
TMP_BYTES = 1 << 30
"""A build of Go with two hundred packages writes 100 MB; what is written counts as memory."""
SHARED_BYTES = 16 << 20
_DIRECTORIES = ("/usr/local/bin", "/usr/bin", "/bin", "/run/current-system/sw/bin")
_MOUNTED = ("/dev/", "/proc/")
"""By bwrap itself."""
_CAPABILITIES = {
    "DAC_OVERRIDE": 1, "DAC_READ_SEARCH": 2, "KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8,
}  # fmt: skip
"""What a root launcher needs to give programs a user of their own, and to kill them."""


def find_bwrap() -> str | None:
    """Path of ``bwrap``, in system directories only; None when it is not installed."""
    return find_program("bwrap", os.pathsep.join(_DIRECTORIES))


def installation_directories() -> list[str]:
    """The directories of our own installation, which hold nothing but programs."""
    return sorted({sys.prefix, sys.base_prefix, str(PACKAGE), str(DATA.parent)})


def new_namespaces(reads: Iterable[Path], writes: Iterable[Path]) -> tuple[list[str], str]:
    """How to create namespaces with some paths, the system's and our installation.

    Returns:
        The command, up to the program that it runs, and what its namespaces must be like, as
        ``namespace_error`` takes it.

    Raises:
        SandboxError: bwrap is not installed.
    """
    bwrap = find_bwrap()
    if bwrap is None:
        raise SandboxError("bwrap is not installed")
    system = (*SYSTEM_PROGRAMS, *SYSTEM_FILES)
    # Path → the option that mounts it, and whether it may be written there.
    named = {path: ("--ro-bind-try", False) for path in system if not path.startswith(_MOUNTED)}
    named |= dict.fromkeys((*installation_directories(), *map(str, reads)), ("--ro-bind", False))
    named |= dict.fromkeys(map(str, writes), ("--bind", True))
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
    parents = {str(parent) for path in named for parent in Path(path).parents}
    for path in sorted(parents - {"/", "/tmp"}, key=lambda path: (path.count("/"), path)):  # noqa: S108
        if path not in named:  # left to bwrap, only root could pass through it
            argv += ["--perms", "0755", "--dir", path]
    for path in sorted(named, key=lambda path: (path.count("/"), path)):
        argv += [named[path][0], path, path]
    paths = {path: writable for path, (_, writable) in named.items()}
    request = describe_request(scratch_directory.host_file(), paths, _CAPABILITIES.values())
    return [*argv, "--remount-ro", "/", "--chdir", "/", "--"], request
