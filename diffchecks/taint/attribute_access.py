"""Attributes and items of objects of the tree, of modules, and of external objects."""

import ast
from collections.abc import Hashable

from diffchecks.data_files import vocabulary
from diffchecks.taint import branch_conditions, containers, stored_fields
from diffchecks.taint.abstract_state import HeapObject, collect_taints, reachable_objects
from diffchecks.taint.abstract_values import (
    PART,
    ROW,
    UNKNOWN,
    Taint,
    TaintStep,
    Value,
    join,
    join_all,
    merge_taints,
    resolve,
)
from diffchecks.taint.call_frames import Activation, EvaluatedCall
from diffchecks.taint.module_index import Bound, Class, Function, Module, Namespace

_MAX_REF = 160
_OBJECT = vocabulary("held_object")
_AT = "at "


def external_value(frame: Activation, ref: str, node: ast.AST) -> Value:
    """A value known only by its dotted name: a source, or an untainted external object."""
    models = frame.run.models
    ref = models.canonical(ref) if len(ref) <= _MAX_REF else ""
    for source in models.sources.find(ref):
        line = getattr(node, "lineno", 0)
        trace = TaintStep(frame.module.path, line, f"{ref.removeprefix('?.')} is read")
        marks = frozenset({"mapping"} if source.mapping else ())
        return Value(ref=ref, taints=(Taint(ref, source.kind, trace=trace),), marks=marks)
    return Value(ref=ref)


def get_attribute(frame: Activation, base: Value, name: str, node: ast.AST) -> Value:
    """The value of ``base.name``."""
    of_row = ROW in base.marks and not base.taints
    return (_of_row if of_row else _attribute)(frame, base, name, node)


def _attribute(frame: Activation, base: Value, name: str, node: ast.AST) -> Value:
    found: list[Value] = []
    for loc in base.locs:
        obj = frame.state.object(loc)
        if obj.kind == "instance":
            member = _member(frame, obj, Value(locs=(loc,)), name, node)
            if member is not None:
                found.append(member)
    if found:
        return _of_whole(join_all(found), base, name)
    if base.target is not None:
        member = _of_target(frame, base, name)
        if member is not None:
            return member
    if base.known and base.const is not None:
        return UNKNOWN  # a value that is None here was set by then in a way that is not followed
    known = frame.run.contexts.get(f"{base.ref}.{name}") if frame.run.contexts else None
    if known is not None:
        return known
    value = external_value(frame, f"{base.ref or '?'}.{name}", node)
    passed = (one for one in base.taints if one.kind != "parameter" or not _OBJECT.fullmatch(name))
    inherited = tuple(taint.derive(PART, f".{name}") for taint in passed)
    if frame.run.stored and not inherited:
        inherited = stored_fields.read(frame, base, name, node)
    inherited = sanitized(frame, value.ref, inherited)
    locs = tuple(loc for loc in base.locs if frame.state.object(loc).kind == "cells")
    taints = value.taints or inherited
    return Value(
        ref=value.ref,
        taints=taints,
        locs=locs,
        marks=value.marks | base.marks,
        implies=branch_conditions.without_part(frame.run.models, value.ref, taints),
    )


def get_member(frame: Activation, base: Value, name: str, node: ast.AST) -> Value:
    """The meaning of ``base.name`` in a template: an item or an attribute."""
    objects = frame.state.of(base)
    if any(name in obj.items for obj in objects if obj.kind == "dict"):
        return get_item(frame, base, Value(name), node)
    value = get_attribute(frame, base, name, node)
    held = [obj.rest for obj in objects if obj.kind == "dict" and obj.rest is not None]
    return join_all([*held, value]) if held and not value.taints else value


def _of_row(frame: Activation, base: Value, name: str, node: ast.AST) -> Value:
    """An attribute of any stored object of a database model."""
    classes = stored_fields.classes_of(frame, base)
    for cls in classes:
        found = cls.lookup(name)
        if found is not None and isinstance(found.target, Function):
            return _through_class(frame, found, base, node)
    return stored_fields.read_row(frame, base, classes, name, node)


def sanitized(frame: Activation, ref: str, taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """The taints of an attribute or item, of which the data files may say that it does no harm."""
    rules = frame.run.models.sanitizers.exact(ref) if taints else ()
    facts = [f"safe {klass}" for rule in rules for klass in rule.clears]
    return tuple(taint.with_facts(facts) for taint in taints) if facts else taints


def _of_whole(member: Value, base: Value, name: str) -> Value:
    """A member known only by name has the origin of its object."""
    if member.taints or member.known or member.locs or member.target or not base.taints:
        return member
    taints = tuple(taint.derive(PART, f".{name}") for taint in base.taints)
    return Value(ref=member.ref, taints=taints, marks=member.marks | base.marks)


def _member(
    frame: Activation, obj: HeapObject, receiver: Value, name: str, node: ast.AST
) -> Value | None:
    field = obj.items.get(name)
    if field is not None:
        return field
    cls = obj.cls
    if not isinstance(cls, Class):
        return obj.rest
    found = cls.lookup(name)
    given = obj.rest is not None and bool(obj.rest.taints)
    if found is not None and not (given and found.target is None):
        return _through_class(frame, found, receiver, node)
    if obj.rest is not None:
        return obj.rest
    return _inherited(frame, cls, name, node)


def _inherited(frame: Activation, cls: Class, name: str, node: ast.AST) -> Value:
    """An attribute that a class inherits from outside the tree, or that is unknown."""
    outers = [f"{outer}.{name}" for outer in cls.outer_bases()]
    for outer in outers:
        value = external_value(frame, outer, node)
        if value.taints or value.ref != outer or frame.run.models.sinks.exact(outer):
            return value
    return external_value(frame, outers[0] if outers else f"?.{name}", node)


def _through_class(frame: Activation, found: Value, receiver: Value, node: ast.AST) -> Value:
    function = found.target
    if not isinstance(function, Function) or function.cls is None:
        return found
    if function.is_static:
        return found
    if any(value.ref.endswith("property") for _, value in function.decorators):
        place = node if isinstance(node, ast.expr) else ast.Constant(None, lineno=0, col_offset=0)
        call = EvaluatedCall(place, Value(target=Bound(function, receiver)), None, [], {})
        return frame.run.invoke(frame, call)
    return Value(target=Bound(function, receiver))


def _of_target(frame: Activation, base: Value, name: str) -> Value | None:
    target = base.target
    if isinstance(target, Class):
        rows = stored_fields.manager(frame.run, target, name)
        if rows is not None:
            return rows
        found = target.lookup(name)
        if found is None:
            return None
        function = found.target
        if isinstance(function, Function) and any(
            value.ref == "builtins.classmethod" for _, value in function.decorators
        ):
            return Value(target=Bound(function, base))
        return found
    if isinstance(target, Module):
        names = frame.run.globals_of(target)
        if name in names:
            return resolve(names[name])
    if isinstance(target, Module | Namespace):
        child = frame.run.project.child(target, name)
        return Value(target=child) if child is not None else UNKNOWN
    return None


def get_item(frame: Activation, base: Value, key: Value, node: ast.AST) -> Value:
    """The value of ``base[key]``."""
    if ROW in base.marks:
        return base
    cells = [obj for obj in frame.state.of(base) if obj.kind == "cells"]
    if cells:
        path = (*access_path(base), key.const if key.known else key.ref)
        stored = [obj.items[path] for obj in cells if path in obj.items]
        if stored:
            return join_all(stored)
        marks = frozenset(mark for mark in base.marks if not mark.startswith(_AT))
        here = marks | {f"{_AT}{key.const}"} if key.known else marks
        return Value(ref=base.ref and f"{base.ref}[]", locs=base.locs, marks=here)
    value = containers.get_item(frame, base, key, node)
    if base.ref:
        outer = external_value(frame, f"{base.ref}[]", node)
        taints = merge_taints(value.taints, outer.taints)
        taints = sanitized(frame, f"{base.ref}[{key.const}]", taints)
        return Value(value.const, outer.ref, taints, value.locs, value.target)
    return value


def access_path(base: Value) -> tuple[Hashable, ...]:
    """The keys by which a value was reached inside an external object."""
    return tuple(mark.removeprefix(_AT) for mark in base.marks if mark.startswith(_AT))


def set_item(frame: Activation, base: Value, key: Value, value: Value) -> None:
    """Perform ``base[key] = value`` on objects of the tree and on external ones."""
    containers.set_item(frame, base, key, value)
    path = (*access_path(base), key.const if key.known else key.ref)
    for loc in base.locs:
        obj = frame.state.object(loc)
        if obj.kind == "cells":
            frame.state.objects[loc] = obj.put(path, value)


def _keep_in_class(frame: Activation, cls: Class, name: str, value: Value) -> None:
    """Set an attribute of a class, as a singleton does with its only object."""
    old = cls.attributes.get(name)
    if value.locs and (old is None or old.known):
        cls.attributes[name] = Value(locs=value.locs)
        frame.run.heap.shared.update(reachable_objects(value, frame.state))


def set_attribute(frame: Activation, base: Value, name: str, value: Value) -> None:
    """Perform ``base.name = value``."""
    stored_fields.note_attribute(frame, base, name, value)
    if isinstance(base.target, Class) and not collect_taints(value, frame.state):
        _keep_in_class(frame, base.target, name, value)
    if base.ref and frame.run.models.listed("contexts", base.ref):
        _keep_in_context(frame, f"{base.ref}.{name}", value)
    strong = len(base.locs) == 1
    for loc in base.locs:
        obj = frame.state.object(loc)
        if obj.kind == "instance":
            old = None if strong else obj.items.get(name)
            frame.state.objects[loc] = obj.put(name, value if old is None else join(old, value))
        elif obj.kind == "cells":
            frame.state.objects[loc] = obj.put((name,), value)


def _keep_in_context(frame: Activation, ref: str, value: Value) -> None:
    """Record tainted values and own objects in an object that all functions of a request share."""
    known = frame.run.contexts.get(ref, UNKNOWN)
    own = any(frame.state.object(loc).kind == "instance" for loc in value.locs)
    if value.taints and not known.taints:
        taints = frame.state.settle(value).taints
        frame.run.contexts[ref] = Value(taints=taints, locs=known.locs, marks=value.marks)
    elif own and ROW not in value.marks and ref not in frame.run.contexts:
        frame.run.contexts[ref] = Value(locs=value.locs)
        frame.run.heap.shared.update(reachable_objects(value, frame.state))
