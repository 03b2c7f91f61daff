"""Constants computed as Python would, within bounds: dead branches are decided here."""

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

from orchestrator.checks.taint.abstract_values import NOT_CONST

_MAX_TEXT: Final = 4096
_MAX_INT: Final = 1 << 64
_MAX_EXPONENT: Final = 64

_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, box: item in box,
    ast.NotIn: lambda item, box: item not in box,
}
# fmt: off
_METHODS: Final = frozenset({
    "capitalize", "casefold", "count", "decode", "encode", "endswith", "find", "format", "index",
    "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower",
    "isnumeric", "isspace", "istitle", "isupper", "join", "lower", "lstrip", "partition",
    "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rpartition", "rsplit",
    "rstrip", "split", "splitlines", "startswith", "strip", "swapcase", "title", "upper", "hex",
    "bit_length", "keys", "values", "items", "get",
})
# fmt: on
_BUILTINS: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs,
    "bool": bool,
    "chr": chr,
    "float": float,
    "int": int,
    "len": len,
    "max": max,
    "min": min,
    "ord": ord,
    "repr": repr,
    "round": round,
    "str": str,
    "sum": sum,
    "tuple": tuple,
}
_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def _bounded(value: Any) -> Any:
    if isinstance(value, str | bytes | tuple | frozenset) and len(value) > _MAX_TEXT:
        return NOT_CONST
    if isinstance(value, int) and not -_MAX_INT < value < _MAX_INT:
        return NOT_CONST
    if isinstance(value, str | bytes | int | float | bool | tuple | frozenset | None):
        return value
    return NOT_CONST


def _grows(kind: type[ast.operator], left: Any, right: Any) -> bool:
    """Whether computing this could take long or much memory."""
    if kind in (ast.Pow, ast.LShift):
        return not (isinstance(right, int) and 0 <= right <= _MAX_EXPONENT)
    if kind is ast.Mult:
        sizes = [len(side) for side in (left, right) if isinstance(side, str | bytes | tuple)]
        counts = [side for side in (left, right) if isinstance(side, int)]
        return bool(sizes) and any(size * count > _MAX_TEXT for size in sizes for count in counts)
    if kind is ast.Mod and isinstance(left, str | bytes):
        return "*" in str(left) or any(mark.isdigit() for mark in str(left))
    return False


def binary(kind: type[ast.operator], left: Any, right: Any) -> Any:
    """The value of ``left <op> right``, or ``NOT_CONST``."""
    compute = _BINARY.get(kind)
    if compute is None or _grows(kind, left, right):
        return NOT_CONST
    try:
        return _bounded(compute(left, right))
    except _ERRORS:
        return NOT_CONST


def unary(kind: type[ast.unaryop], operand: Any) -> Any:
    """The value of ``<op> operand``, or ``NOT_CONST``."""
    try:
        return _bounded(_UNARY[kind](operand))
    except _ERRORS:
        return NOT_CONST


def compare(kind: type[ast.cmpop], left: Any, right: Any) -> Any:
    """The value of ``left <op> right``, or ``NOT_CONST``."""
    if kind in (ast.Is, ast.IsNot) and None not in (left, right):
        return NOT_CONST  # identity of equal constants is the interpreter's own affair
    try:
        return bool(_COMPARE[kind](left, right))
    except _ERRORS:
        return NOT_CONST


def subscript(box: Any, key: Any) -> Any:
    """The value of ``box[key]``; the key may be a slice."""
    try:
        return _bounded(box[key])
    except _ERRORS:
        return NOT_CONST


def method(receiver: Any, name: str, args: list[Any]) -> Any:
    """The value of a method of a text or number called with constants."""
    if name not in _METHODS or not isinstance(receiver, str | bytes | int | tuple):
        return NOT_CONST
    if name == "format" and not (isinstance(receiver, str) and not set(receiver) & set(":.[")):
        return NOT_CONST  # widths can ask for gigabytes, attributes are not for us
    if name in {"replace", "join"} and sum(map(_size, (receiver, *args))) > 256:
        return NOT_CONST
    try:
        result = getattr(receiver, name)(*args)
    except _ERRORS:
        return NOT_CONST
    return _bounded(tuple(result) if isinstance(result, list) else result)


def _size(value: Any) -> int:
    if isinstance(value, tuple):
        return sum(map(_size, value))
    return len(value) if isinstance(value, str | bytes) else 1


def builtin(name: str, args: list[Any]) -> Any:
    """The value of a built-in function called with constants."""
    function = _BUILTINS.get(name)
    if function is None:
        return NOT_CONST
    try:
        return _bounded(function(*args))
    except _ERRORS:
        return NOT_CONST


def truth(value: Any) -> bool | None:
    """Whether a constant is true; None when it is not known."""
    return None if value is NOT_CONST else bool(value)
