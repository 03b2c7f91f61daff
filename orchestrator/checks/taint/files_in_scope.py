"""Which files besides the changed ones matter, and where: those that use what was changed."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from orchestrator.checks.taint.entry_points import holding, lines_with, spans
from orchestrator.checks.taint.source_modules import Project

_LEVELS: Final = 2  # a handler, a service that it calls, and what was changed below
_MAX_FILES: Final = 200
_DEFINED: Final = re.compile(r"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)
COMMON: Final = frozenset(
    {"call", "close", "get", "items", "keys", "main", "read", "run", "update", "values", "wrapper",
     "write"}
)  # fmt: skip


def telling(names: Iterable[str]) -> set[str]:
    """The names that say which function is meant."""
    return {name for name in names if len(name) > 2 and name not in COMMON and name[:2] != "__"}


def mentions(names: Iterable[str]) -> re.Pattern[str]:
    """Matches any of these names as a word."""
    return re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, names))) or '(?!)'})\b")


def users(project: Project, paths: Iterable[str]) -> dict[str, list[int]]:
    """The files that use what these files define, and the lines on which they do.

    A file counts when it imports one of them and names something that it defines, or does so with a
    function of such a file.
    """
    fresh = list(paths)
    others = sorted(project.paths.difference(fresh))
    found: dict[str, list[int]] = {}
    names = {name for path in fresh for name in _DEFINED.findall(project.text(path) or "")}
    for _ in range(_LEVELS):
        imports, named = _imports_any(fresh), mentions(telling(names))
        fresh, names = [], set()
        for path in others:
            text = project.text(path) or ""
            if path in found or len(found) >= _MAX_FILES or not imports.search(text):
                continue
            lines = lines_with(text, named)
            module = project.module(path) if lines else None
            if module is not None:
                found[path] = lines
                fresh.append(path)
                names.update(span.node.name for span in holding(spans(module), lines))
    return found


def _imports_any(paths: Iterable[str]) -> re.Pattern[str]:
    """Matches an import statement that names one of these files by its last part."""
    leaves = set()
    for path in paths:
        pure = PurePosixPath(path)
        leaves.add(pure.parent.name if pure.name == "__init__.py" else pure.stem)
    joined = "|".join(re.escape(leaf) for leaf in sorted(leaves) if leaf) or "(?!)"
    return re.compile(rf"^[ \t]*(?:from|import)\b[^\n]*\b(?:{joined})\b", re.MULTILINE)
