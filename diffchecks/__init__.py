"""Checks of a change, written in Python: a library that knows nothing of reviews, agents or models.

``check_trees`` compares two directories and returns what the second one introduces. A check reads
files below a directory and returns its findings as JSON, so that a caller can run it in a process
of its own. What is data lies in ``data``: rules, patterns of defects, models of libraries for taint
tracking, dialects of templates, dangerous values of infrastructure files, templates of fixes.
"""

from collections.abc import Sequence
from pathlib import Path

PREFIX = "diffchecks."
"""The prefix of the dotted name of every check."""

DATA = Path(__file__).resolve().parent / "data"
"""The directory of the data, a directory in it for each kind."""


class DataFileError(Exception):
    """A data file cannot be used.

    Args:
        message: what is wrong and what is allowed.
        file: the file's name for messages.
    """

    def __init__(self, message: str, file: str) -> None:
        super().__init__(f"{file}: {message}")
        self.message, self.file = message, file


def name_some(names: Sequence[str], most: int) -> str:
    """``a, b and 3 more``: names in a message, at most so many of them."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
