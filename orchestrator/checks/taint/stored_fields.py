"""Texts that a request leaves in a field of a database model, for other requests to be shown."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from orchestrator.checks.taint.abstract_values import Step, Taint, Value, resolve
from orchestrator.checks.taint.call_frames import Call, Frame, Run
from orchestrator.checks.taint.module_index import Class, Module

STORED: Final = "stored"
SHOWN: Final = re.compile(
    r"\b(?:Markup|mark_safe|HttpResponse|HTMLResponse|Response)\s*\(|['\"]\s*</?[a-zA-Z]"
)
"""Found in a function that may send markup to a browser."""

_REMOTE: Final = frozenset({"request", "socket"})
_CERTAIN: Final = 0.7
# Which object is read is not known; low enough that a function of which nothing is known ends it.
_SURE: Final = 0.6
_CREATES: Final = frozenset({"create", "get_or_create", "update_or_create", "acreate", "insert"})
_NO_MODEL: Final = re.compile(r"(?:Serializer|Form|Filter|FilterSet|Schema|Input)$")
_TEXT_FIELD: Final = re.compile(r"(?:\w*(?:Text|Char|String|HTML|Markdown)\w*Field)")
_TEXT_COLUMN: Final = re.compile(r"\b(?:\w*(?:Text|String)|Unicode|VARCHAR|Mapped\[str\])")
_ROWS: Final = re.compile(
    r"(?:\?.*)?|.*\b(?:query|objects|session|select|scalars?|execute|get_(?:object|list)_or_404)\b.*"
)


def note_call(frame: Frame, call: Call) -> None:
    """Remember the fields that a call creates an object with, when a request gives them."""
    if frame.quiet:
        return
    for name, value in call.keywords.items():
        if value.taints:
            target = call.function.target
            if isinstance(target, Class):
                _note(frame, [target], name, value)
            elif target is None and call.ref.rpartition(".")[2] in _CREATES:
                _note(frame, _models(frame.run, frame.module), name, value)


def note_attribute(frame: Frame, base: Value, name: str, value: Value) -> None:
    """Remember a field that is set to what a request gives."""
    if frame.quiet or not value.taints or base.target is not None:
        return
    made = (frame.state.object(loc).cls for loc in base.locs)
    classes = [cls for cls in made if isinstance(cls, Class)]
    if classes or (not base.locs and _ROWS.fullmatch(base.ref)):
        _note(frame, classes or _models(frame.run, frame.module), name, value)


def read(frame: Frame, base: Value, name: str, node: ast.AST) -> tuple[Taint, ...]:
    """What a field holds that some request has set; nothing where the object is no row."""
    stored = frame.run.stored.get(name)
    if not stored or not _ROWS.fullmatch(base.ref):
        return ()
    for cls in _models(frame.run, frame.module):
        written = stored.get(cls)
        if written is not None:
            line, words = getattr(node, "lineno", 0), f".{name} is read, of any stored object"
            trace = Step(frame.module.path, line, words, written.trace)
            return (Taint(f"stored {cls.node.name}.{name}", STORED, sure=_SURE, trace=trace),)
    return ()


def _note(frame: Frame, classes: "list[Class]", name: str, value: Value) -> None:
    cleared_classes, facts_of = frame.run.models.cleared_classes, frame.state.facts_of
    for taint in value.taints:
        cleared = {"xss", "all"} & cleared_classes(facts_of(taint))
        if taint.kind in _REMOTE and not cleared and taint.sure >= _CERTAIN:
            for cls in classes:
                if name in _text_fields(frame.run, cls):
                    frame.run.stored.setdefault(name, {}).setdefault(cls, taint)


def fields_shown(run: Run, module: Module) -> set[str]:
    """The fields that requests set, of the models that a module defines or imports."""
    models = set(_models(run, module))
    return {name for name, written in run.stored.items() if not models.isdisjoint(written)}


def _models(run: Run, module: Module) -> "list[Class]":
    known = run.imported_models.get(module)
    if known is not None:
        return known
    targets = [resolve(value).target for value in list((module.globals or {}).values())]
    for target in list(targets):
        if isinstance(target, Module) and target is not module:
            targets += [resolve(value).target for value in list((target.globals or {}).values())]
    found = [
        target for target in targets if isinstance(target, Class) and _text_fields(run, target)
    ]
    if module.globals:
        run.imported_models[module] = found
    return found


def _text_fields(run: Run, cls: Class) -> frozenset[str]:
    known = run.text_fields.get(cls)
    if known is None:
        model = cls.bases and not _NO_MODEL.search(cls.node.name)
        known = run.text_fields[cls] = frozenset(_declared(cls) if model else ())
    return known


def _declared(cls: Class) -> Iterator[str]:
    """The fields of a model that hold text which anybody may choose."""
    for item in cls.node.body:
        match item:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function)):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=function)):
                pass
            case _:
                continue
        kind = getattr(function, "attr", getattr(function, "id", ""))
        column = kind in {"Column", "mapped_column"} and _TEXT_COLUMN.search(ast.unparse(item))
        if column or _TEXT_FIELD.fullmatch(kind):
            yield name
