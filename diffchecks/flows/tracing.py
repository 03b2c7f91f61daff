"""Following the values of one program through its syntax tree, from sources to sinks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from diffchecks.check_io import Source
from diffchecks.flows.calls import TracedFlow
from diffchecks.flows.expressions import Expressions
from diffchecks.flows.flow_tables import FlowTables
from diffchecks.flows.syntax import line_of, module_name, part_of
from diffchecks.flows.values import (
    CLEAN,
    MODULE,
    FlowState,
    FlowTaint,
    FlowValue,
    checked,
    either,
    harmless,
    truth,
)

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from diffchecks.patterns.pattern_loading import PatternFile

_CLASS = re.compile(r"class|struct|interface|record|module|trait")
_LOOP = re.compile(r"^(?:for|while|foreach|do|until|enhanced_for)")
_DEPTH = 8  # of functions inside each other and of calls
_MAX_RUNS = 600  # of functions in a file
_CALLERS = 2  # functions between one with a source and the one that is run for it


class Tracing(Expressions):
    """The evaluation of one program."""

    def __init__(
        self, source: Source, root: SgNode, language: PatternFile, tables: FlowTables
    ) -> None:
        super().__init__(source, root, language, tables)
        self.marks_parameters = tables.commands.search(source.text) is not None
        self._names: dict[SgNode, str] = {}
        self._running: list[SgNode] = []
        self._waiting: list[tuple[SgNode, str]] = []
        self._returned: list[list[tuple[SgNode, FlowValue]]] = []
        self.shadowed: list[dict[str, FlowValue | None]] = []
        self._header = ""
        self._by_kind: dict[str, Callable[[SgNode, FlowState], FlowValue]] = {
            **dict.fromkeys(self.values, self.made_of),
            **dict.fromkeys(language.bindings, self.assign),
            **dict.fromkeys(self.literals, self.literal),
            **dict.fromkeys(self.names, self.name_of),
            **dict.fromkeys(self.lookups, self.member),
            **dict.fromkeys(tables.texts, self.joined),
            **dict.fromkeys(tables.containers, self.container),
            **dict.fromkeys(tables.pairs, self.pair),
            **dict.fromkeys(tables.binaries, self.binary),
            **dict.fromkeys(tables.blocks, self._block),
            **dict.fromkeys(tables.returns, self._return),
            **dict.fromkeys(tables.exits, self._exit),
            **dict.fromkeys(tables.switches, self._switch),
            **dict.fromkeys(self.call_parts, self.call),
            **dict.fromkeys(tables.functions, self._function),
        }

    def run(self) -> list[TracedFlow]:
        """The flows of the program, by place."""
        self.prepare()
        for function, context in self._waiting:
            if self.is_of_interest(function, self.module, context):
                self._running, self._returned = [], []
                with suppress(RecursionError):
                    self.run_function(function, self.module, (), context)
        return [self.flows[key] for key in sorted(self.flows)]

    def prepare(self) -> None:
        """Know the program's functions, and run what is in none of them; once."""
        if self._names:
            return
        self._names[self.root] = ""
        self._index()
        for found in self.tables.imports.finditer(self.program.text):
            self._import(found.groupdict(default=""))
        with suppress(RecursionError):
            self.evaluate(self.root, self.module)

    def _index(self) -> None:
        """Find the functions and classes of the file by their names."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            kind, name = node.kind(), node.field("name") or node.field("left")
            if name is not None:
                value = node.field("value") or node.field("right")
                function = node if kind in self.tables.functions else value
                if function is not None and function.kind() in self.tables.functions:
                    own = name.text().rpartition(".")[2]
                    self.functions.setdefault(own, []).append(function)
                    self._names[function] = own
                elif _CLASS.search(kind):
                    self.classes.add(name.text())
            waiting += [child for child in node.children() if child.is_named()]
        for _ in range(_CALLERS):
            asking = [name for name, own in self.functions.items() if any(map(self.hints, own))]
            names = "|".join(map(re.escape, asking)) or "(?!)"
            self.asks = re.compile(rf"(?<!\w)(?:{names})(?![\w?!])")

    def _import(self, found: dict[str, str]) -> None:
        """Give the names that an import brings their full names."""
        module = module_name(found["module"])
        values = self.module.values
        for name in (found.get("space"), found.get("default")):
            if name:
                values[name] = FlowValue(module, MODULE)
        for each in found.get("names", "").split(","):
            own, _, alias = re.sub(r"\s+as\s+|\s*:\s*", "=", each.strip()).partition("=")
            if own:
                values[alias or own] = FlowValue(f"{module}.{own}", MODULE)

    def evaluate(self, node: SgNode, state: FlowState) -> FlowValue:
        """The value of an expression or statement; nothing happens after a return."""
        if state.dead:
            return CLEAN
        kind = node.kind()
        evaluate = self._by_kind.get(kind)
        if evaluate is not None and not (kind in self.language.bindings and _LOOP.search(kind)):
            return evaluate(node, state)
        if _LOOP.search(kind):
            return self._loop(node, state)
        if kind.startswith(("try", "begin")):
            return self._try(node, state)
        condition = node.field("condition")
        if condition is not None:
            return self.branch(node, condition, state)
        if node.field("name") is not None and _CLASS.search(kind):
            return self._class(node, state)
        return self._other(node, state)

    def _other(self, node: SgNode, state: FlowState) -> FlowValue:
        """A statement or operator, whose value is known where it has one part alone."""
        children = node.children()
        sign = children[0].text() if children else ""
        if sign in {"!", "not"}:
            value = truth(self.evaluate(children[-1], state))
            return FlowValue(passed=value.failed, failed=value.passed)
        values = [self.evaluate(child, state) for child in children if child.is_named()]
        if sign in {"+", "-", "~"}:
            return harmless(values)
        alone = len(children) == 1 or sign in {"&", "*", "@", "(", "["}
        return values[0] if len(values) == 1 and alone else CLEAN

    def _block(self, node: SgNode, state: FlowState) -> FlowValue:
        self.shadowed.append({})
        value = CLEAN
        for child in node.named_children():
            if child.kind() in {"rescue", "ensure"}:
                self.evaluate(child, FlowState(state.values, state.cleared))
            elif child.kind() != "comment":
                value = self.evaluate(child, state)
        for name, before in self.shadowed.pop().items():
            if before is None:
                state.values.pop(name, None)
            else:
                state.values[name] = before
        return value

    def _loop(self, node: SgNode, state: FlowState) -> FlowValue:
        inner = state.copy()
        done: set[SgNode] = set()
        parts = self.values.get(node.kind(), ())
        field = self.language.bindings.get(node.kind())
        given = part_of(node, parts[0]) if parts else None
        target = None if field is None else part_of(node, field)
        if given is not None and target is not None:
            value = self.evaluate(given, inner)
            self.bind_name(target, replace(value, fields={}), inner)
            done = {given, target}
        for condition in node.field_children("condition"):
            inner.clear(self.evaluate(condition, inner).passed)
            done.add(condition)
        for child in node.named_children():
            if child not in done:
                self.evaluate(child, inner)
        inner.dead = False
        state.become([state, inner])
        return CLEAN

    def _try(self, node: SgNode, state: FlowState) -> FlowValue:
        """Each part from the state before it, since any statement may fail."""
        states, values = [], []
        for child in node.named_children():
            inner = state if "resource" in child.kind() else state.copy()
            values.append(self.evaluate(child, inner))
            states.append(inner)
        state.become(states)
        return either(values)

    def branch(self, node: SgNode, condition: SgNode, state: FlowState) -> FlowValue:
        """One side of a condition, or both."""
        for first in node.field_children("initializer"):
            self.evaluate(first, state)
        test = truth(self.evaluate(condition, state))
        passed, failed = test.passed, test.failed
        if node.kind().startswith("unless"):
            passed, failed = failed, passed
        then, other = state.copy(), state.copy()
        then.clear(passed)
        other.clear(failed)
        body = node.field("consequence") or node.field("body")
        given = test if body is None else self.evaluate(body, then)  # ``a ?: b`` has no body
        values = [then.checked(given)]
        others = node.field_children("alternative")
        values += [other.checked(self.evaluate(each, other)) for each in others]
        state.become([then, other])
        return either([value for value in values if value is not CLEAN] or [CLEAN])

    def _switch(self, node: SgNode, state: FlowState) -> FlowValue:
        kinds = self.tables.switches[node.kind()]
        subject, states, values = CLEAN, [], []
        cases = list(self._cases(node, kinds))
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
        others = (each for each in node.named_children() if each.kind() == "else")
        values += [self.evaluate(each, state) for each in others]
        state.become(states if default and states else [state, *states])
        return either(values)

    def _cases(self, node: SgNode, kinds: Iterable[str]) -> Iterable[SgNode]:
        for child in node.named_children():
            if child.kind() in kinds:
                yield child
            elif child.kind().endswith(("body", "block")):
                yield from self._cases(child, kinds)

    def _return(self, node: SgNode, state: FlowState) -> FlowValue:
        values = [self.evaluate(child, state) for child in node.named_children()]
        value = either(values)
        if self._returned:
            self._returned[-1].append((node, state.checked(value)))
        state.dead = True
        return value

    def _exit(self, node: SgNode, state: FlowState) -> FlowValue:
        for child in node.named_children():
            self.evaluate(child, state)
        state.dead = True
        return CLEAN

    def _class(self, node: SgNode, state: FlowState) -> FlowValue:
        body = node.field("body")
        before, self._header = self._header, node.text().partition("{")[0]
        for child in (body or node).named_children():
            if child.kind() not in self.names:
                self.evaluate(child, state)
        self._header = before
        return CLEAN

    def _function(self, node: SgNode, state: FlowState) -> FlowValue:
        """A function where it is written: a named one waits for the end of the program."""
        if node.field("name") is not None and not self._running:
            above = node.parent()
            written = (
                above.text() if above is not None and "export" in above.kind() else node.text()
            )
            body = node.field("body")  # a route before it may hold a brace
            header = written.partition(body.text() if body else "{")[0]
            self._waiting.append((node, f"{self._header}\n{header}"))
        elif self.is_of_interest(node, state):
            self.run_function(node, state, (), node.text().partition("{")[0])
        return CLEAN

    def is_of_interest(self, node: SgNode, state: FlowState, context: str = "") -> bool:
        """Whether a function may hold a source, or the rest of a flow."""
        if any(value.taints for value in state.values.values()):
            return True
        return self.marks_parameters or self.hints(node, context)

    def run_function(
        self, node: SgNode, state: FlowState, values: Sequence[FlowValue], context: str = ""
    ) -> FlowValue:
        """What a function gives back for these arguments; those left out are what they say."""
        if node in self._running or len(self._running) >= _DEPTH or self.runs >= _MAX_RUNS:
            return CLEAN
        self.runs += 1
        self._running.append(node)
        inner = state.copy()
        shadowed, self.shadowed = self.shadowed, []
        own = set[str]()
        for number, parameter in enumerate(self.parameters(node)):
            before = dict(inner.values)
            name = f"{self.program.path} {self._names.get(node, '')}"
            known = number < len(values)
            given = values[number] if known else self._parameter(parameter, context, name)
            self.bind_name(parameter, given, inner)
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
        self.shadowed = shadowed
        kind = body.kind() if body is not None else ""
        if self.tables.implicit or kind not in self.tables.blocks:
            place = body or node
            within = place.named_children() if self.tables.implicit else ()
            results.append((within[-1] if within else place, inner.checked(last)))
        result = either([value for _, value in results])
        if context:
            self._check_returned(node, results, context)
        for name, value in inner.values.items():
            if name in state.values and name not in own and value is not state.values[name]:
                state.values[name] = either([state.values[name], value])
        return result

    def _check_returned(
        self, node: SgNode, results: Sequence[tuple[SgNode, FlowValue]], context: str
    ) -> None:
        """Check each result of a function at the statement that gives it back."""
        for sink in self.tables.returned:
            if sink.call.search(context) and not sink.unless.search(node.text()):
                for place, value in results:
                    self.check_value(place, sink, value, FlowState({}, {}), "return")

    def _parameter(self, node: SgNode, context: str, function: str) -> FlowValue:
        """What a parameter is when nobody passes it: a request, a part of one, or anything."""
        above = node.parent()
        written = node.text()
        if above is not None and not re.search("parameters|^parameter_list$", above.kind()):
            written = above.text()
        name = next((each.text() for each in self.names_in(node)), written)
        if self.language.known.fullmatch(written):
            return FlowValue(name=name)
        for pattern, of in self.tables.parameters:
            if pattern.search(written) and of.search(context):
                return self.source(node, f"@{name}")
        for kind, known in self.tables.types:
            if kind.search(written):
                return FlowValue(name=known)
        if self.tables.sources.fullmatch(name) or not self.marks_parameters:
            return FlowValue(name=name)
        step = (line_of(node), f"`{name}`")
        taint = FlowTaint(f"{name}@{step[0]}", (step,), parameter=function)
        return FlowValue(name=name, text="\1", taints=(taint,))
