"""Words that messages of every layer share."""

from collections.abc import Sequence


def name_some(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """``a, b and 3 more``: names in a message, at most so many of them."""
    more = len(names) - most
    return separator.join(names[:most]) + (f" and {more} more" if more > 0 else "")


def count_noun(count: int, noun: str) -> str:
    """``1 file``, ``1,204 files``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
