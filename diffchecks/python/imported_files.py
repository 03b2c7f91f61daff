"""Finds the imports of a file, by parsing or by pattern, and the file that each one refers to.

The nodes of the graph are files, not dotted names: the same file can have several names (``src/``
layouts, namespace packages, several projects in one tree), but it is one module.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.util import find_spec

from msgspec import Struct

from diffchecks.data_files import read_patterns

_SUFFIXES = (".py", "/__init__.py", ".pyi", "/__init__.pyi")
_SOURCE_DIRECTORIES = ("src", "lib", "python")
_PATTERNS = read_patterns("imported_files")


class Import(Struct, frozen=True):
    """One import statement.

    Attributes:
        module: what follows ``from``, or the imported module itself.
        names: what a ``from`` import takes; empty for a plain import.
        level: number of leading dots.
        line: its line; 0 if found by pattern.
        indented: it is inside a block; only set by the scan by pattern.
    """

    module: str
    names: tuple[str, ...] = ()
    level: int = 0
    line: int = 0
    indented: bool = False


class ModuleIndex:
    """Finds the file that an import refers to in one tree; ignores files other than Python.

    Attributes:
        edges: path → digest of a file's bytes, and the files that those import by pattern.
    """

    def __init__(self, tree: Iterable[str]) -> None:
        self.edges: dict[str, tuple[bytes, list[str]]] = {}
        self.files = frozenset(path for path in tree if path.endswith((".py", ".pyi")))
        self.packages = frozenset(
            _parent(path) for path in self.files if _name(path) in {"__init__.py", "__init__.pyi"}
        )
        self._roots_of_name: dict[str, list[str]] = {}
        for package in sorted(self.packages):
            if package and _parent(package) not in self.packages:
                self._roots_of_name.setdefault(_name(package), []).append(_parent(package))
        self._find_cached = cache(self._find)
        self.package_root = cache(self._package_root)

    def dotted(self, path: str) -> str:
        """The module's name as imported from its package's root."""
        root = self.package_root(_parent(path))
        inner = (path[len(root) + 1 :] if root else path).rpartition(".")[0]
        return inner.removesuffix("/__init__").replace("/", ".")

    def resolve(self, importer: str, module: str, level: int = 0) -> str | None:
        """The file that ``module`` refers to in ``importer``; None if it is not in the tree."""
        if level == 0:
            directory = _parent(importer)
            root = self.package_root(directory)
            # A module of the standard library is shadowed only by a file beside a script.
            if is_standard(module):
                return self._at(root, module) if root == directory else None
            return self._find_cached(root, module)
        directory = _parent(importer)
        for _ in range(level - 1):
            if not directory:
                return None
            directory = _parent(directory)
        return self._at(directory, module)

    def targets(self, importer: str, statement: Import) -> Iterator[str]:
        """The files that a statement imports by name; parent packages do not count."""
        found = self.resolve(importer, statement.module, statement.level)
        if not statement.names:
            if found and found != importer:
                yield found
            return
        for name in statement.names:
            inner = f"{statement.module}.{name}" if statement.module else name
            target = self.resolve(importer, inner, statement.level) if name != "*" else None
            if (target or found) not in {None, importer}:
                yield str(target or found)

    def _package_root(self, directory: str) -> str:
        """The root directory of the package that a directory belongs to; empty: the tree's root.

        A directory without an ``__init__`` inside a package is part of that package.
        """
        while directory and (directory in self.packages or _parent(directory) in self.packages):
            directory = _parent(directory)
        return directory

    def _find(self, own_root: str, module: str) -> str | None:
        first = module.partition(".")[0]
        for root in self._roots(own_root, first):
            if found := self._at(root, module):
                return found
        return None

    def _roots(self, root: str, first: str) -> Iterator[str]:
        """Candidate roots of a top-level name: the importer's own, its parents, then others."""
        yield root
        while root:
            root = _parent(root)
            yield root
        yield from _SOURCE_DIRECTORIES
        yield from self._roots_of_name.get(first, ())

    def _at(self, root: str, module: str) -> str | None:
        stem = "/".join(part for part in (root, *module.split(".")) if part)
        return next((stem + end for end in _SUFFIXES if stem + end in self.files), None)


def module_index(tree: Iterable[str]) -> ModuleIndex:
    """The index of a tree, kept for the next tree of the same names."""
    return _index_of(frozenset(path for path in tree if path.endswith((".py", ".pyi"))))


_index_of = lru_cache(maxsize=4)(ModuleIndex)


@cache
def is_standard(module: str) -> bool:
    """Whether the standard library has a module of that name, or a package that may contain it."""
    first, dot, _ = module.partition(".")
    if first not in sys.stdlib_module_names or first == "test":
        return False
    found = find_spec(first) if dot else None
    return not dot or (found is not None and found.submodule_search_locations is not None)


def read_imports(tree: ast.Module, *, in_functions: bool = False) -> list[Import]:
    """The imports that run when the module is imported, in source order.

    Imports in functions, under ``TYPE_CHECKING`` or under a ``__main__`` guard are left out.

    Args:
        in_functions: those of functions too, and none of a ``try`` that handles failure.
    """
    found: list[Import] = []
    closed = ast.expr if in_functions else ast.expr | ast.FunctionDef | ast.AsyncFunctionDef
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found += list_imports(node)
        elif isinstance(node, ast.If):
            body, orelse = branches_that_run(node.test)
            waiting += [*(node.body if body else ()), *(node.orelse if orelse else ())]
        elif in_functions and isinstance(node, ast.Try) and node.handlers:
            waiting += [*node.handlers, *node.orelse, *node.finalbody]
        elif not isinstance(node, closed):
            waiting += ast.iter_child_nodes(node)
    return sorted(found, key=lambda statement: statement.line)


def list_imports(node: ast.Import | ast.ImportFrom) -> list[Import]:
    """The imports of one statement: one per module of a plain import, else one."""
    if isinstance(node, ast.Import):
        return [Import(alias.name, line=node.lineno) for alias in node.names]
    names = tuple(alias.name for alias in node.names)
    return [Import(node.module or "", names, node.level, node.lineno)]


def branches_that_run(test: ast.expr) -> tuple[bool, bool]:
    """Whether the two branches of an ``if`` run when the module is imported."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        body, orelse = branches_that_run(test.operand)
        return orelse, body
    if isinstance(test, ast.Name | ast.Attribute):
        name = test.id if isinstance(test, ast.Name) else test.attr
        return (False, True) if name == "TYPE_CHECKING" else (True, True)
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name):
        return test.left.id != "__name__", True
    return True, True


def scan_imports(text: str) -> Iterator[Import]:
    """Find the imports of a file by pattern; may return too many, but rarely misses any."""
    for match in _PATTERNS["quick"].finditer(text):
        indented = bool(match["indent"])
        if match["plain"] is not None:
            yield from (Import(name, indented=indented) for name in _listed(match["plain"]))
        elif names := tuple(_listed(match["names"])):
            yield Import(match["module"], names, len(match["dots"]), indented=indented)


def _listed(text: str) -> Iterator[str]:
    """The names of ``a.b as c, d`` or of its form in brackets."""
    bare = _PATTERNS["comment"].sub("", text).strip("() \t\r\n").replace("\\\n", " ")
    for part in bare.split(","):
        words = part.split()
        if words and words[0].replace(".", "").replace("*", "x").isidentifier():
            yield words[0]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
