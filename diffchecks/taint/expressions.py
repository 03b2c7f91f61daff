"""Evaluates Python expressions to abstract values."""

import ast
from collections.abc import Callable
from typing import Any, Final

from diffchecks.python.compact_syntax_trees import by_kind
from diffchecks.taint import (
    attribute_access,
    branch_conditions,
    calls,
    containers,
    sink_checks,
    strings,
)
from diffchecks.taint.abstract_state import HeapObject, collect_taints, join_states
from diffchecks.taint.abstract_values import NOT_CONST, UNKNOWN, Value, join, merge_taints
from diffchecks.taint.call_frames import Activation, EvaluatedCall
from diffchecks.taint.module_index import Bound, Function
from diffchecks.taint.template_code import Member


def evaluate(frame: Activation, node: ast.expr) -> Value:
    """The value of an expression in the frame's current state."""
    handler = _HANDLERS.get(type(node))
    return UNKNOWN if handler is None else handler(frame, node)


def _constant(frame: Activation, node: ast.Constant) -> Value:
    value = node.value
    return UNKNOWN if isinstance(value, complex) or value is ... else Value(value)


def _attribute(frame: Activation, node: ast.Attribute) -> Value:
    return attribute_access.get_attribute(frame, frame.evaluate(node.value), node.attr, node)


def _member(frame: Activation, node: Member) -> Value:
    """``value.attr`` in a template; functions are called, as in Django."""
    base = frame.evaluate(node.value)
    value = attribute_access.get_member(frame, base, node.attr, node)
    of_container = value.ref and any(obj.kind in {"dict", "list"} for obj in frame.state.of(base))
    if of_container or isinstance(value.target, Bound | Function):
        return calls.invoke(frame, EvaluatedCall(node, value, base, [], {}))
    return value


def _subscript(frame: Activation, node: ast.Subscript) -> Value:
    base = frame.evaluate(node.value)
    if isinstance(node.slice, ast.Slice):
        low, high, step = (
            Value(None) if bound is None else frame.evaluate(bound)
            for bound in (node.slice.lower, node.slice.upper, node.slice.step)
        )
        return containers.slice_value(frame, base, (low, high, step), node)
    key = frame.evaluate(node.slice)
    if base.ref.startswith("builtins."):
        ref = f"{base.ref}[name]"
        sink_checks.check_call(frame, EvaluatedCall(node, Value(ref=ref), None, [key], {}), ref)
    return attribute_access.get_item(frame, base, key, node)


def _binary(frame: Activation, node: ast.BinOp) -> Value:
    left, right = frame.evaluate(node.left), frame.evaluate(node.right)
    return operate(frame, type(node.op), left, right, node)


def operate(
    frame: Activation, kind: type[ast.operator], left: Value, right: Value, node: ast.AST
) -> Value:
    """The value of ``left <op> right``."""
    if kind is ast.Add:
        if left.locs and right.locs:
            return _joined_lists(frame, left, right, node)
        return strings.add(left, right, frame.state)
    textual = isinstance(left.const, str) or (not left.known and left.prefix)
    if kind is ast.Mod and (textual or left.taints or right.locs):
        if left.known and right.known:
            return Value(strings.fold_binary(ast.Mod, left.const, right.const))
        return strings.format_percent(left, right, frame.state)
    if left.known and right.known:
        return Value(strings.fold_binary(kind, left.const, right.const))
    taints = merge_taints(left.taints, right.taints)
    keeps = left.ref if kind is ast.Div else ""  # a path joined with a name
    return Value(taints=taints, ref=keeps) if taints or keeps else UNKNOWN


def _joined_lists(frame: Activation, left: Value, right: Value, node: ast.AST) -> Value:
    ones, twos = frame.state.of(left), frame.state.of(right)
    if len(ones) == len(twos) == 1 and ones[0].rest is None and twos[0].rest is None:
        values = [*ones[0].items.values(), *twos[0].items.values()]
        return containers.make_list(frame, node, values)
    item = join(containers.element(frame, left, node), containers.element(frame, right, node))
    return containers.make_bag(frame, node, item)


def _unary(frame: Activation, node: ast.UnaryOp) -> Value:
    operand = frame.evaluate(node.operand)
    const = strings.fold_unary(type(node.op), operand.const) if operand.known else NOT_CONST
    if isinstance(node.op, ast.Not):
        return Value(const, implies=branch_conditions.negate(operand))
    return Value(const)


def _conditional(frame: Activation, node: ast.IfExp) -> Value:
    test = frame.evaluate(node.test)
    truth = strings.fold_truth(test.const)
    if truth is not None:
        return frame.evaluate(node.body if truth else node.orelse)
    before = frame.state
    results: list[Value] = []
    states = []
    for branch, outcome in ((node.body, True), (node.orelse, False)):
        frame.state = before.copy()
        frame.state.learn(branch_conditions.facts_when(test, truth=outcome))
        value = frame.evaluate(branch)  # which may replace the state
        results.append(frame.state.settle(value))
        states.append(frame.state)
    frame.state = join_states(states, frame.run.heap)
    return join(results[0], results[1])


def _sequence(frame: Activation, node: ast.List | ast.Tuple | ast.Set) -> Value:
    values: list[Value] = []
    exact = True
    for element in node.elts:
        if isinstance(element, ast.Starred):
            inner = frame.evaluate(element.value)
            listed = frame.state.listed(inner)
            if listed is not None:
                values.extend(listed)
            else:
                exact = False
                values.append(containers.element(frame, inner, element))
        else:
            values.append(frame.evaluate(element))
    result = containers.make_list(frame, node, values)
    if not exact or isinstance(node, ast.Set):
        obj = frame.state.of(result)[0]
        if not (isinstance(node, ast.Set) and all(value.known for value in values)):
            frame.new(node, obj.widen())
    if isinstance(node, ast.Tuple):
        const = tuple(value.const for value in values)
        if exact and NOT_CONST not in const:
            return Value(const, locs=result.locs, marks=frozenset({"tuple"}))
        return Value(locs=result.locs, marks=frozenset({"tuple"}))
    return result


def _dict(frame: Activation, node: ast.Dict) -> Value:
    obj = HeapObject("dict")
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = frame.evaluate(value_node)
        if key_node is None:
            for other in frame.state.of(value):
                obj = obj.merge(other)
            if value.taints:
                obj = obj.add(Value(taints=value.taints))
            continue
        name = frame.evaluate(key_node)
        if name.known:
            obj = obj.put(name.const, value)
        else:
            obj = obj.add(Value(taints=merge_taints(name.taints, value.taints), locs=value.locs))
    return frame.new(node, obj)


def _comprehension(frame: Activation, node: Any) -> Value:
    before = frame.state.copy()
    for generator in node.generators:
        source = frame.evaluate(generator.iter)
        frame.run.assign(frame, generator.target, containers.element(frame, source, generator.iter))
        for condition in generator.ifs:
            frame.state.learn(branch_conditions.facts_when(frame.evaluate(condition), truth=True))
    if isinstance(node, ast.DictComp):
        frame.evaluate(node.key)
        result = frame.evaluate(node.value)
    else:
        result = frame.evaluate(node.elt)
    result = frame.state.settle(result)
    objects = frame.state.objects
    frame.state = before
    frame.state.objects = objects
    return frame.new(
        node, HeapObject("dict" if isinstance(node, ast.DictComp) else "list", {}, result)
    )


def _lambda(frame: Activation, node: ast.Lambda) -> Value:
    closure = {**frame.closure, **frame.state.vars}
    return Value(target=Function(node, frame.module, "lambda", closure))


def _walrus(frame: Activation, node: ast.NamedExpr) -> Value:
    value = frame.evaluate(node.value)
    frame.run.assign(frame, node.target, value)
    return value


def _yield(frame: Activation, node: ast.Yield | ast.YieldFrom) -> Value:
    if node.value is not None:
        value = frame.evaluate(node.value)
        if isinstance(node, ast.YieldFrom):
            value = containers.element(frame, value, node)
        frame.yields.append(value)
    return UNKNOWN


def _starred(frame: Activation, node: ast.Starred) -> Value:
    value = frame.evaluate(node.value)
    return Value(taints=collect_taints(value, frame.state))


_HANDLERS: Final[dict[type[ast.expr], Callable[[Activation, Any], Value]]] = by_kind({
    ast.Constant: _constant, ast.Attribute: _attribute, ast.Subscript: _subscript,
    ast.BinOp: _binary, ast.UnaryOp: _unary, ast.IfExp: _conditional,
    ast.BoolOp: branch_conditions.evaluate_bool_op, ast.Compare: branch_conditions.evaluate_compare,
    ast.JoinedStr: strings.format_fstring, ast.List: _sequence, ast.Tuple: _sequence,
    ast.Set: _sequence, ast.Dict: _dict, ast.ListComp: _comprehension, ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension, ast.DictComp: _comprehension, ast.Lambda: _lambda,
    ast.NamedExpr: _walrus, ast.Yield: _yield, ast.YieldFrom: _yield,
    ast.Starred: _starred, ast.Call: calls.evaluate_call, Member: _member,
    ast.Name: lambda frame, node: frame.lookup(node.id),
    ast.Await: lambda frame, node: frame.evaluate(node.value),
})  # fmt: skip
