"""Calls: the functions of a file, what calls give back, and which of them are dangerous."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.check_io import Source
from diffchecks.data_files import read_patterns
from diffchecks.flows.flow_tables import FlowSink, FlowTables, rows_about
from diffchecks.flows.syntax import Syntax, line_of, module_name, quote_source, unquote
from diffchecks.flows.values import (
    ALL,
    CLEAN,
    MODULE,
    TAINTED,
    UNKNOWN,
    Cleared,
    FlowState,
    FlowTaint,
    FlowValue,
    checked,
    concat,
    either,
    harmless,
    merge,
    tainted,
    truth,
)

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from diffchecks.patterns.pattern_loading import PatternFile

    _Called = tuple[FlowValue, str, Sequence[SgNode]]

_PATTERNS = read_patterns("flow_calls")
_MAX_TEXT = 20_000  # characters of a function that are searched for sources
_CHECKED = {"any": slice(None), "arguments": slice(1, None), "first": slice(1, 2), "none": slice(0)}
"""What ``values`` of a guard names, of the object of its call and the arguments."""


class TracedFlow(Struct, frozen=True):
    """Request data, or a parameter, that reaches a dangerous call."""

    code: str
    line: int
    end_line: int
    column: int
    call: str
    taint: FlowTaint


class Arguments(Struct):
    """What a call is given: by position and by name."""

    nodes: list[SgNode]
    values: list[FlowValue]
    named: Mapping[str, FlowValue]

    def chosen(self, sink: FlowSink, receiver: FlowValue) -> list[FlowValue]:
        """The dangerous ones."""
        named = dict(self.named)
        by_name = any(isinstance(place, str) and place != "self" for place in sink.args)
        for value in self.values if by_name else ():
            named |= {key: each for key, each in value.fields.items() if not key.isdigit()}
        if sink.vector:
            first = next((place for place in sink.args if isinstance(place, int)), 0)
            return list(_run_by_shell(self.values[first:]))
        if not sink.args:
            return [*self.values, *self.named.values()]
        found: list[FlowValue] = []
        for place in sink.args:
            if place == "self":
                found.append(receiver)
            elif isinstance(place, str):
                found += [named[place]] if place in named else []
            elif place < len(self.values) and not (by_name and self.values[place].fields):
                found.append(self.values[place])
        return found


def _run_by_shell(values: Sequence[FlowValue]) -> Iterator[FlowValue]:
    """What a command line of a program and its arguments lets somebody choose."""
    options = [each for value in values for each in value.fields.items() if each[0] == "shell"]
    through_shell = any(value.text != "false" for _, value in options)
    flat = list[FlowValue]()
    for value in values:
        listed = [part for key, part in value.fields.items() if key.isdigit()]
        flat += listed or ([] if value.fields else [value])
    if not flat:
        return
    yield flat[0]
    scripts = _PATTERNS["shell"].fullmatch(flat[0].text)
    flags = [n for n, part in enumerate(flat) if n and _PATTERNS["flag"].match(part.text)]
    for number, part in enumerate(flat[1:], 1):
        if through_shell or (scripts and flags and number >= flags[0]):
            yield part


class Calls(Syntax, ABC):
    """Evaluates calls; its heir evaluates everything else."""

    def __init__(
        self, source: Source, root: SgNode, language: PatternFile, tables: FlowTables
    ) -> None:
        super().__init__(source, language, tables)
        self.root = root
        self.safe, self.doubtful = set[tuple[int, str]](), set[tuple[int, str]]()
        self.invoked = 0
        self.flows: dict[tuple[int, int, str], TracedFlow] = {}
        self.reached: set[str] = set()
        self.functions: dict[str, list[SgNode]] = {}
        self.asks = re.compile("(?!)")  # the names of functions that may hold a source
        self.classes: set[str] = set()
        self.module = FlowState({}, {})
        declared = (found.groupdict() for found in tables.declared.finditer(source.text))
        self.declared = {str(each["name"]): str(each["type"]) for each in declared}
        self.runs = 0
        self._results: dict[object, FlowValue] = {}

    @abstractmethod
    def evaluate(self, node: SgNode, state: FlowState) -> FlowValue:
        """The value of an expression or statement, which may alter the state."""

    @abstractmethod
    def run_function(
        self, node: SgNode, state: FlowState, values: Sequence[FlowValue], context: str = ""
    ) -> FlowValue:
        """What a function gives back for these arguments; those left out are what they say."""

    @abstractmethod
    def is_of_interest(self, node: SgNode, state: FlowState, context: str = "") -> bool:
        """Whether a function may hold a source, or the rest of a flow."""

    @abstractmethod
    def joined(self, node: SgNode, state: FlowState) -> FlowValue:
        """Text that a node puts together."""

    def call(self, node: SgNode, state: FlowState) -> FlowValue:
        """The value of a call."""
        receiver, name, local = self._called(node, state)
        arguments = self._arguments(node, state)
        full = f"{name}()"
        reported = len(self.flows)
        self._check(node, full, receiver, arguments, state, bare=not receiver.name and local)
        back = self._callbacks(node, full, receiver, arguments, state)
        value = self._result(node, full, receiver, arguments, local, state)
        if not local and len(self.flows) == reported:
            self.call_elsewhere(node, full, arguments.values, state)
        if self.tables.stops.search(full):
            state.dead = True
        passed = merge(self._guard(full, receiver, arguments), back.passed)
        if arguments.values and self.tables.same.search(full):
            passed = merge(passed, arguments.values[0].passed)
        if back.taints and not value.taints:
            value = back
        nothing = truth(next(iter(arguments.values), receiver)).failed
        if _PATTERNS["empty"].search(full):
            passed = merge(passed, nothing)
        elif _PATTERNS["given"].search(full):
            value = replace(value, failed=nothing)
        return replace(value, passed=merge(value.passed, passed))

    def call_elsewhere(
        self, node: SgNode, name: str, values: Sequence[FlowValue], state: FlowState
    ) -> None:
        """Run a function of another file, where there are others."""

    def _called(self, node: SgNode, state: FlowState) -> _Called:
        """The object of a call, the name that is called, and the functions that it may be."""
        owner = node.field("object") or node.field("receiver") or node.field("scope")
        method = node.field("name") or node.field("method")
        target = node.field("function") or node.field("constructor") or node.field("type")
        prefix = self.tables.calls.get(node.kind(), "")
        if owner is None and target is None and method is None:
            first = next(iter(node.named_children()), None)
            if prefix == "new" and first is not None:
                return CLEAN, f"new {first.text()}", ()
            return CLEAN, prefix, ()
        if owner is None and target is not None and prefix == "new":
            own = target.text() in self.classes
            return CLEAN, f"{'~' * own}new {target.text().partition('<')[0]}", ()
        if owner is None and target is not None and target.kind() in self.lookups:
            owner, method = self.split_member(target)
        if owner is not None:
            return self._called_of(owner, unquote(method.text()) if method else "", state)
        target = target or method
        assert target is not None
        text = target.text().lstrip("\\")
        known = state.values.get(text)
        if known is None and text in self.functions:
            return CLEAN, f"~{text}", self.functions[text]
        if known is None:
            value = CLEAN if target.kind() in self.names or method else self.evaluate(target, state)
            return CLEAN, value.name or text, [value.function] if value.function else ()
        functions = [known.function] if known.function else ()
        return CLEAN, known.name if known.name not in {"", text} else f"~{text}", functions

    def _called_of(self, owner: SgNode, named: str, state: FlowState) -> _Called:
        """The same where a method of an object is called."""
        receiver = self.evaluate(owner, state)
        unknown = not (receiver.name or receiver.taints)
        if unknown and _PATTERNS["words"].fullmatch(owner.text()):
            receiver = FlowValue(name=owner.text().lstrip("\\"))
        of_object = _PATTERNS["of_object"].sub("", receiver.name)
        receiver = replace(receiver, name=self.declared.get(of_object, receiver.name))
        made = receiver.name.removeprefix("~new ").removesuffix("()")
        own = receiver.name in self.classes or made in self.classes
        here = own or receiver.name == owner.text() or _PATTERNS["self"].fullmatch(owner.text())
        local = self.functions.get(named, ()) if here else ()
        return receiver, f"{'~' * own}{receiver.name}.{named}", local

    def _arguments(self, node: SgNode, state: FlowState) -> Arguments:
        if node.kind() in self.tables.texts:
            return Arguments([node], [self.joined(node, state)], {})
        part, given = self.argument_part(node), Arguments([], [], {})
        if part is not None and part.kind() in self.tables.texts:
            self.joined(part, state)  # its values are no text of a tagged template
            return given
        named: dict[str, FlowValue] = {}
        for child in part.named_children() if part else ():
            if child.kind() == "comment":
                continue
            inner = child.named_children()[-1:] if child.kind() == "argument" else [child]
            if inner and inner[0].kind() in self.tables.functions:
                given.nodes.append(inner[0])
                given.values.append(CLEAN)
                continue
            value = self.evaluate(child, state)
            if child.kind() in self.tables.pairs and value.fields:
                named |= value.fields
            else:
                given.nodes.append(child)
                given.values.append(value)
        given.named = named
        for initial in node.field_children("initializer"):
            self.evaluate(initial, state)
        return given

    # --- what is dangerous ---------------------------------------------------------------------

    def _check(
        self,
        node: SgNode,
        name: str,
        receiver: FlowValue,
        given: Arguments,
        state: FlowState,
        *,
        bare: object,
    ) -> None:
        called = name.lstrip("~")
        for sink in rows_about(self.tables, "sinks", called):
            if sink.sets or (sink.code == "sql" and self.tables.prepared.search(called)):
                continue
            if bare or name != called:  # a function of the program with the same name
                self.safe.add((line_of(node), sink.code))
                continue
            first = given.values[0].name if given.values else ""
            harmless_use = sink.unless.search(node.text()) or sink.around.search(
                self.text_around(node)
            )
            if harmless_use or not sink.of.search(first):
                continue
            chosen = given.chosen(sink, receiver)
            for number, value in enumerate(chosen):
                handle = number == 0 and len(chosen) > 1 and not sink.vector  # a connection
                is_object = value.name.startswith("new ") and UNKNOWN in value.text
                if value.taints or not (handle or is_object):
                    self.check_value(node, sink, value, state, name)

    def check_value(
        self, node: SgNode, sink: FlowSink, value: FlowValue, state: FlowState, called: str
    ) -> None:
        """Report what is not safe of a value that a dangerous call gets."""
        if not sink.says.search(value.text):
            return
        (before, *rest), span = value.text.split(TAINTED), node.range()
        others = value.taints[len(rest) :]  # of another branch
        led = () if any(not state.clears(each, sink.code) for each in others) else value.taints
        for taint, after in zip(led, rest, strict=False):
            own = self.tables.address.match(taint.key)
            if own is None or (own["host"] and sink.code != "redirect"):
                break
            leads = own["host"] or (after[:1] in {"?", "#"} and state.clears(taint, sink.code))
            before += UNKNOWN + after if leads else "/"
        fixed = bool(value.taints) and sink.fixed.search(before) is not None
        dangers = [each for each in value.taints if not (fixed or state.clears(each, sink.code))]
        # Patterns of these look for data of a request alone, and all of it is known here.
        asked = value.taints and sink.code in {"path", "ssrf", "template"}
        known = fixed or asked or (value.text and UNKNOWN not in value.text)
        lines = {*range(span.start.line + 1, span.end.line + 2)}
        lines |= {line for taint in value.taints for line, _ in taint.steps}
        safe = known and not dangers and not self.invoked
        (self.safe if safe else self.doubtful).update((line, sink.code) for line in lines)
        for taint in dangers:
            code = sink.code
            if taint.parameter:
                self.reached.add(taint.parameter)
                if code != "command" or not value.text.replace(TAINTED, "").strip(UNKNOWN):
                    continue
                code = "command-parameter"
            place = (span.start.line + 1, span.end.line + 1, span.start.column + 1)
            flow = TracedFlow(code, *place, f"`{called.removesuffix('()').lstrip('.')}`", taint)
            key = (place[0], place[2], sink.code)
            other = self.flows.get(key)
            if other is None or (other.taint.parameter and not taint.parameter):
                self.flows[key] = flow

    # --- what comes back -------------------------------------------------------------------------

    def _guard(self, name: str, receiver: FlowValue, given: Arguments) -> Cleared:
        guard: Cleared = {}
        for each in rows_about(self.tables, "guards", name):
            values = [receiver, *given.values]
            for value in values:
                guard = merge(guard, value.passed)
            guard = merge(guard, checked(values[_CHECKED[each.values]], each.classes))
        return guard

    def _callbacks(
        self, node: SgNode, name: str, receiver: FlowValue, given: Arguments, state: FlowState
    ) -> FlowValue:
        """Run the functions that a call is given, with what it gives them."""
        functions = [child for child in given.nodes if child.kind() in self.tables.functions]
        functions += [value.function for value in given.values if value.function]
        functions += node.field_children("block")
        results = []
        for function in functions:
            bound = self._bound(node, name, function, receiver)
            if bound or self.is_of_interest(function, state, name):
                value = self.run_function(function, state, bound, name)
                equal = value.passed and _PATTERNS["any"].match(f"{name} {function.text()}")
                results += [value] if value.taints or equal else []
        return either(results)

    def _bound(
        self, node: SgNode, name: str, function: SgNode, receiver: FlowValue
    ) -> list[FlowValue]:
        count = len(self.parameters(function))
        for callback in self.tables.callbacks:
            takes = callback.call.search(name) and count >= len(callback.names)
            if takes and not callback.unless.search(node.text()):
                return [FlowValue(name=each) for each in callback.names]
        return [tainted(receiver.taints)] if receiver.taints else []

    def _result(
        self,
        node: SgNode,
        name: str,
        receiver: FlowValue,
        given: Arguments,
        local: Sequence[SgNode],
        state: FlowState,
    ) -> FlowValue:
        tables = self.tables
        is_source = tables.sources.fullmatch(name) is not None
        every = [self.source(node, name)] if is_source else [receiver] * bool(receiver.taints)
        every += [*given.values, *given.named.values()]
        made = receiver.taints or tables.passes.search(name)
        looked_up = _PATTERNS["lookup"].search(name) and not made
        if not is_source and (looked_up or tables.clean.search(name)):
            return replace(harmless(every), name=name)
        for each in rows_about(tables, "clears", name):
            if each.says.search(node.text()):
                return concat([v for v in every if v.taints] or every).safe_for(each.classes)
        if local:
            value = self.invoke(node, local[0], given.values, state)
            return value if len(local) == 1 else CLEAN
        if is_source:
            return every[0]
        if tables.fills.search(name):
            self._fill(node, given, receiver, state)
        if tables.mutates.search(name.rpartition(".")[2]) and any(v.taints for v in given.values):
            self._add(node, receiver, given.values, state)
        return self._made(name, receiver, given, every)

    def _made(
        self, name: str, receiver: FlowValue, given: Arguments, every: Sequence[FlowValue]
    ) -> FlowValue:
        """What a function outside the file makes of its object and arguments."""
        tables = self.tables
        if given.values and (name == "require()" or tables.same.search(name)):
            first = given.values[0]
            return first if name != "require()" else FlowValue(module_name(first.text), MODULE)
        if _PATTERNS["formats"].search(name):
            return replace(self.formatted(receiver, given.values), name=name)
        if receiver.taints or tables.mutates.search(name.rpartition(".")[2]):
            text = receiver.text if receiver.taints else UNKNOWN
            taints = [t for v in every for t in v.taints]
            # Another entry is another value.
            if _PATTERNS["entry"].search(name) and len(given.values) == 1:
                taints = [replace(t, key=f"{t.key}.[{given.values[0].text}]") for t in taints]
            return replace(tainted(taints, text), name=name)
        if tables.lists.search(name):
            fields = {str(number): value for number, value in enumerate(given.values)}
            return replace(concat(given.values), fields=fields)
        return (
            replace(concat(every, "/"), name=name)
            if tables.passes.search(name)
            else FlowValue(name=name)
        )

    def invoke(
        self, node: SgNode, function: SgNode, values: Sequence[FlowValue], state: FlowState
    ) -> FlowValue:
        """What a function of the file gives back."""
        if not any(value.taints for value in values) and not self.hints(function):
            return CLEAN
        called = node.field("function") or node.field("name") or node.field("method")
        step = quote_source(called or node)
        passed = [value.through(line_of(node), step) for value in values]
        signs = tuple(
            (
                value.text,
                value.name,
                tuple((t.key, t.cleared, state.clears(t, ALL)) for t in value.taints),
            )
            for value in values
        )
        key = function, signs
        if key not in self._results:
            nested = self.is_nested(function)
            base = FlowState((state if nested else self.module).values, state.cleared)
            self.invoked += 1
            self._results[key] = self.run_function(function, base, passed)
            self.invoked -= 1
        return self._results[key]

    def hints(self, function: SgNode, context: str = "") -> bool:
        """Whether a function may hold a source, or calls one of the file that does."""
        text = context + function.text()[:_MAX_TEXT]
        return any(each.search(text) for each in (self.tables.hint, self.asks))

    def source(self, node: SgNode, name: str) -> FlowValue:
        """A value that comes with a request."""
        part = self.argument_part(node)
        key = name + (part.text() if part is not None else "")
        found = tainted([FlowTaint(key, ((line_of(node), quote_source(node)),))])
        checked_at_once = self.tables.validated.search(node.text())
        return replace(harmless([found]) if checked_at_once else found, name=name)

    def _fill(self, node: SgNode, given: Arguments, receiver: FlowValue, state: FlowState) -> None:
        """A call that writes a request into its arguments."""
        for child in given.nodes:
            name = child.text().lstrip("&")
            if name.isidentifier():
                key = (line_of(node), quote_source(node))
                typed = any(receiver.name == known for _, known in self.tables.types)
                new = (FlowTaint(f"{name}@{key[0]}", (key,)),) if typed else ()
                if taints := receiver.taints or new:
                    state.values[name] = tainted(taints)

    def _add(
        self, node: SgNode, receiver: FlowValue, values: Sequence[FlowValue], state: FlowState
    ) -> None:
        """A call that adds its arguments to its object, which is no module, or Ruby's operator."""
        owner = node.field("object") or node.field("receiver") or node.field("left")
        target = node.field("function")
        if owner is None and target is not None and target.kind() in self.lookups:
            owner = self.split_member(target)[0]
        while owner is not None and owner.text() not in state.values and owner.named_children():
            owner = owner.named_children()[0]  # of a chain, as of a builder
        old = state.values.get(owner.text()) if owner is not None else None
        if owner is not None and old is not None and old.text != MODULE:
            state.values[owner.text()] = replace(concat([old, *values]), name=old.name)

    def formatted(self, receiver: FlowValue, values: Sequence[FlowValue]) -> FlowValue:
        """Text with values in the places of a format."""
        parts = [receiver, *values] if "%" in receiver.text or "{" in receiver.text else [*values]
        place = _PATTERNS["place"]
        at = next((n for n, value in enumerate(parts) if place.search(value.text)), None)
        if at is None:
            return concat(parts)
        given, shown = iter(parts[at + 1 :]), list[FlowValue]()

        def fill(found: re.Match[str]) -> str:
            value = next(given, CLEAN)
            if _PATTERNS["no_text"].fullmatch(found[0]):
                return UNKNOWN
            shown.append(value)
            return value.text

        text = place.sub(fill, parts[at].text)
        return tainted((t for value in [parts[at], *shown] for t in value.taints), text)
