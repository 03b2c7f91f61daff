"""Whether two versions of a program that no check reads differ in nothing that runs."""

import re
from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Any

from diffchecks.data_files import read_map, read_patterns

_LITERALS = read_patterns("comment_lines")["literals"]
MAX_LENGTH = 200_000  # characters; a longer file takes seconds, and is in doubt
# A line that is continued reaches into the next one, even if that is blank.
_CONTINUED = r"\\[ \t\r]*\n[ \t\r]*(?:\0|\n|\Z)"


def comments_of(path: str) -> Any:
    """What ``tables/comments.yaml`` says of a file's language; None: nothing."""
    return read_map("comments.yaml", "languages").get(PurePosixPath(path).suffix.lower())


def same_code(path: str, base: str, head: str) -> bool:
    """Whether both have the same lines of code, and only comments on lines of their own differ.

    What may be something else than a comment is code.
    """
    if max(len(base), len(head)) > MAX_LENGTH:
        return False
    one, other = (_code(text, **comments_of(path)) for text in (base, head))
    return one is not None and one == other


def only_literals(text: str, numbers: Collection[int]) -> bool:
    """Whether lines hold texts and numbers alone, as those of a table that a tool makes."""
    lines = text.split("\n")
    return all(_LITERALS.fullmatch(lines[number - 1]) for number in numbers)


def _code(text: str, comment: str, doubt: str = "(?!)") -> list[str] | None:
    """The lines of code; None: a text or a comment may reach over several of them."""
    shown = re.sub(rf"(?m)^[ \t]*+(?>{comment})[ \t\r]*+$", "\0", text)
    lines = [line for line in shown.split("\n") if line.strip("\0 \t\r")]
    opened = (line.count('"') % 2 or line.count("/*") != line.count("*/") for line in lines)
    in_doubt = "\0" in text or re.search(f"(?m){_CONTINUED}|{doubt}", shown)
    return None if in_doubt or any(opened) else lines
