"""Assignment and deletion: where a value goes."""

import ast

from orchestrator.checks.taint import attribute_access, containers, sinks
from orchestrator.checks.taint.abstract_state import Obj
from orchestrator.checks.taint.abstract_values import Value
from orchestrator.checks.taint.call_frames import Call, Frame


def assign(frame: Frame, target: ast.expr, value: Value) -> None:
    """Perform ``target = value``."""
    match target:
        case ast.Name(id=name):
            frame.state.vars[name] = frame.at(value, target, f"{name!r} is set")
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            _unpack(frame, elements, value)
        case ast.Starred(value=inner):
            assign(frame, inner, value)
        case ast.Attribute(value=owner, attr=name):
            base = frame.ev(owner)
            attribute_access.put(frame, base, name, frame.at(value, target, f".{name} is set"))
            if base.ref:
                _store_sink(frame, target, f"{base.ref}.{name}=", [value])
        case ast.Subscript(value=owner, slice=index):
            base, key = frame.ev(owner), frame.ev(index)
            stepped = frame.at(value, target, "an item is set")
            attribute_access.put_item(frame, base, key, stepped)
            if base.ref:
                _store_sink(frame, target, f"{base.ref}[]=", [key, stepped])


def _store_sink(frame: Frame, target: ast.expr, ref: str, args: list[Value]) -> None:
    ref = frame.run.knowledge.canonical(ref)
    sinks.check_call(frame, Call(target, Value(ref=ref), None, args, {}), ref)


def _unpack(frame: Frame, elements: list[ast.expr], value: Value) -> None:
    objects = frame.state.of(value)
    plain = not any(isinstance(element, ast.Starred) for element in elements)
    exact = len(objects) == 1 and objects[0].kind == "list" and objects[0].rest is None
    if exact and plain and len(objects[0].items) == len(elements):
        for index, element in enumerate(elements):
            assign(frame, element, objects[0].items.get(index, Value()))
        return
    item = containers.element(frame, value, elements[0]) if elements else Value()
    for element in elements:
        if isinstance(element, ast.Starred):
            assign(frame, element.value, containers.make_bag(frame, element, item))
        else:
            assign(frame, element, item)


def delete(frame: Frame, target: ast.expr) -> None:
    """Perform ``del target``."""
    match target:
        case ast.Name(id=name):
            frame.state.vars.pop(name, None)
        case ast.Subscript(value=owner, slice=index) if not isinstance(index, ast.Slice):
            base, key = frame.ev(owner), frame.ev(index)
            for loc in base.locs:
                frame.state.objects[loc] = _without(frame.state.object(loc), key)


def _without(obj: Obj, key: Value) -> Obj:
    if not key.known or obj.kind not in {"list", "dict"}:
        return obj
    items = {name: value for name, value in obj.items.items() if name != key.const}
    if obj.kind == "list" and obj.rest is None:
        items = dict(enumerate(items.values()))
    return Obj(obj.kind, items, obj.rest, obj.cls)
