"""Which functions are worth running on their own: those in which something from outside begins."""

import ast
import bisect
import re
from collections.abc import Callable, Iterable, Iterator, Set
from functools import lru_cache
from typing import Final

from msgspec import Struct

from diffchecks.data_files import read_names, read_patterns
from diffchecks.python.syntax_tree_cache import blocks
from diffchecks.taint.library_models import LibraryModels
from diffchecks.taint.module_index import Module

COMMON = read_names("common_function_names")
_PATTERNS = read_patterns("entry_points")
_GAP: Final = 200  # characters between the dot of an attribute and its name
REMOTE: Final = frozenset({"request", "socket"})
Definition = ast.FunctionDef | ast.AsyncFunctionDef


class DefinitionLines(Struct, frozen=True):
    """A function definition with the lines it covers, decorators included."""

    node: Definition
    first: int
    last: int
    parents: tuple[Definition, ...]


def spans(module: Module) -> list[DefinitionLines]:
    """All function definitions of a module, outer ones first."""
    return list(_spans(module.tree.body, ()))


def _spans(body: Iterable[ast.stmt], parents: tuple[Definition, ...]) -> Iterator[DefinitionLines]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(each.lineno for each in (statement, *statement.decorator_list))
            last = statement.end_lineno or statement.lineno
            yield DefinitionLines(statement, first, last, parents)
            yield from _spans(statement.body, (*parents, statement))
        else:
            for inner in blocks(statement):
                yield from _spans(inner, parents)


class _Words:
    """Words by the library that a module must import for them to count."""

    def __init__(self) -> None:
        self._free: set[str] = set()
        self._of: dict[str, set[str]] = {}
        self._used: dict[frozenset[str], tuple[set[str], re.Pattern[str] | None]] = {}

    def add(self, package: str, word: str) -> None:
        self._of.setdefault(package, set()).add(word)

    def add_name(self, name: str, tops: dict[str, set[str]]) -> None:
        words = _PATTERNS["word"].findall(name)
        top = name.partition(".")[0]
        if top in {"?", "builtins"}:
            self._free.add(words[-1] if top == "?" else words[1])
        # What no module has is never written without its dot.
        word = f".{words[-1]}" if _PATTERNS["of_object"].search(name) else words[-1]
        for package in {top, *tops.get(top, ())}:
            self.add(package, word)

    def lines(self, text: str, packages: frozenset[str]) -> list[int]:
        used = frozenset(packages & self._of.keys())
        if used not in self._used:
            words = self._free.union(*(self._of[package] for package in used))
            wild = [word for word in sorted(words) if not word.lstrip(".").isidentifier()]
            pattern = re.compile(rf"\b(?:{'|'.join(wild)})\b") if wild else None
            self._used[used] = words.difference(wild), pattern
        words, pattern = self._used[used]
        lines = lines_naming(text, words)
        return sorted({*lines, *lines_with(text, pattern)}) if pattern else lines


class Hints:
    """The words of a module's text near which something from outside may begin.

    A word counts only in modules that import the library it belongs to. What a user gives to his
    own program counts only in modules that call one of the few sinks where it matters.
    """

    def __init__(self, models: LibraryModels) -> None:
        self._remote = _Words()
        self._local = _Words()
        self._given = _Words()
        tops: dict[str, set[str]] = {}
        aliases: dict[str, list[str]] = {}
        for name, canonical in models.types.items():
            tops.setdefault(canonical.partition(".")[0], set()).add(name.partition(".")[0])
            aliases.setdefault(canonical, []).append(name)
        for source in models.sources.rules():
            words = self._remote if source.kind in REMOTE else self._local
            for match in source.match:
                for name in (match, *aliases.get(match, ())):
                    words.add_name(name, tops)
        for check in models.checks.rules():
            for name in check.match:
                self._remote.add_name(name, tops)
        for sink in models.sinks.rules():
            for name in sink.match if sink.given else ():
                self._given.add_name(name, tops)
        self._add_entries(models)
        local = {
            _PATTERNS["word"].findall(name)[-1]
            for sink in models.sinks.rules()
            if not REMOTE.issuperset(sink.kinds)
            for name in sink.match
        }
        self._local_sinks = re.compile(rf"\b(?:{'|'.join(sorted(local)) or '(?!)'})\(")

    def _add_entries(self, models: LibraryModels) -> None:
        for route in models.routes.rules():
            for name in route.match:
                self._remote.add(route.imports, name.rpartition(".")[2])
        for parameter in models.parameters:
            self._remote.add(parameter.imports, parameter.name)
        for handler in models.handlers.rules():
            for base in handler.base:
                package = handler.imports or base.partition(".")[0]
                for name in handler.methods:
                    self._remote.add(package, name.replace("*", r"\w+"))

    def lines(self, text: str, packages: frozenset[str]) -> list[int]:
        """The lines of a module that contain such words, in order."""
        lines = self._remote.lines(text, packages)
        if self._local_sinks.search(text):
            lines = sorted({*lines, *self._local.lines(text, packages)})
        return lines

    def lines_given(self, text: str, packages: frozenset[str]) -> list[int]:
        """The lines with sinks for which a parameter of a function is enough."""
        return self._given.lines(text, packages)


@lru_cache(maxsize=4)
def make_hints(models: LibraryModels) -> Hints:
    """The words of library models, made once for each."""
    return Hints(models)


def functions_with_statements(
    text: str, module_spans: Callable[[], list[DefinitionLines]]
) -> list[DefinitionLines]:
    """The functions that hold a literal that begins as SQL and call what may execute it."""
    written = lines_with(text, _PATTERNS["statement"]) if _PATTERNS["called"].search(text) else []
    if not written:
        return []
    found = module_spans()
    calling = {
        span.node for span in functions_containing(found, lines_with(text, _PATTERNS["called"]))
    }
    return [span for span in functions_containing(found, written) if span.node in calling]


def lines_with(text: str, pattern: re.Pattern[str]) -> list[int]:
    """The 1-based lines on which a pattern is found."""
    return _line_numbers(text, [match.start() for match in pattern.finditer(text)])


def _line_numbers(text: str, places: Iterable[int]) -> list[int]:
    lines: list[int] = []
    line, counted = 1, 0
    for place in places:
        line += text.count("\n", counted, place)
        counted = place
        if not lines or lines[-1] != line:
            lines.append(line)
    return lines


def functions_containing(found: list[DefinitionLines], lines: list[int]) -> list[DefinitionLines]:
    """The functions that hold one of the lines, the innermost for each, and what encloses them."""
    chosen: dict[Definition, DefinitionLines] = {}
    by_node = {span.node: span for span in found}
    for span in found:
        start = bisect.bisect_left(lines, span.first)
        if start < len(lines) and lines[start] <= span.last:
            for parent in span.parents:
                chosen.setdefault(parent, by_node[parent])
            chosen.setdefault(span.node, span)
    return sorted(chosen.values(), key=lambda span: span.first)


def covers(found: list[DefinitionLines], lines: list[int]) -> bool:
    """Whether every line is inside some function."""
    outer = (range(span.first, span.last + 1) for span in found if not span.parents)
    return set[int]().union(*outer).issuperset(lines)


def distinctive_names(names: Iterable[str]) -> set[str]:
    """The names that say which function is meant."""
    return {name for name in names if len(name) > 2 and name not in COMMON and name[:2] != "__"}


FEW: Final = 50
"""Of so few names each is looked for in a text; of more, the words of the text are collected."""


def lines_naming(text: str, names: Set[str]) -> list[int]:
    """The 1-based lines that hold one of these names as a word.

    Of a name that begins with a dot only attributes count, and what a string says of one.

    A pattern tries its alternatives one by one at each place, so each name is searched for.
    """
    words = text if len(names) <= FEW else set(_PATTERNS["any_word"].findall(text))
    present = (name for name in names if name.lstrip(".") in words)
    return _line_numbers(text, sorted({at for name in present for at in _places(text, name)}))


def _places(text: str, name: str) -> Iterator[int]:
    """Where a name stands as a word, or with its dot or quotation mark as an attribute."""
    word = name.lstrip(".")
    end = 0
    while (at := text.find(word, end)) >= 0:
        end = at + len(word)
        if _PATTERNS["any_word"].match(text, end):  # it goes on
            continue
        before = text[at - 1 : at]
        if word == name:
            if not _PATTERNS["any_word"].match(before):
                yield at
        elif before in {'"', "'"}:
            yield at - 1
        elif (dot := _PATTERNS["dot"].search(text, max(0, at - _GAP), at)) is not None:
            yield dot.start()
