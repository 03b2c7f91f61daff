"""Checks of a change, written in Python: a library that knows nothing of reviews, agents or models.

``check_trees`` compares two directories and returns what the second one introduces. A check reads
files below a directory and returns its findings as JSON, so that a caller can run it in a process
of its own. What is data lies in ``data``: the checks' declarations, rules, patterns of defects,
models of libraries for taint tracking, dialects of templates, dangerous values of infrastructure
files, templates of fixes, formats of secrets, names and vocabularies.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from diffchecks.trees import CheckFinding as CheckFinding
    from diffchecks.trees import check_trees as check_trees

PREFIX = "diffchecks."
"""The prefix of the dotted name of every check."""

DATA = Path(__file__).resolve().parent / "data"
"""The directory of the data that a repository can add to, a directory in it for each kind."""
TABLES = Path(__file__).resolve().parent / "tables"
"""The directory of what only this package reads."""

Severity = Literal["critical", "high", "medium", "low", "info"]
"""How much harm a finding does, the most first."""


class DataFileError(Exception):
    """A data file cannot be used.

    Args:
        message: what is wrong and what is allowed.
        file: the file's name for messages.
    """

    def __init__(self, message: str, file: str) -> None:
        super().__init__(f"{file}: {message}")
        self.message, self.file = message, file


def name_some(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Names in a message, at most so many of them.

    >>> name_some(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    more = len(names) - most
    return separator.join(names[:most]) + (f" and {more} more" if more > 0 else "")


def show_bytes(message: str) -> str:
    r"""The message with bytes that are not UTF-8 as bytes, where ``repr`` wrote surrogates.

    >>> show_bytes(ascii(b"caf\xe9".decode("utf-8", "surrogateescape")))
    "'caf\\xe9'"
    """
    return re.sub(r"\\udc([89a-f][0-9a-f])", r"\\x\1", message)


def shorten(text: str, width: int = 200) -> str:
    r"""The text on one line, with nothing in it that a terminal would act on.

    >>> print(shorten("one\ntwo", 6), shorten("\x1b"))
    one\n… \x1b
    """
    flat = show_bytes("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text))
    return flat if len(flat) <= width else f"{flat[: width - 1]}…"


def __getattr__(name: str) -> Any:
    """``check_trees`` and ``CheckFinding``, imported with all that they need when they are used."""
    if name in {"check_trees", "CheckFinding"}:
        from diffchecks import trees  # noqa: PLC0415 - it imports what reviews import in workers

        return getattr(trees, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
