"""Text files of people: read with their faults in one line, replaced whole or not at all."""

from pathlib import Path

from orchestrator.errors import InputError


def read_text(path: Path) -> str:
    """A file's text; a byte order mark is left out.

    Raises:
        InputError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8; save it as UTF-8") from None


def write_text_atomically(path: Path, text: str) -> None:
    """Write a file; what stood there stays until the new one is complete.

    Raises:
        InputError: it cannot be written.
    """
    new = path.with_name(path.name + ".new")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
