"""Imports and calls that the change breaks: the target is gone, or its parameters changed."""

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain

from msgspec import Struct

from diffchecks.check_io import Gap, RawFinding
from diffchecks.data_files import read_names, read_patterns
from diffchecks.jobs import ComparisonJob
from diffchecks.python.imported_files import Import, ModuleIndex, read_imports, scan_imports
from diffchecks.python.source_definitions import (
    Definition,
    DefinitionNode,
    FunctionNode,
    dotted_name,
    find_definitions,
    parse_text,
    read_decorator_names,
    read_text,
)
from diffchecks.python.syntax_tree_cache import all_blocks, walk

_PATTERNS = read_patterns("broken_imports")
_GIVEN = frozenset({"__name__", "__file__", "__doc__", "__path__", "__spec__", "__package__"})


class ModuleTree:
    """The modules of the tree at ``root`` and the names they bind."""

    def __init__(self, root: str, index: ModuleIndex) -> None:
        self.root, self.index = root, index
        self.text, self._names = cache(self._read), cache(_names_bound)
        self._plain_names = cache(lambda text: set(chain(*_PATTERNS["plainly"].findall(text))))

    def _read(self, path: str) -> str | None:
        """A module's text; None if it is not source or binds names dynamically."""
        with suppress(Gap):
            text = read_text(self.root, path) if path.endswith(".py") else None
            return text if text is None or not _PATTERNS["dynamic"].search(text) else None
        return None

    def binds(self, path: str, name: str) -> bool | None:
        """Whether a module binds a name; None if unknown."""
        text = self.text(path)
        if text is None:
            return None
        if name in self._plain_names(text):  # of most files they suffice, without parsing
            return True
        names = self._names(text)
        return None if names is None else name in names

    def top_names(self, path: str) -> set[str]:
        """Names that a module seems to bind, by pattern."""
        text = self.text(path) or ""
        imported = {name for statement in scan_imports(text) for name in statement.names}
        return imported | {a or b for a, b in _PATTERNS["top"].findall(text)}

    def resolves(self, importer: str, statement: Import, name: str) -> bool:
        """Whether a name is a submodule of the module that it is imported from."""
        inner = f"{statement.module}.{name}" if statement.module else name
        return self.index.resolve(importer, inner, statement.level) is not None

    def lacks(self, importer: str, statement: Import, name: str) -> bool | None:
        """Whether ``from module import name`` fails; None if unknown."""
        target = self.index.resolve(importer, statement.module, statement.level)
        if name == "*" or self.resolves(importer, statement, name):
            return False
        if target is None or target == importer:
            return None
        bound = self.binds(target, name)
        return None if bound is None else not (bound or name in _GIVEN)


class BrokenImports:
    """Finds imports that worked in base and fail in head.

    Args:
        old: path in head → path in base, for changed files; None for what is new.
        importers: for ``base`` and ``head``, path → the files that import it.
    """

    def __init__(
        self,
        job: ComparisonJob,
        base: ModuleTree,
        head: ModuleTree,
        old: Mapping[str, str | None],
        importers: Mapping[str, Callable[[str], list[str]]],
    ) -> None:
        self._job, self._base, self._head, self._old = job, base, head, old
        self._importers = importers

    def findings(self) -> Iterator[RawFinding]:
        """One finding for each failing statement."""
        for path in self._suspects():
            with suppress(Gap, RecursionError, MemoryError, ValueError):
                text = read_text(self._head.root, path)
                if any(self._problem(path, statement) for statement in scan_imports(text)):
                    for statement in read_imports(parse_text(text), in_functions=True):
                        yield from self._check(path, statement)

    def _suspects(self) -> list[str]:
        """The changed files, and the importers of files that lost names."""
        found = set(self._old)
        for file in self._job.files:
            old = file.old_path
            if old is None or not old.endswith(".py"):
                continue
            if old not in self._head.index.files:
                found.update(self._importers["base"](old))
            elif self._base.top_names(old) - self._head.top_names(old):
                found.update(self._importers["head"](old))
        return sorted(found & self._head.index.files)

    def _check(self, path: str, statement: Import) -> Iterator[RawFinding]:
        if problem := self._problem(path, statement):
            message, key = f"This import fails: {problem}", f"broken-import: {problem}"
            yield RawFinding(
                "broken-import", path, statement.line, message, key=key, confidence=0.95
            )

    def _problem(self, path: str, statement: Import) -> str | None:
        if self._is_gone(path, statement):
            return f"the module {_written(statement)} was removed"
        names = [name for name in statement.names if self._is_lost(path, statement, name)]
        return f"{_written(statement)} has no {', '.join(names)}" if names else None

    def _is_gone(self, path: str, statement: Import) -> bool:
        """Whether base had the module and head has nothing that could replace it."""
        old = self._base.index.resolve(
            self._old.get(path, path) or path, statement.module, statement.level
        )
        if (
            old is None
            or _PATTERNS["built"].search(old)
            or self._head.index.resolve(path, statement.module, statement.level)
        ):
            return False
        if any(self._head.resolves(path, statement, name) for name in statement.names):
            return False
        tail = "/" + statement.module.replace(".", "/")
        return not any(
            f"/{other}".endswith((f"{tail}.py", f"{tail}/__init__.py", f"{tail}.pyi"))
            or f"{tail}/" in f"/{other}"
            for other in self._head.index.files
        )

    def _is_lost(self, path: str, statement: Import, name: str) -> bool:
        """Whether a name cannot be imported, and could be in base or is newly imported."""
        if not self._head.lacks(path, statement, name):
            return False
        before = self._old.get(path, path)
        if before in self._base.index.files and self._base.lacks(str(before), statement, name):
            return False
        tail = "/" + statement.module.replace(".", "/")
        same = [
            other
            for other in self._head.index.files
            if statement.level == 0 and f"/{other}".endswith((f"{tail}.py", f"{tail}/__init__.py"))
        ]
        return len(same) <= 1  # another module of the same name may be meant


def _written(statement: Import) -> str:
    return "." * statement.level + statement.module


def _names_bound(text: str) -> frozenset[str] | None:
    with suppress(Gap, RecursionError, MemoryError, ValueError):
        return _bound(parse_text(text))
    return None


def _bound(tree: ast.Module) -> frozenset[str] | None:
    """Names that a module binds at its top level, also conditionally; None after a star import."""
    found: set[str] = set()
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        node = waiting.pop()
        found.update(_bound_by(node))
        if not isinstance(node, DefinitionNode):
            waiting += ast.iter_child_nodes(node)
    if "*" in found:
        return None
    for inner in chain.from_iterable(all_blocks(tree)):
        if isinstance(inner, ast.Global):
            found.update(inner.names)
    return frozenset(found)


def _bound_by(node: ast.AST) -> set[str]:
    """The names that one node binds, or deletes; ``*``: those that a star import takes."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Load) else {node.id}
    if isinstance(node, DefinitionNode | ast.MatchAs | ast.MatchStar | ast.ExceptHandler):
        return {node.name} if node.name else set()
    return set()


class Signature(Struct, frozen=True):
    """A function's parameters as callers see them.

    Attributes:
        positional: names that may be passed by position, in order.
        hidden: how many of them cannot be passed by name.
        needed: how many of them have no default.
        named: those passed by name only; True: it has no default.
        more: accepts more by position.
        others: accepts more by name.
    """

    positional: tuple[str, ...]
    hidden: int
    needed: int
    named: dict[str, bool]
    more: bool
    others: bool

    def misfit(self, call: ast.Call) -> str | None:
        """What is wrong with a call; None if nothing is, or if ``*`` or ``**`` hide it."""
        given = {word.arg for word in call.keywords}
        if None in given or any(isinstance(argument, ast.Starred) for argument in call.args):
            return None
        count = len(call.args)
        if count > len(self.positional) and not self.more:
            return f"it takes {len(self.positional)} by position and gets {count}"
        taken = {*self.positional[self.hidden :], *self.named}
        unknown = sorted(name for name in given if name and name not in taken)
        if unknown and not self.others:
            return f"it has no parameter {unknown[0]!r}"
        if twice := given & set(self.positional[self.hidden : count]):
            return f"{min(map(str, twice))!r} is given twice"
        missing = [name for name in self.positional[count : self.needed] if name not in given]
        missing += [name for name, needed in self.named.items() if needed and name not in given]
        return f"{missing[0]!r} is missing" if missing else None


def read_signatures(tree: ast.Module) -> dict[str, Signature]:
    """Dotted name → signature, for functions and classes that are certainly called as written.

    A class is listed by its name with the signature of its own ``__init__``.
    """
    found: dict[str, Signature] = {}
    every = find_definitions(tree)
    times = Counter(definition.dotted for definition in every)
    for definition in every:
        if times[definition.dotted] > 1 or not _is_plain(definition):
            continue
        node, owner = definition.node, definition.parent
        if isinstance(node, ast.ClassDef):
            continue
        if owner is None:
            found[definition.dotted] = _shape(node, bound=False)
        elif isinstance(owner.node, ast.ClassDef) and owner.parent is None and _is_plain(owner):
            bound = "staticmethod" not in read_decorator_names(node)
            if definition.name != "__init__":
                found[definition.dotted] = _shape(node, bound=bound)
            elif f"{owner.dotted}.__new__" not in times and not owner.node.keywords:
                found[owner.dotted] = _shape(node, bound=True)
    return found


def _is_plain(definition: Definition) -> bool:
    names = [name.rpartition(".")[2] for name in read_decorator_names(definition.node)]
    return not definition.conditional and read_names("decorators_plain").issuperset(names)


def _shape(node: FunctionNode, *, bound: bool) -> Signature:
    written = node.args
    positional = [argument.arg for argument in (*written.posonlyargs, *written.args)]
    first = int(bound and bool(positional))
    return Signature(
        positional=tuple(positional[first:]),
        hidden=max(0, len(written.posonlyargs) - first),
        needed=max(0, len(positional) - len(written.defaults) - first),
        named={
            argument.arg: default is None
            for argument, default in zip(written.kwonlyargs, written.kw_defaults, strict=True)
        },
        more=written.vararg is not None,
        others=written.kwarg is not None,
    )


FACADES = 2  # levels of packages that re-export a function

Altered = Mapping[str, tuple[Signature, Signature]]
"""Dotted name → a function's signatures in base and head."""


class BrokenCalls:
    """Finds calls that worked in base and fail in head.

    Args:
        importers: path → the files of head that import it.
    """

    def __init__(
        self,
        base: ModuleTree,
        head: ModuleTree,
        old: Mapping[str, str | None],
        importers: Callable[[str], list[str]],
    ) -> None:
        self._base, self._head, self._old = base, head, old
        self._importers = importers

    def findings(self) -> Iterator[RawFinding]:
        """One finding for each failing call."""
        for path, before in self._old.items():
            if before is None or not (altered := self._altered(path, before)):
                continue
            if tree := _tree(self._head.root, path):
                yield from _own_calls(path, tree, altered)
            offered = {name: name for name in altered if "." not in name}
            for user, tree, names in self._users(path, offered, FACADES) if offered else ():
                yield from _calls(user, tree, names, altered)

    def _users(
        self, path: str, offered: Mapping[str, str], facades: int
    ) -> Iterator[tuple[str, ast.Module, Mapping[str, str]]]:
        """Files that import from a file, also through packages that re-export its names."""
        for importer in self._importers(path):
            tree = _tree(self._head.root, importer, mentioning=offered)
            if tree is None or not (names := self._imported(importer, tree, path, offered)):
                continue
            yield importer, tree, names
            if facades and importer.endswith("__init__.py"):
                again = {name: symbol for name, symbol in names.items() if "." not in name}
                yield from self._users(importer, again, facades - 1)

    def _altered(self, path: str, before: str) -> Altered:
        """The functions of a file that may reject a call that they accepted before."""
        old, new = _tree(self._base.root, before), _tree(self._head.root, path)
        if old is None or new is None:
            return {}
        known, taken = read_signatures(old), read_signatures(new)
        return {
            name: (known[name], shape)
            for name, shape in taken.items()
            if name in known and known[name] != shape
        }

    def _imported(
        self, importer: str, tree: ast.Module, path: str, offered: Mapping[str, str]
    ) -> dict[str, str]:
        """The imported functions in a file: name as written → the function's own name."""
        names: dict[str, str] = {}
        for node in chain.from_iterable(all_blocks(tree)):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            level = node.level if isinstance(node, ast.ImportFrom) else 0
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            from_here = module or level
            taken_here = from_here and self._head.index.resolve(importer, module, level) == path
            for alias in node.names:
                local = alias.asname or alias.name
                inner = f"{module}.{alias.name}" if module else alias.name
                if taken_here and alias.name in offered:
                    names[local] = offered[alias.name]
                elif self._head.index.resolve(importer, inner, level) == path:
                    names |= {f"{local}.{name}": symbol for name, symbol in offered.items()}
        return _bound_once(tree, names)


def _tree(root: str, path: str, mentioning: Iterable[str] = ("",)) -> ast.Module | None:
    """A file's tree; None if it does not parse, which is reported elsewhere.

    Args:
        mentioning: a file with none of these words is not parsed.
    """
    with suppress(Gap):
        text = read_text(root, path)
        if any(word in text for word in mentioning):
            return parse_text(text)
    return None


def _own_calls(path: str, tree: ast.Module, altered: Altered) -> Iterator[RawFinding]:
    """Calls in the file itself: of its functions, and of methods through their class."""
    names = {name: name for name in altered if "." not in name}
    yield from _calls(path, tree, _bound_once(tree, names), altered)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            within = {
                f"self.{name.rpartition('.')[2]}": name
                for name in altered
                if name.rpartition(".")[0] == node.name
            }
            yield from _calls(path, node, within, altered)


def _bound_once(tree: ast.Module, names: dict[str, str]) -> dict[str, str]:
    """The names whose first part is not bound elsewhere in the file."""
    if not names:
        return {}
    bound: Counter[str] = Counter()
    for node in walk(tree):
        bound.update(_bound_by(node))
        if isinstance(node, ast.arg):
            bound[node.arg] += 1
    return {name: symbol for name, symbol in names.items() if bound[name.partition(".")[0]] <= 1}


def _calls(
    path: str, tree: ast.AST, names: Mapping[str, str], altered: Altered
) -> Iterator[RawFinding]:
    """The calls of a file that matched the signature in base and do not in head."""
    if not names:
        return
    for node in walk(tree):
        if isinstance(node, ast.Call) and (symbol := names.get(dotted_name(node.func))):
            old, new = altered[symbol]
            if (wrong := new.misfit(node)) and not old.misfit(node):
                says = f"This call of {symbol}() fails: {wrong}"
                yield RawFinding("broken-call", path, node.lineno, says, confidence=0.95)
