"""The statements of functions in JavaScript, TypeScript, Go, Java, Ruby and PHP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from diffchecks.removed_controls.guard_flow import (
    FALSE,
    TRUE,
    Formula,
    GuardedStatement,
    GuardFlow,
    is_log,
    negate,
)

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_NO = re.compile(r"return\s*(?:false|null|nil|undefined|None|''|\"\")?\s*;?$")
_REFUSES = re.compile(
    r"(?i)\berr(?:or)?\b|\berr_?(?=[a-z])|error|reject|forbid|denied|abort|\b40[0-9]\b|unauthori|invalid|fail|exit"
)
_DECLARED = frozenset(
    ["function_declaration", "function_definition", "method", "method_declaration",
     "method_definition", "singleton_method", "constructor_declaration"]
)  # fmt: skip
_ANONYMOUS = frozenset(
    ["arrow_function", "function_expression", "func_literal", "anonymous_function"]
)
_ASSIGNED = frozenset(
    ["variable_declarator", "pair", "assignment_expression", "public_field_definition",
     "field_definition"]
)  # fmt: skip
_BLOCKS = frozenset(
    ["statement_block", "block", "compound_statement", "then", "body_statement", "statement_list",
     "else", "else_clause", "constructor_body", "ensure"]
)  # fmt: skip
_IFS = frozenset(["if_statement", "if", "elsif", "else_if_clause", "if_modifier"])
_UNLESS = frozenset(["unless", "unless_modifier"])
_ELSE = frozenset(["else_clause", "else_if_clause", "else", "elsif"])
_LOOPS = frozenset(
    ["for_statement", "for_in_statement", "enhanced_for_statement", "foreach_statement", "while",
     "while_statement", "do_statement", "until", "for", "synchronized_statement"]
)  # fmt: skip
_TRIES = frozenset(["try_statement", "try_with_resources_statement"])
_CATCHES = frozenset(["catch_clause", "rescue"])
_CALLS = frozenset(
    ["call", "call_expression", "function_call_expression", "member_call_expression",
     "method_invocation", "scoped_call_expression"]
)  # fmt: skip
_WRAPS = frozenset(
    ["expression_statement", "await_expression", "parenthesized_expression",
     "parenthesized_statements"]
)  # fmt: skip
_NEGATES = frozenset(["unary_expression", "unary", "unary_op_expression"])
_POSITIVE: Mapping[str, str] = {"!=": "==", "!==": "===", ">=": "<", "<=": ">"}
_CONSTANT: Mapping[str, Formula] = {"true": TRUE, "false": FALSE}
_NOTHING = frozenset({"nil", "null", "undefined", ""})


def read_flow(node: SgNode, scope: str) -> tuple[str, GuardFlow] | None:
    """The name and the statements of a function; None of another node.

    A function that is passed to a call is named by the call and its first argument.
    """
    kind, body = node.kind(), node.field("body")
    if body is None or (kind not in _DECLARED and kind not in _ANONYMOUS):
        return None
    parent = node.parent()
    if kind in _ANONYMOUS and (parent is None or parent.kind() not in _ASSIGNED):
        call = parent.parent() if parent else None
        if call is None or call.kind() not in _CALLS:
            return None
        scope = f"{scope}.{call.text().partition(node.text())[0]}"
    return scope, GuardFlow(_steps(body))


def _named(node: SgNode) -> list[SgNode]:
    return [child for child in node.children() if child.is_named() and child.kind() != "comment"]


def _steps(block: SgNode | None) -> tuple[GuardedStatement, ...]:
    if block is None:
        return ()
    kind, inner = block.kind(), _named(block)
    handlers = [child for child in inner if child.kind() in _CATCHES]
    if handlers and kind in {"body_statement", "begin"}:
        return (_try(block, [child for child in inner if child.kind() not in _CATCHES], handlers),)
    if kind in _BLOCKS:
        return tuple(step for child in inner for step in _steps(child))
    return (_step(block),)


def _step(node: SgNode) -> GuardedStatement:
    kind, line = node.kind(), node.range().start.line + 1
    if kind in _IFS or kind in _UNLESS:
        return _branch(node)
    if kind in _TRIES:
        body = node.field("body")
        handlers = [child for child in _named(node) if child.kind() in _CATCHES]
        return _try(node, [body] if body else [], handlers)
    if kind in _LOOPS or kind == "begin":
        body = node.field("body")
        inner = [body] if body else _named(node)
        return GuardedStatement("", line, body=tuple(s for each in inner for s in _steps(each)))
    text = " ".join(node.text().split())
    if text.rstrip(";") in _NOTHING:
        return GuardedStatement("", line)
    while node.kind() in _WRAPS and len(inner := _named(node)) == 1:
        node = inner[0]
    calls = tuple(_calls(node))
    alone = node.kind() in _CALLS and bool(calls)
    ending = "" if alone and is_log(calls[0]) else read_ending(text, text)[0]
    return GuardedStatement(text, line, ending, calls, alone)


def _try(node: SgNode, body: Sequence[SgNode], handlers: Sequence[SgNode]) -> GuardedStatement:
    caught = tuple((_caught(each), _steps(each.field("body"))) for each in handlers)
    steps = tuple(step for each in body for step in _steps(each))
    return GuardedStatement("", node.range().start.line + 1, body=steps, handlers=caught)


def _caught(handler: SgNode) -> str:
    """What a handler catches; empty if everything."""
    kinds = {"catch_formal_parameter", "type_list", "exceptions"}
    return next((each.text() for each in _named(handler) if each.kind() in kinds), "")


def _branch(node: SgNode) -> GuardedStatement:
    test = node.field("condition")
    formula = _formula(test) if test else TRUE
    if start := node.field("initializer"):
        formula = _after(formula, " ".join(start.text().split()))
    if node.kind() in _UNLESS:
        formula = negate(formula)
    body = _steps(node.field("consequence") or node.field("body"))
    others = [child for child in _named(node) if child.kind() in _ELSE]
    alternative = node.field("alternative")
    if not others and alternative:
        others = [alternative]
    orelse: tuple[GuardedStatement, ...] = ()
    for other in reversed(others):
        if other.kind() == "else_if_clause":
            step = _branch(other)
            orelse = (
                GuardedStatement("", step.line, test=step.test, body=step.body, orelse=orelse),
            )
        else:
            orelse = _steps(other)
    line = node.range().start.line + 1
    return GuardedStatement("", line, test=formula, body=body, orelse=orelse)


def _after(formula: Formula, before: str) -> Formula:
    """A condition on what a statement in front of it assigns."""
    if isinstance(formula, str):
        return f"{before}; {formula}"
    return formula[0], tuple(_after(each, before) for each in formula[1])


def _formula(test: SgNode) -> Formula:
    while test.kind() in _WRAPS and len(inner := _named(test)) == 1:
        test = inner[0]
    text = " ".join(test.text().split())
    if test.kind() in _NEGATES and text.startswith(("!", "not ")):
        return negate(_formula(_named(test)[-1]))
    left, right, operator = (test.field(name) for name in ("left", "right", "operator"))
    if not (left and right and operator):
        return _CONSTANT.get(text, text)
    sign = operator.text()
    if sign in {"&&", "and", "||", "or"}:
        return "and" if sign in {"&&", "and"} else "or", (_formula(left), _formula(right))
    positive = _POSITIVE.get(sign, sign)
    sides = [" ".join(side.text().split()) for side in (left, right)]
    if positive in {"==", "==="}:
        sides.sort()
    atom = f"{sides[0]} {positive} {sides[1]}"
    return atom if positive == sign else negate(atom)


def _calls(node: SgNode) -> Iterator[str]:
    """The called names in a statement, outermost first."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each.kind() in _CALLS:
            target = each.field("function") or each.field("name") or each.field("method")
            owner = each.field("object") or each.field("receiver") or each.field("scope")
            name = ".".join(part.text() for part in (owner, target) if part)
            yield name.replace("->", ".").replace("::", ".").replace("?.", ".")
        waiting += reversed(_named(each))


def read_ending(last: str, whole: str) -> tuple[str, str]:
    """How a block ends early by its last statement and its text, and with what; empty if not."""
    if re.match(r"throw\b|raise\b|panic\(|die\b", last):
        return "raise", last
    if re.match(r"return\b", last):
        if _REFUSES.search(whole):
            return "reject", whole
        return ("return" if _NO.match(last) else "value"), last
    if re.match(r"continue\b|break\b|next\b", last):
        return "skip", ""
    refusing = _REFUSES.search(last.partition("(")[0]) and "(" in last
    return ("reject", last) if refusing else ("", "")
