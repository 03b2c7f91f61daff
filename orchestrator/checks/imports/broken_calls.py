"""Calls that the change breaks: of a function that takes other arguments now."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from orchestrator.checks.check_protocol import RawFinding
from orchestrator.checks.imports.broken_imports import Side
from orchestrator.checks.python.call_signatures import Shape, shapes
from orchestrator.checks.python.source import NotParsedError, dotted_name, parse_text, read_text

FACADES = 2  # packages, one in the other, that offer a module's function as their own

Altered = Mapping[str, tuple[Shape, Shape]]
"""Dotted name → what a function took, and what it takes now."""


class BrokenCalls:
    """Looks for calls that worked in base and fail in head.

    Args:
        old: path in head → path in base, for changed files; None for what is new.
        importers: path → the files of head that import it.
    """

    def __init__(
        self,
        base: Side,
        head: Side,
        old: Mapping[str, str | None],
        importers: Callable[[str], list[str]],
    ) -> None:
        self._base, self._head, self._old = base, head, old
        self._importers = importers

    def findings(self) -> Iterator[RawFinding]:
        """One finding for each call that fails now."""
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
        """Files that import what a file offers, over packages that offer it as their own, too."""
        for importer in self._importers(path):
            tree = _tree(self._head.root, importer)
            if tree is None or not (names := self._imported(importer, tree, path, offered)):
                continue
            yield importer, tree, names
            if facades and importer.endswith("__init__.py"):
                again = {name: symbol for name, symbol in names.items() if "." not in name}
                yield from self._users(importer, again, facades - 1)

    def _altered(self, path: str, before: str) -> Altered:
        """The functions of a file that may refuse a call which they took before."""
        was, now = _tree(self._base.root, before), _tree(self._head.root, path)
        if was is None or now is None:
            return {}
        known, taken = shapes(was), shapes(now)
        return {
            name: (known[name], shape)
            for name, shape in taken.items()
            if name in known and known[name] != shape
        }

    def _imported(
        self, importer: str, tree: ast.Module, path: str, offered: Mapping[str, str]
    ) -> dict[str, str]:
        """What a file calls the functions that another offers: name as written → their own name."""
        names: dict[str, str] = {}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            level = node.level if isinstance(node, ast.ImportFrom) else 0
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            from_here = module or level
            taken_here = from_here and self._head.index.resolve(importer, module, level) == path
            for one in node.names:
                local = one.asname or one.name
                inner = f"{module}.{one.name}" if module else one.name
                if taken_here and one.name in offered:
                    names[local] = offered[one.name]
                elif self._head.index.resolve(importer, inner, level) == path:
                    names |= {f"{local}.{name}": symbol for name, symbol in offered.items()}
        return _bound_once(tree, names)


def _tree(root: str, path: str) -> ast.Module | None:
    """A file's tree, None where it has none: what of the change does not parse is a gap already."""
    with suppress(NotParsedError):
        return parse_text(read_text(root, path))
    return None


def _own_calls(path: str, tree: ast.Module, altered: Altered) -> Iterator[RawFinding]:
    """Calls in the file itself: of its functions, and of a class's methods by the class itself."""
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
    """Those of the names whose first part nothing else in the file binds."""
    if not names:
        return {}
    bound: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound[node.id] += 1
        elif isinstance(node, ast.arg):
            bound[node.arg] += 1
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound[node.name] += 1
        elif isinstance(node, ast.Import | ast.ImportFrom):
            plain = [one.asname or one.name for one in node.names]
            bound.update({name.partition(".")[0] for name in plain})
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            bound[node.name] += 1
    return {name: symbol for name, symbol in names.items() if bound[name.partition(".")[0]] <= 1}


def _calls(
    path: str, tree: ast.AST, names: Mapping[str, str], altered: Altered
) -> Iterator[RawFinding]:
    """The calls of a file that fitted and fit no more."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (symbol := names.get(dotted_name(node.func))):
            was, now = altered[symbol]
            if (wrong := now.misfit(node)) and not was.misfit(node):
                says = f"This call of {symbol}() fails: {wrong}"
                yield RawFinding("broken-call", path, node.lineno, says, confidence=0.95)
