"""Finds where a text was built that reaches a sink through functions that only pass it on."""

import ast

from diffchecks.taint.call_frames import Activation, EvaluatedCall
from diffchecks.taint.module_index import Bound, Class, Function


def giving_call(frame: Activation, node: ast.AST, selector: str) -> tuple[Activation, ast.AST]:
    """Find the call that passes a value into a function that only passes it on.

    Args:
        node: a call, in ``frame``.
        selector: the argument in question, as in the library models.

    Returns:
        The frame and node of that call; the given ones if the argument is not an unchanged
        parameter.
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
    """The expression of an argument in a call."""
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


def _selector(function: Function, call: EvaluatedCall, argument: ast.expr | None) -> str | None:
    """The selector of the parameter that an expression is; None if it is not a parameter."""
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
