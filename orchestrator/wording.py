"""Words that messages of every layer share."""


def count_noun(count: int, noun: str) -> str:
    """``1 file``, ``1,204 files``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def name_rest(count: int, what: str = "more") -> list[str]:
    """``and 3 more``, the line behind a list that is cut; none where nothing is left out."""
    return [f"and {count} {what}"] if count > 0 else []
