"""Functions, classes and imports: the statements that give a name a meaning."""

import ast

from orchestrator.checks.taint.abstract_state import State
from orchestrator.checks.taint.abstract_values import UNKNOWN, Value
from orchestrator.checks.taint.attribute_access import external_value
from orchestrator.checks.taint.call_frames import Frame
from orchestrator.checks.taint.module_index import Class, Function, Module, Namespace


def define_function(frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Perform a ``def``: decorators are looked at, and the function keeps its own value."""
    frame.state.vars[node.name] = Value(target=make_function(frame, node, None, frame.scope))


def make_function(
    frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef, cls: Class | None, scope: str
) -> Function:
    """The function that a ``def`` makes here."""
    closure = {**frame.closure, **frame.state.vars} if frame.function else {}
    decorators = tuple(
        (decorator, _decorator(frame, decorator)) for decorator in node.decorator_list
    )
    name = f"{scope}.{node.name}" if scope else node.name
    made = Function(node, frame.module, name, closure, cls, decorators)
    frame.run.functions[node] = made
    return made


def _decorator(frame: Frame, node: ast.expr) -> Value:
    """A decorator's own value; for ``@route(...)`` that of ``route``."""
    return frame.evaluate(node.func if isinstance(node, ast.Call) else node)


def define_class(frame: Frame, node: ast.ClassDef) -> None:
    """Perform a ``class``: its body is run for its names."""
    bases = tuple(frame.evaluate(base) for base in node.bases)
    scope = f"{frame.scope}.{node.name}" if frame.scope else node.name
    made = Class(node, frame.module, scope, bases, {})
    outer = frame.state
    inner = State(frame.run.heap)
    inner.vars, inner.objects, inner.facts = dict(outer.vars), outer.objects, dict(outer.facts)
    frame.state = inner
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            frame.state = outer  # methods do not see the names of their class
            method = make_function(frame, statement, made, scope)
            frame.state = inner
            inner.vars[statement.name] = Value(target=method)
        else:
            frame.run.execute(frame, [statement])
            if not frame.state.live:
                break
            inner = frame.state
    made.attributes.update(
        (name, value) for name, value in inner.vars.items() if outer.vars.get(name) is not value
    )
    outer.objects = inner.objects
    frame.state = outer
    frame.state.vars[node.name] = Value(target=made)


def execute_import(frame: Frame, node: ast.Import) -> None:
    """Execute an ``import`` statement."""
    project = frame.run.project
    for alias in node.names:
        if alias.asname:
            found = project.find(alias.name, frame.module.path)
            value = (
                _value(found)
                if found is not None
                else Value(ref=frame.run.models.canonical(alias.name))
            )
            frame.state.vars[alias.asname] = value
        else:
            top = alias.name.partition(".")[0]
            found = project.find(top, frame.module.path)
            frame.state.vars[top] = Value(ref=top) if found is None else _value(found)


def _value(found: Module | Namespace) -> Value:
    return Value(target=found)


def execute_import_from(frame: Frame, node: ast.ImportFrom) -> None:
    """Perform a ``from ... import``."""
    project = frame.run.project
    name = node.module or ""
    source: Module | Namespace | None
    if node.level:
        source = project.relative(frame.module, node.level, name)
    else:
        source = project.find(name, frame.module.path)
    for alias in node.names:
        if alias.name == "*":
            if isinstance(source, Module):
                frame.state.vars.update(frame.run.globals_of(source))
            elif source is None and name:
                frame.module.wildcards.append(name)
            continue
        frame.state.vars[alias.asname or alias.name] = _one(frame, node, source, alias)


def _one(
    frame: Frame, node: ast.ImportFrom, source: Module | Namespace | None, alias: ast.alias
) -> Value:
    if isinstance(source, Module):
        value = frame.run.globals_of(source).get(alias.name)
        if value is not None:
            return value
    if source is not None:
        child = frame.run.project.child(source, alias.name)
        return UNKNOWN if child is None else Value(target=child)
    if node.level:
        return UNKNOWN
    from_outside = f"{node.module}.{alias.name}"
    return external_value(frame, from_outside, node)
