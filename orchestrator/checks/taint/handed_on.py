"""Where a text was put together that reaches a sink through functions that only hand it on."""

import ast

from orchestrator.checks.taint.call_frames import Call, Frame
from orchestrator.checks.taint.module_index import Bound, Class, Function


def giving_call(frame: Frame, node: ast.AST, selector: str) -> tuple[Frame, ast.AST]:
    """The call that gives a function what it hands on, in the activation that makes that call.

    Args:
        node: a call, in ``frame``.
        selector: the argument of it that is asked about, as in the library models.

    Returns:
        ``frame`` and ``node`` themselves where the argument is no parameter as it came.
    """
    caller, call = frame.caller, frame.call
    while caller is not None and call is not None and frame.function is not None:
        handed = _selector(frame.function, call, _written(node, selector))
        if handed is None:
            break
        frame, node, selector = caller, call.node, handed
        caller, call = frame.caller, frame.call
    return frame, node


def _written(node: ast.AST, selector: str) -> ast.expr | None:
    """The expression that a call has for an argument."""
    if not isinstance(node, ast.Call) or any(isinstance(each, ast.Starred) for each in node.args):
        return None
    for part in selector.split("|"):
        if part.isdigit():
            if int(part) < len(node.args):
                return node.args[int(part)]
        else:
            for keyword in node.keywords:
                if keyword.arg == part:
                    return keyword.value
    return None


def _selector(function: Function, call: Call, argument: ast.expr | None) -> str | None:
    """What selects in a call the parameter that an expression is; None where it is none."""
    if not isinstance(argument, ast.Name) or isinstance(function.node, ast.Lambda):
        return None
    given = function.node.args
    names = [parameter.arg for parameter in (*given.posonlyargs, *given.args)]
    only_named = [parameter.arg for parameter in given.kwonlyargs]
    if argument.id not in (*names, *only_named) or _is_set(function.node, argument.id):
        return None
    if argument.id in only_named:
        return argument.id
    place = names.index(argument.id) - isinstance(call.function.target, Bound | Class)
    return f"{place}|{argument.id}" if place >= 0 else None


def _is_set(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(each, ast.Name) and each.id == name and not isinstance(each.ctx, ast.Load)
        for each in ast.walk(node)
    )
