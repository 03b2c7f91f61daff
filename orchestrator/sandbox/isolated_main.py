"""What starts code of the change, in a room of its own, once it is confined.

Started as a file, isolated and without site (``-I -S``):
``isolated_main.py HOME OUTSIDE USER SAID TREE LIMITS GROUPS ARGV``.
OUTSIDE is what must not be seen in the room, USER a number or empty, SAID a
descriptor on which ``ready`` is said at the very end, or why it did not come to that; TREE is where
the program stands, LIMITS are pairs of a resource and its bound, and GROUPS are the entrances of
control groups.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Be the program."""
    home, outside, user, said, tree, limits, groups, *argv = sys.argv[1:]
    sys.path.insert(0, home)
    from orchestrator.sandbox import confinement, kernel_calls  # noqa: PLC0415 - HOME is on the path now

    tell = int(said)
    try:
        os.set_inheritable(tell, False)
        entered = kernel_calls.enter_groups(groups)
        os.closerange(3, tell)
        os.closerange(tell + 1, os.sysconf("SC_OPEN_MAX"))
        kernel_calls.default_signals()
        for pair in limits.split(","):
            kernel_calls.limit(*map(int, pair.split("=")))
        confinement.require_groups(groups, entered)
        confinement.confine_code(outside, int(user) if user else None)
        os.chdir(tree)
        os.environ.pop("PWD", None)  # bwrap's, of another folder
        os.write(tell, b"ready")
        os.dup2(1, 2)
        os.execvp(argv[0], argv)  # noqa: S606
    except BaseException as fault:  # nobody else is there to hear of it
        os.write(tell, f" {getattr(fault, 'strerror', None) or fault}".encode())
    finally:
        os._exit(127)


if __name__ == "__main__":
    main()
