"""Public Python API that the change breaks for those who use it, by griffe's comparison.

Only what is surely public and surely broken: announced removals, names still offered under their
old path, members that may be inherited, and functions that decorators may alter stay quiet.
"""

from __future__ import annotations

from collections.abc import Iterator

import griffe
from msgspec.structs import replace

from orchestrator.checks.api.api_changes import Change, changes, in_short
from orchestrator.checks.api.public_api import Surface
from orchestrator.checks.api.source_tree import Tree
from orchestrator.checks.check_protocol import CheckReply, RawFinding
from orchestrator.checks.path_kinds import is_product, is_public_module
from orchestrator.checks.python.source import (
    Job,
    NotParsedError,
    Pair,
    Source,
    gap_on_fault,
    nearest,
    pairs,
)

DECLARED = 0.9  # confidence where the module says what is public, or its package offers some of it
UNDECLARED = 0.6  # where only the names tell
PLACES_TRIED = 20  # files looked at for a line to cite when a module is gone


def run(job: Job) -> CheckReply:
    """Compare the public surface of each changed module."""
    gaps: dict[str, str] = {}
    findings: list[RawFinding] = []
    examined: list[str] = []
    base_tree = Tree(job["base_root"], job["base_tree"])
    head_tree = Tree(job["head_root"], job["head_tree"])
    for pair in pairs(job, gaps, suffixes=(".py", ".pyi")):
        with gap_on_fault(gaps, pair.path):
            try:
                findings += _compare(pair, base_tree, head_tree)
            except griffe.GriffeError as fault:
                raise NotParsedError(f"griffe cannot read it: {fault}") from None
            examined.append(pair.path)
    return CheckReply(findings, examined, gaps)


def _compare(pair: Pair, base_tree: Tree, head_tree: Tree) -> list[RawFinding]:
    old = pair.old_path
    if old is None or pair.status == "copied" or not is_product(old):
        return []
    if not base_tree.is_library(old) or (base := pair.base()) is None:
        return []
    dotted = base_tree.index.dotted(old)
    twin = head_tree.twin(base_tree, old)
    if twin is None:
        if old.endswith(".pyi") and head_tree.twin(base_tree, old[:-1]):
            return []  # only the stub is gone
        return list(_module_removed(base, dotted, base_tree, head_tree))
    head = pair.head if pair.head and twin == pair.path else head_tree.source(twin)
    if head is None:
        return []
    offered = base_tree.exposed(old)
    exposed = None
    if not is_public_module(old):
        still = head_tree.exposed(twin)
        exposed = {name: known for name, known in offered.items() if still.get(name) == known}
        if not exposed:
            return []
    was, now = Surface(base, dotted, exposed), Surface(head, dotted, exposed)
    if old.endswith(".pyi") and (body := base_tree.source(old[:-1])):
        was.explained_by(Surface(body, dotted))
    broken = changes(was, now, head_tree) if now.first_line else []
    found = [*_removed(broken, was, now), *_others(broken, was, now)]
    declared = was.module.exports is not None or offered
    confidence = DECLARED if declared else UNDECLARED
    return [replace(one, confidence=confidence) for one in found]


def _removed(broken: list[Change], was: Surface, now: Surface) -> Iterator[RawFinding]:
    """One finding for all that one module or class lost."""
    owners: dict[str, list[str]] = {}
    for one in broken:
        if one.code == "object-removed":
            owner, _, name = one.symbol.rpartition(".")
            owners.setdefault(owner, []).append(name)
    for owner, names in owners.items():
        where = was.known_as(owner) if owner else was.dotted
        yield RawFinding(
            "object-removed",
            now.source.path,
            now.line(owner),
            f"{where} no longer has {in_short(names)}",
            key=f"{where}: {' '.join(sorted(names))}",
            scope=owner,
        )


def _others(broken: list[Change], was: Surface, now: Surface) -> Iterator[RawFinding]:
    """One finding for all symbols of a module that broke in the same way."""
    alike: dict[tuple[str, str], list[Change]] = {}
    for one in broken:
        if one.code != "object-removed":
            alike.setdefault((one.code, one.says), []).append(one)
    for (code, says), several in alike.items():
        known = [was.known_as(one.symbol) for one in several]
        first = several[0]
        yield RawFinding(
            code,
            now.source.path,
            now.line(first.symbol),
            f"{known[0]} {says}" + (f"; so for {in_short(known[1:])}" if known[1:] else ""),
            key=f"{' '.join(sorted(known))}: {' '.join(first.parameters)}",
            scope=first.symbol,
            detail="\n".join(known),
        )


def _module_removed(
    base: Source, dotted: str, base_tree: Tree, head_tree: Tree
) -> Iterator[RawFinding]:
    """A public module that is gone; said once for a package, at the nearest file that is left."""
    package = f"{base.path.rpartition('/')[0]}/__init__.py"
    within = package != base.path and package in base_tree.index.files
    if within and head_tree.twin(base_tree, package) is None:
        return
    if not is_public_module(base.path):
        return
    was = Surface(base, dotted)
    if all(was.deprecated(name) for name in was.public_names):
        return
    files = {path for path in head_tree.index.files if is_product(path)}
    for _ in range(PLACES_TRIED):
        near = nearest(base.path, files)
        source = head_tree.source(near) if near else None
        if near and source and (line := source.first_line):
            message = f"The public module {dotted} is gone"
            yield RawFinding("module-removed", near, line, message, key=dotted, confidence=DECLARED)
            return
        files.discard(near or "")
