"""The statements of Python functions, with their conditions."""

import ast
import re
from collections.abc import Container, Mapping, Sequence

from diffchecks.python.source_definitions import find_definitions, first_line
from diffchecks.python.syntax_tree_cache import walk
from diffchecks.removed_controls import vocabulary as words
from diffchecks.removed_controls.guard_flow import (
    FALSE,
    TRUE,
    Formula,
    GuardedStatement,
    GuardFlow,
    negate,
)

_POSITIVE: Mapping[type[ast.cmpop], str] = {
    ast.NotEq: "==", ast.NotIn: "in", ast.IsNot: "is", ast.GtE: "<", ast.LtE: ">",
}  # fmt: skip
_DENYING = re.compile(
    r"(?i)(?:^|\.)(?:abort|send_error|_?exit|fail|reject\w*|forbid\w*|deny\w*|http\w*forbidden"
    r"|\w*unauthorized|permission_denied|access_denied|bad_?request)$"
)
_REFUSED = re.compile(r"\b4(?:00|01|03|04|05|13|22|29)\b|(?i:error|denied|forbidden|invalid)")


def read_flows(tree: ast.Module, touched: Container[int]) -> dict[str, GuardFlow]:
    """The functions that a change touches, by their dotted names.

    Those are left out that are defined more than once.
    """
    found: dict[str, GuardFlow] = {}
    seen: set[str] = set()
    for definition in find_definitions(tree):
        node = definition.node
        if definition.dotted in seen:
            found.pop(definition.dotted, None)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            line in touched for line in range(first_line(node), (node.end_lineno or 0) + 1)
        ):
            found[definition.dotted] = GuardFlow(_steps(node.body))
        seen.add(definition.dotted)
    return found


def _steps(body: Sequence[ast.stmt]) -> tuple[GuardedStatement, ...]:
    return tuple(_step(node) for node in body)


def _step(node: ast.stmt) -> GuardedStatement:
    line = node.lineno
    if isinstance(node, ast.If):
        return GuardedStatement(
            "", line, test=_formula(node.test), body=_steps(node.body), orelse=_steps(node.orelse)
        )
    if isinstance(node, ast.Assert):
        raised = GuardedStatement(ast.unparse(node), line, "raise")
        return GuardedStatement("", line, test=negate(_formula(node.test)), body=(raised,))
    if isinstance(node, ast.Try | ast.TryStar):
        handlers = tuple(
            (ast.unparse(each.type) if each.type else "", _steps(each.body))
            for each in node.handlers
        )
        return GuardedStatement("", line, body=_steps(node.body), handlers=handlers)
    if isinstance(node, ast.With | ast.AsyncWith):
        context = node.items[0].context_expr
        caught = ""
        if isinstance(context, ast.Call) and ast.unparse(context.func).endswith("suppress"):
            caught = ", ".join(map(ast.unparse, context.args))
        handlers = ((caught, ()),) if caught else ()
        return GuardedStatement("", line, body=_steps(node.body), handlers=handlers)
    if isinstance(node, ast.For | ast.AsyncFor | ast.While):
        return GuardedStatement("", line, body=_steps(node.body))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return GuardedStatement(node.name, line)
    return _simple(node, line)


def _simple(node: ast.stmt, line: int) -> GuardedStatement:
    value = node.value if isinstance(node, ast.Expr) else None
    if isinstance(node, ast.Pass) or isinstance(value, ast.Constant):
        return GuardedStatement("", line)
    if isinstance(value, ast.Await):
        value = value.value
    calls = tuple(ast.unparse(each.func) for each in walk(node) if isinstance(each, ast.Call))
    left = _exit(node, calls if isinstance(value, ast.Call) else ())
    return GuardedStatement(ast.unparse(node), line, left, calls, isinstance(value, ast.Call))


def _exit(node: ast.stmt, calls: Sequence[str]) -> str:
    if isinstance(node, ast.Raise):
        return "raise"
    if isinstance(node, ast.Continue | ast.Break):
        return "skip"
    if isinstance(node, ast.Return):
        value = node.value
        if value is None or (isinstance(value, ast.Constant) and value.value in {None, False}):
            return "return"
        text = ast.unparse(value)
        refused = isinstance(value, ast.Call | ast.Tuple) and _REFUSED.search(text)
        return "reject" if refused or words.DENIAL.search(text) else "value"
    return "reject" if calls and _DENYING.search(calls[0]) else ""


def _formula(test: ast.expr) -> Formula:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return negate(_formula(test.operand))
    if isinstance(test, ast.BoolOp):
        operator = "and" if isinstance(test.op, ast.And) else "or"
        return operator, tuple(map(_formula, test.values))
    if isinstance(test, ast.Constant):
        return TRUE if test.value else FALSE
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        sides = [ast.unparse(test.left), ast.unparse(test.comparators[0])]
        sign = type(test.ops[0])
        if sign in {ast.Eq, ast.NotEq}:
            sides.sort()
        if sign in _POSITIVE:
            return negate(f"{sides[0]} {_POSITIVE[sign]} {sides[1]}")
        if sign is ast.Eq:
            return f"{sides[0]} == {sides[1]}"
    return ast.unparse(test)
