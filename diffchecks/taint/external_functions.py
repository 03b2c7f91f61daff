"""The results of external functions, by the library models."""

import ast
import re
from collections.abc import Hashable
from typing import Final

from diffchecks.data_files import read_names
from diffchecks.taint import (
    attribute_access,
    branch_conditions,
    rendered_templates,
    sink_checks,
    stored_fields,
    strings,
)
from diffchecks.taint.abstract_state import HeapObject
from diffchecks.taint.abstract_values import (
    DECODED,
    NORETURN,
    PART,
    UNKNOWN,
    Taint,
    Value,
    merge_taints,
    prefix_of,
)
from diffchecks.taint.call_frames import Activation, EvaluatedCall
from diffchecks.taint.library_models import Propagator, Sanitizer
from diffchecks.taint.module_index import Bound, Function
from diffchecks.taint.strings import clean_by_pattern, taints_of

_UNSURE: Final = 0.8  # an unknown function may make its argument harmless
_UNRELATED: Final = 0.6  # the result of a method of an object that such a function made
_MAX_SEARCH: Final = 4
_TASK: Final = re.compile(r"(?:\w+\.)*(?:shared_task|task|actor)(?:\(.*\))?", re.DOTALL)


def result(frame: Activation, call: EvaluatedCall) -> Value:
    """The value of a call of an external function; sinks are checked as well."""
    models = frame.run.models
    sink_checks.check_call(frame, call, call.ref)
    rendered_templates.check_call(frame, call)
    if models.listed("noreturn", call.ref):
        return NORETURN
    if models.listed("runs", call.ref):
        _run_callbacks(frame, call)
    stored = _cells(frame, call)
    if stored is not None:
        return stored
    value = _flow(frame, call)
    named = _given(frame, call)
    if named.ref == "?()":
        named = Value()
    locs = value.locs
    if models.listed("objects", call.ref):
        # An external object that remembers its constructor's arguments.
        items: dict[Hashable, Value] = {(str(i),): value for i, value in enumerate(call.args)}
        items.update({(name,): value for name, value in call.keywords.items()})
        locs = frame.new(call.node, HeapObject("cells", items)).locs
    taints = named.taints or value.taints
    row = stored_fields.row_of(frame.run, call)
    if row is not None:
        return Value(ref=named.ref or value.ref, taints=taints, locs=row.locs, marks=row.marks)
    if not (taints or named.ref or locs or value.implies or value.known):
        return UNKNOWN
    return Value(
        value.const,
        named.ref or value.ref,
        taints,
        locs,
        None,
        value.prefix,
        value.marks | named.marks,
        value.implies,
    )


def _given(frame: Activation, call: EvaluatedCall) -> Value:
    """The result of a call by the models; of a source, by the requested key."""
    named = attribute_access.external_value(
        frame, f"{call.ref}()" if call.ref else "?()", call.node
    )
    if not named.taints or not call.args:
        return named
    label = repr(call.args[0].const) if call.args[0].known else frame.site(call.node)
    return named.with_taints(tuple(taint.derive(PART, label) for taint in named.taints))


def _run_callbacks(frame: Activation, call: EvaluatedCall) -> None:
    """Run the functions among the arguments with the other arguments."""
    functions = [value for value in call.values() if value.target is not None]
    given = call.select_argument("args")
    for function in functions[:_MAX_SEARCH]:
        args: list[Value] = []
        for obj in frame.state.of(given or UNKNOWN):
            args.extend(obj.items.values())
        if given is None:
            args = [value for value in call.args if value is not function]
        frame.run.invoke(frame, EvaluatedCall(call.node, function, None, args, {}))


def _cells(frame: Activation, call: EvaluatedCall) -> Value | None:
    """Store a value in, or read it from, an object with constant keys."""
    if call.receiver is None or not call.receiver.locs:
        return None
    for rule in frame.run.models.stores.exact(call.ref):
        keys = [call.select_argument(selector) for selector in rule.key]
        names = [key.const if key.known else key.ref for key in keys if key is not None]
        path = (*attribute_access.access_path(call.receiver), *names)
        value = call.select_argument(rule.value) if rule.value else None
        for loc in call.receiver.locs:
            obj = frame.state.object(loc)
            if rule.value:
                frame.state.objects[loc] = obj.put(path, value or UNKNOWN)
            elif path in obj.items:
                return obj.items[path]
        if not rule.value:
            return call.select_argument("fallback") or UNKNOWN
        return Value(None)
    return None


def _flow(frame: Activation, call: EvaluatedCall) -> Value:
    """The taints of the arguments that flow into the result."""
    models = frame.run.models
    taints = taints_of(_inputs(call), frame.state)
    implies = branch_conditions.evaluate_check(frame, call)
    if not taints:
        return Value(implies=implies)
    for sanitizer in models.sanitizers.find(call.ref):
        value = _sanitized(frame, call, sanitizer)
        if value is not None:
            return value
    if models.listed("stops", call.ref):
        return Value(implies=implies)
    for propagator in models.propagators.find(call.ref):
        value = _propagated(frame, call, propagator)
        value.implies = implies
        return value
    if implies is not None:
        return Value(implies=implies)
    return _by_default(frame, call)


def _inputs(call: EvaluatedCall) -> list[Value]:
    receiver = [] if call.receiver is None else [call.receiver]
    bound = [] if receiver else [Value(taints=call.function.taints)]
    return [*receiver, *bound, *call.values()]


def _sanitized(frame: Activation, call: EvaluatedCall, rule: Sanitizer) -> Value | None:
    if rule.pattern and not clean_by_pattern(
        branch_conditions.cell(frame, call, rule.pattern).const
    ):
        return None
    chosen = call.select_argument(rule.of) if rule.of != "*" else None
    taints = taints_of([chosen] if chosen is not None else _inputs(call), frame.state)
    facts = [f"safe {klass}" for klass in rule.clears]
    if rule.validates:
        frame.state.learn(branch_conditions.facts_about(taints, *facts))
    if "all" in rule.clears:
        return Value()
    return Value(taints=tuple(taint.with_facts(facts) for taint in taints))


def _propagated(frame: Activation, call: EvaluatedCall, rule: Propagator) -> Value:
    chosen: list[Value] = []
    for selector in rule.of:
        if selector == "*":
            chosen.extend(call.values())
        else:
            value = call.select_argument(selector)
            if value is not None:
                chosen.append(value)
    taints = taints_of(chosen, frame.state)
    site = frame.site(call.node)
    if rule.part:
        taints = tuple(taint.derive(PART, site) for taint in taints)
    if rule.decodes:
        taints = tuple(_decoded(frame, taint, site) for taint in taints)
    if rule.fact:
        taints = tuple(taint.with_facts((rule.fact,)) for taint in taints)
    marks = frozenset[str]().union(*(value.marks for value in chosen if value.taints))
    if rule.mark:
        marks |= {rule.mark}
    single = len(chosen) == 1 and not rule.part and not rule.decodes
    return Value(
        taints=taints,
        marks=marks - {"tuple"},
        prefix=prefix_of(chosen[0]) if single else "",
        ref=chosen[0].ref if single else "",
    )


def _decoded(frame: Activation, taint: Taint, site: str) -> Taint:
    """A decoded value: of the known facts, only "one of a few values" still applies."""
    kept = frame.state.facts_of(taint) & {branch_conditions.LISTED}
    return taint.derive(DECODED, site).with_facts(kept)


def _by_default(frame: Activation, call: EvaluatedCall) -> Value:
    """Without a model, functions and methods of tainted objects pass taint on."""
    receiver = call.receiver
    if receiver is not None and receiver.taints:
        return _method_of_tainted(frame, call, receiver)
    if call.function.taints and (receiver is None or receiver.locs):
        return Value(taints=call.function.taints)
    ref = call.ref
    of_object = not ref or ref.startswith("?") or "()" in ref or "[]" in ref
    if receiver is not None and of_object:
        return UNKNOWN
    if not ref or frame.run.models.listed("lookups", ref):
        return UNKNOWN
    taints = taints_of(call.values(), frame.state)
    site = frame.site(call.node)  # facts about the result are not facts about the arguments
    return Value(taints=tuple(taint.derive(PART, site, _UNSURE) for taint in taints))


def _method_of_tainted(frame: Activation, call: EvaluatedCall, receiver: Value) -> Value:
    if "mapping" in receiver.marks:
        converter = call.keywords.get("type")
        if converter is not None and frame.run.models.sanitizers.exact(converter.ref):
            return UNKNOWN
        first = call.args[0] if call.args else None
        if first is not None:
            label = repr(first.const) if first.known else frame.site(call.node)
        else:
            label = call.ref.rpartition(".")[2]
        taints = tuple(taint.derive(PART, label) for taint in receiver.taints)
        marks = receiver.marks if first is None else frozenset[str]()
        return Value(taints=taints, marks=marks)
    own = receiver.taints
    if receiver.ref.endswith(")"):
        own = tuple(taint.derive("", "", _UNRELATED) if taint.sure < 1 else taint for taint in own)
    taints = merge_taints(own, taints_of(call.values(), frame.state))
    if call.ref.rpartition(".")[2] in read_names("text_methods"):
        taints = tuple(taint.with_facts(strings.TEXT) for taint in taints)
    return Value(taints=taints, marks=receiver.marks - {"tuple"})


def queued_call(frame: Activation, call: EvaluatedCall, name: str) -> EvaluatedCall | None:
    """The call that a worker of Celery or Dramatiq makes later: ``task.delay(value)``; or None."""
    task = call.receiver.target if call.receiver is not None else None
    if not isinstance(task, Function) or task.cls is not None:
        return None
    if name in {"delay", "send"}:
        args, keywords = call.args, call.keywords
    elif name in {"apply_async", "send_with_options"}:
        args = list(_contents(frame, call.select_argument("0|args")).values())
        named = _contents(frame, call.select_argument("1|kwargs")).items()
        keywords = {key: value for key, value in named if isinstance(key, str)}
    else:
        return None
    decorators = [ast.unparse(decorator) for decorator, _ in task.decorators]
    if len(decorators) != 1 or not _TASK.fullmatch(decorators[0]):
        return None  # another decorator may give it other arguments
    target = Bound(task, UNKNOWN) if "bind=True" in decorators[0] else task
    return EvaluatedCall(call.node, Value(target=target), None, args, keywords, call.rest)


def _contents(frame: Activation, value: Value | None) -> dict[Hashable, Value]:
    """What a list or a mapping of ours holds."""
    objects = frame.state.of(value or UNKNOWN)
    return dict(objects[0].items) if objects else {}
