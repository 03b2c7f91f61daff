"""Declared protection that a change removes: decorators, middleware, settings, refusing calls."""

import ast
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain
from os.path import splitext
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from diffchecks import shorten
from diffchecks.check_io import RawFinding, parse_program
from diffchecks.data_files import read_map, read_names, read_patterns, vocabulary
from diffchecks.python.source_definitions import find_definitions
from diffchecks.python.syntax_tree_cache import all_blocks, walk
from diffchecks.removed_controls.lost_wrapping import (
    ChangedText,
    strip_whitespace,
    tell_other_lines,
)

if TYPE_CHECKING:
    from ast_grep_py import SgNode

GRAMMARS = read_map("maps.yaml", "grammars_of_guards")
"""File extension → grammar."""

SHOWN = 90  # characters of a declaration in a message

_PATTERNS = read_patterns("lost_declarations")


class Declaration(Struct, frozen=True):
    """A declaration that protects what it is written at.

    Attributes:
        kind: ``decorator``, ``base``, ``middleware`` or ``setting``.
        owner: dotted name of the function or class, route, or name of the setting.
        line, end: its first and last line, 1-based.
    """

    kind: str
    owner: str
    text: str
    line: int
    end: int

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for the same declaration elsewhere in the change."""
        return self.kind, self.owner.rpartition(".")[2], strip_whitespace(self.text)


class Declarations(Struct):
    """What a version of a file declares, its owners (name → text of routes), and who refuses."""

    found: list[Declaration] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=lambda: {"": ""})
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add_settings(self, owner: str, node: ast.stmt, named: re.Pattern[str]) -> None:
        """Add the entries of a protecting setting."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name), *_], value=value) if named.fullmatch(name):
                self.owners[owner + name] = ""
                entries = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
                self.found += (_declaration("setting", owner + name, each) for each in entries)


class DeclaringFile(Struct, frozen=True):
    """A changed file with its declarations in base and head."""

    old_path: str
    text: ChangedText
    base: Declarations
    head: Declarations

    def removed_line(self, one: Declaration) -> int:
        """The first line of a declaration of base that goes; 0: none."""
        return next((n for n in range(one.line, one.end + 1) if n in self.text.removed), 0)

    def place(self, one: Declaration) -> int:
        """The line of head at the place of a declaration that goes."""
        return self.text.place(self.removed_line(one))


def find_lost_declarations(files: Sequence[DeclaringFile]) -> Iterator[RawFinding]:
    """Report declarations of base whose owner stays, and that nothing in the change replaces."""
    base = Counter(one.key for file in files for one in file.base.found)
    head = Counter(one.key for file in files for one in file.head.found)
    words_of = _PATTERNS["words"].findall
    came = [({*words_of(one.text.added_text)}, cache(partial(_moved_lines, one))) for one in files]
    for file in files:
        opened = [one for one in file.head.found if _opens(file, one, base, head)]
        yield from (_finding(file, [one], opened=True) for one in opened)
        lost: dict[str, list[Declaration]] = {}
        for one in file.base.found:
            gone = file.removed_line(one) and head[one.key] < base[one.key]
            stays = gone and all(one.owner != other.owner for other in opened)
            if stays and _protects(file, one) and not _refuses(file, one):
                words = {*words_of(one.text)}
                moved = (line for added, lines in came if words <= added for line in lines())
                if not any(words <= line and _names_one(file, of) for line, of in moved):
                    same = one.owner if one.kind == "setting" else strip_whitespace(one.text)
                    lost.setdefault(same, []).append(one)
        yield from (_finding(file, places) for places in lost.values())


def _names_one(file: DeclaringFile, owners: Sequence[str]) -> bool:
    """Whether head names one of these classes and functions, if there are any."""
    named = rf"\b(?:{'|'.join(map(re.escape, owners))})\b"
    return re.search(named, "\n".join(file.text.head)) is not None


def _moved_lines(file: DeclaringFile) -> list[tuple[frozenset[str], Sequence[str]]]:
    """The words of added lines that may hold a guard from elsewhere: of no new route and no text.

    With a mark, such as an attribute, goes what it stands at, for it guards nothing else.
    """
    known = {one.key for one in file.base.found}
    own = {
        number
        for one in file.head.found
        if one.key in known
        or any(
            _leaves_out(file, one, old) or _widens(one.text, old.text)
            for old in file.base.found
            if old.owner == one.owner
        )
        or (one.owner not in file.base.owners and _PATTERNS["guards_itself"].search(one.owner))
        for number in range(one.line, one.end + 1)
    }
    quoted = set[int]()
    grammar = GRAMMARS[splitext(file.text.path)[1].lower()]
    root = parse_program("\n".join(file.text.head) + "\n", grammar)
    for node in root.find_all(regex=_PATTERNS["quote"].pattern):
        if "string" in node.kind():
            quoted.update(range(node.range().start.line + 1, node.range().end.line + 2))
    marks = dict[int, Sequence[str]]()
    for one in file.head.found:
        if one.kind == "base" or _PATTERNS["mark"].match(file.text.head[one.line - 1]):
            marks |= dict.fromkeys(range(one.line, one.end + 1), one.owner.split(".")[-2:])
    lines = {n: file.text.head[n - 1] for n in sorted(file.text.added - own - quoted)}
    words = _PATTERNS["words"].findall
    return [(frozenset(words(line)), marks.get(n, ())) for n, line in lines.items()]


def _opens(file: DeclaringFile, one: Declaration, base: Counter[Any], head: Counter[Any]) -> bool:
    """Whether a declaration that comes lets everybody into what was there before."""
    came = not file.text.added.isdisjoint(range(one.line, one.end + 1))
    known = one.owner in file.base.owners and head[one.key] > base[one.key]
    lets_in = vocabulary("lets_in").search
    if not (came and known and lets_in(one.text)):
        return False
    had, has = _methods(file.base.owners, one.owner), _methods(file.head.owners, one.owner)
    named = _covered(one, had)
    before = (lets_in(old.text) for old in file.base.found if old.owner == one.owner)
    return not (named and named <= has - had) and not any(before)  # a new method had no guard


def _protects(file: DeclaringFile, one: Declaration) -> bool:
    """Whether the owner of a removed declaration stays, and has no other protection instead."""
    of_class = one.owner.rpartition(".")[0] if one.kind == "setting" else ""
    if (of_class or one.owner) not in file.head.owners or not _has_covered(file, one):
        return False
    known = {old.key for old in file.base.found}
    came = [
        new
        for new in file.head.found
        if (new.kind, new.owner) == (one.kind, one.owner) and new.key not in known
        if not file.text.added.isdisjoint(range(new.line, new.end + 1))
        if not (_asks_less(new.text, one.text) or _widens(new.text, one.text))
    ]
    if one.kind == "setting":
        stack = _PATTERNS["stack"].fullmatch(one.owner.rpartition(".")[2])
        protects = vocabulary("protecting_middleware").search(one.text) is not None
        return not came and (not stack or protects)
    if one.kind == "middleware":
        passed = one.text.startswith("{") or "=>" in one.text or "function" in one.text
        was, now = (side.owners.get(one.owner, "") for side in (file.base, file.head))
        access = vocabulary("access").findall
        if passed or (set(access(now)).difference(access(was)) and not _asks_less(now, one.text)):
            return False
    listed = file.text.path.endswith(".py") or vocabulary("lists_guards").search(one.text)
    written = one.text if listed else one.text.partition(",")[0]
    whole = (new for new in came if not _leaves_out(file, new, one))
    return _limits(written) and not any(_limits(new.text, one.text) for new in whole)


def _refuses(file: DeclaringFile, one: Declaration) -> bool:
    """Whether what it guarded turns callers away itself now, a class in each of its methods."""
    owners, stack = file.head.owners, f"use({one.text})" in file.base.owners
    owner = one.owner.rpartition(".")[0] if stack else one.owner
    came = file.head.refusals - file.base.refusals
    inside = {
        new.owner
        for new in file.head.found
        if new.owner.startswith(f"{owner}.") and _limits(new.text, one.text)
        if not _asks_less(new.text, one.text)
        if all(new.text != old.text for old in file.base.found if old.owner == new.owner)
    }
    if any(_runs_before(file, one, scope) for scope in inside.union(scope for scope, _ in came)):
        return True
    for scope, text in [each for each in came if not _PATTERNS["goes_on"].match(each[1])]:
        passed = rf"[ .(\[]{re.escape(scope.rpartition('.')[2]) or '$.'}\s*[,)\]]"
        routes = {route for route, has in owners.items() if text in has or re.search(passed, has)}
        for_all = not scope and all(text in route for route in routes)
        inside |= {*routes, scope} if scope or for_all else routes
    left = done = _methods(inside, owner)
    if not stack:
        left = _methods(owners, owner) & _covered(one, _methods(file.base.owners, owner))
    return owner in inside or (bool(left) and left <= done)


def _runs_before(file: DeclaringFile, one: Declaration, scope: str) -> bool:
    """Whether a filter of the class runs this function of it for all that a guard covered."""
    name = re.escape(scope.removeprefix(f"{one.owner}.").partition("(")[0])
    named = re.compile(rf"{_PATTERNS['filter'].pattern}{name}\b").match
    runs = (Declaration("", one.owner, line, 0, 0) for line in file.text.head if named(line))
    return any(not _leaves_out(file, new, one) for new in runs)


def _has_covered(file: DeclaringFile, one: Declaration) -> bool:
    """Whether not all methods have gone that a declaration of Rails names, or does not except."""
    had, left = _methods(file.base.owners, one.owner), _methods(file.head.owners, one.owner)
    covered = _covered(one, had) if _PATTERNS["names"].search(one.text) else None
    return not covered or not covered <= had or not covered.isdisjoint(left)


def _leaves_out(file: DeclaringFile, new: Declaration, old: Declaration) -> bool:
    """Whether a declaration covers fewer of the methods that both versions have than the old."""
    if _PATTERNS["names"].search(new.text) is None:
        return False  # it covers all; most are so, and a file may have thousands
    both = _methods(file.base.owners, old.owner) & _methods(file.head.owners, old.owner)
    return not _covered(old, both) & both <= _covered(new, both)


def _methods(scopes: Iterable[str], owner: str) -> set[str]:
    """The names of the methods of a class."""
    inside = [one.removeprefix(f"{owner}.") for one in scopes if one.startswith(f"{owner}.")]
    return {found[0] for name in inside if (found := _PATTERNS["method"].match(name))}


def _covered(one: Declaration, methods: set[str]) -> set[str]:
    """The methods that a declaration names, those that it does not except, or all."""
    if (found := _PATTERNS["names"].search(one.text)) is None:
        return methods
    named = set(_PATTERNS["method"].findall(found["names"]))
    return named if found["only"] else methods - named


def _limits(text: str, replaced: str = "") -> bool:
    """Whether a declaration decides on access, by more than a part of the one it replaces."""
    if vocabulary("access").search(vocabulary("limits_rate").sub("", replaced)):
        text = vocabulary("limits_rate").sub("", text)  # takes the place of no other guard
    had, has = (_PATTERNS["names"].sub("", each) for each in (replaced, text))
    part = set(_PATTERNS["words"].findall(has)) < set(_PATTERNS["words"].findall(had))
    less = part and not vocabulary("alternatives").search(text)
    if _PATTERNS["only_names"].match(text):
        text = _PATTERNS["value"].sub("", text)
    known = vocabulary("access").search(text) and not vocabulary("no_access").search(text)
    return bool(known and not less)


def _asks_less(text: str, replaced: str) -> bool:
    """Whether everybody who has signed in may do what asked for a right of its own."""
    right = vocabulary("asks_right").search
    return bool(right(replaced) and not right(text) and vocabulary("signed_in").search(text))


def _widens(text: str, replaced: str) -> bool:
    """Whether roles, of which one suffices, come to those that a declaration names already."""
    text, replaced = text.replace("Any", ""), replaced.replace("Any", "")
    had, has = ({*_PATTERNS["method"].findall(each)} for each in (replaced, text))
    outside = _PATTERNS["method"].findall(_PATTERNS["value"].sub("", text))
    more = had < has and (has - had).isdisjoint(outside)
    return more and _PATTERNS["one_suffices"].match(text) is not None


def _finding(
    file: DeclaringFile, places: Sequence[Declaration], *, opened: bool = False
) -> RawFinding:
    """A finding at the first place that names the other places."""
    one = places[0]
    owner, text = one.owner or "What this covers", shorten(" ".join(one.text.split()), SHOWN)
    if opened:
        says = f"{owner} can be reached by anybody: {text}"
        return RawFinding("access-control-removed", file.text.path, one.line, says, confidence=0.8)
    for new in file.head.found:
        if new.owner == one.owner and _widens(new.text, one.text):
            says = f"{owner} lets more people in: {shorten(new.text, SHOWN)}, and before {text}"
            return RawFinding("access-control-widened", file.text.path, new.line, says)
    setting = one.kind == "setting"
    code = "hardening-removed" if setting else "access-control-removed"
    says = "This is no longer set" if setting else f"{owner} can be reached without"
    line = file.place(one)
    also = tell_other_lines({file.place(other) for other in places[1:]} - {line})
    return RawFinding(
        code,
        file.text.path,
        line,
        f"{says}: {text}{also}",
        confidence=0.9 if one.kind in {"decorator", "base"} else 0.8,
        removed_path=file.old_path,
        removed_line=file.removed_line(one),
    )


def read_python(tree: ast.Module) -> Declarations:
    """The declarations of a Python module."""
    read = Declarations()
    for node in tree.body:
        read.add_settings("", node, _PATTERNS["stack"])
    for definition in find_definitions(tree):
        node, name = definition.node, definition.dotted
        read.owners[name] = ""
        read.found += (_declaration("decorator", name, each) for each in node.decorator_list)
        if isinstance(node, ast.ClassDef):
            read.found += (_declaration("base", name, base) for base in node.bases)
            for item in node.body:
                read.add_settings(f"{name}.", item, _PATTERNS["setting"])
            continue
        for statement in chain.from_iterable(all_blocks(node)):  # ``check_permission(request)``
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                called = ast.unparse(statement.value.func).rpartition(".")[2]
                if vocabulary("guard_calls").fullmatch(called):
                    read.found.append(_declaration("decorator", name, statement.value))
        for each in walk(node.args):  # ``user=Depends(current_user)``, ``user: CurrentUser``
            # A parameter without a type has no other name for a dependency.
            if (
                isinstance(each, ast.Call | ast.arg)
                and getattr(each, "annotation", True)
                and _PATTERNS["depends"].search(ast.unparse(each))
            ):
                read.found.append(_declaration("decorator", name, each))
    return read


def _declaration(kind: str, owner: str, node: ast.expr | ast.arg) -> Declaration:
    return Declaration(kind, owner, ast.unparse(node), node.lineno, node.end_lineno or node.lineno)


def read_other(grammar: str, lines: Sequence[str], touched: Iterable[int]) -> Declarations:
    """The declarations of a program in another language.

    Args:
        touched: numbers of the differing lines and their neighbors; nothing else is read.
    """
    read, near = Declarations(), sorted(touched)
    waiting = [(parse_program("\n".join(lines) + "\n", grammar), "")]
    while waiting:
        node, scope = waiting.pop()
        kind, span = node.kind(), node.range()
        name = _name_of(node) if kind in read_names("scope_nodes") else None
        if name:
            scope = f"{scope}.{name.text()}" if scope else name.text()
            read.owners[scope] = ""
        at = bisect_left(near, span.start.line + 1)
        if at == len(near) or near[at] > span.end.line + 1:
            continue
        if kind in read_names("mark_nodes") and grammar not in {"rust", "swift"}:
            read.found.append(_written("decorator", scope, node))
        elif kind == "identifier" and vocabulary("guards_class").fullmatch(node.text()):
            above = node.parent()
            if above and above.kind() == "body_statement":  # a call of Ruby without arguments
                read.found.append(_written("decorator", scope, node))
        elif _turns_away(node):
            read.refusals[scope, node.text()] += 1
        elif kind in read_names("call_nodes"):
            _read_call(node, scope, read)
        elif kind in read_names("entry_nodes"):
            _read_list(node, scope, read)
        inner = [] if kind == "annotation" else node.children()  # what it holds annotates nothing
        waiting += [(child, scope) for child in reversed(inner) if child.is_named()]
    return read


def _turns_away(node: "SgNode") -> bool:
    """Whether it is a short condition on who asks that ends with an answer that refuses.

    Or a function that does nothing but to fail, or to answer that there is nothing.
    """
    if node.kind() == "call":  # of Elixir, where also a condition is one
        asks = _PATTERNS["halts"].match(node.text())
        return asks is not None and vocabulary("about_access").search(asks["asked"]) is not None
    asked, body = node.field("condition"), node.field("body")
    if body is not None and node.kind() in read_names("scope_nodes"):
        return _PATTERNS["only_fails"].fullmatch(body.text()) is not None
    if asked is None or not vocabulary("asks_who").search(asked.text()):
        return False
    hides = vocabulary("about_access").search(asked.text())  # answers that there is nothing
    refuses = vocabulary("may_refuse" if hides else "refuses_caller")
    if "conditional" in node.kind() or "ternary" in node.kind():
        return refuses.search(node.text()) is not None
    ends = _PATTERNS["ends"].pattern.replace("REFUSES", f"(?i:{refuses.pattern})")
    return any(n.is_named() and "string" not in n.kind() for n in node.find_all(regex=ends))


def _name_of(node: "SgNode") -> "SgNode | None":
    """What names a scope; in Elixir what stands between a macro and its block."""
    if node.kind() != "call":
        named = (child for child in node.children() if child.kind().endswith("_identifier"))
        return node.field("name") or next(named, None)
    parts = {child.kind(): child for child in node.children()}
    return parts.get("arguments") if "do_block" in parts else None


def _read_call(node: "SgNode", scope: str, read: Declarations) -> None:
    """Record a call in a class's body, one that refuses a request, or the middleware of a route."""
    target = node.field("function") or node.field("name") or node.field("method")
    target, arguments = target or node.field("target"), node.field("arguments")
    name = re.split(r"\W+", target.text().rstrip("!"))[-1] if target else ""
    bare = "" if arguments and arguments.named_children() else "()"
    above = node.parent()
    is_statement = above is not None and above.kind() in read_names("statement_nodes")
    lists = ("guards_class", "guard_calls") if is_statement else ("guards_class",)
    if block := vocabulary("guards_block").match(node.text()):
        first = node.range().start.line + 1
        end = first + block[0].count("\n")
        read.found.append(Declaration("decorator", scope, block[0], first, end))
    elif any(vocabulary(one).fullmatch(name) for one in lists):
        read.found.append(_written("decorator", scope, node))
    elif vocabulary("registers_route").fullmatch(name) and arguments:
        passed = [child for child in arguments.children() if child.is_named()]
        route = f"{name}({passed[0].text() if passed else ''})"
        read.owners[route] = read.owners.get(route, "") + node.text()
        if passed:
            guards = [
                each
                for one in passed[1:-1]
                for each in (one.named_children() if "array" in one.kind() else [one])
            ]
            read.found += [_written("middleware", route, each) for each in guards]
            last = passed[-1].text()
            alone = len(passed) == 1 and not vocabulary("no_guard").search(last)
            if name in {"use", "Use"} and (alone or vocabulary("guards_path").search(last)):
                read.found.append(_written("decorator", scope, passed[-1]))
            wraps = passed[-1].field("function")  # ``requireLogin(handler)``
            if wraps and passed[1:] and not vocabulary("no_guard").search(wraps.text()):
                read.found.append(_written("middleware", route, wraps))
    elif vocabulary("guards_route").fullmatch(name + bare) and target is not None:
        _read_chained(node, target, scope, read)


def _read_chained(node: "SgNode", target: "SgNode", scope: str, read: Declarations) -> None:
    """Record a call on a route, of which the first call of the chain tells."""
    first: SgNode = node
    above: SgNode | None = node
    while above is not None:
        if above.kind() in read_names("call_nodes"):
            first = above
        inner = above.field("function") or above.field("object") or above.field("receiver")
        above = inner or above.field("expression")
    of = first.field("function") or first.field("name") or first.field("method")
    arguments = first.field("arguments")
    name = re.split(r"\W+", of.text())[-1] if of else ""
    owner = scope.removesuffix(".__construct")
    registers = first is not node and vocabulary("registers_route").fullmatch(name)
    called = re.split(r"\.|->|::", target.text())[-1]
    if not registers and vocabulary("guards_only_routes").fullmatch(called):
        return  # a question whose answer is used
    if registers and arguments:
        passed = [child.text() for child in arguments.children() if child.is_named()]
        owner = f"{name}({passed[0] if passed else ''})"
        read.owners.setdefault(owner, "")
    chain = re.split(r"(?<=\))\s*\.\s*", node.text())
    tail = ".".join(chain[-2:]) if "permitAll" in chain[-1] else ""
    span = node.range()
    call = called + (node.field("arguments") or target).text()
    text = " ".join((tail or call).split())
    start = target.range().end.line if target.kind() != "name" else target.range().start.line
    read.found.append(Declaration("decorator", owner, text, start + 1, span.end.line + 1))


def _read_list(node: "SgNode", scope: str, read: Declarations) -> None:
    """Record the entries of a list of what runs before handlers."""
    children, name = node.named_children(), ""
    if node.kind() == "return_statement":  # ``public static function middleware()`` of Laravel
        scope, _, name = scope.rpartition(".")
    elif len(children) > 1:
        name = children[0].text().strip("\"'")
    if children and vocabulary("guard_list").fullmatch(name):
        waiting = [children[-1]]
        while waiting:
            entry = waiting.pop()
            inner = entry.named_children()
            if "array" in entry.kind() and inner:  # the last of an entry is its value
                waiting += inner[-1:] if "element" in entry.kind() else inner
            else:
                read.found.append(_written("decorator", scope, entry))


def _written(kind: str, owner: str, node: "SgNode") -> Declaration:
    span = node.range()
    text = " ".join(node.text().split())
    return Declaration(kind, owner, text, span.start.line + 1, span.end.line + 1)
