"""Expressions, and names that get values."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from diffchecks.data_files import read_patterns
from diffchecks.flows.calls import Calls
from diffchecks.flows.flow_tables import rows_about
from diffchecks.flows.syntax import line_of, part_of, quote_source, unquote
from diffchecks.flows.values import (
    CLEAN,
    TARGETS,
    UNKNOWN,
    FlowState,
    FlowValue,
    checked,
    common,
    concat,
    either,
    harmless,
    merge,
    tainted,
    truth,
)

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_EQUAL, _UNEQUAL = {"==", "===", "is"}, {"!=", "!==", "is not", "<>"}
_PATTERNS = read_patterns("flow_expressions")


class Expressions(Calls):
    """The evaluation of expressions; its heir evaluates statements."""

    shadowed: list[dict[str, FlowValue | None]]

    @abstractmethod
    def branch(self, node: SgNode, condition: SgNode, state: FlowState) -> FlowValue:
        """The value of a node with a condition, of which one side is evaluated."""

    def literal(self, node: SgNode, state: FlowState) -> FlowValue:
        """What a literal says."""
        if self.language.inserts.search(node.text()):
            return self.joined(node, state)
        return FlowValue(text=unquote(node.text()))

    def name_of(self, node: SgNode, state: FlowState) -> FlowValue:
        """The value of a name."""
        text = node.text()
        known = state.values.get(text)
        if known is not None:
            return known
        if self.tables.sources.fullmatch(text):
            return self.source(node, text)
        functions = self.functions.get(text, ())
        if functions and self.tables.implicit:
            return self.invoke(node, functions[0], (), state)
        return FlowValue(name=text, function=functions[0] if len(functions) == 1 else None)

    def member(self, node: SgNode, state: FlowState) -> FlowValue:
        """The value of a lookup."""
        owner, named = self.split_member(node)
        if owner is None or named is None:
            return CLEAN
        value = self.evaluate(owner, state)
        symbol = node.text()[len(owner.text()) :].lstrip("?.! ")
        if not symbol.startswith(("[", "(")):
            return self._field(value, named.text(), node)
        index = self.evaluate(named, state) if named.kind() not in self.literals else CLEAN
        if named.kind() in self.literals or not named.named_children():
            found = self._field(value, unquote(named.text().lstrip(":")), node, index=True)
        else:
            text = unquote(named.text().strip("[]")).lstrip(":")
            found = self._field(value, text, node, index=True)
        listed = checked([index]) if not value.taints else {}
        if index.taints and not value.taints:
            found = replace(harmless([index]), name=found.name)
        return replace(found, passed=merge(found.passed, listed))

    def _field(
        self, value: FlowValue, name: str, node: SgNode, *, index: bool = False
    ) -> FlowValue:
        if name in value.fields:
            return value.fields[name]
        full = f"{value.name}[{name}]" if index else f"{value.name}.{name}"
        if value.name in self.classes:
            full = f"~{full}"
        if self.tables.sources.fullmatch(full) and all(each.parameter for each in value.taints):
            return self.source(node, full)
        if value.taints:
            if self.tables.clean.search(full) or (value.fields and not index):
                return harmless([value])
            taints = [replace(each, key=f"{each.key}.{name}") for each in value.taints]
            return replace(tainted(taints), name=full)
        return FlowValue(name=full)

    def joined(self, node: SgNode, state: FlowState) -> FlowValue:
        """Text that a node puts together."""
        parts: list[FlowValue] = []
        children = [child for child in node.children() if child.is_named()]
        if not children:
            return FlowValue(text=unquote(node.text()))
        for child in children:
            if child.kind() in self.literals:
                if not child.kind().startswith(("interpolation", "heredoc_start", "heredoc_end")):
                    parts.append(FlowValue(text=child.text()))
            else:
                parts.append(self.evaluate(child, state))
        return concat(parts)

    def container(self, node: SgNode, state: FlowState) -> FlowValue:
        """A list or an object that is written out."""
        listed = node.named_children()
        if len(listed) == 1 and node.kind() == "expression_list":
            return self.evaluate(listed[0], state)
        fields: dict[str, FlowValue] = {}
        rest: list[FlowValue] = []
        for child in listed:
            value = self.evaluate(child, state)
            if child.kind() == "shorthand_property_identifier":
                fields[child.text()] = self.name_of(child, state)
            elif child.kind() in self.tables.pairs and value.fields:
                fields |= value.fields
            elif child.kind() not in self.literals or child.text():
                rest.append(value)
                fields[str(len(rest) - 1)] = value
        every = list(fields.values())
        return replace(
            concat(every), text=UNKNOWN if not every else concat(every).text, fields=fields
        )

    def pair(self, node: SgNode, state: FlowState) -> FlowValue:
        """An entry with a name."""
        children = node.named_children()
        if len(children) < 2:
            return self.evaluate(children[0], state) if children else CLEAN
        key = unquote(children[0].text().strip(":"))
        value = self.evaluate(children[-1], state)
        self._check_set(node, f".{key}", value, state)
        return replace(tainted(value.taints, value.text), fields={key: value})

    def made_of(self, node: SgNode, state: FlowState) -> FlowValue:
        """A value that is another one, or one of several."""
        condition = node.field("condition")
        if condition is not None:
            return self.branch(node, condition, state)
        parts = self.values[node.kind()]
        named = node.named_children()
        chosen = [part for each in parts if (part := part_of(node, each))] if parts else named
        for child in named:
            if child not in chosen and child.named_children():
                self.evaluate(child, state)
        values = [self.evaluate(part, state) for part in chosen]
        cast = re.search("cast|conversion", node.kind())
        if cast and named and _PATTERNS["number"].fullmatch(named[0].text()):
            return harmless(values)
        return either(values) if values else CLEAN

    def binary(self, node: SgNode, state: FlowState) -> FlowValue:
        """The value of two operands."""
        children = node.children()
        if len(children) < 3:
            return CLEAN
        sides, operator = (children[0], children[-1]), children[1].text()
        left = self.evaluate(sides[0], state)
        if operator in {"&&", "and", "||", "or"}:
            return self._both(left, operator in {"&&", "and"}, sides[1], state)
        right = self.evaluate(sides[1], state)
        if operator in self.tables.joins:
            joined = self.formatted(CLEAN, [left, right]) if operator == "%" else None
            if operator == "<<":
                self._add(node, left, [right], state)
            return joined or (
                either([left, right]) if operator in {"??", "?:"} else concat([left, right])
            )
        return self._compared(left, right, operator, sides[1].text())

    def _both(self, left: FlowValue, both: bool, other: SgNode, state: FlowState) -> FlowValue:
        left, inner = truth(left), state.copy()
        inner.clear(left.passed if both else left.failed)
        right = truth(self.evaluate(other, inner))
        if inner.dead:
            state.clear(left.failed if both else left.passed)
        value = either([left, right]) if not both else right
        passed, failed = merge(left.passed, right.passed), common(left.failed, right.failed)
        if not both:
            passed, failed = common(left.passed, right.passed), merge(left.failed, right.failed)
        return replace(value, passed=passed, failed=failed)

    def _compared(self, left: FlowValue, right: FlowValue, operator: str, other: str) -> FlowValue:
        """A comparison: with a constant, or of what a check gives back."""
        comparison = operator + other.replace(" ", "")
        checks = left.passed or left.failed
        if checks and _PATTERNS["found"].fullmatch(comparison):
            return FlowValue(passed=left.passed, failed=left.failed)
        if checks and _PATTERNS["not_found"].fullmatch(comparison):
            return FlowValue(passed=left.failed, failed=left.passed)
        if operator == "is" and other.startswith("not "):
            operator = "is not"
        if operator == "in":
            return FlowValue(passed=checked([left]))
        if left.taints and (not right.text or _PATTERNS["missing"].fullmatch(right.text)):
            nothing = truth(left).failed
            return FlowValue(failed=nothing) if operator in _UNEQUAL else FlowValue(passed=nothing)
        for one, two in ((left, right), (right, left)):
            known = "is" in operator or _PATTERNS["own_origin"].search(two.name)
            constant = not two.taints and (known or UNKNOWN not in two.text) and two.text
            stored = not two.taints and _PATTERNS["elsewhere"].search(two.name)
            if one.taints and (constant or stored) and not _PATTERNS["missing"].fullmatch(two.text):
                same = checked([one]) if constant else checked([one], TARGETS)
                if operator in _EQUAL:
                    return FlowValue(passed=same)
                if operator in _UNEQUAL:
                    return FlowValue(failed=same)
        return CLEAN

    def assign(self, node: SgNode, state: FlowState) -> FlowValue:
        """Give names a value."""
        field = self.language.bindings[node.kind()]
        target = None if field is None else part_of(node, field)
        parts = self.values.get(node.kind(), ())
        given = part_of(node, parts[0]) if parts else None
        if target is None or given is None or given == target:
            if target is not None and node.kind() in self.tables.declares:
                self._set(target.text(), FlowValue(name=target.text()), state, declared=True)
            return CLEAN
        value = self.evaluate(given, state)
        if given.kind() in self.tables.functions:
            value = replace(CLEAN, function=given)
        operators = [child.text() for child in node.children() if not child.is_named()]
        added = next((each for each in operators if len(each) > 1 and each.endswith("=")), "")
        if added and added not in {":=", "==", "=>"}:
            old = self.evaluate(target, state)
            value = either([old, value]) if added in {"||=", "??="} else concat([old, value])
        self.bind_name(target, value, state, declared=node.kind() in self.tables.declares)
        return value

    def bind_name(
        self, target: SgNode, value: FlowValue, state: FlowState, *, declared: bool = False
    ) -> None:
        """Give a value to a name, or to each in a pattern."""
        kind, text = target.kind(), target.text()
        if kind in self.names:
            self._check_set(target, text, value, state)
            step = value.through(line_of(target), f"`{text}`")
            self._set(text, step, state, declared=declared)
        elif kind in self.lookups or kind in self.call_parts:
            self._bind_member(target, value, state)
        elif kind in self.language.unpacks:
            children = target.named_children()
            name, inner = (children[0], children[-1]) if children else (target, target)
            if kind == "pair_pattern":
                self.bind_name(
                    inner, self._field(value, unquote(name.text()), name), state, declared=declared
                )
            elif kind in {"object_assignment_pattern", "assignment_pattern"}:
                self._bind_named(name, value, state, declared=declared)
            elif kind == "rest_pattern":
                self.bind_name(inner, value, state, declared=declared)
            else:
                self._unpack(target, children, value, state, declared=declared)
        else:
            for child in target.field_children("name") or target.named_children():
                if child.kind() in self.names or child.kind() in self.language.unpacks:
                    self.bind_name(child, value, state, declared=declared)

    def _unpack(
        self,
        target: SgNode,
        children: Sequence[SgNode],
        value: FlowValue,
        state: FlowState,
        *,
        declared: bool,
    ) -> None:
        keyed = target.kind() == "object_pattern"
        if len(children) == 1 and target.kind() == "expression_list":
            self.bind_name(children[0], value, state, declared=declared)
            return
        for number, child in enumerate(children):
            if keyed:
                self._bind_named(child, value, state, declared=declared)
                continue
            listed = value.fields.get(str(number))
            of_many = len(children) > 1 and value.fields
            part = listed if listed is not None and of_many else replace(value, fields={})
            self.bind_name(child, part, state, declared=declared)

    def _bind_named(
        self, child: SgNode, value: FlowValue, state: FlowState, *, declared: bool
    ) -> None:
        """A part of an object, under its own name or in its own pattern."""
        if child.kind() in self.names:
            part = self._field(value, child.text(), child).through(
                line_of(child), f"`{child.text()}`"
            )
            self._set(child.text(), part, state, declared=declared)
        else:
            self.bind_name(child, value, state, declared=declared)

    def _bind_member(self, target: SgNode, value: FlowValue, state: FlowState) -> None:
        if target.kind() in self.lookups:
            owner, named = self.split_member(target)
        else:
            owner, named = target.field("receiver"), target.field("method")
        if owner is None or named is None:
            return
        held = self.evaluate(owner, state)
        name = unquote(named.text())
        self._check_set(target, f"{held.name}.{name}", value, state)
        if owner.text() in state.values or owner.kind() in self.names:
            step = value.through(line_of(target), quote_source(target))
            fields = {**held.fields, name: step}
            taints = (*held.taints, *step.taints)
            state.values[owner.text()] = replace(held, fields=fields, taints=taints)

    def _check_set(self, node: SgNode, name: str, value: FlowValue, state: FlowState) -> None:
        for sink in rows_about(self.tables, "sinks", name):
            safe = sink.unless.search(f"{node.text()} = {value.name}")
            if sink.sets and not (safe or sink.around.search(self.text_around(node))):
                self.check_value(node, sink, value, state, name)

    def _set(self, name: str, value: FlowValue, state: FlowState, *, declared: bool) -> None:
        if declared and self.shadowed:
            self.shadowed[-1].setdefault(name, state.values.get(name))
        state.values[name] = value
