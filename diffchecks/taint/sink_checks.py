"""Checks whether tainted values reach a sink, and reports them."""

import ast
import re
from typing import Any, Final

from diffchecks.data_files import read_map, read_patterns
from diffchecks.taint import branch_conditions
from diffchecks.taint.abstract_state import AbstractState, collect_taints
from diffchecks.taint.abstract_values import (
    Taint,
    TaintStep,
    Value,
    join_all,
    prefix_of,
    same_const,
)
from diffchecks.taint.call_frames import Activation, EvaluatedCall, TaintFinding
from diffchecks.taint.library_models import Sink
from diffchecks.taint.module_index import Bound, Class, Function
from diffchecks.taint.strings import TARGET

_BEGINNINGS: Final = read_patterns("text_beginnings")
SURE: Final = {"request": 0.9, "socket": 0.7, "spliced": 0.5, "parameter": 0.5, "stored": 0.8}
_SUFFIXES: Final = read_map("maps.yaml", "code_endings")
# Classes for which a stored part of the text counts.
_STORED: Final = frozenset({"sql", "command", "code", "template"})
_LOCAL: Final = 0.4
_DOUBTFUL: Final = 0.5  # too many unknown functions on the path
_SCRIPT_FLAGS: Final = frozenset({"-c", "/c", "/C", "-Command", "-lc"})
_SHELLS: Final = read_patterns("sink_checks")["shells"]


def check_call(frame: Activation, call: EvaluatedCall, ref: str) -> None:
    """Report dangerous arguments of a call that may be tainted."""
    if frame.quiet or not ref:
        return
    models = frame.run.models
    for sink in models.sinks.find(ref):
        if sink.roots and not ref.startswith(sink.roots):
            continue
        if _applies(frame, call, sink.when, sink.unless):
            for selector in sink.args:
                value = _argument(frame, call, selector, sink)
                _note(frame, call, sink, value)
                if value is None:
                    continue
                if not fixed(sink, value) or _sends_html(frame, sink, value):
                    check_value(frame, call.node, value, sink, ref, selector)
    for check in models.checks.find(ref):
        if _applies(frame, call, check.when, check.unless) and branch_conditions.matches_context(
            frame, call, check
        ):
            _report(frame, call.node, check.code, check.message, check.confidence)


def _note(frame: Activation, call: EvaluatedCall, sink: Sink, value: Value | None) -> None:
    """Record whether the sink was reached by a constant, or by a value that facts make safe.

    Only an entry function counts, since other functions may be called with other values.
    """
    place = (frame.module.path, getattr(call.node, "lineno", 1), sink.klass)
    cleared_classes, facts_of = frame.run.models.cleared_classes, frame.state.facts_of
    if value is not None and value.taints and not prefix_of(value):
        chosen = all("all" in cleared_classes(facts_of(taint)) for taint in value.taints)
    else:
        chosen = value is not None and bool(value.options) and not value.taints
    if not chosen:
        frame.run.moving.add(place)
    elif frame.depth == 0:
        frame.run.constant.add(place)


def _report(
    frame: Activation,
    node: ast.AST,
    code: str,
    message: str,
    confidence: float,
    trace: TaintStep | None = None,
) -> None:
    line = getattr(node, "lineno", 1)
    end_line = getattr(node, "end_lineno", None) or line
    place = (frame.module.path, line, end_line, frame.scope)
    frame.run.report(TaintFinding(code, *place, message, confidence, trace))


def _argument(frame: Activation, call: EvaluatedCall, selector: str, sink: Sink) -> Value | None:
    if selector == "*":
        return Value(taints=join_all(call.values()).taints)
    value = call.select_argument(selector)
    if value is None:
        value = call.rest if selector not in {"self", "**"} else None
    if value is not None and sink.select == "program":
        return _program(frame, value)
    if value is not None and sink.key:
        held = [obj.items[sink.key] for obj in frame.state.of(value) if sink.key in obj.items]
        return join_all(held) if held else None
    return value


def _program(frame: Activation, value: Value) -> Value | None:
    """The program and the argument of ``-c`` of an argument vector; a plain text itself."""
    vectors = [obj for obj in frame.state.of(value) if obj.kind == "list"]
    if not vectors:
        return value if value.taints and not value.known else None
    chosen: list[Value] = []
    for vector in vectors:
        first = vector.get(0)
        if vector.rest is not None and first is vector.rest:
            continue  # other positions are ignored, since they are mostly plain arguments
        if first is not None:
            chosen.append(first)
        flag, script = vector.items.get(1), vector.items.get(2)
        flags = () if flag is None else flag.options
        name = first.const if first is not None else None
        # An unknown program may accept a script after ``-c``.
        runs = not isinstance(name, str) or _SHELLS.fullmatch(name.rpartition("/")[2])
        if flags and script and _SCRIPT_FLAGS.issuperset(flags) and runs:
            chosen.append(script)
    return Value(taints=join_all(chosen).taints) if chosen else None


def fixed(sink: Sink, value: Value) -> bool:
    """Whether the value's fixed beginning already determines the target."""
    text = prefix_of(value)
    if sink.prefix in _BEGINNINGS:
        return _BEGINNINGS[sink.prefix].match(text) is None
    return sink.prefix != "" and ("led" in value.marks or TARGET.match(text) is not None)


def _sends_html(frame: Activation, sink: Sink, value: Value) -> bool:
    """Whether text of unknown beginning is markup, as the function says what it sends."""
    if sink.prefix != "markup" or prefix_of(value) or frame.function is None:
        return False
    return branch_conditions.mentions_in_body(frame.function, re.compile("text/html"))


def _applies(
    frame: Activation, call: EvaluatedCall, wanted: dict[str, Any], unwanted: dict[str, Any]
) -> bool:
    if not all(_holds(frame, call, key, expected) for key, expected in wanted.items()):
        return False
    return not any(_holds(frame, call, key, expected) for key, expected in unwanted.items())


def _holds(frame: Activation, call: EvaluatedCall, selector: str, expected: Any) -> bool:
    value = call.select_argument(selector)
    if isinstance(expected, dict):
        return value is not None and _cells_hold(frame, value, expected)
    options = expected if isinstance(expected, list) else [expected]
    if value is None:
        return "absent" in options and call.rest is None
    return any(_is(value, option) for option in options)


def _is(value: Value, option: Any) -> bool:
    if isinstance(option, str) and option.startswith("~"):
        texts = [text for text in value.options if isinstance(text, str)]
        return any(re.search(option[1:], text, re.IGNORECASE) for text in texts)
    if value.options:
        return any(same_const(known, option) for known in value.options)
    return bool(value.ref) and value.ref == option


def _cells_hold(frame: Activation, value: Value, expected: dict[str, Any]) -> bool:
    for obj in frame.state.of(value):
        for key, option in expected.items():
            cell = obj.items.get((key,))
            options = option if isinstance(option, list) else [option]
            if cell is not None and any(_is(cell, option) for option in options):
                return True
    return not value.locs and value.ref in {f"{key}()" for key in expected}


def check_value(
    frame: Activation, node: ast.AST, value: Value, sink: Sink, ref: str, selector: str = ""
) -> None:
    """Report a value that reaches a sink; ``selector``: the argument of the call."""
    taints = value.taints if sink.itself else collect_taints(value, frame.state)
    # A whole stored statement or template is meant to be one.
    stored = sink.klass == "xss" or (sink.klass in _STORED and prefix_of(value) != "")
    for taint in taints:
        wanted = (
            taint.kind in sink.kinds
            or (taint.kind in {"spliced", "parameter"} and (sink.given or _builds(sink, value)))
            or (taint.kind == "stored" and stored)
        )
        if sink.origin and not re.search(sink.origin, taint.origin):
            continue
        if wanted and taint.sure >= _DOUBTFUL:
            built = _builds(sink, value) or (sink.klass == "command" and prefix_of(value))
            place = _giving_call(frame, node, selector) if built else None
            report(frame, node, taint, (sink.klass, ref, sink.confidence), place)


def _giving_call(frame: Activation, node: ast.AST, selector: str) -> tuple[Activation, ast.AST]:
    """Find the call that passes a value into a function that only passes it on: there it was built.

    Args:
        node: a call, in ``frame``.
        selector: the argument in question, as in the library models.

    Returns:
        The frame and node of that call; the given ones if the argument is not an unchanged
        parameter.
    """
    caller, call = frame.caller, frame.call
    while caller is not None and call is not None and frame.function is not None:
        handed = _handed_selector(frame.function, call, _written_argument(node, selector))
        if handed is None:
            break
        frame, node, selector = caller, call.node, handed
        caller, call = frame.caller, frame.call
    return frame, node


def _written_argument(node: ast.AST, selector: str) -> ast.expr | None:
    """The expression of an argument in a call."""
    if not isinstance(node, ast.Call):
        return None
    for part in selector.split("|"):
        if part.isdigit():
            given = node.args[: int(part) + 1]
            if len(given) > int(part) and not any(isinstance(each, ast.Starred) for each in given):
                return given[-1]
        else:
            for keyword in node.keywords:
                if keyword.arg == part:
                    return keyword.value
    return None


def _handed_selector(
    function: Function, call: EvaluatedCall, argument: ast.expr | None
) -> str | None:
    """The selector of the parameter that an expression is; None if it is not a parameter."""
    if not isinstance(argument, ast.Name) or isinstance(function.node, ast.Lambda):
        return None
    given = function.node.args
    names = [parameter.arg for parameter in (*given.posonlyargs, *given.args)]
    only_named = [parameter.arg for parameter in given.kwonlyargs]
    inside = (each for each in ast.walk(function.node) if isinstance(each, ast.Name))
    changed = {each.id for each in inside if not isinstance(each.ctx, ast.Load)}
    if argument.id in changed or argument.id not in (*names, *only_named):
        return None
    if argument.id in only_named:
        return argument.id
    place = names.index(argument.id) - isinstance(call.function.target, Bound | Class)
    return f"{place}|{argument.id}" if place >= 0 else None


def _builds(sink: Sink, value: Value) -> bool:
    return sink.klass == "sql" and _BEGINNINGS["statement"].match(prefix_of(value)) is not None


def report(
    frame: Activation,
    node: ast.AST,
    taint: Taint,
    sink: tuple[str, str, float],
    place: tuple[Activation, ast.AST] | None = None,
) -> None:
    """Report one flow, at the sink or another place, unless known facts make it safe."""
    klass, ref, confidence = sink
    cleared = frame.run.models.cleared_classes(frame.state.facts_of(taint))
    named = klass == "sql" and taint.kind == "parameter"  # a table or column, and no value
    code = "sql-parameter-name" if named else f"{klass}{_SUFFIXES.get(taint.kind, '-local')}"
    if frame.quiet or not cleared.isdisjoint((klass, code, "all")):
        return
    words = frame.run.models.classes[klass].sink
    line = getattr(node, "lineno", 1)
    name = ref.removeprefix("?.").removesuffix("=")
    trace = TaintStep(frame.module.path, line, f"reaches {name}", taint.trace)
    origin = read_map("texts.yaml", "origins").get(taint.kind, taint.kind)
    message = f"{origin} reaches {words} ({name})"
    confidence = round(SURE.get(taint.kind, _LOCAL) * taint.sure * confidence, 2)
    _report(*(place or (frame, node)), code, message, confidence, trace)


def check_returned(
    frame: Activation, node: ast.AST, value: Value, state: AbstractState, klass: str
) -> None:
    """Report a request handler's return value if it is unescaped text from the request."""
    parts = [value]
    if "tuple" in value.marks:
        parts = [item for obj in state.of(value) for item in obj.items.values()] or parts
    body = parts[0]
    is_json = any(obj.kind in {"dict", "list"} for obj in state.of(body))
    if is_json or any(_says_not_markup(state, part) for part in parts):
        return
    before, frame.state = frame.state, state
    for taint in body.taints:
        if taint.kind in SURE:
            report(frame, node, taint, (klass, "the response", 1.0))
    frame.state = before


def _says_not_markup(state: AbstractState, value: Value) -> bool:
    """Whether a response has a content type that browsers do not render as markup."""
    for obj in state.of(value):
        for key, item in obj.items.items():
            if obj.kind == "cells" and item.locs and _says_not_markup(state, item):
                return True
            name = str(key[-1] if isinstance(key, tuple) and key else key).lower()
            if name in {"content-type", "content_type", "mimetype"}:
                text = item.const
                return isinstance(text, str) and not re.search("html|xml|svg", text)
    return False
