"""Dictionaries, lists, tuples and sets: values by key, and values of items."""

import ast
from collections.abc import Callable, Hashable, Iterable
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
    return tuple(item.const for item in items) if all(item.known for item in items) else NOT_CONST


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
    for loc in base.locs:
        obj = frame.state.object(loc)
        if obj.kind in {"list", "dict"}:
            replaces = len(base.locs) == 1
            frame.state.objects[loc] = _with_item(obj, key, value, replaces=replaces)


def _with_item(obj: HeapObject, key: Value, value: Value, *, replaces: bool) -> HeapObject:
    """An object with a value under a known or unknown key, in place of the old one or beside it."""
    if not key.known or not isinstance(key.const, Hashable):
        return obj.add(value)
    name = key.const
    if obj.kind == "list" and isinstance(name, int) and name < 0:
        name += len(obj.items)
    old = None if replaces else obj.get(name)
    return obj.put(name, value if old is None else join(old, value))


_ABSENT: Final = Value(None)

Method = Callable[[Activation, HeapObject, EvaluatedCall], tuple[Value, HeapObject]]
"""What a method of a container gives back, and the container afterwards."""


def _arg(call: EvaluatedCall, index: int, default: Value = UNKNOWN) -> Value:
    return call.args[index] if index < len(call.args) else default


def _listed(values: Iterable[Value]) -> HeapObject:
    return HeapObject("list", dict(enumerate(values)))


def _append(frame: Activation, obj: HeapObject, call: EvaluatedCall) -> tuple[Value, HeapObject]:
    value = _arg(call, 0)
    if obj.rest is None and len(obj.items) < MAX_ITEMS:
        return _ABSENT, obj.put(len(obj.items), value)
    return _ABSENT, obj.widen().add(value)


def _insert_at(obj: HeapObject, where: Value, value: Value) -> tuple[Value, HeapObject]:
    if obj.rest is None and isinstance(where.const, int):
        values = list(obj.items.values())
        values.insert(where.const, value)
        return _ABSENT, _listed(values)
    return _ABSENT, obj.widen().add(value)


def _pop_at(obj: HeapObject, where: Value) -> tuple[Value, HeapObject]:
    if obj.rest is None and isinstance(where.const, int):
        places = sorted(obj.items, key=lambda key: key if isinstance(key, int) else 0)
        values = [obj.items[key] for key in places]
        try:
            return values.pop(where.const), _listed(values)
        except IndexError:
            return UNKNOWN, obj
    return obj.any() or UNKNOWN, obj.widen()


def _extend(frame: Activation, obj: HeapObject, call: EvaluatedCall) -> tuple[Value, HeapObject]:
    more = _arg(call, 0)
    listed = frame.state.listed(more)
    if listed is not None and obj.rest is None:
        return _ABSENT, _listed([*obj.items.values(), *listed])
    return _ABSENT, obj.widen().add(element(frame, more, call.node))


def _reverse(frame: Activation, obj: HeapObject, call: EvaluatedCall) -> tuple[Value, HeapObject]:
    return _ABSENT, _listed(list(obj.items.values())[::-1]) if obj.rest is None else obj


def _get(frame: Activation, obj: HeapObject, call: EvaluatedCall) -> tuple[Value, HeapObject]:
    key, default = _arg(call, 0), _arg(call, 1, _ABSENT)
    found = read_item(obj, key)
    if found is None:
        return default, obj
    return found if key.known and key.const in obj.items else join(found, default), obj


def _setdefault(
    frame: Activation, obj: HeapObject, call: EvaluatedCall
) -> tuple[Value, HeapObject]:
    key, default = _arg(call, 0), _arg(call, 1, _ABSENT)
    if key.known and key.const in obj.items:
        return _get(frame, obj, call)
    return default, _with_item(obj, key, default, replaces=True)


def _update(frame: Activation, obj: HeapObject, call: EvaluatedCall) -> tuple[Value, HeapObject]:
    for other in frame.state.of(_arg(call, 0)):
        obj = obj.merge(other)
    if call.args and call.args[0].taints:
        obj = obj.add(Value(taints=call.args[0].taints))
    for name, value in call.keywords.items():
        obj = obj.put(name, value)
    return _ABSENT, obj


def _items(frame: Activation, obj: HeapObject, call: EvaluatedCall) -> tuple[Value, HeapObject]:
    value, pair = obj.any(), None
    if value is not None:
        pair = frame.new(call.node, HeapObject("list", {0: UNKNOWN, 1: value}), "pair")
    return make_bag(frame, call.node, pair), obj


def _keys(frame: Activation, obj: HeapObject, call: EvaluatedCall) -> tuple[Value, HeapObject]:
    if obj.rest is None:
        return make_list(frame, call.node, [Value(key) for key in obj.items]), obj
    return make_bag(frame, call.node, UNKNOWN), obj


_BOTH: Final[dict[str, Method]] = {
    "clear": lambda _, obj, call: (_ABSENT, HeapObject(obj.kind)),
    "copy": lambda frame, obj, call: (frame.new(call.node, obj), obj),
}
_LIST: Final[dict[str, Method]] = {
    **_BOTH,
    "add": _append,
    "append": _append,
    "appendleft": lambda _, obj, call: _insert_at(obj, Value(0), _arg(call, 0)),
    "extend": _extend,
    "insert": lambda _, obj, call: _insert_at(obj, _arg(call, 0), _arg(call, 1)),
    "pop": lambda _, obj, call: _pop_at(obj, _arg(call, 0, Value(-1))),
    "popleft": lambda _, obj, call: _pop_at(obj, Value(0)),
    "remove": lambda _, obj, call: (_ABSENT, obj.widen()),
    "reverse": _reverse,
    "sort": lambda _, obj, call: (_ABSENT, obj.widen()),
    "update": _extend,
}
_DICT: Final[dict[str, Method]] = {
    **_BOTH,
    "get": _get,
    "items": _items,
    "keys": _keys,
    "pop": _get,
    "setdefault": _setdefault,
    "update": _update,
    "values": lambda frame, obj, call: (make_bag(frame, call.node, obj.any()), obj),
}


_READS: Final = frozenset({"copy", "get", "items", "keys", "pop", "values"})


def call_method(frame: Activation, name: str, call: EvaluatedCall) -> Value | None:
    """The value of a call of a container's method; None for any other method."""
    if call.receiver is None or not call.receiver.locs:
        return None
    results: list[Value] = []
    for loc in call.receiver.locs:
        obj = frame.state.object(loc)
        table = _LIST if obj.kind == "list" else _DICT if obj.kind == "dict" else {}
        perform = table.get(name)
        if perform is not None:
            result, changed = perform(frame, obj, call)
            results.append(result)
            if changed is not obj:
                frame.state.objects[loc] = changed
    if results and call.receiver.taints and name in _READS:
        results.append(_read_outside(frame, call, call.receiver))
    return join_all(results) if results else None


def _read_outside(frame: Activation, call: EvaluatedCall, receiver: Value) -> Value:
    """What a method reads of the part of a value that is no container of ours: ``given or {}``."""
    key = call.args[0] if call.args else None
    label = repr(key.const) if key is not None and key.known else frame.site(call.node)
    taints = tuple(taint.derive(PART, label) for taint in receiver.taints)
    return Value(taints=taints, marks=receiver.marks if key is None else frozenset())
