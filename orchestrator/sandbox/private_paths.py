"""Paths of this machine that code of the change may never read, whatever base configures."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from orchestrator.errors import SandboxError

SYSTEM_PRIVATE = tuple(
    map(Path, ("/proc", "/sys", "/dev", "/run", "/var/run", "/tmp", "/var/tmp", "/home", "/root"))  # noqa: S108
)
"""Processes, devices, sockets of services, temporary files and homes of everybody."""

MAX_ENTRIES = 1_000_000


def require_shareable(
    reads: Iterable[Path], private: Sequence[Path], *, refusal: str = "tests.reads names"
) -> None:
    """Check that code of the change may read some paths of this machine.

    None may be, hold or lie below a private one, or hold a socket, pipe or device: a mount that
    cannot be written still passes on what is written to these.

    Args:
        private: absolute paths besides those of the system.
        refusal: what the error begins with, up to the path.

    Raises:
        SandboxError: one may not be read; says which and why.
    """
    for given in reads:
        real = Path(os.path.realpath(given))
        refused = f"{refusal} {given}, but"
        for secret in _forms((*SYSTEM_PRIVATE, *private)):
            for path in (Path(os.path.normpath(given)), real):
                if path.is_relative_to(secret) or secret.is_relative_to(path):
                    raise SandboxError(
                        f"{refused} {secret} is private; name a directory outside of it, such as "
                        "one below /opt"
                    )
        if not real.exists():
            what = "install there what is needed, or name another directory"
            raise SandboxError(f"{refusal} {given}, which does not exist; {what}")
        if special := _first_special_file(real, refusal):
            raise SandboxError(
                f"{refused} {special} is a socket, pipe or device; name directories without one"
            )


def _forms(paths: Iterable[Path]) -> list[Path]:
    """The paths as given and with links followed; never ``/``, the home of users without one."""
    forms = [form for path in paths for form in (path, Path(os.path.realpath(path)))]
    return [form for form in dict.fromkeys(forms) if form != Path("/")]


def _first_special_file(top: Path, refusal: str) -> Path | None:
    """The first entry at or below a path that is no file, directory or link; None without one."""
    if not top.is_dir():
        return top if top.exists() and not top.is_file() else None
    left, pending = MAX_ENTRIES, [os.fspath(top)]
    while pending:
        try:
            with os.scandir(pending.pop()) as listed:
                entries = list(listed)
        except OSError:
            continue  # what we cannot list, a program without our privileges cannot reach
        left -= len(entries)
        if left < 0:
            raise SandboxError(
                f"{refusal} {top}, which has more than {MAX_ENTRIES} entries; name smaller "
                "directories"
            )
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            elif not (entry.is_symlink() or entry.is_file(follow_symlinks=False)):
                return Path(entry.path)
    return None
