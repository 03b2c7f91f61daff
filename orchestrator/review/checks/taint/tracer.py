"""Runs every function in which something from outside begins, and whoever uses what it gives."""

import functools
import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from orchestrator.review.checks.taint import calls, entries, expressions, sinks, statements, targets
from orchestrator.review.checks.taint.frames import BudgetSpent, Frame, Run
from orchestrator.review.checks.taint.knowledge import Knowledge
from orchestrator.review.checks.taint.project import Function, Module, Project
from orchestrator.review.checks.taint.roots import (
    Hints,
    Span,
    covers,
    holding,
    lines_with,
    spans,
)
from orchestrator.review.checks.taint.state import deep_taints
from orchestrator.review.checks.taint.values import Taint, Value

_MAX_NAMES: Final = 300
_MAX_SCOPE: Final = 2000
_COMMON: Final = frozenset({"get", "main", "run", "read", "write", "call", "close", "wrapper"})
_TOO_DEEP: Final = "nested too deeply to be followed"


class Tracer:
    """Traces from sources to sinks over a project.

    Args:
        project: the tree.
        knowledge: what is a source, a sink, and what stands between.
    """

    def __init__(self, project: Project, knowledge: Knowledge) -> None:
        self.project = project
        self.run = Run(
            project,
            knowledge,
            evaluate=expressions.evaluate,
            execute=statements.execute,
            invoke=calls.invoke,
            assign=targets.assign,
            globals_of=self.globals_of,
        )
        self.gaps: dict[str, str] = {}
        self._hints = Hints(knowledge)
        self._done: set[object] = set()
        self._spans: dict[Module, list[Span]] = {}

    def globals_of(self, module: Module) -> dict[str, Value]:
        """The names of a module; its body is run for them once, following no call."""
        if module.globals is None:
            module.globals = {}
            frame = Frame(self.run, module)
            frame.quiet = True
            steps = self.run.steps
            self.run.steps = 0
            try:
                self.run.execute(frame, module.tree.body)
            except BudgetSpent:
                self.gaps[module.path] = "its body is too long to be followed"
            except RecursionError:
                self.gaps[module.path] = _TOO_DEEP
            self.run.steps = steps
            module.globals = frame.state.vars
            self.run.heap.shared.update(frame.state.objects)
        return module.globals

    def trace(self, paths: Iterable[str]) -> None:
        """Run what begins in these files, or in files that import them."""
        scope = [module for path in self._scope(paths) if (module := self.project.module(path))]
        names: list[str] = []
        for module in scope:
            lines = self._hints.lines(module)
            if lines:
                names.extend(self._run_module(module, lines))
        seen: set[str] = set()
        while names and len(seen) < _MAX_NAMES:
            fresh = [name for name in dict.fromkeys(names) if name not in seen]
            seen.update(fresh)
            names = self._run_callers(scope, fresh) if fresh else []

    def _run_callers(self, scope: list[Module], names: list[str]) -> list[str]:
        """Run the functions that mention one of these names, for they may get tainted values."""
        pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")
        found: list[str] = []
        for module in scope:
            lines = lines_with(module.text, pattern)
            if lines:
                found.extend(self._run_module(module, lines))
        return found

    def _scope(self, paths: Iterable[str]) -> list[str]:
        """The files, and those that import one of them by name, transitively."""
        chosen = dict.fromkeys(paths)
        others = {path for path in self.project.paths if path not in chosen}
        fresh = list(chosen)
        while fresh and others and len(chosen) < _MAX_SCOPE:
            pattern = _imports_any(fresh)
            fresh = [
                path for path in sorted(others) if pattern.search(self.project.text(path) or "")
            ]
            chosen.update(dict.fromkeys(fresh))
            others.difference_update(fresh)
        return list(chosen)

    def _run_module(self, module: Module, lines: list[int]) -> list[str]:
        """Run what holds one of the lines; the names of functions that give tainted values."""
        self.globals_of(module)
        if module not in self._spans:
            self._spans[module] = spans(module)
        chosen = holding(self._spans[module], lines)
        if module not in self._done and not covers(self._spans[module], lines):
            self._done.add(module)
            self._run_body(module)
        names: list[str] = []
        for span in chosen:
            function = self.run.functions.get(span.node)
            if function is None or span.node in self._done:
                continue
            self._done.add(span.node)
            if self._run_function(function):
                name = span.node.name
                if len(name) > 3 and name not in _COMMON and not name.startswith("__"):
                    names.append(name)
        return names

    def _guarded(self, frame: Frame, perform: functools.partial[None]) -> None:
        self.run.steps = self.run.calls = self.run.idle_calls = 0
        what = f"{frame.scope}()" if frame.scope else "the module"
        try:
            perform()
        except BudgetSpent:
            self.gaps[frame.module.path] = f"{what} is too large to be followed to its end"
        except RecursionError:
            self.gaps[frame.module.path] = f"{what} is {_TOO_DEEP}"

    def _run_body(self, module: Module) -> None:
        frame = Frame(self.run, module)
        self._guarded(frame, functools.partial(self.run.execute, frame, module.tree.body))

    def _run_function(self, function: Function) -> tuple[Taint, ...]:
        """Run a function from outside; the taints of what it gives."""
        frame = Frame(self.run, function.module, function)
        frame.stack = (function,)
        self._guarded(frame, functools.partial(_enter, frame))
        taints: list[Taint] = []
        for way in (*frame.returns,):
            taints.extend(deep_taints(way.value, way.state))
        for value in frame.yields:
            taints.extend(deep_taints(value, frame.state))
        return tuple(taints)


def _enter(frame: Frame) -> None:
    function = frame.function
    if function is None or not isinstance(function.node.body, list):
        return
    entry = entries.describe(frame.run, function)
    entries.give_parameters(frame, entry)
    frame.handler = entry.handler
    frame.run.execute(frame, function.node.body)
    for way in frame.returns:
        for klass in sorted(entry.returns):
            sinks.check_returned(frame, way.node, way.value, way.state, klass)


def _imports_any(paths: Iterable[str]) -> re.Pattern[str]:
    """Matches an import statement that names one of these files by its last part."""
    leaves = set()
    for path in paths:
        pure = PurePosixPath(path)
        leaves.add(pure.parent.name if pure.name == "__init__.py" else pure.stem)
    joined = "|".join(re.escape(leaf) for leaf in sorted(leaves) if leaf) or "(?!)"
    return re.compile(rf"^[ \t]*(?:from|import)\b[^\n]*\b(?:{joined})\b", re.MULTILINE)
