"""Public Python API that the change breaks for those who use it, by griffe's comparison.

Only what is surely public and surely broken: announced removals, names still offered under their old
path, members that may be inherited, and functions whose decorators may alter them stay quiet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import griffe
from griffe import BreakageKind as Kind

from orchestrator.review.checks.api_surface import Surface
from orchestrator.review.checks.api_tree import Tree
from orchestrator.review.checks.python_paths import is_product_path, is_public_path, nearest
from orchestrator.review.checks.python_source import (
    Finding,
    Job,
    Pair,
    Source,
    finding,
    gap_on_fault,
    pairs,
    read,
)

TOOL = "api_breakage"
KIND = "compare"
PATTERNS = ["*.py", "*.pyi"]
NEEDS_TREE = True

NAMES_SHOWN = 5

# The worst first: a function is reported once, under the first that fits.
_PARAMETER_CODES = {
    Kind.PARAMETER_REMOVED: "parameter-removed",
    Kind.PARAMETER_ADDED_REQUIRED: "parameter-added-required",
    Kind.PARAMETER_CHANGED_REQUIRED: "parameter-changed-required",
    Kind.PARAMETER_CHANGED_KIND: "parameter-changed-kind",
    Kind.PARAMETER_MOVED: "parameter-moved",
}
_SAYS = {
    "parameter-removed": "no longer takes {}",
    "parameter-added-required": "now requires {}",
    "parameter-changed-required": "now requires {}",
    "parameter-changed-kind": "takes {} in another way",
    "parameter-moved": "takes {} at another position",
    "parameter-renamed": "takes {}",
}
_CALLED = frozenset({"__init__", "__new__", "__call__"})
_RECEIVERS = frozenset({"self", "cls", "mcs", "mcls", "klass"})


@dataclass(slots=True)
class _Change:
    """One thing that broke: a code, the symbol below its module, the parameters if any."""

    code: str
    symbol: str
    parameters: list[str] = field(default_factory=list)


def run(job: Job) -> dict[str, Any]:
    """Compare the public surface of each changed module."""
    gaps: dict[str, str] = {}
    findings: list[Finding] = []
    examined: list[str] = []
    base_tree = Tree(job["base_root"], job["base_tree"])
    head_tree = Tree(job["head_root"], job["head_tree"])
    for pair in pairs(job, gaps, suffixes=(".py", ".pyi")):
        with gap_on_fault(gaps, pair.path):
            findings += _compare(pair, base_tree, head_tree)
            examined.append(pair.path)
    return {"findings": findings, "examined": examined, "gaps": gaps}


def _compare(pair: Pair, base_tree: Tree, head_tree: Tree) -> list[Finding]:
    old = pair.old_path
    if old is None or pair.status == "copied" or not is_product_path(old):
        return []
    if not base_tree.is_library(old) or (base := pair.base()) is None:
        return []
    dotted = base_tree.index.dotted(old)
    twin = head_tree.twin(base_tree, old)
    if twin is None:
        return [*_module_removed(base, dotted, base_tree, head_tree)]
    head = pair.head if pair.head and twin == pair.path else head_tree.source(twin)
    if head is None:
        return []
    exposed = None
    if not is_public_path(old):
        offered, still = base_tree.exposed(old), head_tree.exposed(twin)
        exposed = {name: known for name, known in offered.items() if still.get(name) == known}
        if not exposed:
            return []
    was, now = Surface(base, dotted, exposed), Surface(head, dotted, exposed)
    if not now.first_line:
        return []
    changes = _changes(was, now, head_tree)
    return [*_removed(changes, was, now), *_signatures(changes, now)]
