"""The log of used approvals: outside every journal, so that an older journal cannot repeat one.

A line per approval, its decision's id. The file is append-only, belongs to the user, and is locked
while it is checked and extended, so two processes with copies of one journal use an approval once.
"""

import fcntl
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from anyio import to_thread

from orchestrator.data_directories import user_directory
from orchestrator.errors import StoreError

VARIABLE = "DIFFCOURT_USED_APPROVALS"
"""Environment variable: the absolute path of the log, where the user's state home is unsuitable."""

FILE = "used-approvals"


class UsedApprovalsLog:
    """The log in the user's state home, or where ``DIFFCOURT_USED_APPROVALS`` says."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)

    async def claim(self, decision: str) -> bool:
        """Record durably that a decision is used; False when it was used before.

        Raises:
            StoreError: the log cannot be used, so nothing may start.
        """
        return await to_thread.run_sync(self._claim, decision)

    def _path(self) -> Path:
        given = self._environment.get(VARIABLE, "").strip()
        if given and not os.path.isabs(given):
            raise StoreError(f"{VARIABLE} must be an absolute path; it is {given!r}")
        directory = user_directory(self._environment, "XDG_STATE_HOME", ".local/state")
        if given:
            return Path(given)
        if directory is None:
            raise StoreError(
                "there is no home directory to record used approvals in, so no call that "
                f"needs one can start; set {VARIABLE} to a persistent file"
            )
        return directory / FILE

    def _claim(self, decision: str) -> bool:
        path = self._path()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags | os.O_NONBLOCK, 0o600), "r+b", 0) as file:
                _require_private(file.fileno(), path)
                fcntl.flock(file, fcntl.LOCK_EX)
                known = file.readall()
                if decision.encode() in known.split():
                    return False
                # After a line that a crash cut short, a new line begins.
                begin = b"" if not known or known.endswith(b"\n") else b"\n"
                file.write(begin + decision.encode() + b"\n")
                os.fsync(file.fileno())
            _sync_directory(path.parent)
        except OSError as error:
            raise StoreError(
                f"cannot record a used approval in {path}: {error.strerror}, so no call "
                f"that needs one can start; make it writable, or set {VARIABLE} to a "
                "persistent file"
            ) from None
        return True


def _require_private(descriptor: int, path: Path) -> None:
    """Check that nobody else can have written the log."""
    found = os.fstat(descriptor)
    mine = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1
    if not mine or found.st_mode & 0o077:
        raise StoreError(
            f"{path} must be a regular file of this user with mode 0600, because it records used "
            f"approvals; correct that, or set {VARIABLE} to another file"
        )


def _sync_directory(path: Path) -> None:
    """Make the name of a new file durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
