"""Evaluates calls of built-ins, containers, functions of the tree and external functions."""

import ast
from collections.abc import Hashable, Mapping
from typing import Any, Final

from diffchecks.data_files import read_map
from diffchecks.taint import (
    attribute_access,
    branch_conditions,
    containers,
    external_functions,
    stored_fields,
    strings,
)
from diffchecks.taint.abstract_state import (
    AbstractState,
    HeapObject,
    collect_taints,
    join_states,
    reachable_objects,
)
from diffchecks.taint.abstract_values import (
    NORETURN,
    NOT_CONST,
    UNKNOWN,
    Facts,
    Implication,
    Value,
    join,
    join_all,
)
from diffchecks.taint.branch_conditions import conjoin, disjoin, facts_when
from diffchecks.taint.call_frames import (
    MAX_CALLS,
    MAX_DEPTH,
    MAX_UNTAINTED_CALLS,
    MAX_UNTAINTED_DEPTH,
    Activation,
    EvaluatedCall,
)
from diffchecks.taint.containers import make_bag, make_list
from diffchecks.taint.module_index import Bound, Class, Function
from diffchecks.taint.strings import taints_of
from diffchecks.taint.template_code import Member

_CONTAINERS: Final = read_map("maps.yaml", "containers")


def evaluate_call(frame: Activation, node: ast.Call) -> Value:
    """The value of a call expression."""
    receiver: Value | None = None
    if isinstance(node.func, ast.Attribute):
        receiver = frame.evaluate(node.func.value)
        look_up = attribute_access.get_attribute
        if isinstance(node.func, Member):
            look_up = attribute_access.get_member
        function = look_up(frame, receiver, node.func.attr, node.func)
    else:
        function = frame.evaluate(node.func)
    if function.ref == "builtins.super":
        return _super(frame)
    record = EvaluatedCall(node, function, receiver, [], {})
    for argument in node.args:
        _add_argument(frame, record, argument)
    for keyword in node.keywords:
        value = frame.evaluate(keyword.value)
        if keyword.arg is not None:
            record.keywords[keyword.arg] = value
        else:
            _spread(frame, record, value)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if function.ref in {"builtins.any", "builtins.all"}:
        implied = branch_conditions.any_of(frame, node)
        if implied is not None:
            return Value(implies=implied)
    return _dispatch(frame, record, name)


def _super(frame: Activation) -> Value:
    function = frame.function
    if function is None or function.cls is None:
        return UNKNOWN
    bases = [base for base in function.cls.bases if base.target is not None or base.ref]
    return bases[0] if bases else UNKNOWN


def _add_argument(frame: Activation, record: EvaluatedCall, argument: ast.expr) -> None:
    if not isinstance(argument, ast.Starred):
        value = frame.evaluate(argument)
        if record.rest is None:
            record.args.append(value)
        else:
            record.rest = join(record.rest, value)
        return
    inner = frame.evaluate(argument.value)
    listed = frame.state.listed(inner)
    if listed is not None and record.rest is None:
        record.args.extend(listed)
    else:
        item = containers.element(frame, inner, argument)
        record.rest = item if record.rest is None else join(record.rest, item)


def _spread(frame: Activation, record: EvaluatedCall, value: Value) -> None:
    objects = frame.state.of(value)
    for obj in objects:
        for key, item in obj.items.items():
            if isinstance(key, str):
                record.keywords.setdefault(key, item)
    if not objects or any(obj.rest is not None for obj in objects):
        marks = value.marks if not objects else frozenset[str]()
        rest = Value(taints=collect_taints(value, frame.state), marks=marks)
        record.rest = rest if record.rest is None else join(record.rest, rest)


def invoke(frame: Activation, record: EvaluatedCall) -> Value:
    """The value of a call with given parts, for callbacks and properties."""
    return _dispatch(frame, record, record.ref.rpartition(".")[2])


def _dispatch(frame: Activation, record: EvaluatedCall, name: str) -> Value:
    stored_fields.note_call(frame, record)
    if record.receiver is not None and name:
        result = _method(frame, record, name)
        if result is not None:
            return result
    if record.function.target is not None or record.function.locs:
        inner = _announce(frame, record) if frame.quiet else call_function(frame, record)
        if inner is not None:
            return inner
    if record.ref in _CONTAINERS:
        return _container(frame, record, _CONTAINERS[record.ref])
    if frame.run.models.listed("containers", record.ref):
        mapping = "ict" in record.ref or "context" in record.ref
        return _container(frame, record, "dict" if mapping else "list")
    if record.ref.startswith("builtins."):
        folded = _folded(frame, record)
        if folded is not None:
            return folded
    return external_functions.result(frame, record)


def _method(frame: Activation, record: EvaluatedCall, name: str) -> Value | None:
    """A method of a container, of a text, or of a task that a worker runs later."""
    result = containers.call_method(frame, name, record)
    if result is None:
        result = _text_method(frame, record, name)
    queued = external_functions.queued_call(frame, record, name) if result is None else None
    if queued is not None:
        call_function(frame, queued)
        return UNKNOWN
    return result


def _folded(frame: Activation, record: EvaluatedCall) -> Value | None:
    """The result of a built-in function of constants."""
    name = record.ref.removeprefix("builtins.")
    if record.keywords or record.rest is not None:
        return None
    if name == "map" and len(record.args) > 1:
        item = containers.element(frame, record.args[1], record.node)
        inner = EvaluatedCall(record.node, record.args[0], None, [item], {})
        return containers.make_bag(frame, record.node, invoke(frame, inner))
    if name == "getattr" and len(record.args) > 1 and isinstance(record.args[1].const, str):
        held = attribute_access.get_attribute(
            frame, record.args[0], record.args[1].const, record.node
        )
        return join_all([held, *record.args[2:]])
    consts = [containers.constants(frame, value) for value in record.args]
    if NOT_CONST in consts:
        return None
    result = strings.fold_builtin(name, consts)
    return None if result is NOT_CONST else Value(result)


def _text_method(frame: Activation, record: EvaluatedCall, name: str) -> Value | None:
    """A method of a text that is known, or that comes from a source."""
    text = record.receiver
    if text is None or text.locs or text.target is not None:
        return None
    folded = _folded_method(frame, record, name) if text.known else None
    if folded is not None:
        return folded
    result: Value | None = None
    begins = record.args[0].const if name == "startswith" and record.args else None
    if isinstance(begins, str) and text.prefix.startswith(begins):
        return Value(True)
    if name == "format" and (text.known or text.prefix or text.taints):
        result = strings.format_string(record, frame.state)
    elif name == "join" and (isinstance(text.const, str | bytes) or not text.ref):
        result = strings.join_strings(record, frame.state)
    elif name == "replace":
        result = strings.replace_text(record)
    elif name in {"startswith", "endswith"} and text.taints:
        result = Value(implies=branch_conditions.edges(record, name))
    return result


def _folded_method(frame: Activation, record: EvaluatedCall, name: str) -> Value | None:
    """The result of a method of a known text with constant arguments."""
    consts = [containers.constants(frame, value) for value in record.args]
    if record.receiver is None or NOT_CONST in consts or record.keywords:
        return None
    result = strings.fold_method(record.receiver.const, name, consts)
    if isinstance(result, tuple):
        return containers.make_list(frame, record.node, [Value(item) for item in result])
    return None if result is NOT_CONST else Value(result)


def _container(frame: Activation, record: EvaluatedCall, kind: str) -> Value:
    """A container made from another one, from pairs, or from keywords."""
    source = record.args[0] if record.args else None
    if kind == "dict":
        items: dict[Hashable, Value] = dict(record.keywords.items())
        obj = HeapObject("dict", items)
        if source is not None:
            for other in frame.state.of(source):
                if other.kind == "dict":
                    obj = HeapObject("dict", {**other.items, **obj.items}, other.rest)
            if source.taints or all(other.kind != "dict" for other in frame.state.of(source)):
                obj = obj.add(Value(taints=collect_taints(source, frame.state)))
        return frame.new(record.node, obj)
    if source is None:
        return containers.make_list(frame, record.node, [])
    ordered = record.ref in {"builtins.list", "builtins.tuple"} or "deque" in record.ref
    objects = frame.state.of(source)
    if len(objects) == 1 and objects[0].kind == "list":
        return frame.new(record.node, objects[0] if ordered else objects[0].widen())
    const = containers.constants(frame, source)
    if isinstance(const, tuple | str):
        values = [Value(item) for item in const]
        return containers.make_list(frame, record.node, values)
    return containers.make_bag(frame, record.node, containers.element(frame, source, record.node))


_NOT_FOLLOWED: Final = 0.45  # the result of a call that was not run must not cause a finding
_MAX_MEMO: Final = 20_000


def call_function(frame: Activation, call: EvaluatedCall) -> Value | None:
    """The value of a call of a function in the tree; None if it is not in the tree."""
    target = call.function.target
    if target is None:
        target = _called_instance(frame, call)
    if isinstance(target, Class):
        return _instantiate(frame, call, target)
    if isinstance(target, Bound):
        return run_function(frame, call, target.function, [target.receiver, *call.args])
    if isinstance(target, Function):
        return run_function(frame, call, target, call.args)
    return None


def _called_instance(frame: Activation, call: EvaluatedCall) -> Bound | None:
    """The method by which an object of a class of the tree is called."""
    for loc in call.function.locs:
        obj = frame.state.object(loc)
        found = obj.cls.lookup("__call__") if isinstance(obj.cls, Class) else None
        if found is not None and isinstance(found.target, Function):
            return Bound(found.target, Value(locs=(loc,)))
    return None


def _announce(frame: Activation, call: EvaluatedCall) -> Value | None:
    """Record an object of a module's body; its constructor runs once the module is complete."""
    cls = call.function.target
    if not isinstance(cls, Class):
        return None
    value = _new_object(frame, call, cls)
    frame.run.pending.setdefault(frame.module.path, []).append((value, call))
    frame.run.constructed.setdefault(cls.node, call)
    return value


def construct(frame: Activation, call: EvaluatedCall, value: Value) -> bool:
    """Run the constructor of an object; False: the tree has none."""
    constructor = call.function.target.lookup("__init__")
    if constructor is None or not isinstance(constructor.target, Function):
        return False
    run_function(frame, call, constructor.target, [value, *call.args])
    return True


def _instantiate(frame: Activation, call: EvaluatedCall, cls: Class) -> Value:
    """A new object of a class of the tree."""
    value = _new_object(frame, call, cls)
    made = construct(frame, call, value)
    if not made and cls.outer_bases() and not frame.state.object(value.locs[0]).items:
        return Value(locs=value.locs, taints=taints_of(call.values(), frame.state))
    return value


def _new_object(frame: Activation, call: EvaluatedCall, cls: Class) -> Value:
    """An object whose constructor has not run; that of a data class or named tuple has fields."""
    if cls.lookup("__init__") is not None:
        return frame.new(call.node, HeapObject("instance", {}, None, cls))
    names = [
        item.target.id
        for item in cls.node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    ]
    fields: dict[Hashable, Value] = dict(zip(names, call.args, strict=False))
    known = not call.args and all(map(cls.lookup, call.keywords))  # such as columns of a model
    fields.update({k: value for k, value in call.keywords.items() if known or k in names})
    return frame.new(call.node, HeapObject("instance", fields, call.rest, cls))


def run_function(
    frame: Activation, call: EvaluatedCall, function: Function, args: list[Value]
) -> Value:
    """Run a function with these arguments: its result, and its effects on the caller's objects."""
    everything = [*args, *call.keywords.values(), *([call.rest] if call.rest else [])]
    taints = taints_of(everything, frame.state)
    if function in frame.stack:
        return Value(taints=taints)
    if frame.run.handling and not taints and everything:
        frame.run.given_safe.add(function)
    if not _affordable(frame, untainted=not taints):
        frame.run.cut += 1
        return Value(taints=tuple(taint.derive("", "", _NOT_FOLLOWED) for taint in taints))
    key = None if taints else _memo_key(frame, function, call, args)
    if key is not None and key in frame.run.memo:
        value, objects = frame.run.memo[key]
        frame.state.objects.update(objects)
        return frame.at(value, call.node, f"{function.name}() returns it")
    cut = frame.run.cut
    frame.run.calls += 1
    frame.run.untainted_calls += not taints
    inner = Activation(frame.run, function.module, function)
    inner.depth, inner.stack = frame.depth + 1, (*frame.stack, function)
    inner.rendering = frame.rendering
    inner.caller, inner.call = frame, call
    inner.untainted = 0 if taints else frame.untainted + 1
    if frame.function is not None and function.closure:
        inner.closure = {**function.closure, **frame.state.vars}
    inner.state.objects = dict(frame.state.objects)
    inner.state.facts = dict(frame.state.facts)
    bind_arguments(inner, call, args)
    before = frame.state.objects
    value = _body(inner, call)
    if not inner.state.live:
        return NORETURN
    frame.state.facts = inner.state.facts
    after = inner.state.objects
    if not _changes(before, after, frame.run.heap.shared):
        made = {
            loc: obj for loc, obj in reachable_objects(value, inner.state).items() if loc in after
        }
        before.update(made)
        # A part that was too deep for this call is not too deep for another one.
        if key is not None and cut == frame.run.cut and len(frame.run.memo) < _MAX_MEMO:
            frame.run.memo[key] = (value, made)
    else:
        frame.state.objects = after
    return frame.at(value, call.node, f"{function.name}() returns it")


def _changes(
    before: Mapping[int, HeapObject],
    after: Mapping[int, HeapObject],
    shared: Mapping[int, HeapObject],
) -> bool:
    """Whether an activation changed an object of its caller or a module."""
    if not before.items() <= after.items():
        return True
    if len(after) == len(before):
        return False
    return any(loc not in before and obj is not shared.get(loc, obj) for loc, obj in after.items())


def _affordable(frame: Activation, *, untainted: bool) -> bool:
    """Whether the budget of the entry point allows another activation."""
    if frame.depth >= MAX_DEPTH or frame.run.calls >= MAX_CALLS:
        return False
    return not untainted or (
        frame.untainted < MAX_UNTAINTED_DEPTH and frame.run.untainted_calls < MAX_UNTAINTED_CALLS
    )


def _memo_key(frame: Activation, function: Function, call: EvaluatedCall, args: list[Value]) -> Any:
    """The cache key of a call without tainted arguments."""
    if frame.state.facts:
        return None
    named = sorted(call.keywords.items())
    parts = [_seen(frame, value) for value in args]
    return (
        function,
        tuple(parts),
        tuple((name, _seen(frame, value)) for name, value in named),
        call.rest is not None,
    )


def _seen(frame: Activation, value: Value) -> Any:
    objects = tuple((obj.cls if obj.kind == "instance" else obj) for obj in frame.state.of(value))
    const = (type(value.const), value.const) if value.known else None
    return (const, value.ref, value.target, objects)


def bind_arguments(frame: Activation, call: EvaluatedCall, args: list[Value]) -> None:
    """Give the parameters of a frame's function their values."""
    function = frame.function
    if function is None:
        return
    given = function.node.args
    positional = [*given.posonlyargs, *given.args]
    found = defaults(given)
    names = {parameter.arg for parameter in (*positional, *given.kwonlyargs)}
    for index, parameter in enumerate([*positional, *given.kwonlyargs]):
        name = parameter.arg
        if index < min(len(args), len(positional)):
            value = args[index]
        elif name in call.keywords:
            value = call.keywords[name]
        elif call.rest is not None:
            value = call.rest
        else:
            value = frame.evaluate(found[name]) if name in found else UNKNOWN
        where = f"{function.name}() takes it as {name!r}"
        frame.state.vars[name] = frame.at(value, parameter, where)
    if given.vararg is not None:
        extra = make_list(frame, given.vararg, args[len(positional) :])
        frame.state.vars[given.vararg.arg] = extra
    if given.kwarg is not None:
        unnamed: dict[Hashable, Value] = {
            name: value for name, value in call.keywords.items() if name not in names
        }
        obj = HeapObject("dict", unnamed, call.rest)
        frame.state.vars[given.kwarg.arg] = frame.new(given.kwarg, obj)


def defaults(given: ast.arguments) -> dict[str, ast.expr]:
    """The default of each parameter that has one."""
    positional = [*given.posonlyargs, *given.args]
    found = {
        parameter.arg: default
        for parameter, default in zip(positional[::-1], given.defaults[::-1], strict=False)
    }
    for parameter, default in zip(given.kwonlyargs, given.kw_defaults, strict=False):
        if default is not None:
            found[parameter.arg] = default
    return found


def _body(frame: Activation, call: EvaluatedCall) -> Value:
    """Run a bound frame to its end; its state is then the join of all exits."""
    function = frame.function
    if function is None:
        return UNKNOWN
    if isinstance(function.node, ast.Lambda):
        return frame.evaluate(function.node.body)
    frame.run.execute(frame, function.node.body)
    before = frame.state
    states: list[AbstractState] = [way.state for way in frame.returns]
    if before.live:
        states.append(before)
    frame.state = join_states(states, frame.run.heap)
    if frame.yields:
        return make_bag(frame, call.node, join_all(frame.yields))
    value = join_all(way.state.settle(way.value) for way in frame.returns)
    if before.live and frame.returns:
        value = join(value, Value(None))
    if not frame.returns:
        value = Value(None)
    return value.with_implication(_implied(frame, before))


def _implied(frame: Activation, end: AbstractState) -> Implication | None:
    """What a function's true or false result implies for the values that it tested."""
    true: Facts | None = None
    false: Facts | None = dict(end.facts) if end.live else None
    for way in frame.returns:
        const = way.value.const
        if not way.value.known or const:
            facts = conjoin(dict(way.state.facts), facts_when(way.value, truth=True))
            true = facts if true is None else disjoin(true, facts)
        if not way.value.known or not const:
            facts = conjoin(dict(way.state.facts), facts_when(way.value, truth=False))
            false = facts if false is None else disjoin(false, facts)
    if not true and not false:
        return None
    return Implication(true or {}, false or {})
