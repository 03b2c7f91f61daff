"""Read and atomically write files that a person named, with one-line errors; CSV as text."""

import csv
import fcntl
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import ValidationError, convert

from orchestrator.errors import InputError
from orchestrator.foreign_json import parse_json

T = TypeVar("T")
_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""How a cell begins that a spreadsheet executes, behind any number of our marks."""


def read_text(path: Path) -> str:
    """Read a UTF-8 file, without its byte order mark.

    Raises:
        InputError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8; save it as UTF-8") from None


def parse_object(text: str, location: str) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        InputError: it is not one; the message begins with the location.
    """
    try:
        found = parse_json(text)
    except ValueError as error:
        raise InputError(f"{location}: invalid JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{location}: must be a JSON object")
    return found


def read_struct(path: Path, kind: type[T], what: str) -> T:
    """Read a JSON document of ours.

    Raises:
        InputError: it cannot be read, or has another form.
    """
    try:
        return convert(parse_object(read_text(path), str(path)), kind)
    except ValidationError as error:
        raise InputError(f"{path}: is not {what}: {error}; create a new one: --freeze") from None


@contextmanager
def reading(location: Path | str, what: str) -> Iterator[None]:
    """Use the data of a document of a form that is not declared.

    Raises:
        InputError: it has another form.
    """
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        raise InputError(f"{location}: is not {what}: {why}") from None


def write_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV. A text that a spreadsheet would take for a formula gets a leading apostrophe."""
    out = io.StringIO(newline="")
    # All texts are quoted: csv itself leaves a carriage return bare, which ends a row elsewhere.
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerows(
        [f"'{c}" if isinstance(c, str) and _FORMULA.match(c) else c for c in row] for row in rows
    )
    return out.getvalue()


def read_csv(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a CSV file, each with its location; ``write_csv``'s apostrophes are taken off.

    Raises:
        InputError: it cannot be read, is no CSV, or a row has other columns than the header.
    """
    text = read_text(path)
    # A spreadsheet separates by semicolons where the decimal mark is a comma, or by tabs.
    mark = next((one for one in ",;\t" if one in text.partition("\n")[0]), ",")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=mark)
    try:
        names: list[str] | None = None
        for row in reader:
            cells = [cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell for cell in row]
            location = f"{path}:{reader.line_num}"
            if names is None:
                names = cells
            elif len(cells) not in {0, len(names)}:
                raise InputError(f"{location}: the number of cells differs from the header")
            elif cells:
                yield location, dict(zip(names, cells, strict=True))
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: invalid CSV: {error}") from None


def write_text_atomically(path: Path, text: str) -> None:
    """Write a file by replacing it: readers see the old text or the new one, never a part."""
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file that writers replace; it is created where it is missing."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # While this one waited, another may have put a new file in its place.
            if _is_at(descriptor, path):
                yield
                return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
