"""Words that messages of every layer share."""

from collections.abc import Sequence


def name_some(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """``a, b and 3 more``: names in a message, at most so many of them."""
    more = len(names) - most
    return separator.join(names[:most]) + (f" and {more} more" if more > 0 else "")
