"""The values of a function's parameters when a framework calls it."""

import ast
import re
from collections.abc import Hashable, Iterator
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct, field

from diffchecks.data_files import read_names, vocabulary
from diffchecks.taint import attribute_access
from diffchecks.taint.abstract_state import HeapObject
from diffchecks.taint.abstract_values import UNKNOWN, Taint, TaintStep, Value, join, join_all
from diffchecks.taint.call_frames import Activation, EvaluatedCall, TaintJob
from diffchecks.taint.calls import bind_arguments, defaults
from diffchecks.taint.library_models import RouteDecorator
from diffchecks.taint.module_index import Bound, Class, Function, Module

_CONVERTED = read_names("converting_types")
_URL_NAME: Final = re.compile(r"<(?:(\w+)(?:\([^)]*\))?:)?(\w+)>|\{(\w+)(?::(\w+))?\}")
_STRUCTURED: Final = frozenset({"dict", "Dict", "Any", "Mapping", "MutableMapping"})
_KINDS: Final = _CONVERTED | {"str", "string", "path", "strorempty", "ext", "slug"}
_WITH_TABLES: Final = frozenset({"django", "flask", "quart", "fastapi", "rest_framework"})
_MAX_DEPENDS: Final = 4  # dependencies of dependencies
_FILLED: Final = frozenset({"info", "_info", "root", "parent", "obj", "_", "__", "self"})
_WRAPPERS: Final = frozenset({"Annotated", "Optional", "Union", "List", "list", "Sequence"})


class EntryRole(Struct):
    """The role of an entry function.

    Attributes:
        handler: it answers requests.
        returns: classes of the sink that its return value reaches.
        url: parameters from the URL, and whether each is converted to something harmless.
        text: all other parameters come from the request as well.
        besides: the names of parameters that do not.
    """

    handler: bool = False
    returns: set[str] = field(default_factory=set)
    url: dict[str, bool] = field(default_factory=dict)
    text: bool = False
    besides: set[str] = field(default_factory=lambda: {"cls"})

    def source(self) -> tuple[str, str]:
        """The taint kind of its parameters, and its description in a trace."""
        return ("request", "from the request") if self.handler else ("parameter", "from its caller")


def describe_entry_point(run: TaintJob, function: Function) -> EntryRole:
    """The role of a function by its decorators and its class."""
    entry = EntryRole()
    models = run.models
    for node, value in function.decorators:
        for route in models.routes.find(value.ref) if value.ref else ():
            if value.ref in route.match or route.imports in function.module.packages:
                _add_route(entry, route, node)
    name = function.name.rpartition(".")[2]
    routed = name if function.cls is None else function.cls.node.name
    entry.url.update(run.urls.parameters(routed, function.module))
    if function.cls is None and name in run.urls.served(function.module.path):
        entry.handler = entry.text = True
        entry.besides.update(_FILLED)
    if function.cls is not None:
        rules = [rule for base in function.cls.outer_bases() for rule in models.handlers.find(base)]
        rules += [
            rule for rule in models.handlers.exact("?") if rule.imports in function.module.packages
        ]
        for handler in rules:
            if any(fnmatchcase(name, method) for method in handler.methods):
                entry.handler = entry.text = True
                entry.besides.update(handler.besides)
                if handler.returns:
                    entry.returns.add(handler.returns)
    return entry


def _add_route(entry: EntryRole, route: RouteDecorator, node: ast.expr) -> None:
    entry.handler = True
    entry.besides.update(route.besides)
    if route.returns and _asks_for(node, route.asks):
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
                harmless = (converter or kind) in _CONVERTED or flask_name in _CONVERTED
                entry.url[flask_name or brace_name] = harmless
                if converter and flask_name in _KINDS:
                    entry.url[converter] = harmless  # <name:kind>


def _asks_for(node: ast.expr, asks: dict[str, str]) -> bool:
    """Whether a decorator has these keywords."""
    given = {word.arg: word.value for word in getattr(node, "keywords", ())}
    return all(
        getattr(given.get(key), "attr", getattr(given.get(key), "id", "")) == name
        for key, name in asks.items()
    )


def bind_entry_parameters(frame: Activation, entry: EntryRole) -> None:
    """Set an entry frame's parameters to their values from outside."""
    function = frame.function
    if function is None:
        return
    node = function.node
    bind_arguments(frame, EvaluatedCall(place_of(node), UNKNOWN, None, [], {}), [])
    parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    offset = 0
    if entry.url and not entry.handler and function.module.packages & _WITH_TABLES:
        entry.handler = True
    if function.cls is not None and not function.is_static and parameters:
        frame.state.vars[parameters[0].arg] = instance(frame, function.cls, entry)
        offset = 1
    for index, parameter in enumerate(parameters[offset:]):
        value = _parameter(frame, entry, parameter, index)
        if value is not None:
            frame.state.vars[parameter.arg] = value
    if entry.text:
        for rest in filter(None, (node.args.vararg, node.args.kwarg)):
            obj = HeapObject("dict" if rest is node.args.kwarg else "list")
            tainted = _from_outside(frame, entry, rest, None) or UNKNOWN
            frame.state.vars[rest.arg] = frame.new(rest, obj.add(tainted))
    elif entry.url and entry.handler:
        _bind_url(frame, entry, node.args.kwarg)


def _bind_url(frame: Activation, entry: EntryRole, rest: ast.arg | None) -> None:
    """Put the parameters of the URL into ``**kwargs`` and into ``self.kwargs``."""
    place = rest or ast.arg("kwargs", lineno=frame.function.node.lineno if frame.function else 0)
    items: dict[Hashable, Value] = {}
    for name, harmless in entry.url.items():
        named = ast.arg(name, lineno=place.lineno)
        value = None if harmless else _from_outside(frame, entry, named, None)
        items[name] = value or UNKNOWN
    value = frame.new(place, HeapObject("dict", items))
    if rest is not None:
        frame.state.vars[rest.arg] = value
    function = frame.function
    if function is not None and function.cls is not None and function.node.args.args:
        own = frame.state.vars[function.node.args.args[0].arg]
        attribute_access.set_attribute(frame, own, "kwargs", value)


def place_of(node: ast.AST) -> ast.expr:
    """An expression at the place of a node."""
    return ast.Constant(None, lineno=getattr(node, "lineno", 1), col_offset=0)


def _parameter(frame: Activation, entry: EntryRole, parameter: ast.arg, index: int) -> Value | None:
    typed = _annotated(frame, parameter.annotation)
    name = parameter.arg
    types = frame.run.models.types.values()
    if typed is not None and typed.ref and (typed.taints or typed.ref in types):
        entry.handler = entry.handler or bool(typed.ref.endswith("request"))
        return typed
    known = _known_by_name(frame, frame.module, parameter, index)
    if known is not None:
        entry.handler = True
        return known
    from_url = entry.url.get(name)
    if from_url is None and not entry.text:
        return typed
    dependency = _dependency(frame, parameter)
    if dependency is not None and entry.handler:
        return _from_dependency(frame, entry, dependency, typed)
    if from_url or name in entry.besides or _is_harmless(frame, parameter):
        return UNKNOWN
    return _from_outside(frame, entry, parameter, typed)


def _dependency(frame: Activation, parameter: ast.arg) -> ast.Call | None:
    """The ``Depends(...)`` of a parameter, in its default or its annotation."""
    if frame.function is None:
        return None
    default = defaults(frame.function.node.args).get(parameter.arg)
    for part in (default, parameter.annotation):
        for node in () if part is None else ast.walk(part):
            if not isinstance(node, ast.Call):
                continue
            if getattr(node.func, "id", getattr(node.func, "attr", "")) == "Depends":
                return node
    return None


def _from_dependency(
    frame: Activation, entry: EntryRole, node: ast.Call, typed: Value | None
) -> Value:
    """The value of a dependency whose parameters come from the request."""
    target = frame.evaluate(node.args[0]).target if node.args else None
    if target is None and typed is not None and typed.locs:
        target = frame.state.of(typed)[0].cls
    made = target
    if isinstance(target, Class):
        constructor = target.lookup("__init__")
        if constructor is None:
            fields = dict(_outside_fields(frame, entry, target))
            made_of = EvaluatedCall(node, Value(target=target), None, [], fields)
            return frame.run.invoke(frame, made_of)
        made = constructor.target
    if not isinstance(made, Function) or made in frame.stack or len(frame.stack) > _MAX_DEPENDS:
        return UNKNOWN
    inner = Activation(frame.run, made.module, made)
    inner.stack = (*frame.stack, made)
    parameters = [*made.node.args.args, *made.node.args.kwonlyargs][made.cls is not None :]
    given = {
        parameter.arg: _parameter(inner, entry, parameter, index) or UNKNOWN
        for index, parameter in enumerate(parameters)
    }
    frame.state.objects.update(inner.state.objects)
    value = frame.run.invoke(frame, EvaluatedCall(node, Value(target=target), None, [], given))
    if any(isinstance(each, ast.Yield) for each in ast.walk(made.node)):
        given_out = [obj.rest for obj in frame.state.of(value) if obj.rest is not None]
        value = join_all(given_out) if given_out else UNKNOWN
    return typed if value is UNKNOWN and typed is not None else value


def _from_outside(
    frame: Activation, entry: EntryRole, parameter: ast.arg, typed: Value | None
) -> Value | None:
    kind, words = entry.source()
    if kind == "parameter" and not _may_be_text(frame, parameter):
        return typed
    path, line = frame.module.path, parameter.lineno
    trace = TaintStep(path, line, f"{frame.scope}() gets {parameter.arg!r} {words}")
    structured = parameter.annotation is not None and _names_in(parameter.annotation) & _STRUCTURED
    origin = f"{path}:{frame.scope}({parameter.arg}){'{}' if structured else ''}"
    taint = Taint(origin, kind, trace=trace)
    tainted = Value(taints=(taint,))
    if typed is not None and typed.locs:
        cls = frame.state.of(typed)[0].cls
        if any(base.startswith("enum.") for base in cls.outer_bases()):
            return UNKNOWN
        obj = HeapObject("instance", dict(_harmless_fields(cls)), tainted, cls)
        return frame.new(parameter, obj)
    return tainted


def _may_be_text(frame: Activation, parameter: ast.arg) -> bool:
    """Whether a parameter without further information may be user text."""
    default = frame.state.vars.get(parameter.arg, UNKNOWN)
    numeric = isinstance(default.const, int | float)
    is_application = frame.module.path.startswith(f"{parameter.arg}/")  # named like its package
    is_object = vocabulary("program_parameter").fullmatch(parameter.arg) is not None
    return not (numeric or is_application or is_object)


def _harmless_fields(cls: object, depth: int = 8) -> Iterator[tuple[Hashable, Value]]:
    """The fields of a data class and its bases that are converted to something harmless."""
    if not isinstance(cls, Class) or not depth:
        return
    for base in cls.bases:
        yield from _harmless_fields(base.target, depth - 1)
    for item in cls.node.body:
        if isinstance(item, ast.AnnAssign) and _names_in(item.annotation) & _CONVERTED:
            yield getattr(item.target, "id", ""), UNKNOWN


def _names_in(annotation: ast.expr) -> set[str]:
    return {
        part.id if isinstance(part, ast.Name) else part.attr
        for part in ast.walk(annotation)
        if isinstance(part, ast.Name | ast.Attribute)
    }


def _is_harmless(frame: Activation, parameter: ast.arg) -> bool:
    """Whether the framework converts the parameter, or fills it from another source."""
    if parameter.annotation is not None:
        names = _names_in(parameter.annotation)
        if names & _CONVERTED or "Depends" in names:
            return True
    default = frame.state.vars.get(parameter.arg, UNKNOWN)
    return default.ref.endswith("Depends()")


def _annotated(frame: Activation, node: ast.expr | None) -> Value | None:
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
    """The single type name that an annotation reduces to."""
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


def _known_by_name(
    frame: Activation, module: Module, parameter: ast.arg, index: int
) -> Value | None:
    """What a framework passes as a parameter of this name."""
    for rule in frame.run.models.parameters:
        named = rule.name == parameter.arg and rule.position in {index, -1}
        if named and rule.imports in module.packages:
            return attribute_access.external_value(frame, rule.type, parameter)
    return None


def instance(frame: Activation, cls: Class, entry: EntryRole) -> Value:
    """An object of a class after its constructor, with arguments from a module's body."""
    value = frame.new(cls.node, HeapObject("instance", _given_fields(frame, cls, entry), None, cls))
    constructor = cls.lookup("__init__")
    made = constructor.target if constructor is not None else None
    if isinstance(made, Function) and made is not frame.function:
        place = place_of(cls.node)
        given: dict[str, Value] = {}
        for index, parameter in enumerate(made.node.args.args[1:]):
            known = _known_by_name(frame, made.module, parameter, index)
            given.update({parameter.arg: known} if known else {})
        if entry.text and not entry.handler:
            parameters = [*made.node.args.args[1:], *made.node.args.kwonlyargs]
            for parameter in parameters:
                if parameter.arg not in given and not _is_harmless(frame, parameter):
                    outside = _from_outside(frame, entry, parameter, None)
                    given.update({parameter.arg: outside} if outside else {})
        construction = frame.run.constructed.get(cls.node)
        args = [] if construction is None else construction.args
        given.update({} if construction is None else construction.keywords)
        call = EvaluatedCall(place, Value(target=Bound(made, value)), None, args, given)
        frame.run.invoke(frame, call)
        frame.state.live = True
    for name, held in frame.run.held_by(cls).items():
        obj = frame.state.object(value.locs[0])
        known = obj.items.get(name)
        frame.state.objects[value.locs[0]] = obj.put(name, join(known, held) if known else held)
    return value


def _given_fields(frame: Activation, cls: Class, entry: EntryRole) -> dict[Hashable, Value]:
    """The annotated fields of a data class, if callers of its methods may set them."""
    if not entry.text or entry.handler or cls.lookup("__init__") is not None:
        return {}
    return dict(_outside_fields(frame, entry, cls))


def _outside_fields(frame: Activation, entry: EntryRole, cls: Class) -> Iterator[tuple[str, Value]]:
    for item in cls.node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            parameter = ast.arg(item.target.id, item.annotation, lineno=item.lineno)
            outside = _from_outside(frame, entry, parameter, None)
            if outside and not _names_in(item.annotation) & _CONVERTED:
                yield item.target.id, outside
