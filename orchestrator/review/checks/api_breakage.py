"""Public Python API that a change breaks, by griffe, one module at a time and without importing it."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.review.checks.python_source import finding, gap_on_fault

KIND = "compare"
PATTERNS = ["*.py"]
NEEDS_TREE = False

# A default or a constant that changes is a decision, not a breakage; return types need a type checker.
CODES = {
    "PARAMETER_MOVED": ("parameter-moved", "moved to another position"),
    "PARAMETER_REMOVED": ("parameter-removed", "was removed"),
    "PARAMETER_CHANGED_KIND": ("parameter-kind", "is passed in another way now"),
    "PARAMETER_CHANGED_REQUIRED": ("parameter-required", "is required now"),
    "PARAMETER_ADDED_REQUIRED": ("parameter-required", "was added and is required"),
    "OBJECT_REMOVED": ("object-removed", "was removed"),
    "OBJECT_CHANGED_KIND": ("object-kind", "is another kind of object now"),
    "CLASS_REMOVED_BASE": ("base-removed", "lost a base class"),
}
_PRIVATE_FOLDERS = frozenset(
    {"tests", "test", "testing", "docs", "doc", "examples", "example", "samples", "scripts"}
    | {"tools", "benchmarks", "bench", "ci", "build", "vendor", "_vendor", "migrations"}
)
_PRIVATE_NAMES = frozenset({"setup.py", "conftest.py", "noxfile.py", "tasks.py", "fabfile.py"})


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Compare each changed public module with its base side.

    Returns:
        ``findings`` at the broken definition in head, or at the nearest thing that still stands;
        ``examined`` paths; ``gaps``.
    """
    findings: list[dict[str, Any]] = []
    examined: list[str] = []
    gaps: dict[str, str] = {}
    here = set(job["head_tree"])
    for file in job["files"]:
        path, old = file["path"], file["old_path"] or file["path"]
        with gap_on_fault(gaps, path):
            if file["status"] == "modified" and _public(path):
                found = list(_broken(job, path, old))
                findings += found
            elif file["status"] == "deleted" and _public(path):
                findings += _gone(path, here)
            examined.append(path)
    return {"findings": findings, "examined": examined, "gaps": gaps}


def _public(path: str) -> bool:
    *folders, name = path.split("/")
    hidden = (part for part in (*folders, name) if part.startswith((".", "_")))
    return (
        _PRIVATE_FOLDERS.isdisjoint(folders)
        and name not in _PRIVATE_NAMES
        and not name.startswith("test_")
        and all(part == "__init__.py" for part in hidden)
        # A script at the top is run, not imported; a package's modules are.
        and bool(folders)
    )


def _gone(path: str, tree: set[str]) -> Iterator[dict[str, Any]]:
    package = path.rpartition("/")[0] + "/__init__.py"
    if package in tree and package != path:
        what = f"the module {path} was removed"
        yield finding("module-removed", package, 1, what, key=path)


def _module(root: str, path: str) -> Any:
    import griffe  # noqa: PLC0415 - a fifth of a second, for jobs that need it only

    logging.getLogger("griffe").setLevel(logging.CRITICAL)
    code = (Path(root) / path).read_text("utf-8")
    ast.parse(code)  # griffe would raise the same later, with a longer story
    return griffe.visit("module", Path(path), code)


def _broken(job: dict[str, Any], path: str, old: str) -> Iterator[dict[str, Any]]:
    import griffe  # noqa: PLC0415

    before, after = _module(job["base_root"], old), _module(job["head_root"], path)
    exports = {str(name) for name in before.exports} if before.exports is not None else None
    for breakage in griffe.find_breaking_changes(before, after):
        if breakage.kind.name not in CODES:
            continue
        code, what = CODES[breakage.kind.name]
        dotted = breakage.obj.path.partition(".")[2]
        top = dotted.split(".")[0]
        if (exports is not None and top not in exports) or _private(dotted, exports):
            continue
        if code == "object-removed" and _still_there(breakage.obj, after, dotted):
            continue
        name = _subject(breakage, dotted, code)
        line = _line(after, dotted, removed=code == "object-removed")
        yield finding(code, path, line, f"{name} {what}", key=f"{dotted}:{name}:{code}")


def _private(dotted: str, exports: set[str] | None) -> bool:
    parts = dotted.split(".")
    if exports is not None and len(parts) == 1:
        return False
    return any(part.startswith("_") and not part.endswith("__") for part in parts)


def _still_there(gone: Any, after: Any, dotted: str) -> bool:
    """Imported names are the source module's API; a class may have the name from a base."""
    if gone.is_alias or (gone.is_attribute and "." in dotted):
        return True
    owner = dotted.rpartition(".")[0]
    return bool(owner) and owner in after.members and bool(after[owner].bases)


def _subject(breakage: Any, dotted: str, code: str) -> str:
    if code.startswith("parameter-"):
        value = breakage.new_value if breakage.new_value is not None else breakage.old_value
        parameter = getattr(value, "name", None)
        return f"parameter {parameter} of {dotted}" if parameter else f"a parameter of {dotted}"
    return dotted


def _line(after: Any, dotted: str, *, removed: bool) -> int:
    """Where it stands in head; for what is gone, what stood around it."""
    name = dotted.rpartition(".")[0] if removed else dotted
    while name:
        try:
            return int(after[name].lineno or 1)
        except (KeyError, ValueError):
            name = name.rpartition(".")[0]
    return 1
