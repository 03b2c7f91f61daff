"""Imports that the change breaks: of a module that is gone, or of a name that its module lost."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from orchestrator.checks.check_protocol import RawFinding
from orchestrator.checks.python.import_resolution import (
    Import,
    ModuleIndex,
    branches_that_run,
    quick_imports,
)
from orchestrator.checks.python.source import Job, NotParsedError, parse_text, read_text

# With one of these a module may bind names that nobody can read off it.
_DYNAMIC = re.compile(r"\b(?:__getattr__|globals\(\)|locals\(\)|vars\(\)|exec\(|sys\.modules\[)")
_BUILT = re.compile(r"(?:^|/)_?version\.py$|_pb2(?:_grpc)?\.py$")  # often made when packaging
_PLAINLY = r"^(?:(?:async )?def|class) {0}\b|^{0}(?: *:[^=\n]*)? *="
_TOP = re.compile(r"^(?:(?:async )?def|class) (\w+)|^(\w+) *[:=]", re.MULTILINE)
_GIVEN = frozenset({"__name__", "__file__", "__doc__", "__path__", "__spec__", "__package__"})


class Side:
    """One tree's modules and the names they bind.

    Args:
        root: where its Python files stand on disk.
        index: of the tree.
    """

    def __init__(self, root: str, index: ModuleIndex) -> None:
        self.root, self.index = root, index
        self._texts: dict[str, str | None] = {}
        self._names: dict[str, frozenset[str] | None] = {}

    def text(self, path: str) -> str | None:
        """A module's text, None when it is no source or binds names that nobody can see."""
        if path not in self._texts:
            self._texts[path] = None
            if path.endswith(".py"):
                with suppress(NotParsedError):
                    text = read_text(self.root, path)
                    self._texts[path] = None if _DYNAMIC.search(text) else text
        return self._texts[path]

    def binds(self, path: str, name: str) -> bool | None:
        """Whether importing a module binds a name in it; None when that cannot be told."""
        text = self.text(path)
        if text is None:
            return None
        escaped = re.escape(name)
        if re.search(_PLAINLY.format(escaped), text, re.MULTILINE):
            return True
        if path not in self._names:
            self._names[path] = None
            with suppress(NotParsedError, RecursionError, MemoryError, ValueError):
                self._names[path] = _bound(parse_text(text))
        names = self._names[path]
        return None if names is None else name in names

    def top_names(self, path: str) -> set[str]:
        """Names a module seems to bind, by pattern."""
        text = self.text(path) or ""
        imported = {name for one in quick_imports(text) for name in one.names}
        return imported | {a or b for a, b in _TOP.findall(text)}

    def resolves(self, importer: str, one: Import, name: str) -> bool:
        """Whether a name is a module inside the one it is taken from."""
        inner = f"{one.module}.{name}" if one.module else name
        return self.index.resolve(importer, inner, one.level) is not None

    def lacks(self, importer: str, one: Import, name: str) -> bool | None:
        """Whether ``from module import name`` fails; None when that cannot be told."""
        target = self.index.resolve(importer, one.module, one.level)
        if name == "*" or self.resolves(importer, one, name):
            return False
        if target is None or target == importer:
            return None
        bound = self.binds(target, name)
        return None if bound is None else not (bound or name in _GIVEN)


class BrokenImports:
    """Looks for imports in head that worked in base.

    Args:
        old: path in head → path in base, for changed files; None for what is new.
        importers: for ``base`` and ``head``, path → the files that import it.
    """

    def __init__(
        self,
        job: Job,
        base: Side,
        head: Side,
        old: Mapping[str, str | None],
        importers: Mapping[str, Callable[[str], list[str]]],
    ) -> None:
        self._job, self._base, self._head, self._old = job, base, head, old
        self._importers = importers

    def findings(self) -> Iterator[RawFinding]:
        """One finding for each statement that fails now."""
        for path in self._suspects():
            with suppress(NotParsedError, RecursionError, MemoryError, ValueError):
                text = read_text(self._head.root, path)
                if any(self._problem(path, one) for one in quick_imports(text)):
                    for one in _unguarded(parse_text(text)):
                        yield from self._check(path, one)

    def _suspects(self) -> list[str]:
        """The changed files, and those that import what the change took something away from."""
        found = set(self._old)
        for file in self._job["files"]:
            old = file["old_path"]
            if old is None or not old.endswith(".py"):
                continue
            if old not in self._head.index.files:
                found.update(self._importers["base"](old))
            elif self._base.top_names(old) - self._head.top_names(old):
                found.update(self._importers["head"](old))
        return sorted(found & self._head.index.files)

    def _check(self, path: str, one: Import) -> Iterator[RawFinding]:
        if problem := self._problem(path, one):
            message, key = f"This import fails: {problem}", f"broken-import: {problem}"
            yield RawFinding("broken-import", path, one.line, message, key=key, confidence=0.95)

    def _problem(self, path: str, one: Import) -> str | None:
        if self._is_gone(path, one):
            return f"the module {_written(one)} is gone"
        names = [name for name in one.names if self._is_lost(path, one, name)]
        return f"{_written(one)} has no {', '.join(names)}" if names else None

    def _is_gone(self, path: str, one: Import) -> bool:
        """Whether base had the module and head has nothing that could be it."""
        was = self._base.index.resolve(self._old.get(path, path) or path, one.module, one.level)
        if (
            was is None
            or _BUILT.search(was)
            or self._head.index.resolve(path, one.module, one.level)
        ):
            return False
        if any(self._head.resolves(path, one, name) for name in one.names):
            return False
        tail = "/" + one.module.replace(".", "/")
        return not any(
            f"/{other}".endswith((f"{tail}.py", f"{tail}/__init__.py", f"{tail}.pyi"))
            or f"{tail}/" in f"/{other}"
            for other in self._head.index.files
        )

    def _is_lost(self, path: str, one: Import, name: str) -> bool:
        """Whether a name cannot be imported, and could be before or is asked for anew."""
        if not self._head.lacks(path, one, name):
            return False
        before = self._old.get(path, path)
        if before in self._base.index.files and self._base.lacks(str(before), one, name):
            return False
        tail = "/" + one.module.replace(".", "/")
        same = [
            other
            for other in self._head.index.files
            if one.level == 0 and f"/{other}".endswith((f"{tail}.py", f"{tail}/__init__.py"))
        ]
        return len(same) <= 1  # of several modules of that name, another may be meant


def _written(one: Import) -> str:
    return "." * one.level + one.module


def _unguarded(tree: ast.Module) -> Iterator[Import]:
    """Import statements that nothing catches the failure of, in functions as well."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (Import(one.name, line=node.lineno) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(one.name for one in node.names)
            yield Import(node.module or "", names, node.level, node.lineno)
        elif isinstance(node, ast.If):
            body, orelse = branches_that_run(node.test)
            waiting += [*(node.body if body else ()), *(node.orelse if orelse else ())]
        elif isinstance(node, ast.Try) and node.handlers:
            waiting += [*node.handlers, *node.orelse, *node.finalbody]
        elif not isinstance(node, ast.expr):
            waiting += ast.iter_child_nodes(node)


def _bound(tree: ast.Module) -> frozenset[str] | None:
    """Names that a module binds at its top, under conditions too; None after a star import."""
    found: set[str] = set()
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            if any(one.name == "*" for one in node.names):
                return None
            found |= {one.asname or one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and node.name:
            found.add(node.name)
        waiting += ast.iter_child_nodes(node)
    return frozenset(found | _declared_global(tree))


def _declared_global(tree: ast.Module) -> set[str]:
    """Names that functions bind in the module."""
    return {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
