"""Objects of another file's methods that a Java program compares by identity."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath

from diffchecks.check_io import RawFinding
from diffchecks.data_files import read_patterns

_PATTERNS = read_patterns("boxed_getters")
_MESSAGE = "Objects that stand for numbers, dates or amounts are compared by identity"


def find_boxed_getters(
    paths: Iterable[str], tree: Iterable[str], text_of: Callable[[str], str]
) -> Iterator[RawFinding]:
    """Comparisons of what methods of two objects of a class, or of one, return.

    Args:
        paths: the files to check.
        tree: the files with classes.
    """
    by_class: dict[str, list[str]] = {}
    for path in tree:
        if path.endswith(".java"):
            by_class.setdefault(PurePosixPath(path).stem, []).append(path)
    for path in paths:
        text = text_of(path) if path.endswith(".java") else ""
        for found in _PATTERNS["comparison"].finditer(text):
            begin = text.rfind("\n", 0, found.start()) + 1
            if _PATTERNS["meant"].search(text[begin:].partition("\n")[0]):
                continue
            types = {*_types(text, found["left"]), *_types(text, found["right"])}
            files = [file for name in types for file in by_class.get(name, ())]
            if len(types) == len(files) == 1 and all(
                _returns_object(text_of(files[0]), method)
                for method in {found["method"], found["other"]}
            ):
                line = text.count("\n", 0, found.start()) + 1
                yield RawFinding("java-boxed-identity", path, line, f"{_MESSAGE}: {found[0]}")


def _types(text: str, name: str) -> list[str]:
    """The types with which a name is declared."""
    return re.findall(rf"\b([A-Z]\w*)(?:<[^<>;]*>)?\s+{re.escape(name)}\s*[,;=:)]", text)


def _returns_object(text: str, method: str) -> bool:
    """Whether a class's method is declared, or made of a field, with such a type."""
    field = re.sub("^get([A-Z])", lambda found: found[1].lower(), method)
    made = field if _PATTERNS["makes_getters"].search(text) else ""
    declared = {found["type"] for found in re.finditer(rf"\b(?P<type>[\w.]+)\s+{method}\(\)", text)}
    if not declared and made:
        declared = set(re.findall(rf"\b([\w.]+)\s+{made}\s*[,;=)]", text))
    return len(declared) == 1 and _PATTERNS["boxed"].fullmatch(declared.pop()) is not None
