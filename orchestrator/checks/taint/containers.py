"""Dictionaries, lists, tuples and sets: what stands where, and what an item of one is."""

import ast
from collections.abc import Hashable
from typing import Final

from orchestrator.checks.taint import constant_folding
from orchestrator.checks.taint.abstract_state import Obj
from orchestrator.checks.taint.abstract_values import (
    NOT_CONST,
    PART,
    SLICE,
    UNKNOWN,
    Value,
    join,
    join_all,
)
from orchestrator.checks.taint.call_frames import Frame

MAX_ITEMS: Final = 64


def make_list(frame: Frame, node: ast.AST, values: list[Value]) -> Value:
    """A list, tuple or set whose items are known."""
    obj = Obj("list", dict(enumerate(values)))
    return frame.new(node, obj if len(values) <= MAX_ITEMS else obj.blurred())


def make_bag(frame: Frame, node: ast.AST, item: Value | None) -> Value:
    """A list of which only is known what its items may be."""
    return frame.new(node, Obj("list", {}, item))


def constants(frame: Frame, value: Value) -> object:
    """A tuple of the constants that a list holds, the constant itself, or ``NOT_CONST``."""
    if value.known:
        return value.const
    objects = frame.state.of(value)
    if len(objects) != 1 or objects[0].rest is not None or objects[0].kind not in {"list", "dict"}:
        return NOT_CONST
    if objects[0].kind == "dict":
        return tuple(objects[0].items)
    items = objects[0].items.values()
    return tuple(item.const for item in items) if all(item.known for item in items) else NOT_CONST


def element(frame: Frame, value: Value, node: ast.AST) -> Value:
    """What iterating over a value gives."""
    found: list[Value] = []
    for obj in frame.state.of(value):
        if obj.kind == "dict":
            found.extend(Value(key) for key in obj.items)
            found.append(UNKNOWN)
        elif obj.kind == "list":
            item = obj.any()
            if item is not None:
                found.append(item)
    if isinstance(value.const, tuple):
        found.extend(Value(item) for item in value.const)
    if value.taints:
        site = frame.site(node) if "mapping" in value.marks else ""
        taints = value.taints
        if site:
            taints = tuple(taint.derived(PART, site) for taint in taints)
        found.append(Value(taints=taints, ref=value.ref and f"{value.ref}[]"))
    return join_all(found) if found else UNKNOWN


def item(frame: Frame, base: Value, key: Value, node: ast.AST) -> Value:
    """The value of ``base[key]``."""
    if base.known and key.known:
        result = constant_folding.subscript(base.const, key.const)
        return Value(result) if result is not NOT_CONST else UNKNOWN
    found: list[Value] = []
    for obj in frame.state.of(base):
        if obj.kind in {"list", "dict"}:
            inner = stored(obj, key)
            if inner is not None:
                found.append(inner)
    if base.taints:
        label = repr(key.const) if key.known else frame.site(node)
        found.append(Value(taints=tuple(taint.derived(PART, label) for taint in base.taints)))
    return join_all(found) if found else UNKNOWN


def stored(obj: Obj, key: Value) -> Value | None:
    """What an object holds under a key, known or not; None when nothing."""
    if not key.known or not isinstance(key.const, Hashable):
        return obj.any()
    name = key.const
    if obj.kind == "list" and isinstance(name, int) and name < 0 and obj.rest is None:
        name += len(obj.items)
    return obj.get(name)


def sliced(frame: Frame, base: Value, bounds: tuple[Value, Value, Value], node: ast.AST) -> Value:
    """The value of ``base[low:high:step]``."""
    known = all(bound.known for bound in bounds)
    cut = slice(*(bound.const for bound in bounds)) if known else slice(None)
    if base.known and known:
        return Value(constant_folding.subscript(base.const, cut))
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
    return Value(taints=tuple(taint.derived(SLICE, site) for taint in base.taints), ref=base.ref)


def store(frame: Frame, base: Value, key: Value, value: Value) -> None:
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
