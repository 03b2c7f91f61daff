"""Which files of a tree use what other files define."""

import re
from collections.abc import Iterable, Mapping, Set
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final

from diffchecks.path_kinds import is_illustrative, is_test
from diffchecks.python.imported_files import scan_imports
from diffchecks.taint.entry_points import (
    FEW,
    distinctive_names,
    functions_containing,
    lines_naming,
    spans,
)
from diffchecks.taint.module_index import Project

_LEVELS: Final = 2  # a handler, a service that it calls, and what was changed below
_MAX_FILES: Final = 200
_DEFINED: Final = re.compile(r"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)
_Module = tuple[str, str]
"""The last part of a module's dotted name, after the part before it; that is "" where none is."""


def find_dependent_files(
    project: Project, paths: Iterable[str], affected: Set[str] | None = None
) -> dict[str, list[int]]:
    """The files but unused tests that use what these files define, and the lines on which they do.

    A file counts when it imports one of them and names something that this one defines, or when it
    imports a file that does so, and names a function there that does or a name that this package
    passes on.

    Args:
        affected: the names that count, those of methods with a dot before them; None: all.
    """
    defined = {path: set(_DEFINED.findall(project.text(path) or "")) for path in paths}
    files = sorted(project.paths.difference(defined))
    others = [path for path in files if not is_test(f"{path.rpartition('/')[0]}/a.py")]
    if affected is not None:
        defined = {
            path: {name for name in affected if name.lstrip(".") in own}
            for path, own in defined.items()
        }
    found: dict[str, list[int]] = {}
    for level in range(1, _LEVELS + 1):
        names_of = _by_module(defined)
        defined = {}
        for path in others if names_of else ():
            if path in found or len(found) >= _MAX_FILES:
                continue
            text = project.text(path) or ""
            used = _names_used(names_of, path, text)
            lines = lines_naming(text, used) if used else []
            if lines and is_test(path) and unused_samples(project, [path]):
                continue
            if lines and level == _LEVELS:  # whose users do not count is parsed when it is run
                found[path] = lines
                continue
            module = project.module(path) if lines else None
            if module is not None:
                found[path] = lines
                inside = functions_containing(spans(module), lines)
                defined[path] = {span.node.name for span in inside}
                if module.is_package:
                    passed_on = (name.lstrip(".") for name in used)
                    defined[path].update(name for name in passed_on if name in text)
    return found


def unused_samples(project: Project, paths: Iterable[str]) -> set[str]:
    """The tests and samples among files but those that other code imports or names."""
    names = {path: _module_of(path) for path in paths if is_illustrative(path)}
    users = [path for path in project.paths if names and not is_illustrative(path)]
    for user in users:  # those found are users, too
        text = project.text(user) or ""
        if any(name in text for _, name in names.values()):
            imported, beside = _imported_modules(user, text), PurePosixPath(user).parent
            for path, (package, name) in list(names.items()):
                own = {(package, name), ("", name if PurePosixPath(path).parent == beside else "")}
                if own & imported or (package and f"{package}.{name}" in text):
                    users.append(path)
                    del names[path]
    return set(names)


def _by_module(defined: Mapping[str, Set[str]]) -> dict[_Module, set[str]]:
    """The distinctive names that files define, by the modules that import statements name."""
    names_of: dict[_Module, set[str]] = {}
    for path, own in defined.items():
        if names := {name for name in own if distinctive_names([name.lstrip(".")])}:
            for each in {module := _module_of(path), ("", module[1])}:
                names_of.setdefault(each, set()).update(names)
    return names_of


def _names_used(names_of: Mapping[_Module, Set[str]], path: str, text: str) -> set[str]:
    """The names of those modules that a file imports; none where it holds none of them."""
    # Of few names it takes less to look for them than to read the imports. Those of a module stand
    # under its name alone, too.
    if len(names_of) <= FEW and not any(
        module in text and any(name.lstrip(".") in text for name in names)
        for (package, module), names in names_of.items()
        if not package
    ):
        return set()
    imported = _imported_modules(path, text)
    return set[str]().union(*(names_of[module] for module in imported & names_of.keys()))


@lru_cache(maxsize=1024)
def _imported_modules(path: str, text: str) -> frozenset[_Module]:
    """What the import statements of a file may mean: modules, and names in modules."""
    found: set[_Module] = set()
    for statement in scan_imports(text):
        parts = [part for part in statement.module.split(".") if part]
        if not statement.names:
            found.update(_module(parts[:end]) for end in range(1, len(parts) + 1))
            continue
        if statement.level:
            parents = PurePosixPath(path).parent.parts
            parts = [*parents[: len(parents) - statement.level + 1], *parts]
        found.update([_module(parts)] if parts else ())
        found.update((parts[-1] if parts else "", name) for name in statement.names)
    return frozenset(found)


def _module_of(path: str) -> _Module:
    parts = PurePosixPath(path).with_suffix("").parts
    return _module(parts[:-1] if parts[-1] == "__init__" else parts)


def _module(parts: Iterable[str]) -> _Module:
    *_, above, last = "", "", *parts
    return above, last
