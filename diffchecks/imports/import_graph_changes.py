"""Changes of the import graph: new cycles, broken imports, dependent modules.

A quick graph, found by pattern, covers the whole tree; only files relevant to a finding are parsed.
"""

import ast
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from diffchecks.check_io import CheckReply, Gap, RawFinding
from diffchecks.graphs import reachable, shortest_path
from diffchecks.imports.broken_imports import BrokenCalls, BrokenImports, ModuleTree
from diffchecks.jobs import ComparisonJob
from diffchecks.packed_files import read_file
from diffchecks.path_kinds import is_test
from diffchecks.python.imported_files import Import, module_index, read_imports, scan_imports
from diffchecks.python.source_definitions import gap_on_error, parse_text, read_text

REACHED_LISTED = 50
REACHED_MODULES = 100


def is_own_package(path: str, target: str) -> bool:
    """Whether the target is a package that contains the file."""
    directory, _, name = target.rpartition("/")
    return name == "__init__.py" and path.startswith(f"{directory}/" if directory else "")


class Graph:
    """The imports of one tree; an edge leads from the importing file to the imported one."""

    def __init__(self, root: str, tree: list[str]) -> None:
        self.root, self.index = root, module_index(tree)
        self._exact: dict[str, dict[str, Import]] = {}

    @cached_property
    def quick(self) -> Mapping[str, list[str]]:
        """File → the files that it imports, found by pattern, including imports in functions."""
        return {path: self._edges_of(path) for path in sorted(self.index.files)}

    def _edges_of(self, path: str) -> list[str]:
        with suppress(Gap, OSError):  # of a changed file it is a gap already
            digest = hashlib.sha256(read_file(self.root, path)).digest()
            if self.index.edges.get(path, (b"",))[0] != digest:
                found = scan_imports(read_text(self.root, path))
                imported = {to for each in found for to in self.index.targets(path, each)}
                self.index.edges[path] = digest, sorted(imported)
            return self.index.edges[path][1]
        return []

    @cached_property
    def quick_back(self) -> Mapping[str, list[str]]:
        """File → the files that import it, found by pattern."""
        back: dict[str, list[str]] = {path: [] for path in self.quick}
        for path, imported in self.quick.items():
            for other in imported:
                back[other].append(path)
        return back

    def importers(self, path: str) -> list[str]:
        """The files that seem to import one."""
        return self.quick_back.get(path, [])

    def learn(self, path: str, tree: ast.Module) -> None:
        """Add the imports of a parsed file."""
        found: dict[str, Import] = {}
        for statement in read_imports(tree):
            for target in self.index.targets(path, statement):
                if not is_own_package(path, target):
                    found.setdefault(target, statement)
        self._exact[path] = found

    def at_import(self, path: str) -> dict[str, Import]:
        """The files that are imported when the file is imported, with the first statement for each.

        A package above the file does not count: it is always imported first, and importing a name
        from it is a common pattern that creates cycles by design.
        """
        if path not in self._exact:
            self._exact[path] = {}
            # A stub never runs, and the imports of a file that does not parse are unknown.
            if path.endswith(".py"):
                with suppress(Gap, RecursionError, MemoryError, ValueError):
                    self.learn(path, parse_text(read_text(self.root, path)))
        return self._exact[path]

    def path(self, start: str, end: str) -> list[str] | None:
        """The shortest chain of import-time imports from start to end."""
        if end not in reachable(self.quick, start):
            return None
        quick = self.quick
        while chain := shortest_path(lambda at: self._exact.get(at, quick.get(at, ())), start, end):
            loose = [path for path in chain[:-1] if path not in self._exact]
            if not loose:
                return chain
            for path in loose:
                self.at_import(path)
        return None


class _Comparison:
    """Both graphs, and the path in base of each changed file of head."""

    def __init__(self, job: ComparisonJob, gaps: dict[str, str]) -> None:
        self.head = Graph(job.head_root, job.head_tree)
        self.base = Graph(job.base_root, job.base_tree)
        self.paths_in_base: dict[str, str | None] = {}
        self.changed: list[str] = []
        self._altered: set[str] = set()
        for file in job.files:
            path, old = file.path, file.old_path
            if file.status not in {"deleted", "mode"} and path.endswith(".py"):
                self.paths_in_base[path] = old
                with gap_on_error(gaps, path):
                    self._add(path)

    def _add(self, path: str) -> None:
        text = read_text(self.head.root, path)
        self.head.learn(path, parse_text(text, path))
        self.changed.append(path)
        before = self.old(path)
        with suppress(Gap):
            if before and _signs(read_text(self.base.root, before)) == _signs(text):
                return
        self._altered.add(path)

    def old(self, path: str) -> str | None:
        """The file's path in base, None when it was not there."""
        path_then = self.paths_in_base.get(path, path)
        return path_then if path_then in self.base.index.files else None

    def new_imports(self, path: str) -> dict[str, Import]:
        """The imported files, with the statement, that a changed file did not import in base."""
        if path not in self._altered:
            return {}
        before = self.old(path)
        had = self.base.at_import(before) if before else {}
        has = self.head.at_import(path)
        return {to: by for to, by in sorted(has.items()) if self.old(to) not in had}

    def joins_facade(self, back: list[str]) -> bool:
        """Whether a new cycle only goes through the importer's own package, which re-exports it."""
        package = back[-2]
        return is_own_package(back[-1], package) and self.stood_before(back[0], package)

    def joins_siblings(self, back: list[str]) -> bool:
        """Whether a new module, such as a plugin, is in the place of two siblings in a cycle."""
        was = [self.old(path) or "" for path in back]
        at = was.index("") if "" in was else 0
        user, used = was[at - 1], was[(at + 1) % len(was)]
        if was.count("") != 1 or self.base.path(used, user) is None:
            return False
        parents = [
            self.base.index.dotted(path).rpartition(".")[0]
            for path in self.base.at_import(user)
            if used in self.base.at_import(path)
        ]
        return parents.count(self.head.index.dotted(back[at]).rpartition(".")[0]) > 1

    def stood_before(self, importer: str, imported: str) -> bool:
        """Whether the two files were already part of one cycle."""
        there, back = self.old(importer), self.old(imported)
        if there is None or back is None:
            return False
        return bool(self.base.path(there, back) and self.base.path(back, there))


def _signs(text: str) -> tuple[list[Import], int]:
    """A cheap signature of a file's imports; if it is unchanged, base need not be parsed."""
    return list(scan_imports(text)), text.count("TYPE_CHECKING")


def run(job: ComparisonJob) -> CheckReply:
    """Compare the import graphs of both sides; facts list the modules that depend on the change."""
    gaps: dict[str, str] = {}
    both = _Comparison(job, gaps)
    base, head = (ModuleTree(side.root, side.index) for side in (both.base, both.head))
    importers = {"base": both.base.importers, "head": both.head.importers}
    broken = BrokenImports(job, base, head, both.paths_in_base, importers)
    old = {path: both.old(path) for path in both.changed}
    calls = BrokenCalls(base, head, old, both.head.importers)
    findings = [*_cycles(both), *broken.findings(), *calls.findings()]
    return CheckReply(findings, both.changed, gaps, _reached(both))


def _cycles(both: _Comparison) -> Iterator[RawFinding]:
    """One finding for each cycle that a new import closes."""
    reported: list[set[str]] = []
    edges = [(path, to, by) for path in both.changed for to, by in both.new_imports(path).items()]
    for importer, imported, statement in edges:
        if any({importer, imported} <= members for members in reported):
            continue
        back = both.head.path(imported, importer)
        if back is None or both.stood_before(importer, imported):
            continue
        if both.joins_facade(back) or both.joins_siblings(back):
            continue
        reported.append(set(back))
        names = [both.head.index.dotted(path) for path in back]
        start = names.index(min(names))
        yield RawFinding(
            "cycle",
            importer,
            statement.line,
            f"This import closes a cycle: {' -> '.join([names[-1], *names])}",
            key=f"cycle: {' '.join([*names[start:], *names[:start]])}",
        )


def _reached(both: _Comparison) -> dict[str, Any]:
    """Changed module → its direct and indirect importers, tests last."""
    back = both.head.quick_back
    changed = sorted(both.changed, key=lambda path: (-len(back[path]), path))
    reached = {}
    for path in changed[:REACHED_MODULES]:
        direct = sorted(back[path], key=lambda other: (is_test(other), other))
        reached[path] = {
            "importers": direct[:REACHED_LISTED],
            "direct": len(direct),
            "transitive": len(reachable(back, path) - {path}),
        }
    return {"reached": reached, "not_listed": len(changed[REACHED_MODULES:])}
