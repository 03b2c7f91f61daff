"""Write results to standard output, standard error, or atomically to a file."""

import errno
import os
import secrets
import shutil
import stat
import sys
from pathlib import Path
from typing import TextIO

from orchestrator.errors import InputError, OutputError
from orchestrator.report.formats import FORMATS
from orchestrator.report.terminal_escaping import emit, quote_path

MAX_WIDTH = 100
REPORT_SUFFIXES = ("", ".xml", ".md", ".txt", ".log", ".jsonl", *(f".{name}" for name in FORMATS))
"""The ends of names of reports: files that are replaced without asking."""


def width_of(stream: TextIO | None) -> int:
    """The width in columns: that of the terminal, at most 100; 80 without one."""
    if stream is None or not stream.isatty():
        return 80
    return min(shutil.get_terminal_size().columns, MAX_WIDTH)


def _leaves_checkout(path: Path) -> bool:
    """Whether symbolic links lead a path in a checkout out of its work tree."""
    given = Path(os.path.abspath(path))
    top = next((up for up in given.parents if os.path.lexists(up / ".git")), None)
    if top is None:
        return False
    root, real = Path(os.path.realpath(top)), Path(os.path.realpath(given))
    plain = real == root / given.relative_to(top)
    return not plain and (not real.is_relative_to(root) or real.is_relative_to(root / ".git"))


class OutputTarget:
    """Where a result goes; the constructor checks that it can be written, before any work.

    Args:
        name: a file, or ``-`` for standard output.
        option: the option that named it, for errors.

    Raises:
        InputError: the file cannot be written.
    """

    def __init__(self, name: str, option: str = "--json") -> None:
        self.to_stdout = name in {"-", "/dev/stdout"}
        self._name, self._option = name, option
        if self.to_stdout:
            self.place = "-"
            return
        if not name:
            raise InputError(
                f"{option}: the file name is empty; name a file, or - for standard output"
            )
        self._path = Path(name)
        try:
            if _leaves_checkout(self._path):
                raise InputError(
                    f"{option}: {quote_path(name)} leads out of the checkout through a "
                    "symbolic link that a change may have added; remove the link, or name "
                    "another file"
                )
            self._special = self._is_special()
            if not self._special:
                self._require_report()
                # The target of a symbolic link is replaced; the link stays.
                self._path = Path(os.path.realpath(name))
                self._temporary().unlink()
            self.place = str(self._path)
        except (OSError, ValueError) as error:
            raise InputError(f"{option}: {self._message(error)}") from None

    def write(self, text: str, *, commands: bool = False) -> None:
        """Write the text in UTF-8, completely or not at all.

        Args:
            commands: the text's commands to a CI runner are ours, so they are printed unchanged.
        """
        if self.to_stdout:
            emit(text, sys.stdout, commands=commands, data=True)
            return
        try:
            if self._special:
                self._path.write_text(text, encoding="utf-8", errors="backslashreplace")
            else:
                self._replace(text)
        except BrokenPipeError:
            return
        except OSError as error:
            raise OutputError(self._message(error)) from None

    def _require_report(self) -> None:
        """Raise InputError for a file that, by its name, is something else than a verdict."""
        is_verdict = self._option.startswith(("--json", "--format"))
        if is_verdict and self._path.suffix.lower() not in REPORT_SUFFIXES and self._path.exists():
            shown = quote_path(self._name)
            raise InputError(
                f"{self._option}: {shown} exists, and by its name is no report; name another file, "
                "or delete it"
            )

    def _is_special(self) -> bool:
        """Whether it is a device or a pipe, which is written to and not replaced.

        Raises:
            OSError: it exists and cannot be written to.
        """
        try:
            mode = self._path.stat().st_mode
        except FileNotFoundError:
            return False
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(self._path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return not stat.S_ISREG(mode)

    def _temporary(self) -> Path:
        """Create an empty file next to the target, with the permissions of the umask."""
        path = self._path.with_name(f".diffcourt-{secrets.token_hex(8)}.tmp")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        return path

    def _replace(self, text: str) -> None:
        temporary = self._temporary()
        try:
            with temporary.open("w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if self._path.exists():
                temporary.chmod(stat.S_IMODE(self._path.stat().st_mode))
            temporary.replace(self._path)
        finally:
            temporary.unlink(missing_ok=True)

    def _message(self, error: Exception) -> str:
        why = error.strerror if isinstance(error, OSError) else str(error)
        todo = "; make its folder first" if isinstance(error, FileNotFoundError) else ""
        return f"cannot write {quote_path(self._name)}: {why}{todo}"


def optional_target(name: str | None, option: str = "--json") -> OutputTarget | None:
    """The target of an option; None if the option was not given."""
    return None if name is None else OutputTarget(name, option)
