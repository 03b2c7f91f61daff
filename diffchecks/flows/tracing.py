"""Following the values of one program through its syntax tree, from sources to sinks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from diffchecks.check_io import Source
from diffchecks.flows.calls import Calls, Flow, line_of, place_of, shorten, unquote
from diffchecks.flows.flow_tables import FlowTables, Sink
from diffchecks.flows.values import (
    CLEAN,
    UNKNOWN,
    State,
    Taint,
    Value,
    common,
    concat,
    checked,
    either,
    harmless,
    merge,
    tainted,
)

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from diffchecks.patterns.pattern_loading import Part, PatternFile

_CLASS = re.compile(r"class|struct|interface|record|module|trait")
_LOOP = re.compile(r"^(?:for|while|foreach|do|until|enhanced_for)")
_EQUAL, _UNEQUAL = {"==", "===", "is"}, {"!=", "!==", "is not", "<>"}
_NUMBER = re.compile(
    r"\(?(?:u?int\d*|integer|u?long|u?short|byte|float\d*|double|decimal|bool(?:ean)?|Integer|Long|Guid|UUID)\)?"
)
_MISSING = re.compile(r"-1|0|false|null|nil|undefined|None")
_NOT_FOUND = re.compile(r"===?(?:-1|false)|<=?(?:-1|0)|!==?(?:0|true)")
_FOUND = re.compile(r"!==?(?:-1|false)|>=?(?:-1|0)|===?(?:0|true)")
_DEPTH = 8  # of functions inside each other and of calls
_MOST_RUNS = 600  # of functions in a file
_MOST_TEXT = 20_000  # characters of a function that are searched for sources


class Tracing(Calls):
    """The evaluation of one program."""

    def __init__(
        self, source: Source, root: SgNode, language: PatternFile, tables: FlowTables
    ) -> None:
        super().__init__(source, root, tables)
        self.language = language
        self.names, self.literals = language.names, language.literals
        self.lookups = language.lookups
        self.values = {**language.values, **tables.values}
        self.call_parts = {**language.calls, **dict.fromkeys(tables.calls, "arguments")}
        self.has_commands = tables.commands.search(source.text) is not None
        self._running: list[tuple[int, int]] = []
        self._waiting: list[tuple[SgNode, str]] = []
        self._returned: list[list[Value]] = []
        self._shadowed: list[dict[str, Value | None]] = []
        self._header = ""
        self._by_kind: dict[str, Callable[[SgNode, State], Value]] = {
            **dict.fromkeys(self.values, self._made_of),
            **dict.fromkeys(language.bindings, self._assign),
            **dict.fromkeys(self.literals, self._literal),
            **dict.fromkeys(self.names, self._name),
            **dict.fromkeys(self.lookups, self._member),
            **dict.fromkeys(tables.texts, self._text),
            **dict.fromkeys(tables.containers, self._container),
            **dict.fromkeys(tables.pairs, self._pair),
            **dict.fromkeys(tables.binaries, self._binary),
            **dict.fromkeys(tables.blocks, self._block),
            **dict.fromkeys(tables.returns, self._return),
            **dict.fromkeys(tables.exits, self._exit),
            **dict.fromkeys(tables.switches, self._switch),
            **dict.fromkeys(self.call_parts, self.call),
            **dict.fromkeys(tables.functions, self._function),
        }

    def run(self) -> list[Flow]:
        """The flows of the program, by place."""
        self._index()
        for found in self.tables.imports.finditer(self.program.text):
            self._import(found.groupdict(default=""))
        with suppress(RecursionError):
            self.evaluate(self.root, self.module)
        for function, context in self._waiting:
            if self.is_of_interest(function, self.module, context):
                self._running, self._returned = [], []
                with suppress(RecursionError):
                    self.run_function(function, self.module, (), context)
        return [self.flows[key] for key in sorted(self.flows)]

    def _index(self) -> None:
        """Find the functions and classes of the file by their names."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            kind, name = node.kind(), node.field("name") or node.field("left")
            if name is not None:
                value = node.field("value") or node.field("right")
                if kind in self.tables.functions:
                    self.functions.setdefault(name.text(), []).append(node)
                elif value is not None and value.kind() in self.tables.functions:
                    own = name.text().rpartition(".")[2]
                    self.functions.setdefault(own, []).append(value)
                elif _CLASS.search(kind):
                    self.classes.add(name.text())
            waiting += [child for child in node.children() if child.is_named()]

    def _import(self, found: dict[str, str]) -> None:
        """Give the names that an import brings their full names."""
        module = re.split(r"[/\\:]", found["module"].removesuffix("/promises"))[-1]
        values = self.module.values
        for name in (found.get("space"), found.get("default")):
            if name:
                values[name] = Value(name=module)
        for each in found.get("names", "").split(","):
            own, _, alias = re.sub(r"\s+as\s+|\s*:\s*", "=", each.strip()).partition("=")
            if own:
                values[alias or own] = Value(name=f"{module}.{own}")

    def evaluate(self, node: SgNode, state: State) -> Value:
        """The value of an expression or statement; nothing happens after a return."""
        if state.dead:
            return CLEAN
        kind = node.kind()
        evaluate = self._by_kind.get(kind)
        if evaluate is not None and not (kind in self.language.bindings and _LOOP.search(kind)):
            return evaluate(node, state)
        condition = node.field("condition")
        if _LOOP.search(kind):
            return self._loop(node, state)
        if kind.startswith(("try", "begin")):
            return self._try(node, state)
        if condition is not None:
            return self._branch(node, condition, state)
        if node.field("name") is not None and _CLASS.search(kind):
            return self._class(node, state)
        children = node.children()
        if children and children[0].text() in {"!", "not"}:
            value = self.evaluate(children[-1], state)
            return Value(passed=value.failed, failed=value.passed)
        named = [child for child in children if child.is_named()]
        values = [self.evaluate(child, state) for child in named]
        if children and children[0].text() in {"+", "-", "~"}:
            return harmless(values)
        unsigned = children and children[0].text() in {"&", "*", "@", "(", "["}
        return values[0] if len(values) == 1 and (len(children) == 1 or unsigned) else CLEAN

    # --- values ------------------------------------------------------------------------------------

    def _literal(self, node: SgNode, state: State) -> Value:
        if self.language.inserts.search(node.text()):
            return self._text(node, state)
        return Value(text=unquote(node.text()))

    def _name(self, node: SgNode, state: State) -> Value:
        text = node.text()
        known = state.values.get(text)
        if known is not None:
            return known
        if self.tables.sources.fullmatch(text):
            return self.source(node, text)
        functions = self.functions.get(text, ())
        if functions and self.tables.implicit:
            return self._invoke(node, functions[0], (), state)
        return Value(name=text, function=functions[0] if len(functions) == 1 else None)

    def split_member(self, node: SgNode) -> tuple[SgNode | None, SgNode | None]:
        """The object and the property of a lookup."""
        owner = _part(node, self.lookups[node.kind()])
        named = node.named_children()
        return owner, named[-1] if len(named) > 1 else None

    def _member(self, node: SgNode, state: State) -> Value:
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

    def _field(self, value: Value, name: str, node: SgNode, *, index: bool = False) -> Value:
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
        return Value(name=full)

    def _text(self, node: SgNode, state: State) -> Value:
        parts: list[Value] = []
        children = [child for child in node.children() if child.is_named()]
        if not children:
            return Value(text=unquote(node.text()))
        for child in children:
            if child.kind() in self.literals:
                if not child.kind().startswith(("interpolation", "heredoc_start", "heredoc_end")):
                    parts.append(Value(text=child.text()))
            else:
                parts.append(self.evaluate(child, state))
        return concat(parts)

    def joined(self, node: SgNode, state: State) -> Value:
        """Text that a node puts together."""
        return self._text(node, state)

    def _container(self, node: SgNode, state: State) -> Value:
        listed = node.named_children()
        if len(listed) == 1 and node.kind() == "expression_list":
            return self.evaluate(listed[0], state)
        fields: dict[str, Value] = {}
        rest: list[Value] = []
        for child in listed:
            value = self.evaluate(child, state)
            if child.kind() == "shorthand_property_identifier":
                fields[child.text()] = self._name(child, state)
            elif child.kind() in self.tables.pairs and value.fields:
                fields |= value.fields
            elif child.kind() not in self.literals or child.text():
                rest.append(value)
                fields[str(len(rest) - 1)] = value
        every = list(fields.values())
        return replace(
            concat(every), text=UNKNOWN if not every else concat(every).text, fields=fields
        )

    def _pair(self, node: SgNode, state: State) -> Value:
        children = node.named_children()
        if len(children) < 2:
            return self.evaluate(children[0], state) if children else CLEAN
        key = unquote(children[0].text().strip(":"))
        value = self.evaluate(children[-1], state)
        self._check_set(node, f".{key}", value, state)
        return replace(tainted(value.taints, value.text), fields={key: value})

    def _made_of(self, node: SgNode, state: State) -> Value:
        """A value that is another one, or one of several."""
        condition = node.field("condition")
        if condition is not None:
            return self._branch(node, condition, state)
        parts = self.values[node.kind()]
        named = node.named_children()
        chosen = [part for each in parts if (part := _part(node, each))] if parts else named
        places = {place_of(part) for part in chosen}
        for child in named:
            if place_of(child) not in places and child.named_children():
                self.evaluate(child, state)
        values = [self.evaluate(part, state) for part in chosen]
        cast = re.search("cast|conversion", node.kind())
        if cast and named and _NUMBER.fullmatch(named[0].text()):
            return harmless(values)
        return either(values) if values else CLEAN

    def _binary(self, node: SgNode, state: State) -> Value:
        children = node.children()
        if len(children) < 3:
            return CLEAN
        sides, operator = (children[0], children[-1]), children[1].text()
        left = self.evaluate(sides[0], state)
        if operator in {"&&", "and", "||", "or"}:
            return self._both(left, operator in {"&&", "and"}, sides[1], state)
        right = self.evaluate(sides[1], state)
        if operator in self.tables.joins:
            joined = self._formatted(CLEAN, [left, right]) if operator == "%" else None
            if operator == "<<":
                self._add(node, left, [right], state)
            return joined or (
                either([left, right]) if operator in {"??", "?:"} else concat([left, right])
            )
        return self._compared(left, right, operator, sides[1].text())

    def _both(self, left: Value, both: bool, other: SgNode, state: State) -> Value:
        inner = state.copy()
        inner.clear(left.passed if both else left.failed)
        right = self.evaluate(other, inner)
        if inner.dead:
            state.clear(left.failed if both else left.passed)
        value = either([left, right]) if not both else right
        passed, failed = merge(left.passed, right.passed), common(left.failed, right.failed)
        if not both:
            passed, failed = common(left.passed, right.passed), merge(left.failed, right.failed)
        return replace(value, passed=passed, failed=failed)

    def _compared(self, left: Value, right: Value, operator: str, other: str) -> Value:
        """A comparison: with a constant, or of what a check gives back."""
        said = operator + other.replace(" ", "")
        checks = left.passed or left.failed
        if checks and _FOUND.fullmatch(said):
            return Value(passed=left.passed, failed=left.failed)
        if checks and _NOT_FOUND.fullmatch(said):
            return Value(passed=left.failed, failed=left.passed)
        if operator == "is" and other.startswith("not "):
            operator = "is not"
        if operator == "in":
            return Value(passed=checked([left]))
        for one, two in ((left, right), (right, left)):
            constant = not two.taints and (UNKNOWN not in two.text or "is" in operator) and two.text
            if one.taints and constant and not _MISSING.fullmatch(two.text):
                same = checked([one])
                if operator in _EQUAL:
                    return Value(passed=same)
                if operator in _UNEQUAL:
                    return Value(failed=same)
        return CLEAN

    # --- names that get values ------------------------------------------------------------------------

    def _assign(self, node: SgNode, state: State) -> Value:
        field = self.language.bindings[node.kind()]
        target = None if field is None else _part(node, field)
        parts = self.values.get(node.kind(), ())
        given = _part(node, parts[0]) if parts else None
        if target is None or given is None or place_of(given) == place_of(target):
            if target is not None and node.kind() in self.tables.declares:
                self._set(target.text(), Value(name=target.text()), state, declared=True)
            return CLEAN
        value = self.evaluate(given, state)
        if given.kind() in self.tables.functions:
            value = replace(CLEAN, function=given)
        operators = [child.text() for child in node.children() if not child.is_named()]
        added = next((each for each in operators if len(each) > 1 and each.endswith("=")), "")
        if added and added not in {":=", "==", "=>"}:
            old = self.evaluate(target, state)
            value = either([old, value]) if added in {"||=", "??="} else concat([old, value])
        self._bind(target, value, state, declared=node.kind() in self.tables.declares)
        return value

    def _bind(self, target: SgNode, value: Value, state: State, *, declared: bool = False) -> None:
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
            if kind in {"pair_pattern"}:
                self._bind(
                    inner, self._field(value, unquote(name.text()), name), state, declared=declared
                )
            elif kind in {"object_assignment_pattern", "assignment_pattern"}:
                self._bind_named(name, value, state, declared=declared)
            elif kind == "rest_pattern":
                self._bind(inner, value, state, declared=declared)
            else:
                self._unpack(target, children, value, state, declared=declared)
        else:
            for child in target.field_children("name") or target.named_children():
                if child.kind() in self.names or child.kind() in self.language.unpacks:
                    self._bind(child, value, state, declared=declared)

    def _unpack(
        self,
        target: SgNode,
        children: Sequence[SgNode],
        value: Value,
        state: State,
        *,
        declared: bool,
    ) -> None:
        keyed = target.kind() == "object_pattern"
        if len(children) == 1 and target.kind() == "expression_list":
            self._bind(children[0], value, state, declared=declared)
            return
        for number, child in enumerate(children):
            if keyed:
                self._bind_named(child, value, state, declared=declared)
                continue
            listed = value.fields.get(str(number))
            of_many = len(children) > 1 and value.fields
            part = listed if listed is not None and of_many else replace(value, fields={})
            self._bind(child, part, state, declared=declared)

    def _bind_named(self, child: SgNode, value: Value, state: State, *, declared: bool) -> None:
        """A part of an object, under its own name or in its own pattern."""
        if child.kind() in self.names:
            part = self._field(value, child.text(), child).through(
                line_of(child), f"`{child.text()}`"
            )
            self._set(child.text(), part, state, declared=declared)
        else:
            self._bind(child, value, state, declared=declared)

    def _bind_member(self, target: SgNode, value: Value, state: State) -> None:
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
            step = value.through(line_of(target), shorten(target))
            fields = {**held.fields, name: step}
            taints = (*held.taints, *step.taints)
            state.values[owner.text()] = replace(held, fields=fields, taints=taints)

    def _check_set(self, node: SgNode, name: str, value: Value, state: State) -> None:
        for sink in self.tables.sinks:
            if sink.sets and sink.call.search(name) and not sink.unless.search(node.text()):
                self.check_value(node, sink, value, state, name)

    def _set(self, name: str, value: Value, state: State, *, declared: bool) -> None:
        if declared and self._shadowed:
            self._shadowed[-1].setdefault(name, state.values.get(name))
        state.values[name] = value

    # --- statements -----------------------------------------------------------------------------------

    def _block(self, node: SgNode, state: State) -> Value:
        self._shadowed.append({})
        value = CLEAN
        for child in node.named_children():
            if child.kind() in {"rescue", "ensure"}:
                self.evaluate(child, State(state.values, state.cleared))
            elif child.kind() != "comment":
                value = self.evaluate(child, state)
        for name, before in self._shadowed.pop().items():
            if before is None:
                state.values.pop(name, None)
            else:
                state.values[name] = before
        return value

    def _loop(self, node: SgNode, state: State) -> Value:
        inner, done = state.copy(), set[tuple[int, int]]()
        parts = self.values.get(node.kind(), ())
        field = self.language.bindings.get(node.kind())
        given = _part(node, parts[0]) if parts else None
        target = None if field is None else _part(node, field)
        if given is not None and target is not None:
            value = self.evaluate(given, inner)
            self._bind(target, replace(value, fields={}), inner)
            done = {place_of(given), place_of(target)}
        condition = node.field("condition")
        if condition is not None:
            inner.clear(self.evaluate(condition, inner).passed)
            done.add(place_of(condition))
        for child in node.named_children():
            if place_of(child) not in done:
                self.evaluate(child, inner)
        inner.dead = False
        state.become([state, inner])
        return CLEAN

    def _try(self, node: SgNode, state: State) -> Value:
        """Each part from the state before it, since any statement may fail."""
        states, values = [], []
        for child in node.named_children():
            inner = state if "resource" in child.kind() else state.copy()
            values.append(self.evaluate(child, inner))
            states.append(inner)
        state.become(states)
        return either(values)

    def _branch(self, node: SgNode, condition: SgNode, state: State) -> Value:
        first = node.field("initializer")
        if first is not None:
            self.evaluate(first, state)
        test = self.evaluate(condition, state)
        passed, failed = test.passed, test.failed
        if node.kind().startswith("unless"):
            passed, failed = failed, passed
        then, other = state.copy(), state.copy()
        then.clear(passed)
        other.clear(failed)
        body = node.field("consequence") or node.field("body")
        values = [then.checked(self.evaluate(body, then))] if body is not None else []
        others = node.field_children("alternative")
        values += [other.checked(self.evaluate(each, other)) for each in others]
        state.become([then, other])
        return either([value for value in values if value is not CLEAN] or [CLEAN])

    def _switch(self, node: SgNode, state: State) -> Value:
        kinds = self.tables.switches[node.kind()]
        subject, states, values = CLEAN, [], []
        cases = [each for each in self._cases(node, kinds)]
        first = next(iter(node.named_children()), None)
        if first is not None and first.kind() not in kinds:
            subject = self.evaluate(first, state)
        listed = checked([subject])
        default = False
        for case in cases:
            inner = state.copy()
            if "default" in case.kind() or re.match(r"default\b|_\s*(?:=>|->)", case.text()):
                default = True
            else:
                inner.clear(listed)
            for child in case.named_children():
                value = self.evaluate(child, inner)
            values.append(value if case.named_children() else CLEAN)
            inner.dead = inner.dead and not re.search(r"\bbreak\b", case.text())
            states.append(inner)
        other = [each for each in node.named_children() if each.kind() == "else"]
        values += [self.evaluate(each, state) for each in other]
        state.become(states if default and states else [state, *states])
        return either(values)

    def _cases(self, node: SgNode, kinds: Iterable[str]) -> Iterable[SgNode]:
        for child in node.named_children():
            if child.kind() in kinds:
                yield child
            elif child.kind().endswith(("body", "block")):
                yield from self._cases(child, kinds)

    def _return(self, node: SgNode, state: State) -> Value:
        values = [self.evaluate(child, state) for child in node.named_children()]
        value = either(values)
        if self._returned:
            self._returned[-1].append(value)
        state.dead = True
        return value

    def _exit(self, node: SgNode, state: State) -> Value:
        for child in node.named_children():
            self.evaluate(child, state)
        state.dead = True
        return CLEAN

    def _class(self, node: SgNode, state: State) -> Value:
        body = node.field("body")
        before, self._header = self._header, node.text().partition("{")[0]
        for child in (body or node).named_children():
            if child.kind() not in self.names:
                self.evaluate(child, state)
        self._header = before
        return CLEAN

    # --- functions -------------------------------------------------------------------------------------

    def _function(self, node: SgNode, state: State) -> Value:
        """A function where it is written: a named one waits for the end of the program."""
        if node.field("name") is not None and not self._running:
            above = node.parent()
            written = (
                above.text() if above is not None and "export" in above.kind() else node.text()
            )
            self._waiting.append((node, f"{self._header}\n{written.partition('{')[0]}"))
        elif self.is_of_interest(node, state):
            self.run_function(node, state, ())
        return CLEAN

    def is_of_interest(self, node: SgNode, state: State, context: str = "") -> bool:
        """Whether a function may hold a source, or the rest of a flow."""
        if any(value.taints for value in state.values.values()):
            return True
        return self.has_commands or bool(
            self.tables.hint.search(context + node.text()[:_MOST_TEXT])
        )

    def run_function(
        self, node: SgNode, state: State, values: Sequence[Value], context: str = ""
    ) -> Value:
        """What a function gives back for these arguments; those left out are what they say."""
        own_place = place_of(node)
        if own_place in self._running or len(self._running) >= _DEPTH or self.runs >= _MOST_RUNS:
            return CLEAN
        self.runs += 1
        self._running.append(own_place)
        inner = state.copy()
        shadowed, self._shadowed = self._shadowed, []
        own = set[str]()
        for number, parameter in enumerate(self.parameters(node)):
            given = values[number] if number < len(values) else self._parameter(parameter, context)
            before = dict(inner.values)
            self._bind(parameter, given, inner)
            own |= {name for name in inner.values if inner.values[name] is not before.get(name)}
        self._returned.append([])
        body = node.field("body")
        children = [body] if body is not None else node.named_children()
        last = CLEAN
        for child in children:
            if body is not None or child.kind() not in {"block_parameters", "method_parameters"}:
                last = self.evaluate(child, inner)
        results = self._returned.pop()
        self._running.pop()
        self._shadowed = shadowed
        kind = body.kind() if body is not None else ""
        if self.tables.implicit or kind not in self.tables.blocks:
            results.append(last)
        result = either(results)
        if context:
            self._check_returned(node, results, context, inner)
        for name, value in inner.values.items():
            if name in state.values and name not in own and value is not state.values[name]:
                state.values[name] = either([state.values[name], value])
        return result

    def _check_returned(
        self, node: SgNode, values: Sequence[Value], context: str, state: State
    ) -> None:
        for sink in self.tables.returned:
            if sink.call.search(context) and not sink.unless.search(node.text()):
                for value in values:
                    self.check_value(node, sink, value, State({}, {}), "return")

    def parameters(self, function: SgNode) -> list[SgNode]:
        """The parameters of a function, each once."""
        part = function.field("parameters") or function.field("parameter")
        if part is None:
            return []
        if part.kind() in self.names:
            return [part]
        found: list[SgNode] = []
        for each in part.named_children():
            several = each.field_children("name")
            target = each.field("pattern") or each.field("left")
            found += several if len(several) > 1 else [target if target and not several else each]
        return [each for each in found if each.kind() != "comment"]

    def _parameter(self, node: SgNode, context: str) -> Value:
        """What a parameter is when nobody passes it: a request, a part of one, or anything."""
        above = node.parent()
        written = node.text()
        if (
            above is not None
            and "parameters" not in above.kind()
            and above.kind() != "parameter_list"
        ):
            written = above.text()
        name = next((each.text() for each in self._names_in(node)), written)
        if self.language.known.fullmatch(written):
            return Value(name=name)
        for pattern, of in self.tables.parameters:
            if pattern.search(written) and of.search(context):
                return self.source(node, f"@{name}")
        for kind, known in self.tables.types:
            if kind.search(written):
                return Value(name=known)
        if self.tables.sources.fullmatch(name) or not self.has_commands:
            return Value(name=name)
        step = (line_of(node), f"`{name}`")
        return Value(
            name=name, text="\1", taints=(Taint(f"{name}@{step[0]}", (step,), parameter=True),)
        )

    def source_text(self, node: SgNode) -> str:
        """The source of the function that a parameter belongs to."""
        return next((a.text() for a in node.ancestors() if a.kind() in self.tables.functions), "")

    def _names_in(self, node: SgNode) -> Iterable[SgNode]:
        if node.kind() in self.names:
            yield node
            return
        named = node.field("name") or node.field("pattern")
        if named is not None:
            yield from self._names_in(named)
            return
        for child in node.named_children():
            yield from self._names_in(child)

    def argument_part(self, node: SgNode) -> SgNode | None:
        """The part of a call with its arguments."""
        part = self.call_parts.get(node.kind())
        if part is None:
            return None
        found = _part(node, part)
        if found is None and node.kind() in self.tables.calls:
            return next(
                (each for each in node.named_children() if "argument" in each.kind()),
                None if self.tables.calls[node.kind()] == "new" else node,
            )
        return found

    def is_nested(self, function: SgNode) -> bool:
        """Whether a function is written inside another one."""
        return any(each.kind() in self.tables.functions for each in function.ancestors())

    def text_around(self, node: SgNode) -> str:
        """The source of the function around a node."""
        return self.source_text(node) or self.program.text

    def name_of_type(self, text: str) -> str:
        """A class's name, without its type arguments."""
        return text.partition("<")[0]


def _part(node: SgNode, part: Part) -> SgNode | None:
    """A field of a node, a child of some kind, or a child by its number."""
    if isinstance(part, str):
        found = node.field(part)
        return found or next((each for each in node.named_children() if each.kind() == part), None)
    children = node.named_children()
    return children[part] if children else None
