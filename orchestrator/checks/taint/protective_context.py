"""Whether a call stands where it protects something: by the names and texts around it."""

import ast
import re
from typing import Final

from orchestrator.checks.taint.call_frames import Call, Frame
from orchestrator.checks.taint.model_schema import Check

_COMPOUND: Final = (
    ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar,
    ast.Match, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef,
)  # fmt: skip
_MAX_NODES: Final = 5000


def fits(frame: Frame, call: Call, check: Check) -> bool:
    """Whether the words that a check asks for stand around the call."""
    if not check.words:
        return True
    if frame.handler and check.handlers == "any":
        return True
    words = re.compile(check.words, re.IGNORECASE)
    statement = frame.statement
    near = call.node if statement is None or isinstance(statement, _COMPOUND) else statement
    if words.search(frame.scope.rpartition(".")[2]) or _mentions(near, words):
        return True
    wide = frame.handler and check.handlers == "function" and frame.function is not None
    return wide and frame.function is not None and _mentions(frame.function.node, words)


def _mentions(node: ast.AST, words: re.Pattern[str]) -> bool:
    for count, part in enumerate(ast.walk(node)):
        if count > _MAX_NODES:
            return False
        if any(words.search(text) for text in _texts(part)):
            return True
    return False


def _texts(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            return (name,)
        case ast.keyword(arg=str(name)):
            return (name,)
        case ast.Constant(value=str(text)):
            return (text[:200],)
        case _:
            return ()
