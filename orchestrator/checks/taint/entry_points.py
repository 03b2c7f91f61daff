"""Which functions are worth running on their own: those in which something from outside begins."""

import ast
import bisect
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct, field

from orchestrator.checks.taint import attribute_access
from orchestrator.checks.taint.abstract_state import HeapObject
from orchestrator.checks.taint.abstract_values import UNKNOWN, Step, Taint, Value
from orchestrator.checks.taint.call_frames import Call, Frame, Run
from orchestrator.checks.taint.calls import bind_arguments
from orchestrator.checks.taint.library_models import Handler, LibraryModels, Route
from orchestrator.checks.taint.module_index import (
    Bound,
    Class,
    Function,
    Module,
    Project,
    imported_packages,
)

_WORD: Final = re.compile(r"[A-Za-z_]\w*")
REMOTE: Final = frozenset({"request", "socket"})
Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Span(Struct, frozen=True):
    """A function definition with the lines it covers, decorators included."""

    node: Definition
    first: int
    last: int
    parents: tuple[Definition, ...]


def spans(module: Module) -> list[Span]:
    """All function definitions of a module, outer ones first."""
    return list(_spans(module.tree.body, ()))


def _spans(body: Iterable[ast.stmt], parents: tuple[Definition, ...]) -> Iterator[Span]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(
                [statement.lineno, *(decorator.lineno for decorator in statement.decorator_list)]
            )
            yield Span(statement, first, statement.end_lineno or statement.lineno, parents)
            yield from _spans(statement.body, (*parents, statement))
        else:
            for inner in _inner_bodies(statement):
                yield from _spans(inner, parents)


def _inner_bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        inner = getattr(statement, name, None)
        if isinstance(inner, list):
            yield inner
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


class _Words:
    """Words by the library that a module must import for them to count."""

    def __init__(self) -> None:
        self._free: set[str] = set()
        self._of: dict[str, set[str]] = {}
        self._patterns: dict[frozenset[str], re.Pattern[str] | None] = {}

    def add(self, package: str, word: str) -> None:
        self._of.setdefault(package, set()).add(word)

    def add_name(self, name: str, tops: dict[str, set[str]]) -> None:
        words = _WORD.findall(name)
        top = name.partition(".")[0]
        if top in {"?", "builtins"}:
            self._free.add(words[-1] if top == "?" else words[1])
        for package in {top, *tops.get(top, ())}:
            self.add(package, words[-1])

    def lines(self, text: str, packages: frozenset[str]) -> list[int]:
        used = frozenset(packages & self._of.keys())
        if used not in self._patterns:
            words = self._free.union(*(self._of[package] for package in used))
            joined = "|".join(sorted(words))
            self._patterns[used] = re.compile(rf"\b(?:{joined})\b") if words else None
        pattern = self._patterns[used]
        return [] if pattern is None else lines_with(text, pattern)


class Hints:
    """The words of a module's text near which something from outside may begin.

    A word counts only in modules that import the library it belongs to. What a user gives to his
    own program counts only in modules that call one of the few sinks where it matters.
    """

    def __init__(self, models: LibraryModels) -> None:
        self._remote = _Words()
        self._local = _Words()
        tops: dict[str, set[str]] = {}
        for name, canonical in models.types.items():
            tops.setdefault(canonical.partition(".")[0], set()).add(name.partition(".")[0])
        for source in models.sources.rules():
            words = self._remote if source.kind in REMOTE else self._local
            for name in source.match:
                words.add_name(name, tops)
        for check in models.checks.rules():
            for name in check.match:
                self._remote.add_name(name, tops)
        for route in models.routes.rules():
            for name in route.match:
                self._remote.add(route.imports, name.rpartition(".")[2])
        for parameter in models.parameters:
            self._remote.add(parameter.imports, parameter.name)
        local = {
            _WORD.findall(name)[-1]
            for sink in models.sinks.rules()
            if not REMOTE.issuperset(sink.kinds)
            for name in sink.match
        }
        self._local_sinks = re.compile(rf"\b(?:{'|'.join(sorted(local)) or '(?!)'})\(")

    def lines(self, text: str) -> list[int]:
        """The lines of a module that contain such words, in order."""
        packages = imported_packages(text)
        lines = self._remote.lines(text, packages)
        if self._local_sinks.search(text):
            lines = sorted({*lines, *self._local.lines(text, packages)})
        return lines


def lines_with(text: str, pattern: re.Pattern[str]) -> list[int]:
    """The 1-based lines on which a pattern is found."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return sorted({bisect.bisect_right(starts, match.start()) for match in pattern.finditer(text)})


def functions_containing(found: list[Span], lines: list[int]) -> list[Span]:
    """The functions that hold one of the lines, the innermost for each, and what encloses them."""
    chosen: dict[Definition, Span] = {}
    by_node = {span.node: span for span in found}
    for span in found:
        start = bisect.bisect_left(lines, span.first)
        if start < len(lines) and lines[start] <= span.last:
            for parent in span.parents:
                chosen.setdefault(parent, by_node[parent])
            chosen.setdefault(span.node, span)
    return sorted(chosen.values(), key=lambda span: span.first)


def covers(found: list[Span], lines: list[int]) -> bool:
    """Whether every line is inside some function."""
    end = 0
    bounds: list[tuple[int, int]] = []
    for span in found:
        if span.first > end:
            bounds.append((span.first, span.last))
            end = span.last
    starts = [first for first, _ in bounds]
    for line in lines:
        place = bisect.bisect_right(starts, line) - 1
        if place < 0 or line > bounds[place][1]:
            return False
    return True


_URL_NAME: Final = re.compile(r"<(?:(\w+)(?:\([^)]*\))?:)?(\w+)>|\{(\w+)(?::(\w+))?\}")
_CONVERTED: Final = frozenset({"int", "float", "uuid", "any", "bool", "Decimal", "UUID", "date",
                               "datetime", "time", "timedelta", "bytes"})  # fmt: skip
_WRAPPERS: Final = frozenset({"Annotated", "Optional", "Union", "List", "list", "Sequence"})


class Entry(Struct):
    """What a function is to the outside.

    Attributes:
        handler: it answers requests.
        returns: classes of the sink that its answer reaches.
        url: parameters taken from the URL, with whether they are converted to something harmless.
        text: all other parameters come from the request as well.
    """

    handler: bool = False
    returns: set[str] = field(default_factory=set)
    url: dict[str, bool] = field(default_factory=dict)
    text: bool = False


def describe_entry_point(run: Run, function: Function) -> Entry:
    """What the decorators and the class of a function make of it."""
    entry = Entry()
    models = run.models
    for node, value in function.decorators:
        for route in models.routes.find(value.ref) if value.ref else ():
            if not value.ref.startswith("?") or route.imports in function.module.packages:
                _add_route(entry, route, node)
    if function.cls is not None:
        name = function.name.rpartition(".")[2]
        for base in function.cls.outer_bases():
            for handler in models.handlers.find(base):
                if name in handler.methods:
                    _add_handler(entry, handler)
    return entry


def _add_handler(entry: Entry, handler: Handler) -> None:
    entry.handler = entry.text = True
    if handler.returns:
        entry.returns.add(handler.returns)


def _add_route(entry: Entry, route: Route, node: ast.expr) -> None:
    entry.handler = True
    if route.returns:
        entry.returns.add(route.returns)
    entry.text = entry.text or route.parameters == "text"
    if route.parameters == "none" or not isinstance(node, ast.Call):
        return
    texts = [
        *node.args[:1],
        *(word.value for word in node.keywords if word.arg in {"rule", "path"}),
    ]
    for text in texts:
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            for converter, flask_name, brace_name, kind in _URL_NAME.findall(text.value):
                harmless = (converter or kind) in _CONVERTED
                entry.url[flask_name or brace_name] = harmless


def bind_entry_parameters(frame: Frame, entry: Entry) -> None:
    """Set a root frame's parameters to what they hold when the function is entered from outside."""
    function = frame.function
    if function is None:
        return
    node = function.node
    bind_arguments(frame, Call(_place(node), UNKNOWN, None, [], {}), [])
    parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    offset = 0
    if function.cls is not None and not function.is_static and parameters:
        frame.state.vars[parameters[0].arg] = instance(frame, function.cls)
        offset = 1
    for index, parameter in enumerate(parameters[offset:]):
        value = _parameter(frame, entry, parameter, index)
        if value is not None:
            frame.state.vars[parameter.arg] = value


def _place(node: ast.AST) -> ast.expr:
    return ast.Constant(None, lineno=getattr(node, "lineno", 1), col_offset=0)


def _parameter(frame: Frame, entry: Entry, parameter: ast.arg, index: int) -> Value | None:
    typed = _annotated(frame, parameter.annotation)
    name = parameter.arg
    if typed is not None and typed.ref and _is_known_type(frame, typed):
        entry.handler = entry.handler or bool(typed.ref.endswith("request"))
        return typed
    for rule in frame.run.models.parameters:
        if rule.name == name and rule.position == index and rule.imports in frame.module.packages:
            entry.handler = True
            return attribute_access.external_value(frame, rule.type, parameter)
    from_url = entry.url.get(name)
    if from_url is None and not entry.text:
        return typed
    if from_url or name == "cls" or _is_harmless(frame, parameter):
        return UNKNOWN
    return _from_request(frame, parameter, typed)


def _is_known_type(frame: Frame, value: Value) -> bool:
    return bool(value.taints) or value.ref in frame.run.models.types.values()


def _from_request(frame: Frame, parameter: ast.arg, typed: Value | None) -> Value:
    path, line = frame.module.path, parameter.lineno
    trace = Step(path, line, f"{frame.scope}() gets {parameter.arg!r} from the request")
    taint = Taint(f"{path}:{frame.scope}({parameter.arg})", "request", trace=trace)
    tainted = Value(taints=(taint,))
    if typed is not None and typed.locs:
        cls = frame.state.of(typed)[0].cls
        return frame.new(parameter, HeapObject("instance", {}, tainted, cls))
    return tainted


def _is_harmless(frame: Frame, parameter: ast.arg) -> bool:
    """Whether the framework converts the parameter, or fills it from elsewhere."""
    if parameter.annotation is not None:
        names = {
            part.id if isinstance(part, ast.Name) else part.attr
            for part in ast.walk(parameter.annotation)
            if isinstance(part, ast.Name | ast.Attribute)
        }
        if names & _CONVERTED or "Depends" in names:
            return True
    default = frame.state.vars.get(parameter.arg, UNKNOWN)
    return default.ref.endswith("Depends()")


def _annotated(frame: Frame, node: ast.expr | None) -> Value | None:
    """A value of the type that an annotation names."""
    named = _named_type(node)
    if named is None:
        return None
    value = frame.evaluate(named)
    if isinstance(value.target, Class):
        return frame.new(named, HeapObject("instance", {}, None, value.target))
    if value.ref:
        return attribute_access.external_value(frame, f"{value.ref}()", named)
    return None


def _named_type(node: ast.expr | None) -> ast.Name | ast.Attribute | None:
    """The one name that an annotation comes down to."""
    match node:
        case ast.Constant(value=str(text)):
            try:
                return _named_type(ast.parse(text, mode="eval").body)
            except (SyntaxError, ValueError):
                return None
        case ast.Subscript(value=outer, slice=inner):
            name = getattr(outer, "id", getattr(outer, "attr", ""))
            first = inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner
            return _named_type(first) if name in _WRAPPERS else None
        case ast.BinOp(left=left):
            return _named_type(left)
        case ast.Name() | ast.Attribute():
            return node
        case _:
            return None


def instance(frame: Frame, cls: Class) -> Value:
    """An object of a class as its constructor leaves it, whatever that is given."""
    value = frame.new(cls.node, HeapObject("instance", {}, None, cls))
    constructor = cls.lookup("__init__")
    made = constructor.target if constructor is not None else None
    if isinstance(made, Function) and made is not frame.function:
        place = _place(cls.node)
        call = Call(place, Value(target=Bound(made, value)), None, [], {})
        frame.run.invoke(frame, call)
        frame.state.live = True
    return value


_LEVELS: Final = 2  # a handler, a service that it calls, and what was changed below
_MAX_FILES: Final = 200
_DEFINED: Final = re.compile(r"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)
COMMON: Final = frozenset(
    {"call", "close", "get", "items", "keys", "main", "read", "run", "update", "values", "wrapper",
     "write"}
)  # fmt: skip


def distinctive_names(names: Iterable[str]) -> set[str]:
    """The names that say which function is meant."""
    return {name for name in names if len(name) > 2 and name not in COMMON and name[:2] != "__"}


def names_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Matches any of these names as a word."""
    return re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, names))) or '(?!)'})\b")


def find_users(project: Project, paths: Iterable[str]) -> dict[str, list[int]]:
    """The files that use what these files define, and the lines on which they do.

    A file counts when it imports one of them and names something that it defines, or does so with a
    function of such a file.
    """
    fresh = list(paths)
    others = sorted(project.paths.difference(fresh))
    found: dict[str, list[int]] = {}
    names = {name for path in fresh for name in _DEFINED.findall(project.text(path) or "")}
    for _ in range(_LEVELS):
        imports, named = _imports_any(fresh), names_pattern(distinctive_names(names))
        fresh, names = [], set()
        for path in others:
            text = project.text(path) or ""
            if path in found or len(found) >= _MAX_FILES or not imports.search(text):
                continue
            lines = lines_with(text, named)
            module = project.module(path) if lines else None
            if module is not None:
                found[path] = lines
                fresh.append(path)
                names.update(span.node.name for span in functions_containing(spans(module), lines))
    return found


def _imports_any(paths: Iterable[str]) -> re.Pattern[str]:
    """Matches an import statement that names one of these files by its last part."""
    leaves = set()
    for path in paths:
        pure = PurePosixPath(path)
        leaves.add(pure.parent.name if pure.name == "__init__.py" else pure.stem)
    joined = "|".join(re.escape(leaf) for leaf in sorted(leaves) if leaf) or "(?!)"
    return re.compile(rf"^[ \t]*(?:from|import)\b[^\n]*\b(?:{joined})\b", re.MULTILINE)
