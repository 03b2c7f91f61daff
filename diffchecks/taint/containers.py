"""Dictionaries, lists, tuples and sets: values by key, and values of items."""

import ast
from collections.abc import Callable, Hashable
from typing import Final

from diffchecks.taint import strings
from diffchecks.taint.abstract_state import HeapObject
from diffchecks.taint.abstract_values import (
    NOT_CONST,
    PART,
    ROW,
    SLICE,
    UNKNOWN,
    Value,
    join,
    join_all,
)
from diffchecks.taint.call_frames import Activation, EvaluatedCall

MAX_ITEMS: Final = 64


def make_list(frame: Activation, node: ast.AST, values: list[Value]) -> Value:
    """A list, tuple or set with known items."""
    obj = HeapObject("list", dict(enumerate(values)))
    return frame.new(node, obj if len(values) <= MAX_ITEMS else obj.widen())


def make_bag(frame: Activation, node: ast.AST, item: Value | None) -> Value:
    """A list of which only the possible items are known."""
    return frame.new(node, HeapObject("list", {}, item))


def constants(frame: Activation, value: Value) -> object:
    """A tuple of a list's constants, the constant itself, or ``NOT_CONST``."""
    if value.known:
        return value.const
    objects = frame.state.of(value)
    if len(objects) != 1 or objects[0].rest is not None or objects[0].kind not in {"list", "dict"}:
        return NOT_CONST
    if objects[0].kind == "dict":
        return tuple(objects[0].items)
    items = objects[0].items.values()
    return (
        tuple(get_item.const for get_item in items)
        if all(get_item.known for get_item in items)
        else NOT_CONST
    )


def element(frame: Activation, value: Value, node: ast.AST) -> Value:
    """The value of an item when iterating."""
    if ROW in value.marks:
        return value
    found: list[Value] = []
    for obj in frame.state.of(value):
        if obj.kind == "dict":
            found.extend(Value(key) for key in obj.items)
            found.append(UNKNOWN)
        elif obj.kind == "list":
            get_item = obj.any()
            if get_item is not None:
                found.append(get_item)
        elif obj.kind == "instance" and obj.rest is not None and obj.rest.taints:
            found.append(value)  # including a list of converted request values
    if isinstance(value.const, tuple):
        found.extend(Value(get_item) for get_item in value.const)
    if value.taints:
        site = frame.site(node) if "mapping" in value.marks else ""
        taints = value.taints
        if site:
            taints = tuple(taint.derive(PART, site) for taint in taints)
        found.append(Value(taints=taints, ref=value.ref and f"{value.ref}[]"))
    return join_all(found) if found else UNKNOWN


def get_item(frame: Activation, base: Value, key: Value, node: ast.AST) -> Value:
    """The value of ``base[key]``."""
    if base.known and key.known:
        result = strings.fold_subscript(base.const, key.const)
        return Value(result) if result is not NOT_CONST else UNKNOWN
    found: list[Value] = []
    for obj in frame.state.of(base):
        if obj.kind in {"list", "dict"}:
            inner = read_item(obj, key)
            if inner is not None:
                found.append(inner)
    if base.taints:
        label = repr(key.const) if key.known else frame.site(node)
        found.append(Value(taints=tuple(taint.derive(PART, label) for taint in base.taints)))
    return join_all(found) if found else UNKNOWN


def read_item(obj: HeapObject, key: Value) -> Value | None:
    """The value under a known or unknown key of an object; None: none."""
    if not key.known or not isinstance(key.const, Hashable):
        return obj.any()
    name = key.const
    if obj.kind == "list" and isinstance(name, int) and name < 0 and obj.rest is None:
        name += len(obj.items)
    return obj.get(name)


def slice_value(
    frame: Activation, base: Value, bounds: tuple[Value, Value, Value], node: ast.AST
) -> Value:
    """The value of ``base[low:high:step]``."""
    if ROW in base.marks:
        return base
    known = all(bound.known for bound in bounds)
    cut = slice(*(bound.const for bound in bounds)) if known else slice(None)
    if base.known and known:
        return Value(strings.fold_subscript(base.const, cut))
    objects = frame.state.of(base)
    if objects and objects[0].kind == "list":
        if known and len(objects) == 1 and objects[0].rest is None:
            values = [objects[0].items.get(i, UNKNOWN) for i in range(len(objects[0].items))]
            try:
                return make_list(frame, node, values[cut])
            except (TypeError, ValueError):
                return UNKNOWN
        return make_bag(frame, node, objects[0].any())
    site = frame.site(node)
    return Value(taints=tuple(taint.derive(SLICE, site) for taint in base.taints), ref=base.ref)


def set_item(frame: Activation, base: Value, key: Value, value: Value) -> None:
    """Perform ``base[key] = value``."""
    strong = len(base.locs) == 1
    for loc in base.locs:
        obj = frame.state.object(loc)
        if obj.kind in {"cells", "instance"}:
            continue
        if not key.known or not isinstance(key.const, Hashable):
            frame.state.objects[loc] = obj.add(value)
            continue
        name = key.const
        if obj.kind == "list" and isinstance(name, int) and name < 0:
            name += len(obj.items)
        old = None if strong else obj.get(name)
        frame.state.objects[loc] = obj.put(name, value if old is None else join(old, value))


_ABSENT: Final = Value(None)

Method = Callable[[Activation, int, EvaluatedCall], Value]


def _arg(call: EvaluatedCall, index: int, default: Value = UNKNOWN) -> Value:
    return call.args[index] if index < len(call.args) else default


def _put(frame: Activation, loc: int, obj: HeapObject) -> None:
    frame.state.objects[loc] = obj


def _append(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    obj, value = frame.state.object(loc), _arg(call, 0)
    if obj.rest is None and len(obj.items) < MAX_ITEMS:
        _put(frame, loc, obj.put(len(obj.items), value))
    else:
        _put(frame, loc, obj.widen().add(value))
    return _ABSENT


def _relist(frame: Activation, loc: int, values: list[Value]) -> None:
    _put(frame, loc, HeapObject("list", dict(enumerate(values))))


def _insert(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    obj, where, value = frame.state.object(loc), _arg(call, 0), _arg(call, 1)
    if obj.rest is None and isinstance(where.const, int):
        values = list(obj.items.values())
        values.insert(where.const, value)
        _relist(frame, loc, values)
    else:
        _put(frame, loc, obj.widen().add(value))
    return _ABSENT


def _appendleft(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    return _insert(
        frame, loc, EvaluatedCall(call.node, call.function, None, [Value(0), *call.args], {})
    )


def _pop(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    obj, where = frame.state.object(loc), _arg(call, 0, Value(-1))
    if obj.kind == "dict":
        return _get(frame, loc, call)
    if obj.rest is None and isinstance(where.const, int):
        values = [obj.items[key] for key in sorted(obj.items, key=_position)]
        try:
            taken = values.pop(where.const)
        except IndexError:
            return UNKNOWN
        _relist(frame, loc, values)
        return taken
    _put(frame, loc, obj.widen())
    return obj.any() or UNKNOWN


def _position(key: Hashable) -> int:
    return key if isinstance(key, int) else 0


def _popleft(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    return _pop(frame, loc, EvaluatedCall(call.node, call.function, None, [Value(0)], {}))


def _extend(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    obj, more = frame.state.object(loc), _arg(call, 0)
    others = frame.state.of(more)
    exact = len(others) == 1 and others[0].rest is None and others[0].kind == "list"
    if exact and obj.rest is None:
        _relist(frame, loc, [*obj.items.values(), *others[0].items.values()])
    else:
        _put(frame, loc, obj.widen().add(element(frame, more, call.node)))
    return _ABSENT


def _blur(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    _put(frame, loc, frame.state.object(loc).widen())
    return _ABSENT


def _reverse(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    obj = frame.state.object(loc)
    if obj.rest is None:
        _relist(frame, loc, list(obj.items.values())[::-1])
    return _ABSENT


def _clear(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    _put(frame, loc, HeapObject(frame.state.object(loc).kind))
    return _ABSENT


def _get(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    obj = frame.state.object(loc)
    found = read_item(obj, _arg(call, 0))
    default = _arg(call, 1, _ABSENT)
    if found is None:
        return default
    key = _arg(call, 0)
    return found if key.known and key.const in obj.items else join(found, default)


def _setdefault(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    key = _arg(call, 0)
    if key.known and key.const in frame.state.object(loc).items:
        return _get(frame, loc, call)
    set_item(frame, Value(locs=(loc,)), key, _arg(call, 1, _ABSENT))
    return _arg(call, 1, _ABSENT)


def _update(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    for other in frame.state.of(_arg(call, 0)):
        obj = frame.state.object(loc)
        for key, value in other.items.items():
            obj = obj.put(key, value)
        _put(frame, loc, obj if other.rest is None else obj.add(other.rest))
    if call.args and call.args[0].taints:
        _put(frame, loc, frame.state.object(loc).add(Value(taints=call.args[0].taints)))
    for name, value in call.keywords.items():
        _put(frame, loc, frame.state.object(loc).put(name, value))
    return _ABSENT


def _items(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    value = frame.state.object(loc).any()
    if value is None:
        return make_bag(frame, call.node, None)
    pair = frame.new(call.node, HeapObject("list", {0: UNKNOWN, 1: value}), "pair")
    return make_bag(frame, call.node, pair)


def _values(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    return make_bag(frame, call.node, frame.state.object(loc).any())


def _keys(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    obj = frame.state.object(loc)
    if obj.rest is None:
        return make_list(frame, call.node, [Value(key) for key in obj.items])
    return make_bag(frame, call.node, UNKNOWN)


def _copy(frame: Activation, loc: int, call: EvaluatedCall) -> Value:
    return frame.new(call.node, frame.state.object(loc))


_LIST: Final[dict[str, Method]] = {
    "add": _append,
    "append": _append,
    "appendleft": _appendleft,
    "clear": _clear,
    "copy": _copy,
    "extend": _extend,
    "insert": _insert,
    "pop": _pop,
    "popleft": _popleft,
    "remove": _blur,
    "reverse": _reverse,
    "sort": _blur,
    "update": _extend,
}
_DICT: Final[dict[str, Method]] = {
    "clear": _clear,
    "copy": _copy,
    "get": _get,
    "items": _items,
    "keys": _keys,
    "pop": _pop,
    "setdefault": _setdefault,
    "update": _update,
    "values": _values,
}


_READS: Final = frozenset({"copy", "get", "items", "keys", "pop", "values"})


def call_method(frame: Activation, name: str, call: EvaluatedCall) -> Value | None:
    """The value of a call of a container's method; None for any other method."""
    if call.receiver is None or not call.receiver.locs:
        return None
    results: list[Value] = []
    for loc in call.receiver.locs:
        kind = frame.state.object(loc).kind
        table = _LIST if kind == "list" else _DICT if kind == "dict" else {}
        perform = table.get(name)
        if perform is not None:
            results.append(perform(frame, loc, call))
    if results and call.receiver.taints and name in _READS:
        results.append(_read_outside(frame, call, call.receiver))
    return join_all(results) if results else None


def _read_outside(frame: Activation, call: EvaluatedCall, receiver: Value) -> Value:
    """What a method reads of the part of a value that is no container of ours: ``given or {}``."""
    key = call.args[0] if call.args else None
    label = repr(key.const) if key is not None and key.known else frame.site(call.node)
    taints = tuple(taint.derive(PART, label) for taint in receiver.taints)
    return Value(taints=taints, marks=receiver.marks if key is None else frozenset())
