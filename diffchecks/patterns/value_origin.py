"""The origin of an expression's value within one file: constant, built, or from a request.

Names are looked up in the enclosing scopes. A name has all values assigned in the nearest scope
that assigns it, but those that another one replaces on every way to it; other files are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

from diffchecks.check_io import parse_program
from diffchecks.data_files import read_patterns
from diffchecks.flows.syntax import part_of
from diffchecks.patterns.pattern_loading import Condition, PatternFile

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_QUOTES = frozenset("\"'`")
# Of a program: what an object of it holds may change, unlike data and styles.
_IMPORTED = re.compile(
    r"import\b(?![^'\"]*['\"][^'\"]*\.(?:json5?|css|s[ac]ss|less|svg|ya?ml)['\"?])"
)
_PATTERNS = read_patterns("value_origin")
_LONG = 300  # characters
_LOOP = re.compile("for|while|loop|do|repeat")
_MAY_NOT_RUN = re.compile(
    f"{_LOOP.pattern}|if|else|switch|case|when|match|try|catch|rescue|cond|ternary|binary|block|body"
)


class ValueOrigins:
    """The values of one parsed file."""

    def __init__(self, root: SgNode, language: PatternFile, grammar: str) -> None:
        self._root, self._language, self._grammar = root, language, grammar
        self._bound: dict[tuple[SgNode, str], list[SgNode]] | None = None
        self._parameters = {kind for kind, name in language.bindings.items() if name is None}

    @cached_property
    def has_request(self) -> bool:
        """Whether the file mentions something that comes with a request."""
        return self._language.request.search(self._root.text()) is not None

    def holds(self, condition: Condition, node: SgNode) -> SgNode | None:
        """A part of the value for which a condition holds; None: none."""
        if not condition.says.search(self._text(node)):
            return None
        for kind in condition.kinds:
            found = {"varies": self._varying, "built": self._built, "request": self._requested}
            for part in found[kind](node):
                if not condition.unless.search(part.text()) and not self._is_inside(
                    part, condition
                ):
                    return part
        return None

    def _varying(self, node: SgNode) -> Iterator[SgNode]:
        """The parts of a value that are not constant."""
        # Each part, with the name to follow: for ``a.b``, it is ``a``.
        waiting = [(node, node)]
        seen: set[SgNode] = set()
        while waiting:
            part, shown = waiting.pop()
            if part in seen or self._harmless(part):
                continue
            seen.add(part)
            source = self._source(part)
            if source is not None:
                if any(_IMPORTED.match(each.text()) for each in self._parts(source)):
                    yield shown
                else:
                    waiting.append((source, shown))
                continue
            origins = self._parts(part)
            given = [each for each in origins if each.kind() in self._parameters]
            known = origins or (shown is part and self._is_of_package(part))
            if (given or not known) and not any(map(self._harmless, given)):
                yield shown
            rest = [each for each in origins if each.kind() not in self._parameters]
            waiting += [(each, each if shown is part else shown) for each in rest]

    def _is_of_package(self, node: SgNode) -> bool:
        """Whether it is a name that another file of the package gives a value, once."""
        bound = self._language.declares.replace("NAME", re.escape(node.text()))
        return node.kind() in self._language.names and not re.search(bound, self._root.text())

    def _is_inside(self, node: SgNode, condition: Condition) -> bool:
        """Whether a part is inside a call that makes it safe for a condition."""
        calls = (each for each in node.ancestors() if each.kind() in self._language.calls)
        return any(condition.safe_in.search(_callee(call.text())) for call in calls)

    def _harmless(self, node: SgNode) -> bool:
        """Whether a value is visibly constant, or is made safe."""
        language, kind, text = self._language, node.kind(), node.text()
        if language.values.get(kind) == () and not node.named_children():
            return True  # an empty string or list
        if kind in language.literals:
            return language.inserts.search(text) is None
        if kind in language.imports or language.known.fullmatch(text):
            return True
        if "%" in text and len(text) < _LONG and _PATTERNS["only_numbers"].fullmatch(text):
            return True
        return kind in language.calls and language.safe.search(_callee(text)) is not None

    def _source(self, node: SgNode) -> SgNode | None:
        """The object of a lookup; None if the value is not a lookup."""
        field = self._language.lookups.get(node.kind())
        return None if field is None else part_of(node, field)

    def _parts(self, node: SgNode) -> list[SgNode]:
        """The parts of a value, or the values assigned to its name; empty: unknown."""
        language, kind = self._language, node.kind()
        if kind in language.names:
            return self._values_of(node)
        if kind in language.calls:
            method = node.named_children()[0]  # a result is made from the object of some
            receiver = self._source(method) if language.methods.search(method.text()) else None
            arguments = part_of(node, language.calls[kind])
            if receiver is not None:
                return [receiver, *(arguments.named_children() if arguments else ())]
            pure = language.pure.search(_callee(node.text())) is not None
            return arguments.named_children() if pure and arguments else []
        fields = language.values.get(kind)
        if not fields:
            return [] if fields is None else node.named_children()
        return [part for field in fields if (part := part_of(node, field)) is not None]

    def _behind(self, node: SgNode, stop: Callable[[SgNode], bool]) -> Iterator[SgNode]:
        """A value and all its parts, recursively, without the parts of those at which it stops."""
        waiting = [node]
        seen: set[SgNode] = set()
        while waiting:
            part = waiting.pop()
            yield part
            if not stop(part):
                origins = [each for each in self._parts(part) if each not in seen]
                seen.update(origins)
                waiting += origins

    def _text(self, node: SgNode) -> str:
        """The source of a value, and of the values assigned to its names."""
        behind = self._behind(node, stop=lambda _: False)
        given = (part.text() for part in behind if part.kind() in self._language.bindings)
        return "\n".join((node.text(), *given))

    def _built(self, node: SgNode) -> Iterator[SgNode]:
        """The varying parts of a value that is concatenated text."""
        for part in self._behind(node, stop=self._joins):
            if self._joins(part) and not _QUOTES.isdisjoint(part.text()):
                yield from self._varying(part)

    def _joins(self, node: SgNode) -> bool:
        if _PATTERNS["only_ended"].fullmatch(node.text()[:_LONG]):
            return False
        if node.kind() in self._language.calls:
            return self._language.pure.search(_callee(node.text())) is not None
        return any(child.kind() in self._language.joined_by for child in node.children())

    def _requested(self, node: SgNode) -> Iterator[SgNode]:
        """The varying parts of a value that come from a request."""
        for part in self._varying(node):
            source: SgNode | None = part
            seen: set[SgNode] = set()
            while source is not None and source not in seen:
                if self._language.request.fullmatch(source.text()):
                    yield part
                    break
                seen.add(source)
                source = self._taken_from(source)

    def _taken_from(self, node: SgNode) -> SgNode | None:
        """The object of a lookup, followed through names with a single value."""
        inner = self._source(node)
        if inner is not None:
            return inner
        origins = self._parts(node)
        return origins[0] if len(origins) == 1 else None

    def _values_of(self, node: SgNode) -> list[SgNode]:
        """The values assigned to a name in the nearest scope that assigns it."""
        if self._bound is None:
            self._bound = self._bindings()
        name = node.text()
        for scope in (*node.ancestors(), self._root):
            if scope.kind() in self._language.scopes or scope.parent() is None:
                found = self._bound.get((scope, name))
                if found:
                    return self._reaching(node, found) if scope == self._scope(node) else found
        return []

    def _reaching(self, node: SgNode, found: list[SgNode]) -> list[SgNode]:
        """Without the values that one assigned later, on every way to the name, replaces."""
        above, at = node.ancestors(), _place(node)[0]
        over, first = set(above), -1
        for each in found:
            own = takewhile(lambda one: one not in over, each.ancestors())
            sure = not any(_MAY_NOT_RUN.search(one.kind()) for one in own)
            sets = not {"=", ":="}.isdisjoint(child.text() for child in each.children())
            if sure and sets and _place(each)[1] <= at:
                first = max(first, _place(each)[0])
        looped = first < 0 or any(_LOOP.search(one.kind()) for one in above)
        last = _place(self._root)[1] if looped else at
        return [each for each in found if first <= _place(each)[0] <= last]

    def _bindings(self) -> dict[tuple[SgNode, str], list[SgNode]]:
        bound: dict[tuple[SgNode, str], list[SgNode]] = {}
        for kind, field in {**self._language.bindings, **self._language.imports}.items():
            if not _has_kind(self._grammar, kind):
                continue
            for node in self._root.find_all(kind=kind):
                target = node if field is None else part_of(node, field)
                kinds = (child.kind() for child in node.children())
                operators = self._language.binds_with
                if target is None or (operators and operators.isdisjoint(kinds)):
                    continue
                scope = self._scope(node)
                for name in self._names(target, inside=field is None):
                    bound.setdefault((scope, name), []).append(node)
        return bound

    def _names(self, target: SgNode, *, inside: bool) -> Iterator[str]:
        if target.kind() in self._language.names:
            yield target.text()
        elif inside or target.kind() in self._language.unpacks:
            for child in target.named_children():
                yield from self._names(child, inside=inside)

    def _scope(self, node: SgNode) -> SgNode:
        scopes = self._language.scopes
        return next((each for each in node.ancestors() if each.kind() in scopes), self._root)


@cache
def _has_kind(grammar: str, kind: str) -> bool:
    """Whether a grammar has a kind of node; the tables of a language may serve several grammars."""
    try:
        parse_program("", grammar).find(kind=kind)
    except RuntimeError:
        return False
    return True


def _place(node: SgNode) -> tuple[int, int]:
    """Where a node begins and ends; slow in long lines, so the node itself tells it from others."""
    span = node.range()
    return span.start.index, span.end.index


def _callee(text: str) -> str:
    return text.partition("(")[0]
