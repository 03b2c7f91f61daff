"""Runs every function in which something from outside begins, and whoever uses what it gives."""

import ast
import bisect
import contextlib
import functools
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from typing import Final, NoReturn

from diffchecks.path_kinds import is_test
from diffchecks.taint import (
    calls,
    entry_parameters,
    expressions,
    rendered_templates,
    sink_checks,
    statements,
    stored_fields,
    template_renderers,
)
from diffchecks.taint.abstract_state import collect_taints
from diffchecks.taint.abstract_values import UNKNOWN, Taint, Value, resolve
from diffchecks.taint.affected_names import bound_names
from diffchecks.taint.call_frames import Activation, BudgetExceeded, TaintJob
from diffchecks.taint.dependent_files import find_dependent_files, unused_samples
from diffchecks.taint.entry_points import (
    REMOTE,
    DefinitionLines,
    covers,
    distinctive_names,
    functions_containing,
    functions_with_statements,
    lines_naming,
    lines_with,
    make_hints,
    spans,
)
from diffchecks.taint.library_models import LibraryModels
from diffchecks.taint.module_index import Class, Definition, Function, Module, Project
from diffchecks.taint.template_files import TemplateTree
from diffchecks.taint.url_configuration import UrlConfiguration

_MAX_NAMES: Final = 300
_FEW: Final = 100  # changed files
MAX_TOTAL: Final = 2_000_000  # statements run in one job, a few times what the largest trees need
_MAX_CONSTRUCTOR: Final = 300  # statements run to make one object of a module's body
_TOO_DEEP: Final = "nested too deeply to be traced"


class TaintAnalysis:
    """Traces from sources to sinks over a project, by what the library models say of them.

    ``documents``: those of OpenAPI, which name functions that answer requests.
    """

    def __init__(
        self,
        project: Project,
        models: LibraryModels,
        templates: TemplateTree,
        documents: Collection[str] = (),
    ) -> None:
        self.project = project
        self.run = TaintJob(
            project,
            models,
            UrlConfiguration(project, documents),
            templates,
            evaluate=expressions.evaluate,
            execute=statements.execute,
            invoke=calls.invoke,
            assign=statements.assign,
            globals_of=self.globals_of,
            define=self._define,
        )
        self.gaps: dict[str, str] = {}
        self._body: Module | None = None  # that is run for its names
        self._hints = make_hints(models)
        self.unused: Set[str] = frozenset()
        self._done: set[object] = set()
        self._spent = 0
        self._used: dict[str, list[int]] = {}
        self._kept: dict[Function, list[str]] = {}
        self._held: dict[Function, frozenset[str]] = {}
        self._asked: dict[object, frozenset[tuple[Class, str]]] = {}
        self._spans_of = functools.cache(spans)

    def globals_of(self, module: Module) -> dict[str, Value]:
        """The names of a module; its body is run for them once, following no call."""
        if module.globals is None:
            module.globals = {}
            frame = Activation(self.run, module)
            frame.quiet = True
            with self._for_names(module):
                self.run.execute(frame, module.tree.body)
            module.globals = frame.state.vars
            self.run.heap.shared.update(frame.state.objects)
            self._construct(module)
        return module.globals

    @contextlib.contextmanager
    def _for_names(self, module: Module) -> Iterator[None]:
        """Run a part of a module's body on the budget of that module."""
        outer, steps, handling = self._body, self.run.steps, self.run.handling
        if outer is not None:
            outer.steps = steps  # it may be the same module
        self._body, self.run.steps, self.run.handling = module, module.steps, False
        try:
            yield
        except BudgetExceeded:
            self.gaps[module.path] = "its body is too long to be traced"
        except RecursionError:
            self.gaps[module.path] = _TOO_DEEP
        module.steps = self.run.steps
        self.run.steps = steps if outer is None else outer.steps
        self._body, self.run.handling = outer, handling

    def _define(self, body: Activation, names: dict[str, Value], node: Definition) -> Value:
        """What a definition in a module's body makes, now that its name is used.

        Args:
            names: what the body had bound before, and perhaps what it bound after.
        """
        module, value = body.module, UNKNOWN
        complete = bool(module.globals)  # its body has been run
        frame = Activation(self.run, module)
        frame.quiet, frame.state.vars = True, names
        if not complete:
            frame.state.objects = body.state.objects
        with self._for_names(module):
            value = statements.define(frame, node)
        self.run.heap.shared.update(frame.state.objects)
        if complete:
            self._construct(module)
        return value

    def _function_of(self, module: Module, span: DefinitionLines) -> Function | None:
        """The function of a definition; None where none was made, as in a function not run yet."""
        if span.node not in self.run.functions:
            line = span.node.lineno
            at = bisect.bisect_right(module.definitions, line, key=lambda item: item[0].lineno)
            if at:
                resolve(module.definitions[at - 1][1])
        return self.run.functions.get(span.node)

    def _construct(self, module: Module) -> None:
        """Run the constructors of the objects that a module's body makes."""
        body, self._body = self._body, None
        for value, call in self.run.pending.pop(module.path, ()):
            frame = Activation(self.run, module)
            with self.run.budget(_MAX_CONSTRUCTOR):
                calls.construct(frame, call, value)
                self.run.heap.shared.update(frame.state.objects)
        self._body = body

    def trace(
        self, paths: Sequence[str], affected: Set[str] | None = None, pages: Sequence[str] = ()
    ) -> None:
        """Run what begins in these files, and in others where they use what these define.

        Nothing begins in tests that only tests import: no rule of taint reports anything there.

        Args:
            affected: what others count as users of; None: all that these files define.
            pages: templates; what fills them in is run as well.
        """
        for path in paths:
            self.project.module(path, changed=True)  # what does not parse must be named
        self.unused = unused_samples(self.project, paths)
        paths = [path for path in paths if path not in self.unused or not is_test(path)]
        self._used = find_dependent_files(self.project, paths, affected)
        scope = [*paths, *self._used]
        names: list[str] = []
        for path in scope:
            text = self.project.text(path) or ""
            found = self._hints.lines(text, self.project.packages(path))
            lines = sorted({*found, *self.run.urls.lines(path, text)})
            names.extend(self._run_path(path, lines))
        seen: set[str] = set()
        while names and len(seen) < _MAX_NAMES:
            fresh = distinctive_names(names) - seen
            seen.update(fresh)
            names = []
            for path in scope if fresh else ():
                names.extend(
                    self._run_path(path, lines_naming(self.project.text(path) or "", fresh))
                )
        self._run_pages(paths, pages, affected)
        if self.run.stored:  # what a model's users show is not altered where it is stored
            for path in (*paths, *find_dependent_files(self.project, paths)):
                self._run_readers(path)
        for path in paths:
            self._run_builders(path)

    def clear(self) -> None:
        """Cut what refers to each other, so that nothing has to be searched for it."""
        for function in self.run.functions.values():
            function.closure, function.cls = {}, None
        for module in self.project.modules():
            module.globals = None
            for _, value in module.definitions:
                value.find = Value
        self.run.memo.clear()
        self.run.heap.shared.clear()
        self.run.globals_of, self.run.define = _not_run, _not_run  # this object's own

    def _run_readers(self, path: str) -> None:
        """Run the functions that may show what a request has stored, now that this is known."""
        module = self.project.module(path)
        if module is None or self._spent > MAX_TOTAL:
            return
        self.globals_of(module)
        text = self.project.text(path) or ""
        fields = "|".join(sorted(stored_fields.fields_shown(self.run, module)))
        lines = lines_with(text, re.compile(rf"\.(?:{fields})\b")) if fields else []
        rows = text.split("\n")
        for span in functions_containing(self._spans_of(module), lines):
            shown = stored_fields.SHOWN.search("\n".join(rows[span.first - 1 : span.last]))
            function = self._function_of(module, span)
            if shown and function is not None:
                self._run_function(function)

    def _run_pages(
        self, paths: Sequence[str], pages: Sequence[str], affected: Set[str] | None
    ) -> None:
        """Run what fills in templates that print unescaped, again once what is stored is known."""
        project, templates = self.project, self.run.templates
        meant = dict(template_renderers.renderers_of(project, templates, pages))
        few = paths if len(paths) <= _FEW else ()  # of more, most users are among them
        models = [path for path in few if self._defines_models(path)]
        if self.run.stored or affected is None or self._alters_values(paths, affected):
            affected = None  # of a class that may be another one, pages name fields
        own = {*paths, *find_dependent_files(project, models, affected)}
        due: list[Function | Class] = []
        for path in sorted({*own, *meant}):
            wanted = None if path in own else meant[path]
            lines = template_renderers.rendering_lines(project, templates, path, wanted)
            due += self._functions_on(path, lines)
            due += template_renderers.views_in(self.run, path)
        self._run_once(due)
        asked = [self._asked.get(each.node, frozenset()) for each in due]
        for path, lines in stored_fields.writers(self.run, frozenset().union(*asked)):
            self._run_once(self._functions_on(path, lines))
        if self.run.stored:
            for each in due:
                read = self._asked.get(each.node, ())
                if any(cls in self.run.stored.get(name, ()) for cls, name in read):
                    self._run_page(each)

    def _alters_values(self, paths: Iterable[str], affected: Set[str]) -> bool:
        """Whether one of these names is a method's, or not only that of a module's function."""
        modules = filter(None, map(self.project.module, paths))
        body = (each for module in modules for each in module.tree.body)
        others = (
            bound_names(each)
            for each in body
            if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        bound = {".", *itertools.chain.from_iterable(others)}
        return not bound.isdisjoint("." if name[0] == "." else name for name in affected)

    def _defines_models(self, path: str) -> bool:
        """Whether a module may define database models, which what functions use are not."""
        lines = lines_with(self.project.text(path) or "", stored_fields.MODELS)
        module = self.project.module(path) if lines else None
        return module is not None and not covers(self._spans_of(module), lines)

    def _run_once(self, due: Iterable[Function | Class]) -> None:
        for each in due:
            if isinstance(each, Class) or each.node not in self._done:
                self._run_page(each)

    def _functions_on(self, path: str, lines: list[int]) -> list[Function]:
        module = self.project.module(path) if lines else None
        if module is None:
            return []
        self.globals_of(module)
        found = functions_containing(self._spans_of(module), lines)
        functions = (self._function_of(module, span) for span in found)
        return [function for function in functions if function is not None]

    def _run_page(self, each: Function | Class) -> None:
        if self._spent > MAX_TOTAL:
            return
        if isinstance(each, Function):
            self._done.add(each.node)
            self._run_function(each)
            return
        frame = Activation(self.run, each.module)
        with self._noting_fields(each), self._guarded(frame):
            template_renderers.run_view(frame, each)

    @contextlib.contextmanager
    def _noting_fields(self, each: Function | Class) -> Iterator[None]:
        """Remember which fields of stored objects are read on behalf of a function or view."""
        before, self.run.asked = self.run.asked, set()
        yield
        self._asked[each.node] = frozenset(self.run.asked)
        self.run.asked |= before

    def _run_builders(self, path: str) -> None:
        """Run the functions in which parameters that no handler was seen to give are dangerous."""
        module = self.project.module(path)
        if module is None or self._spent > MAX_TOTAL:
            return
        text = self.project.text(path) or ""
        found = functions_with_statements(text, functools.partial(self._spans_of, module))
        lines = self._hints.lines_given(text, self.project.packages(path))
        found += functions_containing(self._spans_of(module), lines) if lines else []
        for span in dict.fromkeys(found):
            self.globals_of(module)
            function = self._function_of(module, span)
            if function is not None and function not in self.run.given_safe:
                self._run_function(function, assumed=True)

    def _run_path(self, path: str, lines: list[int]) -> list[str]:
        """Run what holds one of the lines; the names of functions that give tainted values."""
        module = self.project.module(path) if lines else None
        if module is None:
            return []
        if self._spent > MAX_TOTAL:
            self.gaps.setdefault(path, "not traced: the step limit of one job is used up")
            return []
        found = self._spans_of(module)
        chosen = functions_containing(found, lines)
        if path in self._used:
            using = {span.node for span in functions_containing(found, self._used[path])}
            chosen = [span for span in chosen if span.node in using]
            if not chosen:
                return []
        self.globals_of(module)
        if path not in self._used and module not in self._done and not covers(found, lines):
            self._done.add(module)
            frame = Activation(self.run, module)
            with self._guarded(frame):
                self.run.execute(frame, module.tree.body)
        names: list[str] = []
        known = set(self.run.contexts)
        for span in chosen:
            function = self._function_of(module, span)
            if function is not None and self._is_due(function):
                self._done.add(span.node)
                if any(taint.kind in REMOTE for taint in self._run_function(function)):
                    names.append(span.node.name)
                names.extend(self._kept.pop(function, ()))
        names.extend(ref.rpartition(".")[2] for ref in self.run.contexts if ref not in known)
        return names

    def _is_due(self, function: Function) -> bool:
        """Whether a function has not been run, or not since its object or request holds more."""
        if function.node not in self._done:
            return True
        own = self.run.held_by(function.cls) if function.cls else ()
        held = frozenset((*own, *self.run.contexts))
        if self._held.get(function, frozenset()) == held:
            return False
        self._held[function] = held
        return True

    def _keep_attributes(self, frame: Activation, function: Function) -> None:
        """Remember what a method leaves of a request on its object, for the other methods."""
        parameters = function.node.args.args
        if function.cls is None or function.is_static or not parameters:
            return
        held = self.run.held.setdefault(function.cls, {})
        for state in (frame.state, *(way.state for way in frame.returns)):
            for obj in state.of(state.vars.get(parameters[0].arg, UNKNOWN)):
                for name, value in obj.items.items():
                    remote = [taint for taint in value.taints if taint.kind in REMOTE]
                    facts = [taint.with_facts(state.facts_of(taint)) for taint in remote]
                    if facts and name not in held and isinstance(name, str):
                        held[name] = Value(taints=tuple(facts), ref=value.ref, marks=value.marks)
                        self._kept.setdefault(function, []).append(name)

    @contextlib.contextmanager
    def _guarded(self, frame: Activation) -> Iterator[None]:
        """Run something from outside, on a budget; what it does not suffice for is a gap."""
        self.run.steps = self.run.calls = self.run.untainted_calls = 0
        self.run.memo.clear()  # what ran before must not decide what is found
        what = f"{frame.scope}()" if frame.scope else "the module"
        try:
            yield
        except BudgetExceeded:
            self.gaps[frame.module.path] = f"{what} is too large to be traced completely"
        except RecursionError:
            self.gaps[frame.module.path] = f"{what} is {_TOO_DEEP}"
        self._spent += self.run.steps

    def _run_function(self, function: Function, *, assumed: bool = False) -> tuple[Taint, ...]:
        """Run a function from outside; the taints of what it gives.

        Args:
            assumed: whoever calls it may give it anything.
        """
        frame = Activation(self.run, function.module, function)
        frame.stack = (function,)
        with self._noting_fields(function), self._guarded(frame):
            _enter(frame, assumed=assumed)
        self._keep_attributes(frame, function)
        given = [collect_taints(way.value, way.state) for way in frame.returns]
        given += [collect_taints(value, frame.state) for value in frame.yields]
        return tuple(itertools.chain.from_iterable(given))


def _not_run(*_: object) -> NoReturn:
    raise AssertionError("this run is over")


def _enter(frame: Activation, *, assumed: bool) -> None:
    function = frame.function
    if function is None or not isinstance(function.node.body, list):
        return
    entry = entry_parameters.describe_entry_point(frame.run, function)
    if assumed and entry.handler:
        return
    entry.text = entry.text or assumed
    entry_parameters.bind_entry_parameters(frame, entry)
    frame.handler = frame.run.handling = entry.handler
    if assumed and entry.handler:
        return
    frame.run.execute(frame, function.node.body)
    frame.run.handling = False
    for way in frame.returns:
        for klass in sorted(entry.returns):
            sink_checks.check_returned(frame, way.node, way.value, way.state, klass)
        for decorator, value in function.decorators:
            rendered_templates.check_returned(frame, decorator, value.ref, way)
