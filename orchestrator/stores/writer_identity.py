"""Who writes a run, in words for people and in numbers that tell whether that process still lives.

A process id alone is soon another process's; together with the time of its start, the kernel's boot
and the namespace of the ids it is not. Linux only: elsewhere nothing is certain, and a dead
writer's lease runs out by itself.
"""

import os
import re
import socket
from pathlib import Path

_MACHINE_PART = re.compile(r"process (\d+) on .* \[boot=(\S+) namespace=(\S+) started=(\d+)\]")
_DEAD = {"Z", "X", "x"}
"""States of a process that has ended, whether its parent knows or not (proc_pid_stat(5))."""


def this_process() -> str:
    """The holder text of the running process."""
    name = f"process {os.getpid()} on {socket.gethostname()}"
    try:
        boot, namespace = _boot_and_namespace()
        pid, _, started = _process_stat("self")
    except (OSError, ValueError):
        return name
    if pid != os.getpid():  # /proc shows another namespace's processes
        return name
    return f"{name} [boot={boot} namespace={namespace} started={started}]"


def display_name(holder: str) -> str:
    """The part of a holder text that is for people."""
    return holder.partition(" [")[0]


def is_gone(holder: str) -> bool:
    """Whether the holder is certain to be dead: a process of this very machine that runs no more.

    False whenever that cannot be known, as for a process of another host or container.
    """
    match = _MACHINE_PART.fullmatch(holder)
    if match is None:
        return False
    pid, boot, namespace, started = match.groups()
    try:
        if _boot_and_namespace() != (boot, namespace):
            return False
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it lives, and is another user's
    except (OSError, OverflowError):
        return False
    try:
        _, state, since = _process_stat(pid)
    except (OSError, ValueError):
        return False  # not ours to see, or it ended just now: the next attempt decides
    return state in _DEAD or since != int(started)


def _boot_and_namespace() -> tuple[str, str]:
    """This boot of this machine, and the namespace of its process ids."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return boot, str(Path("/proc/self/ns/pid").stat().st_ino)


def _process_stat(pid: str) -> tuple[int, str, int]:
    """A process's id, state, and start in clock ticks since boot."""
    number, _, rest = Path(f"/proc/{pid}/stat").read_bytes().partition(b" (")
    # The name may hold spaces and brackets; what follows its last bracket is plain.
    fields = rest.rpartition(b") ")[2].split()
    return int(number), fields[0].decode(), int(fields[19])
