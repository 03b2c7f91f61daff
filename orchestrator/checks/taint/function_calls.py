"""Calls into the tree: a function is run with what its caller gives it.

What a function does with arguments that come from no source is remembered, so that it is run
once for all such calls; with tainted ones it depends on them and on what they hold.
"""

import ast
from collections.abc import Hashable
from typing import Any, Final

from orchestrator.checks.taint.abstract_state import Obj, State, join_states, reachable
from orchestrator.checks.taint.abstract_values import (
    NORETURN,
    UNKNOWN,
    Facts,
    Implies,
    Value,
    join,
    join_all,
)
from orchestrator.checks.taint.branch_conditions import both, either, when
from orchestrator.checks.taint.call_frames import (
    MAX_CALLS,
    MAX_DEPTH,
    MAX_IDLE,
    MAX_IDLE_CALLS,
    Call,
    Frame,
)
from orchestrator.checks.taint.containers import make_bag, make_list
from orchestrator.checks.taint.source_modules import Bound, Class, Function
from orchestrator.checks.taint.string_values import taints_of

_NOT_FOLLOWED: Final = 0.45  # what a call gives that is not run is no ground for a finding
_MAX_MEMO: Final = 20_000


def activate(frame: Frame, call: Call) -> Value | None:
    """The value of a call into the tree; None when what is called does not stand there."""
    target = call.function.target
    if isinstance(target, Class):
        return instantiate(frame, call, target)
    if isinstance(target, Bound):
        return run(frame, call, target.function, [target.receiver, *call.args])
    if isinstance(target, Function):
        return run(frame, call, target, call.args)
    return None


def instantiate(frame: Frame, call: Call, cls: Class) -> Value:
    """A new object of a class of the tree."""
    obj = Obj("instance", {}, None, cls)
    constructor = cls.lookup("__init__")
    if constructor is None:
        obj = Obj("instance", _fields(call, cls), call.rest, cls)
    value = frame.new(call.node, obj)
    if constructor is not None and isinstance(constructor.target, Function):
        run(frame, call, constructor.target, [value, *call.args])
    elif cls.outer_bases() and not frame.state.object(value.locs[0]).items:
        return Value(locs=value.locs, taints=taints_of(call.values(), frame.state))
    return value


def _fields(call: Call, cls: Class) -> dict[Any, Value]:
    """The fields of a data class or named tuple, as its annotations order them."""
    names = [
        item.target.id
        for item in cls.node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    ]
    fields: dict[Any, Value] = dict(zip(names, call.args, strict=False))
    fields.update({name: value for name, value in call.keywords.items() if name in names})
    return fields


def run(frame: Frame, call: Call, function: Function, args: list[Value]) -> Value:
    """What a function gives when it is called so, and what it does to the caller's objects."""
    everything = [*args, *call.keywords.values(), *([call.rest] if call.rest else [])]
    taints = taints_of(everything, frame.state)
    if function in frame.stack:
        return Value(taints=taints)
    if not _affordable(frame, idle=not taints):
        return Value(taints=tuple(taint.derived("", "", _NOT_FOLLOWED) for taint in taints))
    key = None if taints else _memo_key(frame, function, call, args)
    if key is not None and key in frame.run.memo:
        value, objects = frame.run.memo[key]
        frame.state.objects.update(objects)
        return frame.at(value, call.node, f"{function.name}() returns it")
    frame.run.calls += 1
    frame.run.idle_calls += not taints
    inner = Frame(frame.run, function.module, function)
    inner.depth, inner.stack = frame.depth + 1, (*frame.stack, function)
    inner.idle = 0 if taints else frame.idle + 1
    if frame.function is not None and function.closure:
        inner.closure = {**function.closure, **frame.state.vars}
    inner.state.objects = dict(frame.state.objects)
    inner.state.facts = dict(frame.state.facts)
    bind(inner, call, args)
    before = frame.state.objects
    value = _body(inner, call)
    if not inner.state.live:
        return NORETURN
    frame.state.facts = inner.state.facts
    after = inner.state.objects
    if all(after.get(loc) is obj for loc, obj in before.items()):
        made = {loc: obj for loc, obj in reachable(value, inner.state).items() if loc in after}
        before.update(made)
        if key is not None and len(frame.run.memo) < _MAX_MEMO:
            frame.run.memo[key] = (value, made)
    else:
        frame.state.objects = after
    return frame.at(value, call.node, f"{function.name}() returns it")


def _affordable(frame: Frame, *, idle: bool) -> bool:
    """Whether the root may have one more activation."""
    if frame.depth >= MAX_DEPTH or frame.run.calls >= MAX_CALLS:
        return False
    return not idle or (frame.idle < MAX_IDLE and frame.run.idle_calls < MAX_IDLE_CALLS)


def _memo_key(frame: Frame, function: Function, call: Call, args: list[Value]) -> Any:
    """What the outcome depends on when no argument comes from a source."""
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


def _seen(frame: Frame, value: Value) -> Any:
    objects = tuple((obj.cls if obj.kind == "instance" else obj) for obj in frame.state.of(value))
    const = (type(value.const), value.const) if value.known else None
    return (const, value.ref, value.target, objects)


def bind(frame: Frame, call: Call, args: list[Value]) -> None:
    """Give the parameters of a frame's function their values."""
    function = frame.function
    if function is None:
        return
    given = function.node.args
    positional = [*given.posonlyargs, *given.args]
    defaults = _defaults(given)
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
            value = frame.ev(defaults[name]) if name in defaults else UNKNOWN
        where = f"{function.name}() takes it as {name!r}"
        frame.state.vars[name] = frame.at(value, parameter, where)
    if given.vararg is not None:
        extra = make_list(frame, given.vararg, args[len(positional) :])
        frame.state.vars[given.vararg.arg] = extra
    if given.kwarg is not None:
        unnamed: dict[Hashable, Value] = {
            name: value for name, value in call.keywords.items() if name not in names
        }
        obj = Obj("dict", unnamed, call.rest)
        frame.state.vars[given.kwarg.arg] = frame.new(given.kwarg, obj)


def _defaults(given: ast.arguments) -> dict[str, ast.expr]:
    positional = [*given.posonlyargs, *given.args]
    found = {
        parameter.arg: default
        for parameter, default in zip(positional[::-1], given.defaults[::-1], strict=False)
    }
    for parameter, default in zip(given.kwonlyargs, given.kw_defaults, strict=False):
        if default is not None:
            found[parameter.arg] = default
    return found


def _body(frame: Frame, call: Call) -> Value:
    """Run a bound frame to its end; its state is then that of all ways out."""
    function = frame.function
    if function is None:
        return UNKNOWN
    if isinstance(function.node, ast.Lambda):
        return frame.ev(function.node.body)
    frame.run.execute(frame, function.node.body)
    before = frame.state
    states: list[State] = [way.state for way in frame.returns]
    if before.live:
        states.append(before)
    frame.state = join_states(states, frame.run.heap)
    if frame.yields:
        return make_bag(frame, call.node, join_all(frame.yields))
    value = _settled_join(frame)
    if before.live and frame.returns:
        value = join(value, Value(None))
    if not frame.returns:
        value = Value(None)
    return value.saying(_implied(frame, before))


def _settled_join(frame: Frame) -> Value:
    values: list[Value] = []
    for way in frame.returns:
        value = way.value
        if value.taints and way.state.facts:
            taints = tuple(taint.knowing(way.state.facts_of(taint)) for taint in value.taints)
            value = value.with_taints(taints)
        values.append(value)
    return join_all(values)


def _implied(frame: Frame, end: State) -> Implies | None:
    """What a function's true or false answer says of the values it looked at."""
    true: Facts | None = None
    false: Facts | None = dict(end.facts) if end.live else None
    for way in frame.returns:
        const = way.value.const
        if not way.value.known or const:
            facts = both(dict(way.state.facts), when(way.value, truth=True))
            true = facts if true is None else either(true, facts)
        if not way.value.known or not const:
            facts = both(dict(way.state.facts), when(way.value, truth=False))
            false = facts if false is None else either(false, facts)
    if not true and not false:
        return None
    return Implies(true or {}, false or {})
