"""Text operations: the known beginning, the taints, and the removed characters of the result."""

import ast
import operator
import re
import string
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from diffchecks.data_files import read_names, read_patterns
from diffchecks.taint.abstract_state import AbstractState, collect_taints
from diffchecks.taint.abstract_values import NOT_CONST, PART, Taint, Value, merge_taints, prefix_of
from diffchecks.taint.call_frames import Activation, EvaluatedCall

_PERCENT: Final = re.compile(r"%(?:\((\w+)\))?[-+ #0]*(?:\*|\d+)?(?:\.\d+)?([a-zA-Z%])")
_NEGATED: Final = re.compile(r"\[\^(?:\\[wds]|[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9_ .@-])++\][+*]?")
TARGET: Final = re.compile(r"[a-zA-Z][\w+.-]*://[^/?#\\]+[/?#]|/[^/\\]")
"""How a text begins in which nothing that follows chooses the host."""
_LEADS: Final = re.compile(rf"{TARGET.pattern}|[^\0]*\0(?!://[^/?#\0]*\Z)")
_LED: Final = frozenset({"led"})
_NUMERIC: Final = "dioxXeEfFgGbcn"
_MAX_PREFIX: Final = 500
TEXT: Final = ("text",)  # it is neither a mapping nor a list
_REPR: Final = ("lacks \n", "lacks \r")


def concatenate(parts: Sequence[Value], state: AbstractState) -> Value:
    """The concatenation of values."""
    if all(part.known for part in parts):
        texts = [part.const if isinstance(part.const, str) else str(part.const) for part in parts]
        if sum(map(len, texts)) <= _MAX_PREFIX * 8:
            return Value("".join(texts))
    prefix = ""
    for part in parts:
        prefix += str(part.const) if part.known else part.prefix
        if not part.known:
            break
    merged = merge_taints(*_spliced(parts, state))
    taints = tuple(taint.with_facts(TEXT) for taint in merged)
    marks = _LED if TARGET.match(prefix) else _led(parts, state)
    return Value(taints=taints, prefix=prefix[:_MAX_PREFIX], marks=marks)


def _spliced(parts: Sequence[Value], state: AbstractState) -> Iterator[tuple[Taint, ...]]:
    """The taints of each part; a parameter that is quoted as a value changes its kind."""
    before = ""
    for part in parts:
        taints = collect_taints(part, state)
        if taints and read_patterns("strings")["before_value"].search(before):
            taints = tuple(
                taint.derive(PART, "'").of_kind("spliced") if taint.kind == "parameter" else taint
                for taint in taints
            )
        yield taints
        before = before + str(part.const) if part.known else ""


def _led(parts: Sequence[Value], state: AbstractState) -> frozenset[str]:
    """``led`` if something untainted, known or not, chooses the host of the text as an address."""
    before = ""
    for part in parts:
        if not part.known and collect_taints(part, state):
            return _LED if _LEADS.match(before) else part.marks & _LED
        before += str(part.const) if part.known else "\0"
    return frozenset()


def format_value(value: Value, conversion: str, spec: str, state: AbstractState) -> Value:
    """A value as a placeholder writes it.

    Args:
        conversion: ``r``, ``s``, ``a`` or empty.
        spec: the format after the colon, or the letter after ``%``.
    """
    if spec and spec[-1] in _NUMERIC:
        return Value()  # anything but a number raises
    if conversion in {"r", "a"}:
        if value.known:
            return Value(repr(value.const))
        taints = collect_taints(value, state)
        return Value(taints=tuple(taint.with_facts(_REPR) for taint in taints))
    if spec and value.known:
        return Value()
    return value


def format_fstring(frame: Activation, node: ast.JoinedStr) -> Value:
    """The value of an f-string."""
    parts: list[Value] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            spec = part.format_spec
            text = ""
            if isinstance(spec, ast.JoinedStr):
                text = "".join(str(v.value) for v in spec.values if isinstance(v, ast.Constant))
            conversion = chr(part.conversion) if part.conversion > 0 else ""
            parts.append(format_value(frame.evaluate(part.value), conversion, text, frame.state))
        else:
            parts.append(frame.evaluate(part))
    return concatenate(parts, frame.state)


def format_percent(template: Value, filling: Value, state: AbstractState) -> Value:
    """The value of ``template % filling``."""
    text = prefix_of(template)
    if not template.known or not isinstance(template.const, str):
        taints = merge_taints(template.taints, collect_taints(filling, state))
        return Value(taints=taints, prefix=text.partition("%")[0])
    objects = state.of(filling)
    parts: list[Value] = []
    cursor = place = 0
    for match in _PERCENT.finditer(text):
        parts.append(Value(text[cursor : match.start()]))
        cursor = match.end()
        name, letter = match.groups()
        if letter == "%":
            parts.append(Value("%"))
            continue
        key: object = name or place
        place += 1
        item = objects[0].get(key) if len(objects) == 1 else None
        whole = (
            filling if place == 1 and not objects else Value(taints=collect_taints(filling, state))
        )
        conversion = letter if letter in "ra" else ""
        spec = letter if letter in _NUMERIC else ""
        parts.append(format_value(item if item is not None else whole, conversion, spec, state))
    parts.append(Value(text[cursor:]))
    return concatenate(parts, state)


def _fields(text: str) -> list[tuple[str, str | None, str, str]] | None:
    try:
        return [
            (before, name, conversion or "", spec or "")
            for before, name, spec, conversion in string.Formatter().parse(text)
        ]
    except ValueError:
        return None


def format_string(call: EvaluatedCall, state: AbstractState) -> Value:
    """The value of ``template.format(...)``."""
    template = call.receiver or Value()
    groups = [template.taints, *(collect_taints(value, state) for value in call.values())]
    fields = _fields(template.const) if isinstance(template.const, str) else None
    if fields is None:
        return Value(taints=merge_taints(*groups), prefix=prefix_of(template).partition("{")[0])
    parts: list[Value] = []
    place = 0
    for before, name, conversion, spec in fields:
        parts.append(Value(before))
        if name is None:
            continue
        key = re.split(r"[.\[]", name, maxsplit=1)[0]
        if not key:
            key, place = str(place), place + 1
        item = call.select_argument(key)
        if item is None:
            item = Value(taints=merge_taints(*groups))
        if name != key and name:
            item = Value(taints=collect_taints(item, state))
        parts.append(format_value(item, conversion, spec, state))
    return concatenate(parts, state)


def join_strings(call: EvaluatedCall, state: AbstractState) -> Value:
    """The value of ``separator.join(items)``."""
    separator = call.receiver or Value()
    items = call.args[0] if call.args else Value()
    listed = state.listed(items)
    if listed is not None:
        parts = [part for item in listed for part in (separator, item)]
        return concatenate(parts[1:], state)
    if items.known and separator.known:
        return Value(fold_method(separator.const, "join", [items.const]))
    return Value(taints=merge_taints(separator.taints, collect_taints(items, state)))


def replace_text(call: EvaluatedCall) -> Value | None:
    """The value of ``text.replace(old, new)``: it lacks the removed text."""
    text = call.receiver
    if text is None or len(call.args) < 2:
        return None
    old, new = call.args[0], call.args[1]
    if isinstance(text.const, str) and isinstance(old.const, str) and old.const and new.taints:
        return Value(taints=new.taints, prefix=text.const.partition(old.const)[0])
    if not text.taints:
        return None
    taints = text.taints
    if isinstance(old.const, str) and old.const:
        gone, doubled = _really_gone(old.const, new.const), new.const == 2 * old.const
        facts = [f"lacks {old.const}"] * gone + [f"doubled {old.const}"] * doubled
        taints = tuple(taint.with_facts(facts) for taint in taints)
    return Value(taints=merge_taints(taints, new.taints), ref=text.ref, marks=text.marks)


def _really_gone(old: str, new: object) -> bool:
    """Whether no ``old`` is left: removal may create a new occurrence."""
    if not isinstance(new, str):
        return False
    if len(old) == 1:
        return old not in new or new.startswith(("&", "\\"))
    return bool(new) and old not in new


def add(left: Value, right: Value, state: AbstractState) -> Value:
    """The value of ``left + right`` for texts and numbers."""
    if left.known and right.known:
        result = fold_binary(ast.Add, left.const, right.const)
        if result is not NOT_CONST:
            return Value(result)
        return Value()
    if isinstance(left.const, int) or isinstance(right.const, int):
        return Value(taints=merge_taints(left.taints, right.taints))
    value = concatenate([left, right], state)
    value.ref = left.ref if left.ref == right.ref else ""
    return value


def clean_by_pattern(pattern: object) -> bool:
    """Whether removing all matches leaves only characters that are harmless everywhere.

    This is the case for a negated class of at most word characters, spaces, dots and dashes.
    """
    return isinstance(pattern, str) and _NEGATED.fullmatch(pattern) is not None


def strict_pattern(pattern: object, *, whole: bool) -> bool:
    """Whether a matching text only contains characters that are harmless everywhere.

    Args:
        pattern: the regular expression, if known.
        whole: the function always matches the whole text.
    """
    if not isinstance(pattern, str):
        return False
    body = pattern
    if not whole:
        if not body.endswith(("$", r"\Z", r"\z")):
            return False
        body = re.sub(r"(\$|\\[Zz])$", "", body)
    body = body.removeprefix("^").removeprefix(r"\A").removesuffix("$")
    if "[^" in body or re.search(r"\\[WDS]", body):
        return False
    literal = re.sub(r"\\[wd.\-]|\[[\w\-. @:\\]*\]|\{[\d,]*\}", "", body)
    return re.fullmatch(r"[\w\-() |?:*+@]*", literal) is not None


def taints_of(values: Sequence[Value], state: AbstractState) -> tuple[Taint, ...]:
    """The taints of several values and of everything that they contain."""
    return merge_taints(*(collect_taints(value, state) for value in values))


_MAX_TEXT: Final = 4096
_MAX_INT: Final = 1 << 64
_MAX_EXPONENT: Final = 64

_OPERATORS: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Pow: operator.pow,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.USub: operator.neg,
    ast.UAdd: operator.pos, ast.Invert: operator.invert, ast.Not: operator.not_,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda item, box: item in box, ast.NotIn: lambda item, box: item not in box,
}  # fmt: skip
_METHODS: Final = read_names("constant_methods")
_FUNCTIONS: Final = (abs, bool, chr, float, int, len, max, min, ord, repr, round, str, sum, tuple)
_BUILTINS: Final[dict[str, Callable[..., Any]]] = {
    function.__name__: function for function in _FUNCTIONS
}
_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def _fold(compute: Callable[..., Any], *args: Any) -> Any:
    """The result of a computation; ``NOT_CONST`` if it fails or is too large."""
    try:
        value = compute(*args)
    except _ERRORS:
        return NOT_CONST
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, str | bytes | tuple | frozenset) and len(value) > _MAX_TEXT:
        return NOT_CONST
    if isinstance(value, int) and not -_MAX_INT < value < _MAX_INT:
        return NOT_CONST
    if isinstance(value, str | bytes | int | float | bool | tuple | frozenset | None):
        return value
    return NOT_CONST


def _grows(kind: type[ast.operator], left: Any, right: Any) -> bool:
    """Whether this computation could take much time or memory."""
    if kind in (ast.Pow, ast.LShift):
        return not (isinstance(right, int) and 0 <= right <= _MAX_EXPONENT)
    if kind is ast.Mult:
        sizes = [len(side) for side in (left, right) if isinstance(side, str | bytes | tuple)]
        counts = [side for side in (left, right) if isinstance(side, int)]
        return bool(sizes) and any(size * count > _MAX_TEXT for size in sizes for count in counts)
    if kind is ast.Mod and isinstance(left, str | bytes):
        return "*" in str(left) or any(mark.isdigit() for mark in str(left))
    return False


def fold_binary(kind: type[ast.operator], left: Any, right: Any) -> Any:
    """The value of ``left <op> right``, or ``NOT_CONST``."""
    compute = _OPERATORS.get(kind)
    if compute is None or _grows(kind, left, right):
        return NOT_CONST
    return _fold(compute, left, right)


def fold_unary(kind: type[ast.unaryop], operand: Any) -> Any:
    """The value of ``<op> operand``, or ``NOT_CONST``."""
    return _fold(_OPERATORS[kind], operand)


def fold_compare(kind: type[ast.cmpop], left: Any, right: Any) -> Any:
    """The value of ``left <op> right``, or ``NOT_CONST``."""
    if kind in (ast.Is, ast.IsNot) and None not in (left, right):
        return NOT_CONST  # the identity of equal constants depends on the interpreter
    return _fold(lambda: bool(_OPERATORS[kind](left, right)))


def fold_subscript(box: Any, key: Any) -> Any:
    """The value of ``box[key]``; the key may be a slice."""
    return _fold(operator.getitem, box, key)


def fold_method(receiver: Any, name: str, args: list[Any]) -> Any:
    """The value of a method of a text or number called with constants."""
    if name not in _METHODS or not isinstance(receiver, str | bytes | int | tuple):
        return NOT_CONST
    if name == "format" and not (isinstance(receiver, str) and not set(receiver) & set(":.[")):
        return NOT_CONST  # widths can request gigabytes, and attributes are not supported
    if name in {"replace", "join"} and sum(map(_size, (receiver, *args))) > 256:
        return NOT_CONST
    return _fold(lambda: getattr(receiver, name)(*args))


def _size(value: Any) -> int:
    if isinstance(value, tuple):
        return sum(map(_size, value))
    return len(value) if isinstance(value, str | bytes) else 1


def fold_builtin(name: str, args: list[Any]) -> Any:
    """The value of a built-in function called with constants."""
    function = _BUILTINS.get(name)
    return NOT_CONST if function is None else _fold(function, *args)


def fold_truth(value: Any) -> bool | None:
    """Whether a constant is true; None: unknown."""
    return None if value is NOT_CONST else bool(value)
