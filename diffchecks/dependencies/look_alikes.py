"""Package names that differ from a well-known package's name in a way that is easy to overlook."""

import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

ECOSYSTEMS = ("PyPI", "npm", "crates.io", "RubyGems", "Packagist")
"""Those with files of well-known packages. A Go module's name is its location."""

# Shorter names are similar to ordinary words.
MIN_LENGTH, MIN_TO_SUBSTITUTE = 5, 6


def _read(ecosystem: str) -> frozenset[str]:
    name = f"{ecosystem.lower().removesuffix('.io')}.txt"
    lines = (Path(__file__).parent / "popular_packages" / name).read_text("utf-8").split("\n")
    return frozenset(word for line in lines if line[:1] != "#" for word in line.split())


# Read at import time, since a sandboxed worker cannot open files.
POPULAR = {ecosystem: _read(ecosystem) for ecosystem in ECOSYSTEMS}


def find_look_alike(ecosystem: str, name: str) -> str:
    """The well-known package whose name a name resembles.

    Args:
        name: in lower case; for PyPI, with hyphens as separators.

    Returns:
        Its name; empty if there is none, or if the name itself is well known.
    """
    popular = POPULAR.get(ecosystem, frozenset())
    # On npm, what begins with @ is in a scope that has an owner.
    if name in popular or len(name) < MIN_LENGTH - 1 or name.startswith("@"):
        return ""
    by_letters = _by_letters(ecosystem)
    found = by_letters.get(_letters(name)) or _one_edit_away(name, popular)
    return found if found and not _is_own(name, found) else ""


def _is_own(name: str, popular: str) -> bool:
    """Whether it is from the same vendor, or the other name with a version number."""
    vendor, slash, _ = name.partition("/")
    if slash and popular.startswith(f"{vendor}/"):
        return True
    return name[-1:].isdigit() and name.rstrip("0123456789-") == popular.rstrip("0123456789-")


def _letters(name: str) -> str:
    return re.sub(r"[-_.]", "", name)


@cache
def _by_letters(ecosystem: str) -> Mapping[str, str]:
    return {_letters(name): name for name in sorted(POPULAR.get(ecosystem, ()))}


def _one_edit_away(name: str, popular: Collection[str]) -> str:
    """The well-known name that differs by one missing, added, swapped or changed letter."""
    for at in range(len(name)):
        before, after = name[:at], name[at + 1 :]
        # An extra or doubled letter, but not at the start, where people notice it.
        if at and len(name) > MIN_LENGTH and before + after in popular:
            return before + after
        swapped = before + after[:1] + name[at] + after[1:]
        if after and len(name) >= MIN_LENGTH and swapped in popular:
            return swapped
    return next(
        (
            found
            for at in range(len(name) + 1)
            for letter in "abcdefghijklmnopqrstuvwxyz0123456789"
            for found in _grown(name, at, letter)
            if found in popular
        ),
        "",
    )


def _grown(name: str, at: int, letter: str) -> list[str]:
    """The name with a letter added, and with one replaced, if it is long enough."""
    shortest = MIN_LENGTH if at else MIN_TO_SUBSTITUTE
    added = [name[:at] + letter + name[at:]] if len(name) >= shortest else []
    if 0 < at < len(name) and len(name) >= MIN_TO_SUBSTITUTE:
        added.append(name[:at] + letter + name[at + 1 :])
    return added
