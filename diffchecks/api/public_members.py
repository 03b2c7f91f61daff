"""The public members of a module, from griffe's static model; no code under review runs."""

import ast
import builtins
import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import griffe

from diffchecks.api.promised_names import MANIFESTS, Promises
from diffchecks.check_io import Gap
from diffchecks.data_files import read_names
from diffchecks.path_kinds import is_public_module
from diffchecks.python import syntax_downgrade
from diffchecks.python.imported_files import module_index
from diffchecks.python.source_definitions import (
    Definition,
    DefinitionNode,
    ParsedModule,
    dotted_name,
    find_definitions,
    find_stored_names,
    keeps_signature,
    read,
    read_decorator_names,
)
from diffchecks.python.syntax_tree_cache import walk

_DEPRECATED = re.compile(r"deprecat", re.IGNORECASE)
_STAYS_METHOD = {"abstractmethod", "abc.abstractmethod", "classmethod", "override", "staticmethod"}
_NOT_API_CALLS = read_names("not_api_calls")


class ModuleApi:
    """One module as its users see it.

    Args:
        dotted: the module's name.
        exposed: for a private module, the names that public packages re-export from it, each with
            the dotted name that users know; None for a public module.
    """

    def __init__(
        self, source: ParsedModule, dotted: str, exposed: Mapping[str, str] | None = None
    ) -> None:
        self.source, self.dotted, self.exposed = source, dotted, exposed
        # One segment, so that griffe finds the module's own classes as bases in the collection, and
        # one that no import can name: a package may take a name from its module of that name.
        self._name = "/" + dotted.replace(".", "/")
        self.body: ModuleApi | None = None  # a stub's module, which says what is deprecated
        self.module = _visit(self._name, source)
        self._nodes: dict[str, list[Definition]] = {}
        for definition in find_definitions(source.tree):
            self._nodes.setdefault(definition.dotted, []).append(definition)
        self._mark_public()

    @property
    def first_line(self) -> int:
        """The first line with text, 0 for an empty file."""
        return self.source.first_line

    @cached_property
    def announced(self) -> bool:
        """Whether the module itself says that it is deprecated."""
        says = ast.get_docstring(self.source.tree, clean=False) or ""
        return ".. deprecated" in says or any(
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and _DEPRECATED.search(ast.dump(statement))
            for statement in self.source.tree.body
        )

    @property
    def public_names(self) -> list[str]:
        """What users may take from the module."""
        return [name for name, member in self.module.members.items() if member.public]

    def line(self, inner: str) -> int:
        """The line where a name is defined; if it is missing, the line of its enclosing scope."""
        while inner:
            if found := self._nodes.get(inner):
                return found[0].node.lineno
            inner = inner.rpartition(".")[0]
        return self.first_line

    def may_serve(self, name: str) -> bool:
        """Whether a name may come from elsewhere.

        From ``__getattr__``, a star import, a table of lazy ones, or a module in place of this one.
        """
        members, text = self.module.members, "\n".join(self.source.lines)
        lazy = "TYPE_CHECKING" in text and (f'"{name}"' in text or f"'{name}'" in text)
        lazy |= "__getattr__" in members or "sys.modules[__name__]" in text
        return lazy or any(each.endswith("/*") for each in members)

    def inner(self, griffe_path: str) -> str:
        """The dotted name relative to the module, from griffe's path."""
        return griffe_path[len(self._name) + 1 :]

    def known_as(self, inner: str) -> str:
        """The full dotted name that users write."""
        first, _, rest = inner.partition(".")
        known = (self.exposed or {}).get(first) or f"{self.dotted}.{first}"
        return f"{known}.{rest}" if rest else known

    def node(self, inner: str) -> Definition | None:
        """The only definition of a name; None if there are several, or it is conditional."""
        found = self._nodes.get(inner, [])
        return found[0] if len(found) == 1 and not found[0].conditional else None

    def parameters(self, inner: str) -> frozenset[str]:
        """Names of a function's parameters; none when it is no function."""
        found = self.member(inner)
        return frozenset(parameter.name for parameter in getattr(found, "parameters", ()))

    def is_plain_method(self, inner: str) -> bool:
        """Whether it is a function without a decorator that might turn it into something else."""
        definition = self.node(inner)
        return (
            definition is not None and set(read_decorator_names(definition.node)) <= _STAYS_METHOD
        )

    def fixed_signature(self, inner: str) -> bool:
        """A function that is defined once and whose callers see its parameters as written."""
        definition = self.node(inner)
        return (
            definition is not None
            and not isinstance(definition.node, ast.ClassDef)
            and keeps_signature(definition.node)
        )

    def member(self, inner: str) -> Any:
        """griffe's model of a name with aliases resolved; None if there is none."""
        with suppress(KeyError, griffe.AliasResolutionError, griffe.CyclicAliasError):
            found = self.module.get_member(inner)
            return found.final_target if found.is_alias else found
        return None

    def overloads(self, inner: str) -> bool:
        """Whether a name is declared only by overloads, as in a stub."""
        names = (
            name for each in self._nodes.get(inner, ()) for name in read_decorator_names(each.node)
        )
        return any(name.rpartition(".")[2] == "overload" for name in names)

    def deprecated(self, inner: str) -> bool:
        """Whether a name, its enclosing class or the module is announced as deprecated."""
        parts = inner.split(".")
        names = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
        texts = (text for name in names for text in self._texts_about(name))
        return (
            self.announced
            or any(_DEPRECATED.search(text) for text in texts)
            or (self.body is not None and self.body.deprecated(inner))
        )

    def _texts_about(self, name: str) -> Iterator[str]:
        """The text in which a function, class or assignment can declare that it is deprecated."""
        for definition in self._nodes.get(name, ()):
            node = definition.node
            if isinstance(node, ast.ClassDef):
                yield ast.get_docstring(node, clean=False) or ""
                yield from (ast.dump(each) for each in node.decorator_list)
                yield from self._texts_about(f"{name}.__init__")
            else:
                yield "\n".join(self.source.lines[node.lineno - 1 : node.end_lineno])
                yield from (ast.dump(each) for each in node.decorator_list)
        yield str(getattr(self.member(name), "value", ""))

    def _mark_public(self) -> None:
        """Mark each member as public or not; griffe checks this mark first."""
        listed = self.module.exports
        all_names = None if listed is None else {one for one in listed if isinstance(one, str)}
        bound_once = _unconditional(self.source)
        # A framework finds them, and nobody imports them: only classes are there to derive from.
        found = not read_names("modules_of_frameworks").isdisjoint(self.source.path.split("/")[-2:])
        reexported = _reexported(self.source)
        for name, member in self.module.members.items():
            if self.exposed is not None:
                member.public = name in self.exposed
            elif all_names is not None:
                member.public = name in all_names
            elif (
                name.startswith("_")
                or _says_nothing(member)
                or (found and not member.is_alias and member.is_function)
            ):
                member.public = False
            else:
                member.public = name in reexported if member.is_alias else name in bound_once


class _Alone(griffe.Extension):
    """Keeps griffe from looking for the docstring of an assignment.

    It walks all of the block for each, which takes minutes where there are tens of thousands.
    """

    def on_attribute_node(self, *, node: Any, **_: Any) -> None:
        if not isinstance(node.parent, (ast.If, ast.ExceptHandler)):  # griffe asks for these
            node.parent = None


def _visit(name: str, source: ParsedModule) -> griffe.Module:
    logging.getLogger("griffe").setLevel(logging.CRITICAL)
    collection = griffe.ModulesCollection()
    visit = partial(
        griffe.visit, name, Path(source.path),
        extensions=griffe.load_extensions(_Alone), modules_collection=collection,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = visit(source.text)
        except SyntaxError:  # it parses by itself
            module = visit(syntax_downgrade.rewrite_newer_syntax(source.text)[0])
    collection[name] = module
    for member in module.members.values():
        # ``from .x import x``: to griffe, which knows no submodule, the name is its own target.
        if isinstance(member, griffe.Alias) and member.target_path.startswith(f"{member.path}."):
            member.target_path = f".{member.target_path}"
    return module


def _says_nothing(member: griffe.Object | griffe.Alias) -> bool:
    """Whether it is a logger, a type variable or another module, which are not API."""
    if member.is_alias or not member.is_attribute:
        return False
    value = getattr(member, "value", None)
    called = str(getattr(value, "function", "")).rpartition(".")[2]
    return called in _NOT_API_CALLS or str(value).startswith("sys.modules[")


def _unconditional(source: ParsedModule) -> frozenset[str]:
    """Names that the module always binds, by definition or assignment."""
    found: set[str] = set()
    stub = source.path.endswith(".pyi")
    for statement in source.tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(statement.name)
        elif isinstance(statement, ast.Assign):
            found |= {to.id for to in statement.targets if isinstance(to, ast.Name)}
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            # Without a value it is, but for a stub, the type of what is bound elsewhere.
            found |= {statement.target.id} if statement.value is not None or stub else set()
    return frozenset(found)


def _reexported(source: ParsedModule) -> frozenset[str]:
    """Imported names that are meant for users: ``x as x``, and a package's own in ``__init__``."""
    package = source.path.rpartition("/")[2].startswith("__init__.")
    return frozenset(
        each.asname or each.name
        for statement in source.tree.body
        if isinstance(statement, ast.ImportFrom)
        for each in statement.names
        if (each.asname == each.name or (package and statement.level == 1))
        and not (each.asname or each.name).startswith("_")
    )


DEPTH = 8  # longest chain of imports or bases that is followed

PLAIN_BASES = frozenset({"ABC", "Generic", "Protocol", "NamedTuple", "TypedDict"})


class SourceTree:
    """The Python files of one side: those among ``paths``, read below ``root``."""

    def __init__(self, root: str, paths: list[str]) -> None:
        self._root, self.index = root, module_index(paths)
        self.paths = frozenset(paths)
        self._promises = Promises(root, paths)
        self._by_name: dict[str, str] = {}
        for path in sorted(self.index.files):
            self._by_name.setdefault(self._name(path), path)
        self.source = cache(self._read)
        self._provided: dict[str, dict[str, tuple[str, str]]] = {}

    def twin(self, other: "SourceTree", path: str) -> str | None:
        """The file of this tree that is the same module as another tree's file."""
        return path if path in self.index.files else self._by_name.get(other._name(path))

    def _name(self, path: str) -> str:
        return f"{self.index.dotted(path)}{'.pyi' if path.endswith('.pyi') else ''}"

    def _read(self, path: str) -> ParsedModule | None:
        """A file of the tree, None when it cannot be read."""
        with suppress(Gap):
            return read(self._root, path)
        return None

    def has_submodule(self, path: str, name: str) -> bool:
        """Whether a name taken from a package is a module inside it."""
        directory, _, file = path.rpartition("/")
        stem = f"{directory}/{name}" if directory else name
        inner = {f"{stem}.py", f"{stem}.pyi", f"{stem}/__init__.py"}
        return file.startswith("__init__.") and not inner.isdisjoint(self.index.files)

    def has_alias(self, dotted: str) -> bool:
        """Whether a package above a module puts another one under its name."""
        package, _, name = dotted.rpartition(".")
        bound = re.compile(rf"(?m)^(?:from|import)\b[^\n]*\bas {name}\b|^{name}\s*=")
        while package:
            path = self._by_name.get(package)
            source = self.source(path) if path else None
            text = source.text if source else ""
            entry = re.search(rf"[\"'](?:[\w.]*\.)?{name}[\"']", text)
            if (entry and "sys.modules[" in text) or bound.search(text):
                return True
            package = package.rpartition(".")[0]
        return False

    def is_library(self, path: str) -> bool:
        """Whether a file above it says how to package it, and none beside that how to deploy it.

        Nobody else imports the modules of an application.
        """
        return self._project(path) is not None

    def promises(self, path: str, name: str = "") -> bool:
        """Whether users may count on a module, or on a name there, that no code declares public.

        A program is packaged as well, so its documentation has to name what others may import.
        """
        has_commands = self._promises.has_commands(self._project(path) or "")
        return not has_commands or self._promises.documents(self.index.dotted(path), name)

    def announces(self, symbol: str, base: "SourceTree") -> bool:
        """Whether the notes on releases say more of a name than those of base do."""
        name = symbol.rpartition(".")[2]
        return self._promises.mentions(name) > base._promises.mentions(name)

    def _project(self, path: str) -> str | None:
        """How the paths of a library begin, None if it is none."""
        directory = path.rpartition("/")[0]
        while True:
            above = f"{directory}/" if directory else ""
            if not self.paths.isdisjoint(above + name for name in MANIFESTS):
                apart = f"{above}src/"  # a project that keeps its packages there distributes these
                if not path.startswith(apart) and any(
                    package.startswith(apart) for package in self.index.packages
                ):
                    return None
                deploying = (above + name for name in read_names("deploying_files"))
                return above if self.paths.isdisjoint(deploying) else None
            if not directory:
                return None
            directory = directory.rpartition("/")[0]

    def exposed(self, path: str) -> dict[str, str]:
        """Names of a module that public packages re-export, as users write them.

        What a package uses itself it may import for itself, where the module is public anyway.
        """
        found: dict[str, str] = {}
        directory = path.rpartition("/")[0]
        while directory in self.index.packages:
            init = f"{directory}/__init__.py"
            if is_public_module(init) and init in self.index.files:
                kept = _loaded_names(self.source(init)) if is_public_module(path) else set[str]()
                for name, (origin, own_name) in self._offered(init).items():
                    if origin == path and name not in kept:
                        found.setdefault(own_name, f"{self.index.dotted(init)}.{name}")
            directory = directory.rpartition("/")[0]
        return found

    def _offered(self, init: str) -> dict[str, tuple[str, str]]:
        """The names that a public package imports from other files for its users."""
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
            for alias in statement.names:
                if alias.name == "*":
                    found |= {name: inner.get(name, (origin, name)) for name in self._star(origin)}
                else:
                    found[alias.asname or alias.name] = inner.get(alias.name, (origin, alias.name))
        return found

    def _imports_from(self, source: ParsedModule) -> Iterator[tuple[ast.ImportFrom, str]]:
        for statement in source.tree.body:
            if isinstance(statement, ast.ImportFrom):
                origin = self.index.resolve(source.path, statement.module or "", statement.level)
                if origin and origin != source.path:
                    yield statement, origin

    def _star(self, path: str) -> set[str]:
        """The names that a star import imports."""
        source = self.source(path)
        if source is None:
            return set()
        listed = _all_names(source.tree)
        if listed is not None:
            return listed
        own = {
            definition.name
            for definition in find_definitions(source.tree)
            if definition.parent is None
        }
        taken = set(self._provides(path, DEPTH))
        return {name for name in own | taken if not name.startswith("_")}

    def may_have(
        self, source: ParsedModule, class_name: str, member: str, depth: int = DEPTH
    ) -> bool:
        """Whether a class may have a member that it does not define; True if unknown."""
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
        self, source: ParsedModule, name: str, depth: int
    ) -> tuple[ParsedModule, ast.ClassDef] | None:
        """The class that a name refers to in a file, following imports."""
        if node := _class(source, name):
            return source, node
        for statement, origin in self._imports_from(source) if depth else ():
            for alias in statement.names:
                if (alias.asname or alias.name) == name and (inner := self.source(origin)):
                    return self._find_class(inner, alias.name, depth - 1)
        return None


def _class(source: ParsedModule, dotted: str) -> ast.ClassDef | None:
    found = (
        definition.node
        for definition in find_definitions(source.tree)
        if definition.dotted == dotted
    )
    return next((node for node in found if isinstance(node, ast.ClassDef)), None)


def _lacks(base: str, member: str) -> bool:
    """Whether a base class is known and does not have the member."""
    known = getattr(builtins, base, None)
    if isinstance(known, type):
        return not hasattr(known, member)
    return base.rpartition(".")[2] in PLAIN_BASES


def _members(node: ast.ClassDef) -> set[str]:
    """Names a class binds in its body or on ``self``."""
    defined = {child.name for child in walk(node) if isinstance(child, DefinitionNode)}
    return defined | find_stored_names(node)


def _loaded_names(source: ParsedModule | None) -> set[str]:
    """The names that code outside of imports reads; none where ``__all__`` says what is public."""
    if source is None or _all_names(source.tree) is not None:
        return set()
    return {
        node.id
        for node in walk(source.tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _all_names(tree: ast.Module) -> set[str] | None:
    """``__all__`` where it is a plain list of strings, else None."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(to, ast.Name) and to.id == "__all__" for to in statement.targets
        ):
            values = (
                statement.value.elts if isinstance(statement.value, ast.List | ast.Tuple) else []
            )
            names = {each.value for each in values if isinstance(each, ast.Constant)}
            plain = len(names) == len(values) and bool(values)
            return {name for name in names if isinstance(name, str)} if plain else None
    return None
