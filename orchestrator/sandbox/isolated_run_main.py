"""The process that becomes code of the change, once it is confined in namespaces of its own.

Started as a file, isolated and without site (``-I -S``):
``isolated_run_main.py HOME NAMESPACES USER UNIX STATUS TREE LIMITS CGROUP_FILES ARGV``.

NAMESPACES is what its namespaces must be like, USER is a user id or empty, UNIX is empty where it
may not open Unix sockets, STATUS a descriptor to which ``ready`` is written at the very end, or
else the error; TREE is the program's working directory, LIMITS are pairs of a resource number and
its bound, and CGROUP_FILES descriptors of ``cgroup.procs``.
"""

import os
import sys


def main() -> None:
    """Confine the process and execute the program."""
    home, namespaces, user, unix, status_number, tree, limits, cgroup_files, *argv = sys.argv[1:]
    sys.path.insert(0, home)
    from orchestrator.sandbox import kernel_calls, process_confinement  # noqa: PLC0415 - HOME is on the path now

    status, where = int(status_number), " "
    try:
        os.set_inheritable(status, False)
        entered = kernel_calls.enter_cgroups(cgroup_files)
        os.closerange(3, status)
        os.closerange(status + 1, os.sysconf("SC_OPEN_MAX"))
        kernel_calls.restore_default_signals()
        for pair in limits.split(","):
            kernel_calls.set_limit(*map(int, pair.split("=")))
        process_confinement.require_cgroups(cgroup_files, entered)
        process_confinement.confine_test_code(
            namespaces, int(user) if user else None, unix_sockets=bool(unix)
        )
        os.chdir(tree)
        os.environ.pop("PWD", None)  # bwrap's, of another directory
        os.write(status, b"ready")
        os.dup2(1, 2)
        where = f" {argv[0]}: "
        os.execvp(argv[0], argv)  # noqa: S606
    except BaseException as error:  # there is no caller to raise it to
        os.write(status, f"{where}{getattr(error, 'strerror', None) or error}".encode())
    finally:
        os._exit(127)


if __name__ == "__main__":
    main()
