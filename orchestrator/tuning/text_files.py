"""Read and atomically write text files that a person named, with one-line errors."""

from pathlib import Path

from orchestrator.errors import InputError


def read_text(path: Path) -> str:
    """Read a UTF-8 file, without its byte order mark.

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
    """Write a file by replacing it: readers see the old text or the new one, never a part.

    Raises:
        InputError: it cannot be written.
    """
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
