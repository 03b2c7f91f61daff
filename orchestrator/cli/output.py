"""Where results go: standard output, standard error, a file written in one step."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import stat
import sys
from pathlib import Path
from typing import Any, TextIO

from orchestrator.errors import InputError, OutputError
from orchestrator.report.terminal_escaping import neutralize_ci_commands, quote_path

MAX_WIDTH = 100


def as_json(document: Any) -> str:
    """A document as JSON that any terminal, encoding and parser takes: ASCII only, indented."""
    return neutralize_ci_commands(json.dumps(document, indent=2, allow_nan=False)) + "\n"


def emit(text: str, stream: TextIO | None) -> None:
    """Print; a reader that has left is no error, since the exit code tells the outcome.

    The reader may be a CI job's runner, which would take orders from what a change wrote.

    Raises:
        OutputError: it could not be written for another reason, as on a full disk.
    """
    if stream is None:  # closed by whoever started us
        return
    try:
        stream.write(neutralize_ci_commands(text))
    except BrokenPipeError:
        discard(stream)
    except OSError as fault:
        discard(stream)
        raise OutputError(f"cannot write the output: {fault.strerror}") from None
    flush(stream)


def flush(stream: TextIO | None) -> None:
    """Send what is buffered, with the same care as ``emit``."""
    if stream is None:
        return
    try:
        stream.flush()
    except BrokenPipeError:
        discard(stream)
    except OSError as fault:
        discard(stream)
        raise OutputError(f"cannot write the output: {fault.strerror}") from None


def discard(stream: TextIO | None) -> None:
    """Let all further output on a broken stream go nowhere, the last flush at exit included."""
    try:
        if stream is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
    except (OSError, ValueError):
        return  # it has no file descriptor, so nothing is flushed behind our back


def width_of(stream: TextIO | None) -> int:
    """Columns to fill: the terminal's up to a readable measure, 80 anywhere else."""
    if stream is None or not stream.isatty():
        return 80
    return min(shutil.get_terminal_size().columns, MAX_WIDTH)


def in_color(stream: TextIO | None) -> bool:
    """Whether ANSI colors are welcome (https://no-color.org)."""
    if stream is None or not stream.isatty() or os.environ.get("NO_COLOR"):
        return False
    return os.environ.get("TERM", "dumb") not in {"", "dumb", "unknown"}


def _led_out(path: Path) -> bool:
    """Whether links take a name that stands in a checkout out of its work tree."""
    given = Path(os.path.abspath(path))
    top = next((up for up in given.parents if os.path.lexists(up / ".git")), None)
    if top is None:
        return False
    root, real = Path(os.path.realpath(top)), Path(os.path.realpath(given))
    plain = real == root / given.relative_to(top)
    return not plain and (not real.is_relative_to(root) or real.is_relative_to(root / ".git"))


class JsonTarget:
    """Where ``--json`` goes; making one finds out whether it can be written, before any work.

    Args:
        name: a file, or ``-`` for standard output.

    Raises:
        InputError: the file cannot be written.
    """

    def __init__(self, name: str) -> None:
        self.to_stdout = name in {"-", "/dev/stdout"}
        self._name = name
        if self.to_stdout:
            return
        if not name:
            raise InputError("--json: the file's name is empty; name a file, or - for stdout")
        self._path = Path(name)
        try:
            if _led_out(self._path):
                raise InputError(
                    f"--json: {quote_path(name)} leads out of the checkout through a link, which a "
                    "change may have brought; remove that link, or name another file"
                )
            self._special = self._is_special()
            if not self._special:
                # Through a symbolic link the file behind it is replaced, and the link stays.
                self._path = Path(os.path.realpath(name))
                self._temporary().unlink()
        except (OSError, ValueError) as fault:
            raise InputError(f"--json: {self._cannot(fault)}") from None

    def write(self, document: Any) -> None:
        """Write the document whole or not at all.

        Raises:
            OutputError: it could not be written after all.
        """
        text = as_json(document)
        if self.to_stdout:
            emit(text, sys.stdout)
            return
        try:
            if self._special:
                self._path.write_text(text, encoding="ascii")
            else:
                self._replace(text)
        except BrokenPipeError:
            return
        except OSError as fault:
            raise OutputError(self._cannot(fault)) from None

    def _is_special(self) -> bool:
        """A device or a pipe is written to, not replaced, and not opened early: its reader waits.

        Raises:
            OSError: it is there and cannot be written to.
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
        """A new empty file next to the target, readable by whom the umask says."""
        path = self._path.with_name(f".diffcourt-{secrets.token_hex(8)}.tmp")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        return path

    def _replace(self, text: str) -> None:
        temporary = self._temporary()
        try:
            with temporary.open("w", encoding="ascii") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if self._path.exists():
                temporary.chmod(stat.S_IMODE(self._path.stat().st_mode))
            temporary.replace(self._path)
        finally:
            temporary.unlink(missing_ok=True)

    def _cannot(self, fault: Exception) -> str:
        why = fault.strerror if isinstance(fault, OSError) else str(fault)
        return f"cannot write {quote_path(self._name)}: {why}"
