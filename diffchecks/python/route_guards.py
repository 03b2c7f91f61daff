"""Added routes without the guard that most neighboring routes have: a question.

A route that requires only a sign-in is reported as well, if its neighbors require an administrator.

Neighbors are the routes of one router, or the views of one kind, in a file. Guards are recognized
by the names of decorators, dependencies, mixins and attributes. A route is not reported if it may
be guarded in a way that is not visible in the file, is public by its name, or shows the same page
to everybody.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TypeGuard

from msgspec import Struct

from diffchecks.check_io import CheckReply, RawFinding
from diffchecks.path_kinds import is_test
from diffchecks.python import object_owners
from diffchecks.python.source_definitions import (
    ChangedModule,
    DefinitionNode,
    FunctionNode,
    Job,
    NotParsedError,
    ParsedModule,
    find_definitions,
    first_line,
    gap_on_error,
    read,
    read_pairs,
)
from diffchecks.python.syntax_tree_cache import walk

MIN_NEIGHBORS = 3
"""The minimum number of neighbors with the same guard."""

SHARE = 0.75
"""The minimum share of neighbors with a guard."""

MAX_OPEN = 2
"""The maximum number of neighbors without a guard; with more, that is normal in this file."""

CONFIDENCE = 0.6

_METHODS = frozenset(
    ["route", "get", "post", "put", "patch", "delete", "head", "options", "api_route", "websocket"]
)
_READING = frozenset(["get", "head", "options"])
_MUTATES = frozenset(["mutate", "mutate_and_get_payload", "perform_mutation"])
_VIEWS = re.compile(
    r"(?:Template|List|Detail|Create|Update|Delete|Form|Archive\w*)?View|MethodView|RequestHandler"
    r"|(?:Generic|List|Create|Retrieve|Update|Destroy)*APIView|(?:Model|ReadOnlyModel|Generic)?ViewSet"
    r"|Resource|HTTPEndpoint|object"
)
_READS = re.compile(r"(?:Template|List|Detail|Archive\w*)View|(?:List|Retrieve)+APIView")
_GUARD = re.compile(
    r"(?i)log_?in|logged|auth(?!or(?!i))|permi|perms?(?:_|\b)|admin|staff|super_?user|roles?(?:_|\b)"
    r"|token|jwt|scope|protect|access|owner|member|require[sd]?_?user|user_?required|user_passes"
    r"|api_?key|claims|identity|principal|verified|signed|secure|\bacl|privilege"
)
_SIGNS_IN = re.compile(r"(?i)@(?:log_?in|jwt|auth|token|user|session)_?required|@authenticated")
_OF_FEW = re.compile(r"(?i)admin|staff|super_?user")
_NO_GUARD = re.compile(
    r"(?i)exempt|csrf|optional|not_required|anonymous|skip|no_auth|if_needed|cache|swagger|schema"
    r"|service|repo(?:sitory)?\b|store|client|form\b|logger|first_?run"
)
_OPEN = re.compile(
    r"(?i)public|allow_?any|anonymous|exempt(?!.*csrf)|not_?required|optional|no_?auth"
)
_HARMLESS = re.compile(
    r"(?i)csrf|cache|require_(?:http|get|post|safe)|atomic|limit|throttl|cors|swagger|doc|schema"
    r"|expect|respon|marshal|json|xframe|gzip|vary|sensitive|time[dr]|metric|trac|deprecated|api_view"
    r"|action|mutation|render|parser|csp|template|classmethod|staticmethod|overrid|log(?!in|_in|ged)|async|sync"
)
_DEPENDENCY = re.compile(
    r"(?i)user|auth(?!or(?!i))|admin|permi|token|principal|scope|role|api_?key|identity|require|verif"
    r"|security|access|member|owner|current|login"
)
_PLAIN_DEPENDENCY = re.compile(
    r"(?i)db|database|session|engine|conn|settings|config|service|repo|store|client|pag|filter|query"
    r"|param|cache|redis|bus|queue|logger|sort|limit|storage|form|lang|locale|template|crud|uow"
)
_ALIAS = re.compile(
    r"(?:Current|Active|Verified)\w*(?:User|Account|Admin|Member|Subject|Actor|Principal)"
    r"|(?:Auth(?!or(?!i))|Admin|Super|Logged|Require)\w*|\w*(?:User|Auth|Admin)Dep\w*"
)
_OWN_CHECK = re.compile(
    r"is_(?:authenticated|staff|superuser|admin)(?!\w*\s*=(?!=))|PermissionDenied|Forbidden"
    r"|Unauthorized|40[13]\b"
    r"|has_\w*perm|check_\w*(?:perm|access|auth|login|owner|role|token)|[Aa]uthoriz|require_\w+\("
    r"|verify_\w+|ensure_\w+|compare_digest|hmac|signature|login_manager|current_user|request\.user\b"
    r"|session\.get\(\s*['\"]|session\[|\bg\.\w*user|_token\b|Authorization|\.can\(|user_can|access"
)
_OPEN_NAME = re.compile(
    r"(?i)log_?(?:in|out)|sign_?(?:in|up|out)|register|registration|health|\bping|ready|\blive|alive"
    r"|status|metric|version|static|favicon|robots|sitemap|manifest|hook|callback|oauth|sso|saml"
    r"|oidc|token|refresh|passw|reset|forgot|confirm|verif|activat|unsubscribe|public|index|\bhome"
    r"|about|terms|privacy|docs|openapi|swagger|schema|error|not_found|40[0-9]|500|csrf|captcha"
    r"|invit|landing|welcome|feed|rss|well.known|_root\b|^root$|media|assets|locale|language"
    r"|^set_lang|auth(?!or(?!i))"
)
_DOES = re.compile(
    r"\brequest\.|\.objects\b|\bdb\b|query|get_\w+\(|\.(?:save|delete|create|update|all)\("
)
_RESPONSE = re.compile(r"\b(?:render|redirect|\w*Response\w*|get_object_or_404)\(")


class GuardedRoute(Struct, frozen=True):
    """One route or class of views.

    Attributes:
        group: the key that it shares with its neighbors.
        guards: as written.
        sure: as far as the file shows, nothing else guards it.
        reads: it handles only GET, as far as known.
    """

    dotted: str
    node: DefinitionNode
    group: str
    guards: frozenset[str]
    sure: bool
    reads: bool


def run(job: Job) -> CheckReply:
    """Report routes that the change adds without the guard or owner check of their neighbors."""
    gaps: dict[str, str] = {}
    found: list[RawFinding] = []
    examined = []
    for pair in read_pairs(job, gaps):
        with gap_on_error(gaps, pair.path):
            if pair.head is not None and not is_test(pair.path):
                found += _ask(pair, pair.head)
                found += object_owners.ask(pair, pair.head)
            examined.append(pair.path)
    if found:
        known = _names_in_base(job)
        found = [finding for finding in found if finding.key not in known]
    return CheckReply(found, examined, gaps)


def _ask(pair: ChangedModule, head: ParsedModule) -> Iterator[RawFinding]:
    routes = find_routes(head)
    groups: defaultdict[str, list[GuardedRoute]] = defaultdict(list)
    for route in routes:
        groups[route.group].append(route)
    for route in routes:
        header = range(first_line(route.node), route.node.lineno + 1)
        weak = all(map(_SIGNS_IN.fullmatch, route.guards))
        if not weak or not route.sure or pair.added.isdisjoint(header):
            continue
        others = [other for other in groups[route.group] if other is not route]
        guard = usual_guard(route, others)
        # A signed-in user may do less than the users whom the other routes admit.
        if guard is not None and (not route.guards or (_OF_FEW.search(guard) and not route.reads)):
            yield _finding(pair.path, route, guard, others)


def _names_in_base(job: Job) -> set[str]:
    """The routes of all changed files in base; a lost guard is reported by ``protections``."""
    found: set[str] = set()
    for file in job["files"]:
        old = file["old_path"]
        if old is not None and old.endswith(".py"):
            with suppress(NotParsedError, RecursionError, MemoryError, ValueError):
                found.update(route.dotted for route in find_routes(read(job["base_root"], old)))
    return found


def _finding(
    path: str, route: GuardedRoute, guard: str, others: Sequence[GuardedRoute]
) -> RawFinding:
    having = sum(guard in other.guards for other in others)
    own = f"only {' and '.join(sorted(route.guards))}" if route.guards else "no guard"
    message = (
        f"Is it meant that {route.dotted} has {own}? Of the {len(others)} other routes "
        f"beside it, {having} have {guard}"
    )
    return RawFinding(
        "unguarded",
        path,
        first_line(route.node),
        message,
        route.node.lineno,
        key=route.dotted,
        scope=route.dotted,
        confidence=CONFIDENCE,
    )


def usual_guard(route: GuardedRoute, others: Sequence[GuardedRoute]) -> str | None:
    """The guard that neighbors usually have; None if there is no such convention."""
    guarded = [other for other in others if other.guards]
    if len(guarded) < SHARE * len(others) or len(others) - len(guarded) > MAX_OPEN:
        return None
    if route.reads and any(other.reads and not other.guards for other in others):
        return None  # reading is open here, and writing is not
    counts = Counter(guard for other in guarded for guard in other.guards)
    guard, count = min(counts.items(), key=lambda item: (-item[1], item[0]), default=("", 0))
    return guard if count >= MIN_NEIGHBORS else None


def find_routes(source: ParsedModule) -> list[GuardedRoute]:
    """The routes of a module, without those that are public by name."""
    reader = _Reader(source)
    found = (
        reader.route(definition.dotted, definition.node)
        for definition in find_definitions(source.tree)
    )
    return [route for route in found if route is not None]


class _Reader:
    def __init__(self, source: ParsedModule) -> None:
        self._lines = source.lines
        self._text = "\n".join(source.lines)
        self._classes: dict[str, ast.ClassDef] = {}
        self._dependencies: dict[str, ast.expr] = {}
        self._functions: dict[str, FunctionNode] = {}
        self._guarded_routers: set[str] = set()
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef):
                self._classes[node.name] = node
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self._dependencies[node.targets[0].id] = node.value
        for each in walk(source.tree):
            self._note_router(each)

    def _note_router(self, node: ast.AST) -> None:
        """Record a router that is guarded as a whole."""
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            if _keyword(node.value, "dependencies") is not None:
                self._guarded_routers.update(ast.unparse(target) for target in node.targets)
        elif isinstance(node, ast.Call) and _last(node.func) == "include_router":
            if _keyword(node, "dependencies") is not None and node.args:
                self._guarded_routers.add(ast.unparse(node.args[0]))
        elif isinstance(node, ast.Attribute):
            if node.attr in {"before_request", "before_app_request", "middleware"}:
                self._guarded_routers.add(ast.unparse(node.value))
        elif isinstance(node, ast.Call) and _last(node.func) == "add_middleware":
            router = ast.unparse(node.func).rpartition(".")[0]
            self._guarded_routers |= {router for each in node.args[:1] if _is_guard(_last(each))}

    def route(self, dotted: str, node: DefinitionNode) -> GuardedRoute | None:
        """The route of a definition; None if it is not a route or is public by name."""
        if isinstance(node, ast.ClassDef):
            found, is_open = self._class(dotted, node), bool(_OPEN_NAME.search(node.name))
        else:
            found, is_open = self._routed(dotted, node)
        return None if found is None or (is_open and not found.guards) else found

    def _routed(self, dotted: str, node: FunctionNode) -> tuple[GuardedRoute | None, bool]:
        """The route of a function, and whether it is public by name."""
        call = next(filter(None, map(_route_call, node.decorator_list)), None)
        if call is not None:
            assert isinstance(call.func, ast.Attribute)
            router = ast.unparse(call.func.value)
            guarded = router in self._guarded_routers
            found = None if guarded else self._function(dotted, node, router, call)
            return found, _is_open(node.name, call)
        if node.name.startswith("resolve_") or self._is_mutation(dotted, node):
            # Each mutation checks access itself; for a query only the guard counts.
            is_open = node.name.startswith("resolve_") or _OPEN_NAME.search(dotted) is not None
            return self._function(dotted, node, "GraphQL", None), is_open
        first = next(iter([*node.args.posonlyargs, *node.args.args]), None)
        views = first is not None and first.arg == "request" and "." not in dotted
        if not views or node.name.startswith("_") or not _RESPONSE.search(self._source(node)):
            return None, False
        return self._function(dotted, node, "views", None), bool(_OPEN_NAME.search(node.name))

    def _is_mutation(self, dotted: str, node: FunctionNode) -> bool:
        """Whether a method is a mutation of graphene or strawberry."""
        if any(_last(each) == "mutation" for each in node.decorator_list):
            return True
        owner = self._classes.get(dotted.rpartition(".")[0])
        bases = [] if owner is None else map(_last, owner.bases)
        return node.name in _MUTATES and any(base.endswith("Mutation") for base in bases)

    def _does_something(self, node: FunctionNode) -> bool:
        """Whether it uses a request, or reads or writes data."""
        taken = [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
        given = bool(set(taken) - {"request", "self"})
        return given or _DOES.search(self._source(node)) is not None

    def _function(
        self, dotted: str, node: FunctionNode, group: str, call: ast.Call | None
    ) -> GuardedRoute:
        guards, sure = set[str](), _OWN_CHECK.search(self._source(node)) is None
        sure = sure and self._does_something(node)
        for decorator in node.decorator_list:
            if _route_call(decorator) is not None:
                continue
            given = _keyword(decorator, "permission_classes")
            if given is not None and not _OPEN.search(ast.unparse(given)):
                guards.add("permission_classes")
                continue
            name = _last(decorator)
            if _is_guard(name):
                guards.add(f"@{name}")
            elif not _HARMLESS.search(name) or _OPEN.search(name):
                sure = False
        dependencies = list(self._dependencies_of(node))
        if call is not None:
            given = _keyword(call, "dependencies")
            dependencies += [] if given is None else _calls(given)
        for name in map(_dependency, dependencies):
            if self._guards(name):
                guards.add(f"Depends({name})")
            elif name and (not _PLAIN_DEPENDENCY.search(name) or _OPEN.search(name)):
                sure = False
        guards |= {name for name in _annotations(node) if self._is_alias(name)}
        return GuardedRoute(dotted, node, group, frozenset(guards), sure, _reads(call))

    def _guards(self, name: str) -> bool:
        """Whether a dependency is a guard, by its name or by its own dependencies."""
        if _DEPENDENCY.search(name) and not _NO_GUARD.search(name):
            return True
        own = self._functions.get(name)
        return own is not None and any(
            _DEPENDENCY.search(_dependency(call)) for call in self._dependencies_of(own)
        )

    def _is_alias(self, name: str) -> bool:
        """Whether a parameter's annotation is an alias of a dependency that is a guard."""
        given = self._dependencies.get(name)
        if given is not None:
            return any(self._guards(_dependency(call)) for call in _calls(given))
        return "." in name or _ALIAS.fullmatch(name) is not None

    def _dependencies_of(self, node: FunctionNode) -> Iterator[ast.Call]:
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            yield from _calls(default)
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            if argument.annotation is not None:
                yield from _calls(argument.annotation)

    def _class(self, dotted: str, node: ast.ClassDef) -> GuardedRoute | None:
        names = [_last(base) for base in node.bases]
        guards, sure, views = self._read_class(node, frozenset())
        if not views or node.name.startswith(("_", "Base")) or node.name.endswith("Mixin"):
            return None
        kind = "Resource" if "Resource" in names else "views of classes"
        own = _OWN_CHECK.search(self._source(node)) is None
        methods = {each.name for each in filter(_is_method, node.body)}
        reads = not methods - _READING if methods else any(map(_READS.fullmatch, names))
        return GuardedRoute(dotted, node, kind, frozenset(guards), sure and own, reads)

    def _read_class(self, node: ast.ClassDef, seen: frozenset[str]) -> tuple[set[str], bool, bool]:
        """The guards of a class, whether nothing else may guard it, and whether it is a view."""
        guards, sure, views = set[str](), True, False
        for base in node.bases:
            name = _last(base)
            own = self._classes.get(name)
            if own is not None and name not in seen:
                more, known, is_view = self._read_class(own, seen | {node.name})
                guards |= more
                sure, views = sure and known, views or is_view
            elif _is_guard(name):
                guards.add(name)
            elif _VIEWS.fullmatch(name):
                views = views or name != "object"
            else:
                views = views or name.endswith(("View", "ViewSet"))
                sure = False
        for decorator in node.decorator_list:
            inner = decorator.args[:1] if isinstance(decorator, ast.Call) else []
            named = [_last(each) for each in (decorator, *inner)]
            guards |= {f"@{name}" for name in named if _is_guard(name)}
            sure = sure and any(map(_HARMLESS.search, named))
        of_methods = [_guards_of(each) for each in node.body if _is_method(each)]
        guards |= set.intersection(*(of_methods or [set()]))
        sure = sure and (bool(guards) or not any(of_methods))
        for statement in node.body:
            name, value = _assigned(statement)
            if name in {
                "permission_classes",
                "permission_required",
                "decorators",
                "login_required",
            }:
                text = ast.unparse(value) if value else ""
                if _OPEN.search(text) or text in {"[]", "()", "False", "None"}:
                    sure = False
                else:
                    guards.add(name)
            elif name in {"authentication_classes", "method_decorators", "get_permissions"}:
                sure = False
        return guards, sure, views

    def _source(self, node: DefinitionNode) -> str:
        return "\n".join(self._lines[node.lineno - 1 : node.end_lineno])


def _is_method(statement: ast.stmt) -> TypeGuard[FunctionNode]:
    """Whether it is a view class's handler of an HTTP method."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return statement.name in _METHODS


def _guards_of(method: FunctionNode) -> set[str]:
    return {f"@{name}" for name in map(_last, method.decorator_list) if _is_guard(name)}


def _assigned(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    """The name that a statement of a class assigns, and the value."""
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id, statement.value
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id, statement.value
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return statement.name, None
    return "", None


def _route_call(decorator: ast.expr) -> ast.Call | None:
    """The call in a decorator that makes a function a route."""
    if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
        return None
    if decorator.func.attr not in _METHODS or not decorator.args:
        return None
    path = decorator.args[0]
    text = isinstance(path, ast.Constant) and isinstance(path.value, str)
    return decorator if text or isinstance(path, ast.JoinedStr) else None


def _is_open(name: str, call: ast.Call) -> bool:
    path = ast.unparse(call.args[0]).strip("'\"")
    return path in {"", "/"} or bool(_OPEN_NAME.search(name) or _OPEN_NAME.search(path))


def _reads(call: ast.Call | None) -> bool:
    if call is None or not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr != "route":
        return call.func.attr in _READING
    methods = _keyword(call, "methods")
    if methods is None:
        return True
    return not re.search(r"(?i)post|put|patch|delete", ast.unparse(methods))


def _is_guard(name: str) -> bool:
    return bool(_GUARD.search(name)) and not (_NO_GUARD.search(name) or _OPEN.search(name))


def _last(node: ast.expr) -> str:
    """The last part of a name or of a called name."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _keyword(call: ast.expr, name: str) -> ast.expr | None:
    keywords = call.keywords if isinstance(call, ast.Call) else []
    return next((each.value for each in keywords if each.arg == name), None)


def _calls(node: ast.expr) -> list[ast.Call]:
    """The calls of ``Depends`` and ``Security`` in an expression."""
    return [
        each
        for each in walk(node)
        if isinstance(each, ast.Call) and _last(each.func) in {"Depends", "Security"}
    ]


def _dependency(call: ast.Call) -> str:
    """The name of the dependency in a call of ``Depends``; empty: none."""
    return _last(call.args[0]) if call.args else ""


def _annotations(node: FunctionNode) -> Iterator[str]:
    for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        if isinstance(argument.annotation, ast.Name):
            yield argument.annotation.id
        elif isinstance(argument.annotation, ast.Attribute):
            module, name = _last(argument.annotation.value), argument.annotation.attr
            yield f"{module}.{name}" if _is_guard(module) else name
