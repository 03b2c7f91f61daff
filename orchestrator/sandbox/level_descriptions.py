"""What each level stops and what it does not, in words, for ``diffcourt doctor``."""

from __future__ import annotations

from msgspec import Struct

from orchestrator.errors import SandboxError
from orchestrator.sandbox import bubblewrap, kernel_calls
from orchestrator.sandbox.confinement import available
from orchestrator.sandbox.launcher import Level
from orchestrator.sandbox.process_sandbox import SANDBOX

_BOTH = (
    "the network: TCP, UDP, Unix sockets",
    "reading and writing outside of what a job was given; our environment, our processes",
    "ptrace, bpf, mounts, new namespaces, io_uring, key rings, shared memory of the system",
    "daemons: all that a program started ends with it",
    "memory, file size and descriptors beyond the limits",
)
STOPS: dict[Level, tuple[str, ...]] = {
    "bubblewrap": (*_BOTH, "seeing that other files, processes and networks exist"),
    "landlock": _BOTH,
    "none": (_BOTH[-1], "our environment", "what stays in the program's process group"),
}
_DISK = "filling the disk with many files, in a folder that may be written"
_KERNEL = "faults of the kernel itself"
LEAVES: dict[Level, tuple[str, ...]] = {
    "bubblewrap": (_DISK, _KERNEL),
    "landlock": ("seeing which paths exist, and their size and times", _DISK, _KERNEL),
    "none": ("reading and writing files", "the network", "daemons"),
}
OLD_SIGNALS = "sending signals to processes of the same user"
SHARED_COUNT = "many processes: only a user or a user namespace of its own counts them"


class Report(Struct, frozen=True):
    """What there is here.

    Attributes:
        level: empty when there is none that may be used; then ``why`` says why.
        why: why it is not the best one.
        hint: what would make it better, a command; empty when nothing would.
        limits: which hold for all programs together, and why not the others, in one line.
    """

    level: str
    why: str
    stops: tuple[str, ...]
    leaves: tuple[str, ...]
    hint: str
    limits: str


def report() -> Report:
    """Start the sandbox and say what it is."""
    hint = bubblewrap.INSTALL if bubblewrap.find() is None and available() else ""
    try:
        level = SANDBOX.level
    except SandboxError as fault:
        return Report("", str(fault), (), (), hint, "")
    leaves = list(LEAVES[level])
    if level == "landlock" and not kernel_calls.can_change_user():
        if "pids" not in SANDBOX.holds:
            leaves.append(SHARED_COUNT)
        if kernel_calls.landlock_version() < 6:
            leaves.append(OLD_SIGNALS)
    return Report(level, SANDBOX.why, STOPS[level], tuple(leaves), hint, limits_together())


def limits_together() -> str:
    """Which limits hold for all programs together, and why not the others.

    Raises:
        SandboxError: there is no sandbox.
    """
    bounds = SANDBOX.limits
    words = {
        "memory": f"{bounds.memory >> 20} MB of memory",
        "pids": f"{bounds.processes} processes",
        "cpu": "a fair share of the processors",
    }
    held = [words[name] for name in words if name in SANDBOX.holds]
    said = f"all programs together: {', '.join(held)}" if held else "of each program alone"
    return f"{said}; {SANDBOX.why_unlimited}" if SANDBOX.why_unlimited else said
