"""Texts that a request stores in a field of a database model and that other requests show."""

import ast
import re
from collections.abc import Iterable, Iterator, Set
from typing import Final

from msgspec.structs import replace

from diffchecks.data_files import read_names, read_patterns
from diffchecks.path_kinds import is_test
from diffchecks.taint import sink_checks
from diffchecks.taint.abstract_state import HeapObject
from diffchecks.taint.abstract_values import ROW, Taint, TaintStep, Value, resolve
from diffchecks.taint.call_frames import Activation, EvaluatedCall, TaintJob
from diffchecks.taint.entry_points import lines_with
from diffchecks.taint.module_index import Class, Module

STORED: Final = "stored"
SHOWN: Final = read_patterns("stored_fields")["shown"]
"""Matches in a function that may send markup to a browser or execute a text."""

MODELS: Final = re.compile(r"\b(?:Model\)|Base\)|Column\(|mapped_column\(|SQLModel\b)|\wField\(")
"""Matches in a module that may define database models."""

_REMOTE: Final = frozenset({"request", "socket"})
_CERTAIN: Final = 0.7
# The object that is read is unknown; low enough that an unknown function ends the flow.
_SURE: Final = 0.6
_CREATES: Final = read_names("creates")
_PATTERNS: Final = read_patterns("stored_fields")
_MANAGERS: Final = frozenset({"objects", "query", "_default_manager"})
_MAX_REF: Final = 100
_MAX_WRITERS: Final = 30


def note_call(frame: Activation, call: EvaluatedCall) -> None:
    """Record the fields of an object that a call creates from a request."""
    if frame.quiet:
        return
    target = call.function.target
    if isinstance(target, Class):
        _note_form(frame, target, call)
        spread = call.select_argument("**")
        if spread is not None and _is_model(frame.run, target):
            for sink in frame.run.models.sinks.exact("model()"):
                sink_checks.check_value(frame, call.node, spread, sink, target.node.name)
    for name, value in call.keywords.items():
        if value.taints:
            if isinstance(target, Class):
                _note(frame, [target], name, value)
            elif target is None and call.ref.rpartition(".")[2] in _CREATES:
                exact = classes_of(frame, call.receiver) if call.receiver is not None else []
                _note(frame, exact or _models(frame.run, frame.module), name, value)


def _note_form(frame: Activation, form: Class, call: EvaluatedCall) -> None:
    """Record the model fields of a form or serializer that a request fills."""
    classes = (item for item in form.node.body if isinstance(item, ast.ClassDef))
    meta = next((item for item in classes if item.name == "Meta"), None)
    given = [value for value in (*call.args, call.keywords.get("data")) if value and value.taints]
    if (
        meta is None
        or not given
        or not _PATTERNS["saves"].search(frame.run.project.text(frame.module.path) or "")
    ):
        return
    options = {
        item.targets[0].id: item.value
        for item in meta.body
        if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name)
    }
    model = _class_named(form, options.get("model"))
    if model is None or _PATTERNS["cleans"].search(ast.unparse(form.node)):
        return
    left_out, named = _constants(options.get("exclude")), _constants(options.get("fields"))
    for name in _text_fields(frame.run, model) - left_out:
        if not named or name in named or "__all__" in named:
            _note(frame, [model], name, given[0])


def _constants(node: ast.expr | None) -> frozenset[str]:
    """The string literals in an expression."""
    parts = ast.walk(node) if node is not None else ()
    return frozenset(str(part.value) for part in parts if isinstance(part, ast.Constant))


def _class_named(cls: Class, node: ast.expr | None) -> Class | None:
    """The class of the tree that an expression in a class's module names."""
    leaf = getattr(node, "id", getattr(node, "value", getattr(node, "attr", "")))
    leaf = leaf.rpartition(".")[2] if isinstance(leaf, str) else getattr(node, "attr", "")
    value = (cls.module.globals or {}).get(leaf)
    target = resolve(value).target if value is not None else None
    return target if isinstance(target, Class) else None


def note_attribute(frame: Activation, base: Value, name: str, value: Value) -> None:
    """Record a field that is set to a value from a request."""
    if frame.quiet or not value.taints or base.target is not None:
        return
    classes = classes_of(frame, base)
    if classes or (not base.locs and _PATTERNS["rows"].fullmatch(base.ref)):
        _note(frame, classes or _models(frame.run, frame.module), name, value)


def classes_of(frame: Activation, value: Value) -> "list[Class]":
    """The classes of a value's possible objects."""
    made = (obj.cls for obj in frame.state.of(value))
    return [cls for cls in made if isinstance(cls, Class)]


def read(frame: Activation, base: Value, name: str, node: ast.AST) -> tuple[Taint, ...]:
    """The value that requests stored in a field; none if the object is not a row."""
    stored = frame.run.stored.get(name)
    if not stored or not _PATTERNS["rows"].fullmatch(base.ref):
        return ()
    for cls in _models(frame.run, frame.module):
        written = stored.get(cls)
        if written is not None:
            return (_taint_of(frame, cls, name, written, node),)
    return ()


def _note(frame: Activation, classes: "list[Class]", name: str, value: Value) -> None:
    if is_staff(frame):
        return
    cleared_classes, facts_of = frame.run.models.cleared_classes, frame.state.facts_of
    for taint in value.taints:
        cleared = {"xss", "all"} & cleared_classes(facts_of(taint))
        if taint.kind in _REMOTE and not cleared and taint.sure >= _CERTAIN:
            for cls in classes:
                if name in _text_fields(frame.run, cls):
                    frame.run.stored.setdefault(name, {}).setdefault(cls, taint)


def is_staff(frame: Activation) -> bool:
    """Whether only staff can reach the current entry function."""
    function = frame.stack[0] if frame.stack else frame.function
    if function is None:
        return False
    words = [ast.unparse(decorator) for decorator, _ in function.decorators]
    if function.cls is not None:
        words += [
            ast.unparse(part)
            for part in (*function.cls.node.bases, *function.cls.node.decorator_list)
        ]
    return bool(_PATTERNS["staff_path"].search(function.module.path)) or any(
        map(_PATTERNS["staff"].search, words)
    )


def writers(run: TaintJob, asked: Set[tuple[Class, str]]) -> Iterator[tuple[str, list[int]]]:
    """The modules that may store these fields, and the lines that name a field or fill a form."""
    if not asked:
        return
    words = _any_of(name for _, name in asked)
    models = _any_of(cls.node.name for cls, _ in asked)
    declared = re.compile(rf"^\s+model\s*=.*{models.pattern}", re.MULTILINE)
    paths = [path for path in sorted(run.project.paths) if not is_test(path)]
    texts = (text for path in paths if declared.search(text := run.project.text(path) or ""))
    forms = _any_of(name for text in texts for name in _PATTERNS["form"].findall(text))
    found = 0
    for path in paths:
        text = run.project.text(path) or ""
        named = models.search(text) and words.search(text)
        if (named or forms.search(text)) and _PATTERNS["requests"].search(text):
            found += 1
            if found > _MAX_WRITERS:
                return
            yield path, lines_with(text, re.compile(f"{words.pattern}|{forms.pattern}"))


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(sorted(set(names))) or '(?!)'})\b")


def fields_shown(run: TaintJob, module: Module) -> set[str]:
    """The fields set by requests in the models that a module defines or imports."""
    models = set(_models(run, module))
    return {name for name, written in run.stored.items() if not models.isdisjoint(written)}


def _models(run: TaintJob, module: Module) -> "list[Class]":
    known = run.imported_models.get(module)
    if known is not None:
        return known
    targets = [resolve(value).target for value in list((module.globals or {}).values())]
    for target in list(targets):
        if isinstance(target, Module) and target is not module:
            targets += [resolve(value).target for value in list((target.globals or {}).values())]
    found = [each for each in targets if isinstance(each, Class) and _text_fields(run, each)]
    if module.globals:
        run.imported_models[module] = found
    return found


def _text_fields(run: TaintJob, cls: Class) -> frozenset[str]:
    known = run.text_fields.get(cls)
    if known is None:
        model = cls.bases and not _PATTERNS["no_model"].search(cls.node.name)
        own = frozenset(_declared(cls) if model else ())
        bases = [base.target for base in cls.bases if isinstance(base.target, Class)]
        run.text_fields[cls] = own  # for a class that is its own base
        known = own.union(*(_text_fields(run, base) for base in bases))
        run.text_fields[cls] = known
    return known


def _declared(cls: Class) -> Iterator[str]:
    """The fields of a model with free text."""
    table = any(map(_PATTERNS["sqlmodel"].search, cls.outer_bases()))
    for item in cls.node.body:
        match item:
            case ast.AnnAssign(target=ast.Name(id=name)) if table:
                if re.search(r"\bstr\b", ast.unparse(item.annotation)):
                    yield name
                continue
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=function))
            ):
                kind = getattr(function, "attr", getattr(function, "id", ""))
            case _:
                continue
        if kind in {"Column", "mapped_column", "Field"}:
            text = _PATTERNS["text_column"].search(ast.unparse(item))
        else:
            text = _PATTERNS["text_field"].fullmatch(kind)
        if text and not _PATTERNS["rich"].search(kind):
            yield name


def rows(run: TaintJob, cls: Class, ref: str) -> Value:
    """The value that represents any stored object of a model."""
    loc = run.rows.get(cls)
    if loc is None:
        loc = run.rows[cls] = run.heap.allocate()
    run.heap.shared[loc] = HeapObject("instance", {}, None, cls)
    return Value(ref=ref, locs=(loc,), marks=frozenset({ROW}))


def manager(run: TaintJob, cls: Class, name: str) -> Value | None:
    """The manager of a model's objects; None for any other attribute.

    If the tree has a class for it, its methods are found there.
    """
    if name not in _MANAGERS or not _is_model(run, cls):
        return None
    found, own = rows(run, cls, f"?.{name}"), cls.lookup(name)
    return found if own is None else replace(found, locs=(*found.locs, *own.locs))


def _is_model(run: TaintJob, cls: Class) -> bool:
    return bool(_text_fields(run, cls)) or any(map(_PATTERNS["model"].search, cls.outer_bases()))


def row_of(run: TaintJob, call: EvaluatedCall) -> Value | None:
    """The result of an external call on a model or its objects, or with them as arguments."""
    if call.receiver is not None and ROW in call.receiver.marks:
        return call.receiver
    for value in (*call.args, *call.keywords.values()):
        if ROW in value.marks:
            return value
        if isinstance(value.target, Class) and _is_model(run, value.target):
            return rows(run, value.target, "?.objects")
    return None


def read_row(
    frame: Activation, base: Value, classes: "list[Class]", name: str, node: ast.AST
) -> Value:
    """A field of any stored object; an unknown attribute counts as a query for more objects."""
    run = frame.run
    for cls in classes:
        if name in _text_fields(run, cls):
            run.asked.add((cls, name))
            written = run.stored.get(name, {}).get(cls)
            taints = () if written is None else (_taint_of(frame, cls, name, written, node),)
            return Value(ref=f"?.{name}", taints=taints)
        related = _related(cls, name)
        if related is not None:
            return rows(run, related, f"?.{name}")
        if cls.lookup(name) is not None:
            return Value(ref=f"?.{name}")
    return Value(ref=f"{base.ref}.{name}"[-_MAX_REF:], locs=base.locs, marks=base.marks)


def _related(cls: Class, name: str) -> Class | None:
    """The model to which a relation field refers."""
    for item in cls.node.body:
        match item:
            case (
                ast.Assign(targets=[ast.Name(id=found)], value=ast.Call(args=[first, *_]))
                | ast.AnnAssign(target=ast.Name(id=found), value=ast.Call(args=[first, *_]))
            ) if found == name:
                return _class_named(cls, first)
    return None


def _taint_of(frame: Activation, cls: Class, name: str, written: Taint, node: ast.AST) -> Taint:
    before = written.trace if frame.rendering is None else frame.rendering.begin(written.trace)
    words = f".{name} is read, of any stored object"
    trace = TaintStep(frame.module.path, getattr(node, "lineno", 0), words, before)
    return Taint(f"stored {cls.node.name}.{name}", STORED, sure=_SURE, trace=trace)
