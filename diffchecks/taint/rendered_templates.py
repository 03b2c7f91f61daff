"""Follows values from the program into templates that print them without escaping."""

import ast
import keyword
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from msgspec.structs import replace

from diffchecks.data_files import read_map, read_patterns, read_yaml
from diffchecks.taint import attribute_access
from diffchecks.taint.abstract_state import HeapObject
from diffchecks.taint.abstract_values import TaintStep, Value
from diffchecks.taint.call_frames import (
    Activation,
    EvaluatedCall,
    Rendering,
    Return,
    TaintFinding,
    TaintJob,
)
from diffchecks.taint.library_models import Renderer
from diffchecks.taint.sink_checks import SURE
from diffchecks.taint.stored_fields import STORED, classes_of, is_staff
from diffchecks.taint.template_code import FILTER, ImportMacros, Include, Print

_PATTERNS = read_patterns("rendered_templates")
# An unknown function may turn a value into markup or sanitize it.
_CERTAIN: Final = {"request": 0.9, "socket": 0.9, STORED: 0.6}
_MAX_STEPS: Final = 4_000  # maximum statements to render one template

_MAX_FILTER_FILES: Final = 40


def check_call(frame: Activation, call: EvaluatedCall) -> None:
    """Follow the values of a call that renders a template."""
    if frame.quiet or not call.ref:
        return
    for renderer in frame.run.models.renderers.find(call.ref):
        if renderer.returned:
            continue
        template = _template(frame, call, renderer)
        names = template.options if template is not None else ()
        for name in names:
            if isinstance(name, str):
                render(frame, call.node, name, dict(_values(frame, call, renderer)))


def check_returned(frame: Activation, decorator: ast.expr, ref: str, way: Return) -> None:
    """Follow a return value that a decorator renders in a template."""
    if not isinstance(decorator, ast.Call):
        return
    for renderer in frame.run.models.renderers.find(ref):
        if not renderer.returned:
            continue
        frame.state = way.state
        args = [frame.evaluate(given) for given in decorator.args]
        named = {word.arg: frame.evaluate(word.value) for word in decorator.keywords if word.arg}
        template = EvaluatedCall(decorator, Value(ref=ref), None, args, named).select_argument(
            renderer.template
        )
        if template is not None and isinstance(template.const, str):
            render(frame, way.node, template.const, items_of(frame, way.value))


def _template(frame: Activation, call: EvaluatedCall, renderer: Renderer) -> Value | None:
    """The name of the template; ``self``: the rendered object's first constructor argument."""
    if renderer.template != "self":
        return call.select_argument(renderer.template)
    for obj in frame.state.of(call.receiver) if call.receiver is not None else ():
        if obj.kind == "cells" and ("0",) in obj.items:
            return obj.items["0",]
    return None


def _values(
    frame: Activation, call: EvaluatedCall, renderer: Renderer
) -> Iterator[tuple[str, Value]]:
    """The values of a template by their names."""
    context = call.select_argument(renderer.values) if renderer.values else None
    if context is not None:
        yield from items_of(frame, context).items()
    if not renderer.values or renderer.template == "self":
        yield from call.keywords.items()


def items_of(frame: Activation, mapping: Value) -> dict[str, Value]:
    """The items of a mapping with names as keys."""
    found: dict[str, Value] = {}
    for obj in frame.state.of(mapping):
        for key, value in obj.items.items():
            name = key[-1] if isinstance(key, tuple) and key else key
            if isinstance(name, str):
                found[name] = value
    return found


def render(frame: Activation, node: ast.AST, name: str, values: Mapping[str, Value]) -> None:
    """Render a template with a separate budget, so that its cost causes no gap for the caller."""
    run, line = frame.run, getattr(node, "lineno", 1)
    path = run.templates.find(name, frame.module.path)
    if path is None or not run.templates.prints(path):
        return
    inner = Activation(run, run.templates.module(path))
    inner.stack, inner.depth = frame.stack, frame.depth + 1
    inner.state.objects, inner.state.facts = dict(frame.state.objects), dict(frame.state.facts)
    for key, value in values.items():
        bases = (base for cls in classes_of(frame, value) for base in cls.outer_bases())
        is_form = any(map(_PATTERNS["form"].search, bases))  # its fields escape their values
        given = value.with_taints(()) if is_form else value
        inner.state.vars[key] = frame.at(given, node, f"is given to {name} as {key}")
    inner.rendering = Rendering((path,), frame.module.path, line, name)
    with run.budget(_MAX_STEPS):
        _fill_in(inner, path)


def _fill_in(frame: Activation, path: str) -> None:
    code = frame.run.templates.code(path)
    _define(frame, code.body, code.filters)
    frame.run.execute(frame, [each for each in code.body if not isinstance(each, ast.FunctionDef)])


def _define(frame: Activation, body: list[ast.stmt], filters: Iterable[str]) -> None:
    """Define the macros of a template, and the names that they use."""
    frame.run.execute(frame, [each for each in body if isinstance(each, ast.FunctionDef)])
    known = {f"{FILTER}{name}": _find_filter(frame.run, name) for name in filters}
    frame.module.globals = {**known, **frame.state.vars}


def _enter(frame: Activation, template: str) -> tuple[Activation, str] | None:
    """A frame for another template, if that prints values and is not being rendered already."""
    templates, rendering = frame.run.templates, frame.rendering
    path = templates.find(template, frame.module.path)
    if rendering is None or path is None or path in rendering.pages or not templates.prints(path):
        return None
    inner = Activation(frame.run, templates.module(path))
    inner.stack, inner.depth = frame.stack, frame.depth
    inner.rendering = replace(rendering, pages=(*rendering.pages, path))
    inner.state.objects, inner.state.facts = frame.state.objects, frame.state.facts
    return inner, path


def include(frame: Activation, node: Include) -> None:
    """Render a template that another one includes or extends."""
    entered = _enter(frame, node.template)
    if entered is None:
        return
    inner, path = entered
    if not node.alone:
        inner.state.vars = {**frame.closure, **frame.state.vars}
    for name, value in node.values:
        inner.state.vars[name] = frame.evaluate(value)
    _fill_in(inner, path)


def import_macros(frame: Activation, node: ImportMacros) -> None:
    """Import the macros of another template."""
    entered = _enter(frame, node.template)
    if entered is None:
        return
    inner, path = entered
    code = frame.run.templates.code(path)
    macros: list[ast.stmt] = [
        each for each in code.body if isinstance(each, ast.FunctionDef | ast.Assign | ImportMacros)
    ]
    _define(inner, macros, code.filters)
    frame.run.execute(inner, [each for each in macros if not isinstance(each, ast.FunctionDef)])
    found = inner.state.vars
    for name, alias in node.names:
        if name in found:
            frame.state.vars[alias] = found[name]
    if node.whole:
        obj = HeapObject("dict", dict(found.items()))
        frame.state.vars[node.whole] = frame.new(node, obj)


def print_value(frame: Activation, node: Print) -> None:
    """Report an untrusted value that is printed without escaping."""
    value = frame.evaluate(node.value)
    models, rendering = frame.run.models, frame.rendering
    for taint in value.taints:
        cleared = models.cleared_classes(frame.state.facts_of(taint))
        if taint.sure < _CERTAIN.get(taint.kind, math.inf) or {"xss", "all"} & cleared:
            continue
        if _PATTERNS["posted"].search(taint.origin) and is_staff(frame):
            continue  # text that the site's staff enters
        path, line, before = frame.module.path, node.lineno, taint.trace
        seen = before.chain() if before is not None else []
        if rendering is not None and all(step.path != rendering.path for step in seen):
            before = rendering.begin(before)
        trace = TaintStep(path, line, "is printed without escaping", before)
        code = "rendered-stored" if taint.kind == STORED else "rendered"
        origin = read_map("texts.yaml", "origins")[taint.kind]
        what = f"{origin} reaches {path}, which prints {node.shown} without escaping"
        sure = round(SURE[taint.kind] * taint.sure, 2)
        frame.run.report(TaintFinding(code, path, line, line, "", what, sure, trace))


def _find_filter(run: TaintJob, name: str) -> Value:
    """Find the function of a filter; if the tree has none, a name that the models may know."""
    known = run.filters.get(name)
    if known is None:
        known = run.filters[name] = _search_filter(run, name) or Value(
            ref=f"template.filters.{name}"
        )
    return known


def _search_filter(run: TaintJob, name: str) -> Value | None:
    if run.models.sanitizers.exact(f"template.filters.{name}"):
        return None
    ways = [way.replace("NAME", name) for way in read_yaml("template_filters.yaml")]
    for path in _modules_with_filters(run):
        text = run.project.text(path) or ""
        found = next(filter(None, (re.search(way, text) for way in ways)), None)
        module = run.project.module(path) if found else None
        if found and module is not None:
            run.globals_of(module)
            return _filter_named(Activation(run, module), next(filter(None, found.groups())))
    return None


def _filter_named(frame: Activation, name: str) -> Value | None:
    first, *others = name.split(".")
    if keyword.iskeyword(first):
        return None
    value = frame.lookup(first)
    for other in others:
        value = attribute_access.get_attribute(frame, value, other, frame.module.tree)
    return value


def _modules_with_filters(run: TaintJob) -> list[str]:
    """The modules that may register filters."""
    if run.filter_modules is None:
        texts = ((path, run.project.text(path) or "") for path in sorted(run.project.paths))
        found = (
            path
            for path, text in texts
            if _PATTERNS["registers_filters"].search(text)
            and _PATTERNS["of_templates"].search(text)
        )
        run.filter_modules = list(islice(found, _MAX_FILTER_FILES))
    return run.filter_modules
