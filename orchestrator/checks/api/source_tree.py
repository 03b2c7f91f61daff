"""One side's whole tree, looked up file by file: what packages take from private modules, and what
classes inherit from others.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from orchestrator.checks.path_kinds import is_public_module
from orchestrator.checks.python.import_resolution import ModuleIndex
from orchestrator.checks.python.source import NotParsedError, Source, definitions, dotted_name, read

DEPTH = 8  # longest chain of imports or bases that is followed

PLAIN_BASES = frozenset({"ABC", "Generic", "Protocol", "NamedTuple", "TypedDict"})


class Tree:
    """The Python files of one side.

    Args:
        root: where they stand on disk.
        paths: all paths of the tree.
    """

    def __init__(self, root: str, paths: list[str]) -> None:
        self._root, self.index = root, ModuleIndex(paths)
        self.paths = frozenset(paths)
        self._by_name: dict[str, str] = {}
        for path in sorted(self.index.files):
            self._by_name.setdefault(self._name(path), path)
        self._sources: dict[str, Source | None] = {}
        self._provided: dict[str, dict[str, tuple[str, str]]] = {}

    def twin(self, other: Tree, path: str) -> str | None:
        """The file of this tree that is the same module as another tree's file."""
        return path if path in self.index.files else self._by_name.get(other._name(path))

    def _name(self, path: str) -> str:
        return f"{self.index.dotted(path)}{'.pyi' if path.endswith('.pyi') else ''}"

    def source(self, path: str) -> Source | None:
        """A file of the tree, None when it cannot be read; each is parsed once."""
        if path not in self._sources:
            try:
                self._sources[path] = read(self._root, path)
            except NotParsedError:
                self._sources[path] = None
        return self._sources[path]

    def has_submodule(self, path: str, name: str) -> bool:
        """Whether a name taken from a package is a module inside it."""
        folder, _, file = path.rpartition("/")
        stem = f"{folder}/{name}" if folder else name
        inner = {f"{stem}.py", f"{stem}.pyi", f"{stem}/__init__.py"}
        return file.startswith("__init__.") and not inner.isdisjoint(self.index.files)

    def is_library(self, path: str) -> bool:
        """Whether a file above it says how to package what is here; else nobody else imports it."""
        folder = path.rpartition("/")[0]
        while True:
            above = f"{folder}/" if folder else ""
            if not self.paths.isdisjoint(
                above + name for name in ("pyproject.toml", "setup.py", "setup.cfg")
            ):
                return True
            if not folder:
                return False
            folder = folder.rpartition("/")[0]

    def exposed(self, path: str) -> dict[str, str]:
        """Names of a private module that public packages above it offer, as users write them."""
        found: dict[str, str] = {}
        folder = path.rpartition("/")[0]
        while folder in self.index.packages:
            init = f"{folder}/__init__.py"
            if is_public_module(init) and init in self.index.files:
                for name, (origin, own_name) in self._offered(init).items():
                    if origin == path:
                        found.setdefault(own_name, f"{self.index.dotted(init)}.{name}")
            folder = folder.rpartition("/")[0]
        return found

    def _offered(self, init: str) -> dict[str, tuple[str, str]]:
        """What a public package takes from other files and means for users."""
        source = self.source(init)
        listed = _all_names(source.tree) if source else None
        return {
            name: origin
            for name, origin in self._provides(init, DEPTH).items()
            if (name in listed if listed is not None else not name.startswith("_"))
        }

    def _provides(self, path: str, depth: int) -> dict[str, tuple[str, str]]:
        """Imported name → the file and name it comes from, over re-exports in between."""
        if path in self._provided:
            return self._provided[path]
        found: dict[str, tuple[str, str]] = {}
        self._provided[path] = found  # now, so that files that import each other end
        source = self.source(path) if depth else None
        for statement, origin in self._imports_from(source) if source else ():
            inner = self._provides(origin, depth - 1)
            for one in statement.names:
                if one.name == "*":
                    found |= {name: inner.get(name, (origin, name)) for name in self._star(origin)}
                else:
                    found[one.asname or one.name] = inner.get(one.name, (origin, one.name))
        return found

    def _imports_from(self, source: Source) -> Iterator[tuple[ast.ImportFrom, str]]:
        for one in source.tree.body:
            if isinstance(one, ast.ImportFrom):
                origin = self.index.resolve(source.path, one.module or "", one.level)
                if origin and origin != source.path:
                    yield one, origin

    def _star(self, path: str) -> set[str]:
        """What a star import takes."""
        source = self.source(path)
        if source is None:
            return set()
        listed = _all_names(source.tree)
        if listed is not None:
            return listed
        own = {one.name for one in definitions(source.tree) if one.parent is None}
        taken = set(self._provides(path, DEPTH))
        return {name for name in own | taken if not name.startswith("_")}

    def may_have(self, source: Source, class_name: str, member: str, depth: int = DEPTH) -> bool:
        """Whether a class may have a member it does not define; what is not known may well."""
        node = _class(source, class_name)
        if node is None or depth == 0 or node.keywords or "__getattr__" in _members(node):
            return True
        for base in node.bases:
            name = dotted_name(base.value if isinstance(base, ast.Subscript) else base)
            if _lacks(name, member):
                continue
            found = self._find_class(source, name, DEPTH)
            if found is None or not _members(found[1]).isdisjoint({member, "__getattr__"}):
                return True
            if self.may_have(found[0], found[1].name, member, depth - 1):
                return True
        return False

    def _find_class(
        self, source: Source, name: str, depth: int
    ) -> tuple[Source, ast.ClassDef] | None:
        """The class that a name means in a file, over imports."""
        if node := _class(source, name):
            return source, node
        for statement, origin in self._imports_from(source) if depth else ():
            for one in statement.names:
                if (one.asname or one.name) == name and (inner := self.source(origin)):
                    return self._find_class(inner, one.name, depth - 1)
        return None


def _class(source: Source, dotted: str) -> ast.ClassDef | None:
    found = (one.node for one in definitions(source.tree) if one.dotted == dotted)
    return next((node for node in found if isinstance(node, ast.ClassDef)), None)


def _lacks(base: str, member: str) -> bool:
    """A base that is known and does not have the member."""
    known = getattr(builtins, base, None)
    if isinstance(known, type):
        return not hasattr(known, member)
    return base.rpartition(".")[2] in PLAIN_BASES


def _members(node: ast.ClassDef) -> set[str]:
    """Names a class binds in its body or on ``self``."""
    found = {
        one.name
        for one in ast.walk(node)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    for one in ast.walk(node):
        if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, ast.Store):
            found.add(one.id if isinstance(one, ast.Name) else one.attr)
    return found


def _all_names(tree: ast.Module) -> set[str] | None:
    """``__all__`` where it is a plain list of strings, else None."""
    for one in tree.body:
        if isinstance(one, ast.Assign) and any(
            isinstance(to, ast.Name) and to.id == "__all__" for to in one.targets
        ):
            values = one.value.elts if isinstance(one.value, ast.List | ast.Tuple) else []
            names = {each.value for each in values if isinstance(each, ast.Constant)}
            plain = len(names) == len(values) and bool(values)
            return {name for name in names if isinstance(name, str)} if plain else None
    return None
