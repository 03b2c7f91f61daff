"""What the outcome of a condition implies for the values in it."""

import ast
import re
from collections.abc import Iterable, Sequence
from typing import Final

from diffchecks.data_files import read_names
from diffchecks.taint import strings
from diffchecks.taint.abstract_state import collect_taints
from diffchecks.taint.abstract_values import (
    NOT_CONST,
    PART,
    Facts,
    Implication,
    Taint,
    Value,
    join_all,
    merge_taints,
)
from diffchecks.taint.call_frames import Activation, EvaluatedCall
from diffchecks.taint.containers import constants
from diffchecks.taint.library_models import DefectCall, LibraryModels
from diffchecks.taint.module_index import Function
from diffchecks.taint.strings import strict_pattern

LISTED: Final = "listed"  # it is one of a few values that the program lists
_MAX_CHARACTERS: Final = 12


def facts_about(taints: Iterable[Taint], *facts: str) -> Facts:
    """The same facts for all origins."""
    return {taint.origin: frozenset(facts) for taint in taints}


def conjoin(left: Facts, right: Facts) -> Facts:
    """The facts if both conditions hold."""
    if not left or not right:
        return left or right
    origins = {**left, **right}
    return {
        origin: left.get(origin, frozenset()) | right.get(origin, frozenset()) for origin in origins
    }


def disjoin(left: Facts, right: Facts) -> Facts:
    """The facts if at least one of the conditions holds."""
    shared = {origin: _weaker(left[origin], right[origin]) for origin in left if origin in right}
    return {origin: facts for origin, facts in shared.items() if facts}


def _weaker(left: frozenset[str], right: frozenset[str]) -> frozenset[str]:
    if LISTED in left:
        return right
    return left if LISTED in right else left & right


def facts_when(value: Value, *, truth: bool) -> Facts:
    """The facts that follow if a value is true, or if it is false."""
    if value.implies is not None:
        return value.implies.true if truth else value.implies.false
    if not truth and value.taints and not value.locs:
        return facts_about(value.taints, LISTED)  # empty or None
    return {}


def negate(value: Value) -> Implication | None:
    """The implication of ``not value``."""
    true, false = facts_when(value, truth=False), facts_when(value, truth=True)
    return Implication(true, false) if true or false else None


def evaluate_compare(frame: Activation, node: ast.Compare) -> Value:
    """The value of a comparison."""
    left = frame.evaluate(node.left)
    result: Value | None = None
    for operator, right_node in zip(node.ops, node.comparators, strict=True):
        right = frame.evaluate(right_node)
        compared = _compare_two(frame, type(operator), left, right)
        result = compared if result is None else _and(result, compared)
        left = right
    return result or Value()


def _and(left: Value, right: Value) -> Value:
    known = left.known and right.known
    const = (left.const and right.const) if known else NOT_CONST
    if left.const is False or right.const is False:
        const = False
    true = conjoin(facts_when(left, truth=True), facts_when(right, truth=True))
    return Value(const, implies=Implication(true, {}))


def _compare_two(frame: Activation, kind: type[ast.cmpop], left: Value, right: Value) -> Value:
    left_constant, right_constant = constants(frame, left), constants(frame, right)
    const = NOT_CONST
    if left_constant is not NOT_CONST and right_constant is not NOT_CONST:
        const = strings.fold_compare(kind, left_constant, right_constant)
    if right_constant is None and left.implies is not None and kind in (ast.Is, ast.IsNot):
        says = left.implies
        return Value(
            const, implies=says if kind is ast.IsNot else Implication(says.false, says.true)
        )
    if not left.taints and not right.taints and not right.locs:
        return Value(const)
    true: Facts = {}
    false: Facts = {}
    if kind in (ast.In, ast.NotIn):
        true, false = _membership(frame, left, right)
    elif kind in (ast.Eq, ast.NotEq, ast.Is, ast.IsNot):
        true = _equality(frame, left, right)
    if kind in (ast.NotIn, ast.NotEq, ast.IsNot):
        true, false = false, true
    return Value(const, implies=Implication(true, false))


def _known_to_be(models: LibraryModels, ref: str, taints: Sequence[Taint]) -> Facts:
    """The facts that follow for a value, or its whole, if it is one of a few values."""
    facts = facts_about(taints, LISTED)
    for part in models.parts.find(ref):
        wholes = {taint.origin.rpartition(PART)[0] or taint.origin for taint in taints}
        facts = conjoin(facts, {origin: frozenset({part.fact}) for origin in wholes})
    return facts


def without_part(models: LibraryModels, ref: str, taints: Sequence[Taint]) -> Implication | None:
    """The facts that follow for a whole if its attribute of that name is empty."""
    if not taints or not models.parts.exact(ref):
        return None
    return Implication({}, _known_to_be(models, ref, taints))


def _membership(frame: Activation, left: Value, right: Value) -> tuple[Facts, Facts]:
    inside = collect_taints(right, frame.state)
    if left.taints and not inside:
        return _known_to_be(frame.run.models, left.ref, left.taints), {}
    if right.taints and isinstance(left.const, str) and left.const:
        return {}, facts_about(right.taints, f"lacks {left.const}")
    if right.taints and "normalized" in right.marks:
        return facts_about(right.taints, "inside"), {}
    return {}, {}


def _equality(frame: Activation, left: Value, right: Value) -> Facts:
    if left.taints and right.taints:
        return {}
    value, other = (left, right) if left.taints else (right, left)
    if "common" in value.marks:
        return facts_about(value.taints, "inside")
    if other.locs:
        return {}
    return _known_to_be(frame.run.models, value.ref, value.taints)


def evaluate_check(frame: Activation, call: EvaluatedCall) -> Implication | None:
    """What the truth of a call implies for its arguments; None if no data file has the test."""
    true: Facts = {}
    false: Facts = {}
    for test in frame.run.models.tests.find(call.ref):
        value = call.select_argument(test.of)
        if value is None or not value.taints or (test.mark and test.mark not in value.marks):
            continue
        pattern = cell(frame, call, test.pattern).const if test.pattern else None
        strict = strict_pattern(pattern, whole="fullmatch" in call.ref)
        if test.pattern and not (re.match(test.asks, str(pattern)) if test.asks else strict):
            continue
        if any(cell(frame, call, key).ref not in names for key, names in test.given.items()):
            continue
        facts = facts_about(value.taints, test.fact)
        if test.when:
            true = conjoin(true, facts)
        else:
            false = conjoin(false, facts)
    return Implication(true, false) if true or false else None


def cell(frame: Activation, call: EvaluatedCall, selector: str) -> Value:
    """An argument; ``self[0]`` is the first argument that constructed the receiver."""
    name, _, key = selector.partition("[")
    value = call.select_argument(name) or Value()
    if not key:
        return value
    for obj in frame.state.of(value):
        found = obj.items.get((key.rstrip("]"),))
        if found is not None:
            return found
    return Value()


def edges(call: EvaluatedCall, name: str) -> Implication | None:
    """What ``text.startswith(...)`` and ``text.endswith(...)`` imply for the text."""
    text = call.receiver
    if text is None or not text.taints or not call.args:
        return None
    edge = call.args[0]
    texts = edge.const if isinstance(edge.const, tuple) else (edge.const,)
    word = "starts" if name == "startswith" else "ends"
    facts = [f"{word} {text}" for text in texts if isinstance(text, str)]
    if "normalized" in text.marks and name == "startswith" and not edge.taints:
        facts.append("inside")
    hosts = (isinstance(each, str) and each.count("/") >= 3 and "://" in each for each in texts)
    if name == "startswith" and facts and all(hosts):
        facts.append("host")
    if isinstance(edge.const, tuple):
        facts = [fact for fact in facts if fact == "host"]
    return Implication(facts_about(text.taints, *facts), {}) if facts else None


def any_of(frame: Activation, node: ast.Call) -> Implication | None:
    """What ``any(c in text for c in "...")`` implies for the text, or a text of a list."""
    match node.args:
        case [ast.GeneratorExp(ast.Compare(ops=[op]) as test, [ast.comprehension(ifs=[]) as each])]:
            listed = frame.evaluate(each.iter)
        case _:
            return None
    if isinstance(op, ast.Eq) and not collect_taints(listed, frame.state):
        return evaluate_compare(frame, test).implies
    characters = constants(frame, listed)
    if not isinstance(characters, str | tuple) or len(characters) > _MAX_CHARACTERS * 8:
        return None
    facts = [f"lacks {character}" for character in characters if isinstance(character, str)]
    taints = collect_taints(frame.evaluate(test.comparators[0]), frame.state)
    if not isinstance(op, ast.In) or not isinstance(test.left, ast.Name) or not taints:
        return None
    return Implication({}, facts_about(taints, *facts))


def evaluate_bool_op(frame: Activation, node: ast.BoolOp) -> Value:
    """The value of ``and`` and ``or``; each operand is evaluated with the facts of earlier ones."""
    stop_at = isinstance(node.op, ast.Or)
    outer = frame.state.facts
    frame.state.facts = dict(outer)
    kept: list[Value] = []
    last: Value = Value()
    through: Facts = {}
    out: Facts | None = None
    for operand in node.values:
        last = frame.evaluate(operand)
        stopped = conjoin(through, facts_when(last, truth=stop_at))
        truth = strings.fold_truth(last.const)
        if truth is not (not stop_at):
            out = stopped if out is None else disjoin(out, stopped)
            kept.append(last)
        if truth is stop_at:
            break
        through = conjoin(through, facts_when(last, truth=not stop_at))
        frame.state.learn(facts_when(last, truth=not stop_at))
    else:
        if not kept or kept[-1] is not last:
            kept.append(last)
    frame.state.facts = outer
    return _choice(kept, last, Implication(out or {}, through), stop_at=stop_at)


def _choice(kept: list[Value], last: Value, implies: Implication, *, stop_at: bool) -> Value:
    if stop_at:
        usable = [
            operand for operand in kept if operand is last or not operand.known or operand.const
        ]
        taints = merge_taints(*(operand.taints for operand in usable))
    else:
        implies = Implication(implies.false, implies.true)
        usable, taints = kept, last.taints  # the operand that stops an "and" is empty
    value = join_all(usable).with_taints(taints)
    return value.with_implication(implies if implies.true or implies.false else None)


_COMPOUND: Final = tuple(getattr(ast, name) for name in read_names("compound_nodes"))
_MAX_NODES: Final = 5000
_TIMES: Final = frozenset(read_names("names_of_times"))


def matches_context(frame: Activation, call: EvaluatedCall, check: DefectCall) -> bool:
    """Whether the words that a check requires are near the call."""
    if not check.words:
        return True
    if frame.handler and check.handlers == "any":
        return True
    words = re.compile(check.words, re.IGNORECASE)
    statement = frame.statement
    near = call.node if statement is None or isinstance(statement, _COMPOUND) else statement
    named = (each for each in ast.walk(near) if isinstance(each, ast.keyword))
    if any(each.arg in _TIMES and call.node in ast.walk(each.value) for each in named):
        return False  # whatever the statement is about
    if words.search(frame.scope.rpartition(".")[2]) or _mentions(near, words):
        return True
    wide = frame.handler and check.handlers == "function" and frame.function is not None
    return wide and frame.function is not None and mentions_in_body(frame.function, words)


def mentions_in_body(function: Function, words: re.Pattern[str]) -> bool:
    """Whether a name or text of a function matches; its decorators say nothing of its values."""
    node = function.node
    parts = [node.args, *(node.body if isinstance(node.body, list) else [node.body])]
    return any(_mentions(part, words) for part in parts)


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
