"""Objects that a view loads by an id of the request, whoever owns them: a question.

It is asked where views beside it load objects of the same model as those of the current user, and
nothing in this one speaks of the user or of a right.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from msgspec import Struct

from orchestrator.checks.check_io import RawFinding
from orchestrator.checks.python.source_definitions import (
    FunctionNode,
    Pair,
    Source,
    find_definitions,
)
from orchestrator.checks.python.syntax_tree_cache import walk

LEAST = 2
"""Views beside it that ask for the owner, at least; one is enough for a view that writes."""

CONFIDENCE = 0.6

_ROUTES = frozenset(["route", "get", "post", "put", "patch", "delete", "api_route"])
_VIEW = re.compile(r"(?:View|ViewSet|Resource|Handler|API)$")
_MODEL = re.compile(
    r"([A-Z]\w+)\.(?:objects|query)\b.*\.(?:a?get|filter|filter_by|(?:get|first)_or_404)"
)
_LOADER = re.compile(r"(?:^|\.)a?get_object_or_404")
_CLASS = re.compile(r"\b[A-Z]\w+")
_ID = re.compile(r"(?:pk|id|\w+_(?:id|pk))")
_OWNER = re.compile(
    r"(?:\w+__)?(?:user|owner|author|account|creator|created_by|customer|member)(?:_id|__\w+)?"
)
_USER = re.compile(
    r"\brequest\.(?:state\.)?user\b|\b(?:current|logged_in|auth\w*)_(?:user|account)\w*|\bg\.\w*user\b"
    r"|\buser\.(?:id|pk)\b|\bself\.user\b|session\[|get_jwt_identity|get_current"
)
_RIGHT = re.compile(
    r"(?i)perm|admin|staff|superuser|owner|author|can_|access|forbid|403|abort\(|role|check_|token"
    r"|sign|member|allowed|moderat|public|internal"
)
_WRITES = re.compile(r"\.(?:a?delete|a?save|a?update|commit|remove)\(")


class View(Struct, frozen=True):
    """A view that loads objects by an id of the request.

    Attributes:
        loads: model -> line where one of it is loaded.
        asks: it compares an owner with the current user.
        open: nothing in it speaks of the user or of a right.
    """

    name: str
    loads: dict[str, int]
    asks: bool
    open: bool
    writes: bool


def ask(pair: Pair, head: Source) -> Iterator[RawFinding]:
    """Ask about views of head that the change adds or alters."""
    if _USER.search(head.text) is None:  # nothing here asks for an owner
        return
    views = list(_views(head))
    asking: defaultdict[str, list[View]] = defaultdict(list)
    for view in views:
        for model in view.loads if view.asks else ():
            asking[model].append(view)
    for view in views:
        for model, line in view.loads.items():
            others = asking[model]
            enough = 1 if view.writes else LEAST
            reading = view.writes or any(not other.writes for other in others)
            if view.open and line in pair.added and len(others) >= enough and reading:
                yield _finding(pair.path, view, model, others)


def _finding(path: str, view: View, model: str, others: list[View]) -> RawFinding:
    message = (
        f"May every user get at each {model} in {view.name}? "
        f"{others[0].name} loads only those of the current user"
    )
    line, key = view.loads[model], f"{view.name}: {model}"
    return RawFinding(
        "unowned", path, line, message, line, key=key, scope=view.name, confidence=CONFIDENCE
    )


def _views(source: Source) -> Iterator[View]:
    for definition in find_definitions(source.tree):
        node = definition.node
        if isinstance(node, ast.ClassDef) or not _is_view(definition.dotted, node):
            continue
        loads = dict(_loads(node))
        if loads:
            text = ast.unparse(node)
            body = "\n".join(map(ast.unparse, node.body))
            yield View(
                definition.dotted,
                loads,
                asks=any(
                    _OWNER.fullmatch(n) and _USER.search(v) for n, v in _compared(node, loads)
                ),
                open=not _USER.search(body) and not _RIGHT.search(text),
                writes=_WRITES.search(body) is not None,
            )


def _is_view(dotted: str, node: FunctionNode) -> bool:
    owner = dotted.rpartition(".")[0]
    if owner:
        return _VIEW.search(owner) is not None and not node.name.startswith("_")
    calls = (each.func for each in node.decorator_list if isinstance(each, ast.Call))
    routed = any(isinstance(each, ast.Attribute) and each.attr in _ROUTES for each in calls)
    return routed or [each.arg for each in node.args.args[:1]] == ["request"]


def _loads(node: FunctionNode) -> Iterator[tuple[str, int]]:
    """The models of which an object is loaded by an id that the view is given."""
    given = {each.arg for each in (*node.args.args, *node.args.kwonlyargs)} - {"self", "request"}
    for call in walk(node):
        if isinstance(call, ast.Call):
            model, ids = _by_id(call)
            if any(_is_given(value, given) for value in ids):
                yield model, call.lineno


def _is_given(value: ast.expr, given: set[str]) -> bool:
    if isinstance(value, ast.Name):
        return value.id in given
    return re.search(r"\brequest\.|\bkwargs\b", ast.unparse(value)) is not None


def _by_id(call: ast.Call) -> tuple[str, list[ast.expr]]:
    """The model that a call loads an object of, and the ids by which it does."""
    ids = [word.value for word in call.keywords if word.arg and _ID.fullmatch(word.arg)]
    called = ast.unparse(call.func)
    first = call.args[0] if call.args else None
    if found := _MODEL.fullmatch(called):
        return found[1], ids or (
            [first] if first and called.endswith(("get", "get_or_404")) else []
        )
    if isinstance(first, ast.Name | ast.Attribute) and _LOADER.search(called):
        named = _CLASS.search(ast.unparse(first))
        return named[0] if named else "", ids
    if isinstance(first, ast.Name) and first.id[:1].isupper() and called.endswith(".get"):
        return first.id, call.args[1:2]  # of a session
    for part in call.args:  # Model.id == value
        if isinstance(part, ast.Compare) and isinstance(part.left, ast.Attribute):
            owner = ast.unparse(part.left.value)
            if owner[:1].isupper() and _ID.fullmatch(part.left.attr):
                return owner, part.comparators
    return "", []


def _compared(node: FunctionNode, loads: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """What is asked of objects of these models, and what attributes are compared with."""
    for part in walk(node):
        if isinstance(part, ast.Call) and _by_id(part)[0] in loads:
            yield from ((word.arg, ast.unparse(word.value)) for word in part.keywords if word.arg)
        elif isinstance(part, ast.Compare) and isinstance(part.left, ast.Attribute):
            yield part.left.attr, ast.unparse(part.comparators[0])
