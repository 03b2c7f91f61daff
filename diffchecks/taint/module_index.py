"""The tree's modules, functions and classes, read on demand, and where imports lead."""

import ast
import codecs
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from os.path import commonprefix
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct, field

from diffchecks.data_files import read_patterns
from diffchecks.packed_files import read_file
from diffchecks.python import syntax_downgrade
from diffchecks.python.compact_syntax_trees import compact
from diffchecks.python.imported_files import is_standard
from diffchecks.python.source_encoding import decode_python
from diffchecks.python.syntax_tree_cache import parse
from diffchecks.taint.abstract_values import Deferred, Value

MAX_BYTES: Final = 2_000_000
_PATTERNS = read_patterns("module_index")


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Module(Struct, eq=False):
    """A parsed Python module of the tree.

    Attributes:
        path: below the root, POSIX.
        packages: see ``Project.packages``.
        globals: its names once its body has been run, None before.
        definitions: those of its body in order, which are performed when their names are used.
        steps: statements of its body and its classes that have been run for their names.
    """

    path: str
    tree: ast.Module
    packages: frozenset[str]
    globals: dict[str, Value] | None = None
    wildcards: list[str] = field(default_factory=list)
    definitions: list[tuple[Definition, Deferred]] = field(default_factory=list)
    steps: int = 0

    @property
    def is_package(self) -> bool:
        """Whether it is an ``__init__.py``."""
        return PurePosixPath(self.path).name == "__init__.py"


def imported_packages(text: str) -> frozenset[str]:
    """The top-level names that the import statements of a text mention."""
    names = _PATTERNS["imported"].findall(text)
    for line in _PATTERNS["more"].findall(text):
        names.extend(part.split()[0] for part in line.split(",") if part.split())
    return frozenset(name.partition(".")[0] for name in names)


class Namespace(Struct, eq=False):
    """A directory of the tree as the target of an import; has no body."""

    directory: str


class Class(Struct, eq=False):
    """A class that the tree under analysis defines."""

    node: ast.ClassDef
    module: Module
    name: str
    bases: tuple[Value, ...]
    attributes: dict[str, Value]

    def lookup(self, name: str, depth: int = 8) -> Value | None:
        """An attribute of the class or of its bases in the tree."""
        found = self.attributes.get(name)
        if found is not None or depth == 0:
            return found
        bases = (base.target for base in self.bases if isinstance(base.target, Class))
        inherited = (base.lookup(name, depth - 1) for base in bases)
        return next((value for value in inherited if value is not None), None)

    def outer_bases(self, depth: int = 8) -> list[str]:
        """Dotted names of the base classes that are not in the tree."""
        names: list[str] = []
        for base in self.bases:
            if isinstance(base.target, Class) and depth:
                names.extend(base.target.outer_bases(depth - 1))
            elif base.ref:
                names.append(base.ref)
        return names


class Function(Struct, eq=False):
    """A function, method or lambda of the tree.

    Attributes:
        closure: names of the enclosing functions as they stood at the definition.
        wrapped: its decorators as values.
    """

    node: FunctionNode
    module: Module
    name: str
    closure: Mapping[str, Value]
    cls: Class | None = None
    decorators: tuple[tuple[ast.expr, Value], ...] = ()

    @property
    def is_static(self) -> bool:
        """Whether it takes no ``self``."""
        return any(value.ref == "builtins.staticmethod" for _, value in self.decorators)


class Bound(Struct, eq=False):
    """A method together with what it was looked up on."""

    function: Function
    receiver: Value


_trees: dict[bytes, ast.Module] = {}
"""By source, those of the last project: the other side of a change has nearly all of them."""


class Project:
    """Reads modules below a root on demand; ``tree``: the Python paths that may be read."""

    def __init__(self, root: Path, tree: Iterable[str]) -> None:
        self.root = root
        self._known_trees = dict(_trees)
        _trees.clear()
        self.paths = frozenset(tree)
        self.gaps: dict[str, str] = {}
        self.text = cache(self._read)
        self._packages: dict[str, frozenset[str]] = {}
        self._modules: dict[str, Module | None] = {}
        self._by_leaf: dict[str, list[str]] = {}
        self._directories: set[str] = set()
        for path in sorted(self.paths):
            directory, _, name = path.rpartition("/")
            package = name == "__init__.py"
            leaf = directory.rpartition("/")[2] if package else name.removesuffix(".py")
            self._by_leaf.setdefault(leaf, []).append(path)
            while directory and directory not in self._directories:
                self._directories.add(directory)
                directory = directory.rpartition("/")[0]

    def _read(self, path: str) -> str | None:
        """A file's text; None when it cannot be read, with the reason in ``gaps``."""
        try:
            data = read_file(self.root, path)
        except OSError as error:
            self.gaps[path] = f"cannot be read: {error.strerror}"
            return None
        if len(data) > MAX_BYTES:
            self.gaps[path] = f"larger than {MAX_BYTES} bytes"
            return None
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")

    def module(self, path: str, *, changed: bool = False) -> Module | None:
        """A parsed module; None when it cannot be parsed, with the reason in ``gaps``.

        Args:
            changed: other checks read it as well, so they share its tree.
        """
        if path not in self._modules:
            self._modules[path] = self._parse(path, changed=changed)
        return self._modules[path]

    def modules(self) -> Iterator[Module]:
        """Those that were parsed so far."""
        return filter(None, self._modules.values())

    def _parse(self, path: str, *, changed: bool) -> Module | None:
        text = self.text(path)
        if text is None:
            return None
        try:
            data = read_file(self.root, path)
            tree = parse(data) if changed else self._tree(data)
        except SyntaxError as error:
            self.gaps[path] = f"does not parse: line {error.lineno or 1}: {error.msg}"
        except ValueError as error:
            self.gaps[path] = f"does not parse: line 1: {error}"
        except (RecursionError, MemoryError):
            self.gaps[path] = "does not parse: nested too deeply"
        except OSError as error:
            self.gaps[path] = f"cannot be read: {error.strerror}"
        else:
            return Module(path, tree, self.packages(path))
        return None

    def packages(self, path: str) -> frozenset[str]:
        """The top-level names that the imports of a module, and those it is a copy of, mention."""
        if path not in self._packages:
            text = self.text(path) or ""
            self._packages[path] = imported_packages(text)
            for dots, name in _PATTERNS["all"].findall(text):
                source = self.relative(path, len(dots), name) if dots else self.find(name, path)
                if isinstance(source, Module):
                    self._packages[path] |= source.packages
        return self._packages[path]

    def _tree(self, data: bytes) -> ast.Module:
        tree = self._known_trees.pop(data, None)
        if tree is None:
            tree = compact(syntax_downgrade.parse(decode_python(data)))
        return _trees.setdefault(data, tree)

    def find(self, dotted: str, importer: str) -> Module | Namespace | None:
        """The module or directory of the tree that an absolute import in ``importer`` names."""
        parts = dotted.split(".")
        if is_standard(dotted) or not parts[-1]:
            return None
        tail = "/".join(parts)
        named = self._by_leaf.get(parts[-1], ())
        matches = [path for path in named if self._is_import(path, tail, importer)]
        if matches:
            home = PurePosixPath(importer).parts
            shared = {path: commonprefix([PurePosixPath(path).parts, home]) for path in matches}  # noqa: RUF071 - of parts
            return self.module(max(matches, key=lambda path: (len(shared[path]), -len(path))))
        # A directory without __init__.py, at the root or where the program is started.
        for above in (".", "src", *map(str, PurePosixPath(importer).parents)):
            directory = str(PurePosixPath(above, tail))
            if directory in self._directories:
                return Namespace(directory)
        return None

    def _is_import(self, path: str, tail: str, importer: str) -> bool:
        stem = path.removesuffix("/__init__.py").removesuffix(".py")
        if stem != tail and not stem.endswith(f"/{tail}"):
            return False
        above = stem[: -len(tail)].rstrip("/")
        if above == str(PurePosixPath(importer).parent):
            return True
        return f"{above}/__init__.py".lstrip("/") not in self.paths

    def relative(self, importer: str, level: int, name: str) -> Module | Namespace | None:
        """The module or directory that a relative import names."""
        directory = PurePosixPath(importer).parent
        for _ in range(level - 1):
            directory = directory.parent
        if name:
            directory = directory.joinpath(*name.split("."))
        return self.at(str(directory))

    def at(self, stem: str) -> Module | Namespace | None:
        """The module or directory at a path without its ending."""
        stem = "" if stem == "." else stem
        for path in (f"{stem}.py", f"{stem}/__init__.py".lstrip("/")):
            if path in self.paths:
                return self.module(path)
        return Namespace(stem) if stem in self._directories else None

    def child(self, parent: Module | Namespace, name: str) -> Module | Namespace | None:
        """The submodule of a package by its name."""
        if isinstance(parent, Namespace):
            return self.at(f"{parent.directory}/{name}".lstrip("/"))
        if parent.is_package:
            return self.at(str(PurePosixPath(parent.path).parent / name))
        return None
