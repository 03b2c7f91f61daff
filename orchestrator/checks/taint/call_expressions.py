"""What a call gives: built in, a container's method, a function of the tree, or one outside."""

import ast
from collections.abc import Hashable
from typing import Final

from orchestrator.checks.taint import (
    attribute_access,
    branch_conditions,
    constant_folding,
    container_methods,
    containers,
    external_functions,
    function_calls,
    string_values,
)
from orchestrator.checks.taint.abstract_state import Obj, deep_taints
from orchestrator.checks.taint.abstract_values import NOT_CONST, UNKNOWN, Value, join
from orchestrator.checks.taint.call_frames import Call, Frame

_CONTAINERS: Final = {
    "builtins.list": "list",
    "builtins.tuple": "list",
    "builtins.set": "list",
    "builtins.frozenset": "list",
    "builtins.sorted": "list",
    "builtins.reversed": "list",
    "builtins.dict": "dict",
}


def call(frame: Frame, node: ast.Call) -> Value:
    """The value of a call expression."""
    receiver: Value | None = None
    if isinstance(node.func, ast.Attribute):
        receiver = frame.ev(node.func.value)
        function = attribute_access.get(frame, receiver, node.func.attr, node.func)
    else:
        function = frame.ev(node.func)
    if function.ref == "builtins.super":
        return _super(frame)
    record = Call(node, function, receiver, [], {})
    for argument in node.args:
        _add_argument(frame, record, argument)
    for keyword in node.keywords:
        value = frame.ev(keyword.value)
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


def _super(frame: Frame) -> Value:
    function = frame.function
    if function is None or function.cls is None:
        return UNKNOWN
    bases = [base for base in function.cls.bases if base.target is not None or base.ref]
    return bases[0] if bases else UNKNOWN


def _add_argument(frame: Frame, record: Call, argument: ast.expr) -> None:
    if not isinstance(argument, ast.Starred):
        value = frame.ev(argument)
        if record.rest is None:
            record.args.append(value)
        else:
            record.rest = join(record.rest, value)
        return
    inner = frame.ev(argument.value)
    objects = frame.state.of(inner)
    exact = len(objects) == 1 and objects[0].rest is None and objects[0].kind == "list"
    if exact and record.rest is None:
        record.args.extend(objects[0].items.values())
    else:
        item = containers.element(frame, inner, argument)
        record.rest = item if record.rest is None else join(record.rest, item)


def _spread(frame: Frame, record: Call, value: Value) -> None:
    """Add ``**value`` to a call."""
    objects = frame.state.of(value)
    for obj in objects:
        for key, item in obj.items.items():
            if isinstance(key, str):
                record.keywords.setdefault(key, item)
    if not objects or any(obj.rest is not None for obj in objects):
        rest = Value(taints=deep_taints(value, frame.state))
        record.rest = rest if record.rest is None else join(record.rest, rest)


def invoke(frame: Frame, record: Call) -> Value:
    """The value of a call whose parts are known: for callbacks and properties."""
    return _dispatch(frame, record, record.ref.rpartition(".")[2])


def _dispatch(frame: Frame, record: Call, name: str) -> Value:
    if record.receiver is not None and name:
        result = container_methods.method(frame, name, record)
        if result is None:
            result = _text_method(frame, record, name)
        if result is not None:
            return result
    if record.function.target is not None and not frame.quiet:
        inner = function_calls.activate(frame, record)
        if inner is not None:
            return inner
    if record.ref in _CONTAINERS:
        return _container(frame, record, _CONTAINERS[record.ref])
    if frame.run.knowledge.listed("containers", record.ref):
        return _container(frame, record, "dict" if "ict" in record.ref else "list")
    if record.ref.startswith("builtins."):
        folded = _folded(frame, record)
        if folded is not None:
            return folded
    return external_functions.result(frame, record)


def _folded(frame: Frame, record: Call) -> Value | None:
    """A built-in function called with constants."""
    name = record.ref.removeprefix("builtins.")
    if record.keywords or record.rest is not None:
        return None
    if name == "map" and len(record.args) > 1:
        return _mapped(frame, record)
    consts = [containers.constants(frame, value) for value in record.args]
    if NOT_CONST in consts:
        return None
    result = constant_folding.builtin(name, consts)
    return None if result is NOT_CONST else Value(result)


def _mapped(frame: Frame, record: Call) -> Value:
    item = containers.element(frame, record.args[1], record.node)
    inner = Call(record.node, record.args[0], None, [item], {})
    return containers.make_bag(frame, record.node, invoke(frame, inner))


def _text_method(frame: Frame, record: Call, name: str) -> Value | None:
    """A method of a text that is known, or that comes from a source."""
    text = record.receiver
    if text is None or text.locs or text.target is not None:
        return None
    folded = _folded_method(frame, record, name) if text.known else None
    if folded is not None:
        return folded
    result: Value | None = None
    if name == "format" and (text.known or text.prefix or text.taints):
        result = string_values.formatted(record, frame.state)
    elif name == "join" and (isinstance(text.const, str | bytes) or not text.ref):
        result = string_values.joined(record, frame.state)
    elif name == "replace":
        result = string_values.replaced(record)
    elif name in {"startswith", "endswith"} and text.taints:
        result = Value(implies=branch_conditions.edges(record, name))
    return result


def _folded_method(frame: Frame, record: Call, name: str) -> Value | None:
    """A method of a known text called with constants."""
    consts = [containers.constants(frame, value) for value in record.args]
    if record.receiver is None or NOT_CONST in consts or record.keywords:
        return None
    result = constant_folding.method(record.receiver.const, name, consts)
    if isinstance(result, tuple):
        return containers.make_list(frame, record.node, [Value(item) for item in result])
    return None if result is NOT_CONST else Value(result)


def _container(frame: Frame, record: Call, kind: str) -> Value:
    """A container made of another one, of pairs, or of keywords."""
    source = record.args[0] if record.args else None
    if kind == "dict":
        items: dict[Hashable, Value] = dict(record.keywords.items())
        obj = Obj("dict", items)
        if source is not None:
            for other in frame.state.of(source):
                if other.kind == "dict":
                    obj = Obj("dict", {**other.items, **obj.items}, other.rest)
            if source.taints or not source.locs:
                obj = obj.add(Value(taints=deep_taints(source, frame.state)))
        return frame.new(record.node, obj)
    if source is None:
        return containers.make_list(frame, record.node, [])
    ordered = record.ref in {"builtins.list", "builtins.tuple"} or "deque" in record.ref
    objects = frame.state.of(source)
    if len(objects) == 1 and objects[0].kind == "list":
        return frame.new(record.node, objects[0] if ordered else objects[0].blurred())
    const = containers.constants(frame, source)
    if isinstance(const, tuple | str):
        values = [Value(item) for item in const]
        return containers.make_list(frame, record.node, values)
    return containers.make_bag(frame, record.node, containers.element(frame, source, record.node))
