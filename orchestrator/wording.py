"""Words that messages of every layer share."""


def count_noun(count: int, noun: str) -> str:
    """``1 file``, ``1,204 files``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
