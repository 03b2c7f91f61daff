"""The order of versions in each ecosystem, for matching ranges of advisories."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from packaging.version import InvalidVersion, Version

_SEMANTIC = re.compile(r"[v=]*(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z.-]+))?(?:\+.*)?")
_COMPOSER = re.compile(r"v?(\d+(?:\.\d+){0,3})(?:[._-]?([a-z]+)[._-]?(\d*))?(?:\+.*)?")
_STABILITY = {"dev": -4, "alpha": -3, "a": -3, "beta": -2, "b": -2, "rc": -1, "": 0}
_PATCH = {"p": 1, "pl": 1, "patch": 1}
_MAVEN_STAGES = ("alpha a", "beta b", "milestone m", "rc cr", "snapshot")
_MAVEN_BEFORE = {word: at for at, stage in enumerate(_MAVEN_STAGES) for word in stage.split()}
_MAVEN_RELEASE = frozenset(["0", "00", "ga", "final", "release"])
_MAX_PARTS = 16


def version_key(ecosystem: str, version: str) -> Any:
    """The sort key of a version in its ecosystem.

    Raises:
        ValueError: it is not a version there, for example a branch.
    """
    if len(version) > 200:
        raise ValueError
    return _KEYS[ecosystem](version.strip())


def _python(version: str) -> Any:
    try:
        return Version(version)
    except InvalidVersion:
        raise ValueError from None


def _semantic(version: str) -> Any:
    found = _SEMANTIC.fullmatch(version)
    if not found:
        raise ValueError
    numbers = tuple(int(part or 0) for part in found.groups()[:3])
    if found[4] is None:
        return numbers, (1,)
    parts = tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in found[4].split("."))
    return numbers, (0, parts)


def _ruby(version: str) -> Any:
    parts = re.findall(r"\d+|[a-z]+", version.replace("-", ".pre.").lower())
    if not re.match(r"\d", version) or len(parts) > _MAX_PARTS:
        raise ValueError
    # A missing part is zero, and a word sorts before any number.
    found = [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]
    return (*found, *[(1, 0, "")] * (_MAX_PARTS - len(found)))


def _composer(version: str) -> Any:
    found = _COMPOSER.fullmatch(version.lower())
    order = {**_STABILITY, **_PATCH}
    if not found or (found[2] or "") not in order:
        raise ValueError
    numbers = [int(part) for part in found[1].split(".")]
    padded = (*numbers, *[0] * (4 - len(numbers)))
    return padded, order[found[2] or ""], int(found[3] or 0)


def _maven(version: str) -> Any:
    parts = re.findall(r"\d+|[a-z]+", version.lower())
    if not re.match(r"\d", version) or len(parts) > _MAX_PARTS:
        raise ValueError
    kept: list[str] = []
    for part in [*parts, "final"]:
        # Trailing zeros and words for a release do not matter.
        while not part.isdecimal() and len(kept) > 1 and kept[-1] in _MAVEN_RELEASE:
            kept.pop()
        kept.append(part)
    # A number sorts after nothing, and nothing sorts after a prerelease qualifier.
    found = [
        (2, int(part), "")
        if part.isdecimal()
        else (0, _MAVEN_BEFORE[part], "")
        if part in _MAVEN_BEFORE
        else (1, 1, part)
        for part in kept[:-1]
    ]
    return (*found, *[(1, 0, "")] * (_MAX_PARTS - len(found)))


_KEYS: Mapping[str, Callable[[str], Any]] = {
    "PyPI": _python, "npm": _semantic, "crates.io": _semantic, "Go": _semantic, "RubyGems": _ruby,
    "Hex": _semantic, "Packagist": _composer, "Maven": _maven,
}  # fmt: skip
ECOSYSTEMS = frozenset(_KEYS)
