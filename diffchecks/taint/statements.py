"""Executes statements on the abstract state."""

import ast
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from diffchecks.python.compact_syntax_trees import by_kind
from diffchecks.taint import (
    attribute_access,
    branch_conditions,
    containers,
    expressions,
    rendered_templates,
    sink_checks,
    strings,
)
from diffchecks.taint.abstract_state import AbstractState, HeapObject, join_states, same_state
from diffchecks.taint.abstract_values import PART, UNKNOWN, Deferred, Value, join, resolve
from diffchecks.taint.attribute_access import external_value
from diffchecks.taint.call_frames import Activation, EvaluatedCall, Return, TaintJob
from diffchecks.taint.module_index import Class, Definition, Function, Module, Namespace
from diffchecks.taint.template_code import ImportMacros, Include, Print

_MAX_ROUNDS: Final = 4


def execute(frame: Activation, body: list[ast.stmt]) -> None:
    """Run statements in order until the state is unreachable."""
    for statement in body:
        if not frame.state.live:
            return
        frame.run.spend()
        frame.statement = statement
        handler = _HANDLERS.get(type(statement))
        if handler is not None:
            handler(frame, statement)


def _dead(frame: Activation) -> None:
    state = AbstractState(frame.run.heap)
    state.live = False
    frame.state = state


def _expression(frame: Activation, node: ast.Expr) -> None:
    if "noreturn" in frame.evaluate(node.value).marks:
        _dead(frame)


def _assign(frame: Activation, node: ast.Assign) -> None:
    value = frame.evaluate(node.value)
    for target in node.targets:
        assign(frame, target, value)


def _annotated(frame: Activation, node: ast.AnnAssign) -> None:
    if node.value is not None:
        assign(frame, node.target, frame.evaluate(node.value))


def _augmented(frame: Activation, node: ast.AugAssign) -> None:
    left, right = frame.evaluate(node.target), frame.evaluate(node.value)
    if isinstance(node.op, ast.Add) and left.locs and len(left.locs) == 1 and right.locs:
        joined = expressions.operate(frame, ast.Add, left, right, node)
        frame.state.objects[left.locs[0]] = frame.state.of(joined)[0]
        return
    assign(frame, node.target, expressions.operate(frame, type(node.op), left, right, node))


def _return(frame: Activation, node: ast.Return) -> None:
    value = Value(None) if node.value is None else frame.evaluate(node.value)
    if "noreturn" not in value.marks:
        frame.returns.append(Return(node, value, frame.state))
    _dead(frame)


def _raise(frame: Activation, node: ast.Raise) -> None:
    for part in (node.exc, node.cause):
        if part is not None:
            frame.evaluate(part)
    _dead(frame)


def _assert(frame: Activation, node: ast.Assert) -> None:
    frame.state.learn(branch_conditions.facts_when(frame.evaluate(node.test), truth=True))


def _if(frame: Activation, node: ast.If) -> None:
    test = frame.evaluate(node.test)
    truth = strings.fold_truth(test.const)
    before = frame.state
    ways: list[AbstractState] = []
    for outcome, body in ((True, node.body), (False, node.orelse)):
        if truth is not None and truth is not outcome:
            continue
        frame.state = before if truth is not None else before.copy()
        frame.state.learn(branch_conditions.facts_when(test, truth=outcome))
        execute(frame, body)
        ways.append(frame.state)
    frame.state = join_states(ways, frame.run.heap)


def _loop(
    frame: Activation, step: Callable[[], Value], node: ast.For | ast.AsyncFor | ast.While
) -> None:
    """Run a loop's body until its state reaches a fixed point.

    Args:
        step: runs before each iteration, and returns the condition to enter it.
    """
    frame.jumps.append(([], []))
    for _ in range(_MAX_ROUNDS):
        before = frame.state.copy()
        test = step()
        if strings.fold_truth(test.const) is False:
            break
        frame.state.learn(branch_conditions.facts_when(test, truth=True))
        execute(frame, node.body)
        frame.state = join_states([before, frame.state, *frame.jumps[-1][1]], frame.run.heap)
        if same_state(before, frame.state):
            break
    test = step()
    if strings.fold_truth(test.const) is True:
        _dead(frame)
    frame.state.learn(branch_conditions.facts_when(test, truth=False))
    breaks, _ = frame.jumps.pop()
    execute(frame, node.orelse)
    frame.state = join_states([frame.state, *breaks], frame.run.heap)


def _for(frame: Activation, node: ast.For | ast.AsyncFor) -> None:
    source = frame.evaluate(node.iter)

    def step() -> Value:
        item = containers.element(frame, source, node.iter)
        assign(frame, node.target, item)
        return UNKNOWN

    _loop(frame, step, node)


def _while(frame: Activation, node: ast.While) -> None:
    _loop(frame, partial(frame.evaluate, node.test), node)


def _jump(frame: Activation, node: ast.Break | ast.Continue) -> None:
    if frame.jumps:
        breaks, continues = frame.jumps[-1]
        (breaks if isinstance(node, ast.Break) else continues).append(frame.state)
    _dead(frame)


def _with(frame: Activation, node: ast.With | ast.AsyncWith) -> None:
    for item in node.items:
        value = frame.evaluate(item.context_expr)
        if item.optional_vars is not None:
            assign(frame, item.optional_vars, value)
    execute(frame, node.body)


def _try(frame: Activation, node: ast.Try | ast.TryStar) -> None:
    before = frame.state.copy()
    failing: list[AbstractState] = [before]
    for statement in node.body:
        execute(frame, [statement])
        if frame.state.live:
            failing.append(frame.state.copy())
    execute(frame, node.orelse)
    ways = [frame.state]
    caught = join_states(failing, frame.run.heap)
    for handler in node.handlers:
        frame.state = caught.copy()
        if handler.name:
            frame.state.vars[handler.name] = UNKNOWN
        execute(frame, handler.body)
        ways.append(frame.state)
    frame.state = join_states(ways, frame.run.heap)
    if node.finalbody:
        alive = frame.state.live
        if not alive:
            frame.state = caught
        execute(frame, node.finalbody)
        if not alive:
            _dead(frame)


def _match(frame: Activation, node: ast.Match) -> None:
    subject = frame.evaluate(node.subject)
    ways: list[AbstractState] = []
    open_ended = True
    for case in node.cases:
        fits = _fits(frame, case.pattern, subject)
        if fits is False:
            continue
        before = frame.state.copy()
        _capture(frame, case.pattern, subject)
        guard = UNKNOWN if case.guard is None else frame.evaluate(case.guard)
        frame.state.learn(branch_conditions.facts_when(guard, truth=True))
        if isinstance(case.pattern, ast.MatchValue | ast.MatchOr) and subject.taints:
            frame.state.learn(
                branch_conditions.facts_about(subject.taints, branch_conditions.LISTED)
            )
        if strings.fold_truth(guard.const) is not False:
            execute(frame, case.body)
            ways.append(frame.state)
        frame.state = before
        if fits and case.guard is None:
            open_ended = False
            break
    if open_ended:
        ways.append(frame.state)
    frame.state = join_states(ways, frame.run.heap)


def _fits(frame: Activation, pattern: ast.pattern, subject: Value) -> bool | None:
    """Whether a pattern matches a subject; None: unknown."""
    match pattern:
        case ast.MatchAs(pattern=None):
            return True
        case ast.MatchAs(pattern=inner) if inner is not None:
            return _fits(frame, inner, subject)
        case ast.MatchOr(patterns=patterns):
            answers = [_fits(frame, pattern, subject) for pattern in patterns]
            return True if True in answers else (None if None in answers else False)
        case ast.MatchValue(value=value):
            expected = frame.evaluate(value)
            if subject.known and expected.known:
                return bool(subject.const == expected.const)
        case ast.MatchSingleton(value=single) if subject.known:
            return subject.const is single
    return None


def _capture(frame: Activation, pattern: ast.pattern, subject: Value) -> None:
    """Set the names that a pattern binds."""
    for part in ast.walk(pattern):
        name = getattr(part, "name", None) or getattr(part, "rest", None)
        if name:
            inner = Value(taints=subject.taints)
            frame.state.vars[name] = subject if part is pattern else inner


def set_name(frame: Activation, name: str, value: Value) -> None:
    """Set a name; earlier deferred definitions of a module's body keep its old value."""
    if frame.quiet and name in frame.state.vars:
        frame.state.vars = dict(frame.state.vars)
    frame.state.vars[name] = value


def assign(frame: Activation, target: ast.expr, value: Value) -> None:
    """Perform ``target = value``."""
    match target:
        case ast.Name(id=name):
            set_name(frame, name, frame.at(value, target, f"{name!r} is set"))
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            _unpack(frame, elements, value)
        case ast.Starred(value=inner):
            assign(frame, inner, value)
        case ast.Attribute(value=owner, attr=name):
            base = frame.evaluate(owner)
            attribute_access.set_attribute(
                frame, base, name, frame.at(value, target, f".{name} is set")
            )
            if base.ref:
                _store_sink(frame, target, f"{base.ref}.{name}=", [value])
        case ast.Subscript(value=owner, slice=index):
            base, key = frame.evaluate(owner), frame.evaluate(index)
            stepped = frame.at(value, target, "an item is set")
            attribute_access.set_item(frame, base, key, stepped)
            if base.ref:
                _store_sink(frame, target, f"{base.ref}[]=", [key, stepped])


def _store_sink(frame: Activation, target: ast.expr, ref: str, args: list[Value]) -> None:
    ref = frame.run.models.canonical(ref)
    sink_checks.check_call(frame, EvaluatedCall(target, Value(ref=ref), None, args, {}), ref)


def _unpack(frame: Activation, elements: list[ast.expr], value: Value) -> None:
    listed = frame.state.listed(value)
    plain = not any(isinstance(element, ast.Starred) for element in elements)
    if listed is not None and plain and len(listed) == len(elements):
        for index, (element, item) in enumerate(zip(elements, listed, strict=True)):
            other = tuple(taint.derive(PART, f"#{index}") for taint in value.taints)
            assign(frame, element, join(item, Value(taints=other)) if other else item)
        return
    whole = containers.element(frame, value, elements[0]) if elements else Value()
    for index, element in enumerate(elements):
        # Facts about one part do not apply to its neighbors.
        parts = tuple(taint.derive(PART, f"#{index}") for taint in whole.taints)
        parts = attribute_access.sanitized(frame, f"{value.ref}[{index}]", parts)
        item = whole.with_taints(parts) if parts else whole
        if isinstance(element, ast.Starred):
            assign(frame, element.value, containers.make_bag(frame, element, item))
        else:
            assign(frame, element, item)


def _delete(frame: Activation, node: ast.Delete) -> None:
    for target in node.targets:
        match target:
            case ast.Name(id=name):
                frame.state.vars.pop(name, None)
            case ast.Subscript(value=owner, slice=index) if not isinstance(index, ast.Slice):
                base, key = frame.evaluate(owner), frame.evaluate(index)
                for loc in base.locs:
                    frame.state.objects[loc] = _without(frame.state.object(loc), key)


def _without(obj: HeapObject, key: Value) -> HeapObject:
    if not key.known or obj.kind not in {"list", "dict"}:
        return obj
    items = {name: value for name, value in obj.items.items() if name != key.const}
    if obj.kind == "list" and obj.rest is None:
        items = dict(enumerate(items.values()))
    return HeapObject(obj.kind, items, obj.rest, obj.cls)


def execute_definition(frame: Activation, node: Definition) -> None:
    """Execute a ``def`` or ``class``; in a body that is run for its names, on first use."""
    if not frame.quiet or node.col_offset:
        set_name(frame, node.name, define(frame, node))
        return
    value = Deferred(find=partial(frame.run.define, frame, frame.state.vars, node))
    set_name(frame, node.name, value)
    frame.module.definitions.append((node, value))


def define(frame: Activation, node: Definition) -> Value:
    """The value of a ``def``, without the effects of decorators, or of a ``class``."""
    if isinstance(node, ast.ClassDef):
        return Value(target=make_class(frame, node))
    return Value(target=make_function(frame, node, None, frame.scope))


def make_function(
    frame: Activation, node: ast.FunctionDef | ast.AsyncFunctionDef, cls: Class | None, scope: str
) -> Function:
    """The function of a ``def``."""
    closure = {**frame.closure, **frame.state.vars} if frame.function else {}
    decorators = tuple(  # for ``@route(...)``, the value of ``route``
        (each, frame.evaluate(each.func if isinstance(each, ast.Call) else each))
        for each in node.decorator_list
    )
    name = f"{scope}.{node.name}" if scope else node.name
    made = Function(node, frame.module, name, closure, cls, decorators)
    frame.run.functions[node] = made
    return made


def make_class(frame: Activation, node: ast.ClassDef) -> Class:
    """The class of a ``class`` statement; its body is run for its names."""
    bases = tuple(frame.evaluate(base) for base in node.bases)
    scope = f"{frame.scope}.{node.name}" if frame.scope else node.name
    made = Class(node, frame.module, scope, bases, {})
    outer = frame.state
    inner = AbstractState(frame.run.heap)
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
        (name, resolve(value))
        for name, value in inner.vars.items()
        if outer.vars.get(name) is not value
    )
    outer.objects = inner.objects
    frame.state = outer
    return made


def execute_import(frame: Activation, node: ast.Import) -> None:
    """Execute an ``import`` statement; in the body of a module, when its names are used."""
    for alias in node.names:
        name, module = alias.asname or alias.name.partition(".")[0], alias.name
        find = partial(_module, frame.run, frame.module.path, module if alias.asname else name)
        set_name(frame, name, find() if frame.function else Deferred(find=find))


def _module(run: TaintJob, importer: str, name: str) -> Value:
    found = run.project.find(name, importer)
    return Value(target=found) if found else Value(ref=run.models.canonical(name))


def execute_import_from(frame: Activation, node: ast.ImportFrom) -> None:
    """Perform a ``from ... import``; in the body of a module, when its names are used."""
    # A separate frame, since a reference cycle would never be freed.
    later = frame if frame.function else Activation(frame.run, frame.module)
    for alias in node.names:
        if alias.name == "*":
            source = _source(frame, node)
            name = node.module or ""
            if isinstance(source, Module):
                frame.state.vars.update(frame.run.globals_of(source))
            elif source is None and name:
                frame.module.wildcards.append(name)
            continue
        find = partial(_one, later, node, alias)
        value = find() if frame.function else Deferred(find=find)
        set_name(frame, alias.asname or alias.name, value)


def _source(frame: Activation, node: ast.ImportFrom) -> Module | Namespace | None:
    if node.level:
        return frame.run.project.relative(frame.module.path, node.level, node.module or "")
    return frame.run.project.find(node.module or "", frame.module.path)


def _one(frame: Activation, node: ast.ImportFrom, alias: ast.alias) -> Value:
    source, project = _source(frame, node), frame.run.project
    # A package that imports a part of its own has this import itself under that name.
    is_own = source is frame.module and project.child(source, alias.name) is not None
    if isinstance(source, Module) and not is_own:
        value = frame.run.globals_of(source).get(alias.name)
        if value is not None:
            return resolve(value)
    if source is not None:
        child = project.child(source, alias.name)
        return UNKNOWN if child is None else Value(target=child)
    if node.level:
        return UNKNOWN
    from_outside = f"{node.module}.{alias.name}"
    return external_value(frame, from_outside, node)


_HANDLERS: Final[dict[type[ast.stmt], Callable[[Activation, Any], None]]] = by_kind({
    ast.Expr: _expression, ast.Assign: _assign, ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented, ast.Return: _return, ast.Raise: _raise, ast.Assert: _assert,
    ast.If: _if, ast.For: _for, ast.AsyncFor: _for, ast.While: _while, ast.Break: _jump,
    ast.Continue: _jump, ast.With: _with, ast.AsyncWith: _with, ast.Try: _try,
    ast.TryStar: _try, ast.Match: _match, ast.Delete: _delete, ast.FunctionDef: execute_definition,
    ast.AsyncFunctionDef: execute_definition, ast.ClassDef: execute_definition,
    ast.Import: execute_import, ast.ImportFrom: execute_import_from,
    Print: rendered_templates.print_value, Include: rendered_templates.include,
    ImportMacros: rendered_templates.import_macros,
})  # fmt: skip
