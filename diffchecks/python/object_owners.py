"""Views that load objects by an id from the request without checking the owner: a question.

It is asked if neighboring views load objects of the same model only for the current user, and this
view mentions neither the user nor a permission. A table in an SQL statement counts as a model. For
accounts it is asked of every view that writes to one by its id.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Container, Iterator

from msgspec import Struct

from diffchecks.check_io import RawFinding
from diffchecks.python.source_definitions import (
    ChangedModule,
    FunctionNode,
    ParsedModule,
    find_definitions,
)
from diffchecks.python.syntax_tree_cache import walk

MIN_NEIGHBORS = 2
"""The minimum number of neighbors that check the owner, for a view that only reads.

One is enough if the view requires a sign-in and no view lists all objects of the model.
"""

CONFIDENCE = 0.6

_ROUTES = frozenset(["route", "get", "post", "put", "patch", "delete", "api_route"])
_VIEW = re.compile(r"(?:View|ViewSet|Resource|Handler|API|List|Detail|Create|Update|Delete)$")
_WRITING_VIEW = re.compile(r"ModelViewSet|Update|Destroy|Delete")
_SINGLE_VIEW = re.compile(r"ViewSet|Retrieve|Detail|Update|Destroy|Delete")
_ALL_OBJECTS = re.compile(r"queryset = ([A-Z]\w+)\.objects\.(?:all\(\)|order_by\(.*\))")
_MODEL = re.compile(
    r"([A-Z]\w+)\.(?:objects|query)\b.*\.(?:a?get|filter|filter_by|(?:get|first)_or_404)"
)
_BY_ID = re.compile(r"([A-Z]\w+)\.(?:get_by_id|get_or_none|delete_by_id)")  # of Peewee
_LOADER = re.compile(r"(?:^|\.)a?get_object_or_404")
_CLASS = re.compile(r"\b[A-Z]\w+")
_ID = re.compile(r"(?:pk|id|\w+_(?:id|pk))")
_OWNER = re.compile(
    r"(?:\w+__)?(?:user|owner|author|account|creator|created_by|customer|member)(?:_id|__\w+)?"
)
_CURRENT = re.compile(
    r"\brequest\.(?:state\.)?user\b|\bcurrent_user\b|\bg\.user\b|\buser\.(?:id|pk)\b"
)
_USER = re.compile(
    r"\brequest\.(?:state\.)?user\b|\b(?:current|logged_in|auth\w*)_(?:user|account)\w*|\bg\.\w*user\b"
    r"|\buser\.(?:id|pk)\b|\bself\.user\b|session\[|get_jwt_identity|get_current"
)
_RIGHT = re.compile(
    r"(?i)perm|admin|staff|superuser|owner|author|can_|access|forbid|403|abort\(|role|check_|token"
    r"|sign|member|allow|moderat|public|internal"
)
_SIGN_IN = re.compile(
    r"(?i)(?:log_?in|jwt|auth\w*)_required\w*|IsAuthenticated\b|LoginRequired\w*|web\.authenticated"
    r"|(?:Depends|Security)\((?:\w+\.)?(?:get_)?(?:current|logged_in|auth)\w*\)|: CurrentUser\b"
)
# Statements that only keep out who has not signed in.
_KEEPS_OUT = re.compile(
    r"if (?:not )?(?:g\.user|current_user(?:\.is_authenticated)?|request\.user\.is_authenticated"
    r"|session\.get\([^()]*\)|'\w+' not in session)(?: is None)?:\n\s+(?:abort|return|raise)\b.*"
)
_WRITES = re.compile(
    r"\.(?:a?delete|a?save|a?update|commit|remove)\(|['\"]\s*(?i:update|delete from)\s"
)
_ACCOUNT = re.compile(r"(?i)(?:users?|(?:user)?profiles?|user_?accounts?)")
# The parts of a statement of SQL on one table, and what its condition compares with a parameter.
_TABLE = re.compile(r"(?is)\s*(?:select\b.+?\bfrom|update|delete\s+from)\s+[\"`]?(\w+)(.*)")
_EQUALS = re.compile(r"(?i)\b(\w+)\s*=\s*(?:\?|%s|:\w+|%\(\w+\)s|\$\d)")


class View(Struct, frozen=True):
    """A view that loads objects by an id from the request, or only those of the current user.

    Attributes:
        loads: model → line where an object of it is loaded by id.
        asks: models of which it compares an owner with the current user.
        open: it mentions neither the user nor a permission.
        signed_in: it requires a sign-in.
    """

    name: str
    loads: dict[str, int]
    asks: frozenset[str]
    open: bool
    writes: bool
    signed_in: bool


class Query(Struct, frozen=True):
    """A call that loads objects: the ids that it uses, and all that it compares."""

    model: str
    ids: list[ast.expr]
    compared: list[tuple[str, str]]


def ask(pair: ChangedModule, head: ParsedModule) -> Iterator[RawFinding]:
    """Report such views of head that the change adds or alters."""
    if not (_USER.search(head.text) or _SIGN_IN.search(head.text)):
        return  # no view here knows a user
    views = [*_views(head), *_class_views(head)]
    asking: defaultdict[str, list[View]] = defaultdict(list)
    for view in views:
        for model in view.asks:
            asking[model].append(view)
    for view in views:
        for model, line in view.loads.items():
            if view.open and line in pair.added and _is_question(head, view, model, asking[model]):
                yield _finding(pair.path, view, model, asking[model])


def _is_question(head: ParsedModule, view: View, model: str, others: list[View]) -> bool:
    """Whether the owner checks of other views make it a question that this one has none."""
    if view.writes:
        account = _ACCOUNT.fullmatch(model) and not _RIGHT.search(head.path)
        return bool(others) or account is not None
    if all(other.writes for other in others):
        return False  # here everybody may read, and only owners may write
    by_id = sum(model in other.loads for other in others)
    return by_id >= MIN_NEIGHBORS or (view.signed_in and not _is_listed(head, model))


def _is_listed(head: ParsedModule, model: str) -> bool:
    """Whether a view lists all objects of a model; the ``queryset`` of a class is no list."""
    listed = rf"(?<!queryset = )\b{model}\.(?:objects|query)\.(?:all|order_by|paginate)\b"
    return re.search(rf"{listed}|\bselect\({model}\)[\s)]*$", head.text, re.MULTILINE) is not None


def _finding(path: str, view: View, model: str, others: list[View]) -> RawFinding:
    message = f"May every user get at each {model} in {view.name}?"
    if others:
        message += f" {others[0].name} loads only those of the current user"
    line, key = view.loads[model], f"{view.name}: {model}"
    return RawFinding(
        "unowned", path, line, message, line, key=key, scope=view.name, confidence=CONFIDENCE
    )


def _views(source: ParsedModule) -> Iterator[View]:
    guarded, of_views = set[str](), dict[str, str]()
    for definition in find_definitions(source.tree):
        node = definition.node
        if isinstance(node, ast.ClassDef):
            if _SIGN_IN.search("\n".join(source.lines[node.lineno - 1 : node.end_lineno])):
                guarded.add(definition.dotted)
            if any(map(_VIEW.search, (node.name, *map(ast.unparse, node.bases)))):
                of_views[definition.dotted] = _class_header(node)
            continue
        if not _is_view(definition.dotted, node, of_views):
            continue
        queries = list(_queries(node))
        loads, asks = dict(_loads(node, queries)), frozenset(_asks(node, queries))
        if loads or asks:
            owner = definition.dotted.rpartition(".")[0]
            text = ast.unparse(node)
            body, kept_out = _KEEPS_OUT.subn("", "\n".join(map(ast.unparse, node.body)))
            said = "\n".join([_KEEPS_OUT.sub("", text), of_views.get(owner, "")])
            yield View(
                definition.dotted,
                loads,
                asks,
                open=not _USER.search(body) and not _RIGHT.search(said),
                writes=_WRITES.search(body) is not None,
                signed_in=kept_out > 0 or owner in guarded or _SIGN_IN.search(text) is not None,
            )


def _class_header(node: ast.ClassDef) -> str:
    """The parts of a class that apply to all its methods, without a sign-in."""
    own = [item for item in node.body if not isinstance(item, FunctionNode)]
    text = "\n".join(map(ast.unparse, (*node.decorator_list, *node.bases, *own)))
    return _without_sign_in(text)


def _without_sign_in(text: str) -> str:
    """A text without its mentions of a sign-in, so that only permissions are left to find."""
    return _SIGN_IN.sub("", text).replace("permission_classes", "")


def _class_views(source: ParsedModule) -> Iterator[View]:
    """View classes that start from all objects of a model and never filter them."""
    for node in walk(source.tree):
        if not isinstance(node, ast.ClassDef) or not _VIEW.search(node.name):
            continue
        bases = " ".join(map(ast.unparse, node.bases))
        for item in node.body:
            started = _ALL_OBJECTS.fullmatch(ast.unparse(item))
            if started and _SINGLE_VIEW.search(bases):
                rest = _without_sign_in(ast.unparse(node))
                yield View(
                    node.name,
                    {started[1]: item.lineno},
                    frozenset(),
                    open=not _USER.search(rest) and not _RIGHT.search(rest),
                    writes=_WRITING_VIEW.search(bases) is not None,
                    signed_in=_SIGN_IN.search(ast.unparse(node)) is not None,
                )


def _is_view(dotted: str, node: FunctionNode, of_views: Container[str]) -> bool:
    owner = dotted.rpartition(".")[0]
    if owner:
        return owner in of_views and not node.name.startswith("_")
    calls = (each.func for each in node.decorator_list if isinstance(each, ast.Call))
    routed = any(isinstance(each, ast.Attribute) and each.attr in _ROUTES for each in calls)
    return routed or [each.arg for each in node.args.args[:1]] == ["request"]


def _loads(node: FunctionNode, queries: list[tuple[ast.Call, Query]]) -> Iterator[tuple[str, int]]:
    """The models of which an object is loaded by an id parameter of the view."""
    given = {each.arg for each in (*node.args.args, *node.args.kwonlyargs)} - {"self", "request"}
    for call, query in queries:
        if any(_is_given(value, given) for value in query.ids):
            yield query.model, call.lineno


def _is_given(value: ast.expr, given: set[str]) -> bool:
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
        value = value.value  # a field of a request's body
    if isinstance(value, ast.Name) and value.id in given:
        return True
    return re.search(r"\brequest\.|\bkwargs\b", ast.unparse(value)) is not None


def _asks(node: FunctionNode, queries: list[tuple[ast.Call, Query]]) -> Iterator[str]:
    """The models whose owner is compared with the current user, in a query or a condition."""
    for _, query in queries:
        if any(_is_of_user(name, value) for name, value in query.compared):
            yield query.model
    for part in walk(node):
        match part:
            case ast.Compare(left=ast.Attribute(attr=name), comparators=[value, *_]):
                if _is_of_user(name, ast.unparse(value)):
                    yield from (query.model for _, query in queries)


def _is_of_user(name: str, value: str) -> bool:
    if _OWNER.fullmatch(name):
        return _USER.search(value) is not None
    return (
        _ID.fullmatch(name) is None and _CURRENT.fullmatch(value.removeprefix("self.")) is not None
    )


def _queries(node: FunctionNode) -> Iterator[tuple[ast.Call, Query]]:
    for call in walk(node):
        if isinstance(call, ast.Call):
            query = _query(call)
            if query is not None:
                yield call, query


def _query(call: ast.Call) -> Query | None:
    """What a call loads, and by which ids; None if it loads nothing."""
    given = [(word.arg, word.value) for word in call.keywords if word.arg]
    ids = [value for name, value in given if _ID.fullmatch(name)]
    compared = [(name, ast.unparse(value)) for name, value in given]
    called = ast.unparse(call.func)
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return _statement(first.value, call.args[1:])
    if found := _MODEL.fullmatch(called):
        if first and not ids and called.endswith(("get", "get_or_404")):
            ids = [first]
        return Query(found[1], ids, compared + _attributes(call, found[1]))
    if (found := _BY_ID.fullmatch(called)) and first:
        compared += _attributes(call, found[1])
        by_id = [] if isinstance(first, ast.Compare | ast.BinOp) else [first]
        return Query(found[1], by_id, compared)
    if isinstance(first, ast.Name | ast.Attribute) and _LOADER.search(called):
        named = _CLASS.search(ast.unparse(first))
        return Query(named[0], ids, compared) if named else None
    if isinstance(first, ast.Name) and first.id[:1].isupper() and called.endswith(".get"):
        return Query(first.id, call.args[1:2], compared)  # of a session
    return _where(call)


def _where(call: ast.Call) -> Query | None:
    """What a call such as ``where(Model.id == value, ...)`` loads."""
    for part in call.args:
        if isinstance(part, ast.Compare) and isinstance(part.left, ast.Attribute):
            owner = ast.unparse(part.left.value)
            if owner[:1].isupper():
                ids = part.comparators if _ID.fullmatch(part.left.attr) else []
                return Query(owner, ids, _attributes(call, owner))
    return None


def _attributes(call: ast.Call, model: str) -> list[tuple[str, str]]:
    """The attributes of a model that a call's arguments compare, and the values."""
    return [
        (part.left.attr, ast.unparse(part.comparators[0]))
        for argument in call.args
        for part in walk(argument)
        if isinstance(part, ast.Compare)
        and isinstance(part.left, ast.Attribute)
        and ast.unparse(part.left.value) == model
    ]


def _statement(text: str, values: list[ast.expr]) -> Query | None:
    """What an SQL statement with parameters loads or changes."""
    found = _TABLE.match(text)
    if found is None or not values or re.search(r"(?i)\bjoin\b", text):
        return None
    names = [name.lower() for name in _EQUALS.findall(found[2].lower().partition("where")[2])]
    held = values[0].elts if isinstance(values[0], ast.Tuple | ast.List) else [values[0]]
    ids = list(held[-len(names) :]) if "id" in names else []
    written = ast.unparse(values[0])
    owners = [(name, written) for name in names if _OWNER.fullmatch(name)]
    return Query(found[1], ids, owners)
