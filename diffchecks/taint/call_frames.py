"""The shared data of one run, and the frame of one function activation."""

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from msgspec import Struct, field

from diffchecks.taint.abstract_state import AbstractState, Heap, HeapObject
from diffchecks.taint.abstract_values import UNKNOWN, Taint, TaintStep, Value, resolve
from diffchecks.taint.library_models import LibraryModels
from diffchecks.taint.module_index import Class, Definition, Function, Module, Project
from diffchecks.taint.template_files import TemplateTree
from diffchecks.taint.url_configuration import UrlConfiguration

Place = tuple[str, int, str]
"""A sink: path, line, class."""

MAX_DEPTH: Final = 7
MAX_STEPS: Final = 30_000  # maximum statements per entry point
MAX_CALLS: Final = 160  # activations on behalf of one entry point
MAX_UNTAINTED_DEPTH: Final = 3  # maximum nested activations without tainted arguments
MAX_UNTAINTED_CALLS: Final = 60  # maximum such activations per entry point


class BudgetExceeded(Exception):
    """An entry point has used up its budget."""


class EvaluatedCall(Struct):
    """A call with its parts evaluated.

    Attributes:
        receiver: the object of the method; None for a plain function.
        args, keywords: in the call's order.
        rest: what ``*args`` and ``**kwargs`` of the call may contain, else None.
    """

    node: ast.expr
    function: Value
    receiver: Value | None
    args: list[Value]
    keywords: dict[str, Value]
    rest: Value | None = None

    @property
    def ref(self) -> str:
        """The dotted name of the called function."""
        return self.function.ref

    def values(self) -> list[Value]:
        """All arguments of the call, including unpacked ones."""
        extra = [] if self.rest is None else [self.rest]
        return [*self.args, *self.keywords.values(), *extra]

    def select_argument(self, selector: str) -> Value | None:
        """The argument for a selector such as ``0|url`` or ``self``; None if absent."""
        for part in selector.split("|"):
            if part == "self":
                return self.receiver
            if part == "**":
                return self.rest if self.rest and "mapping" in self.rest.marks else None
            if part.isdigit():
                if int(part) < len(self.args):
                    return self.args[int(part)]
            elif part in self.keywords:
                return self.keywords[part]
        return None


class Return(Struct):
    """An exit of a function, with the state at that point."""

    node: ast.AST
    value: Value
    state: AbstractState


class Rendering(Struct, frozen=True):
    """The chain of templates that are being rendered, and the code that renders the first.

    Attributes:
        path, line: of the program.
        name: of the template, as in the program.
    """

    pages: tuple[str, ...]
    path: str
    line: int
    name: str

    def begin(self, trace: TaintStep | None) -> TaintStep:
        """A trace to here with the step at which the program fills in the template."""
        return TaintStep(self.path, self.line, f"fills in {self.name}", trace)


class TaintFinding(Struct):
    """A finding before it is converted for the reply."""

    code: str
    path: str
    line: int
    end_line: int
    scope: str
    message: str
    confidence: float
    trace: TaintStep | None = None


class TaintJob(Struct, eq=False):
    """The data shared by all activations of one job.

    Attributes:
        constant, moving: sinks in entry functions that only constants were seen to reach, and those
            that other values reached.
        given_safe: functions that a request handler was seen to call with untainted arguments only.
        handling: a request handler is running.
        held: class → attributes that some method sets to values from a request.
        contexts: dotted name → tainted content of an object that a whole request shares.
        text_fields: class → text fields of a database model.
        stored: field and model → unescaped values that requests store in it.
        rows: model → the value that represents any stored object of it.
        asked: fields of such objects that were read, as class and name.
        filters: name → template filter.
        filter_modules: the modules that may define filters; None: not searched yet.
        imported_models: module → database models that it defines or imports.
        cut: how many calls were not followed because of a limit.
        constructed: class definition → the first call in a module's body that constructs it.
        pending: module → objects that its body makes and whose constructors have not run yet.

    The callables are the parts of the interpreter; they are set once where the parts are assembled,
    which avoids circular imports.
    """

    project: Project
    models: LibraryModels
    urls: UrlConfiguration
    templates: TemplateTree
    evaluate: "Callable[[Activation, ast.expr], Value]"
    execute: "Callable[[Activation, list[ast.stmt]], None]"
    invoke: "Callable[[Activation, EvaluatedCall], Value]"
    assign: "Callable[[Activation, ast.expr, Value], None]"
    globals_of: "Callable[[Module], dict[str, Value]]"
    define: "Callable[[Activation, dict[str, Value], Definition], Value]"
    heap: Heap = field(default_factory=Heap)
    found: dict[tuple[str, str, int], TaintFinding] = field(default_factory=dict)
    constant: set[Place] = field(default_factory=set)
    moving: set[Place] = field(default_factory=set)
    memo: dict[Any, tuple[Value, dict[int, HeapObject]]] = field(default_factory=dict)
    given_safe: set[Function] = field(default_factory=set)
    handling: bool = False
    held: dict[Class, dict[str, Value]] = field(default_factory=dict)
    contexts: dict[str, Value] = field(default_factory=dict)
    stored: dict[str, dict[Class, Taint]] = field(default_factory=dict)
    text_fields: dict[Class, frozenset[str]] = field(default_factory=dict)
    rows: dict[Class, int] = field(default_factory=dict)
    asked: set[tuple[Class, str]] = field(default_factory=set)
    filters: dict[str, Value] = field(default_factory=dict)
    filter_modules: list[str] | None = None
    imported_models: dict[Module, list[Class]] = field(default_factory=dict)
    constructed: dict[ast.AST, EvaluatedCall] = field(default_factory=dict)
    pending: dict[str, list[tuple[Value, EvaluatedCall]]] = field(default_factory=dict)
    functions: dict[ast.AST, Function] = field(default_factory=dict)
    sites: dict[tuple[int, int, str], int] = field(default_factory=dict)
    steps: int = 0
    calls: int = 0
    untainted_calls: int = 0
    cut: int = 0
    frames: int = 0

    def held_by(self, cls: Class, depth: int = 8) -> dict[str, Value]:
        """The attributes that methods of a class and its bases set to request values."""
        found = dict(self.held.get(cls, {}))
        for base in cls.bases if depth and self.held else ():
            if isinstance(base.target, Class):
                found = {**self.held_by(base.target, depth - 1), **found}
        return found

    def spend(self) -> None:
        """Count one statement."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise BudgetExceeded

    @contextmanager
    def budget(self, steps: int) -> Iterator[None]:
        """Run a part on a budget of its own, which may cut it short without a gap."""
        spent = self.steps, self.calls, self.untainted_calls
        self.steps, self.calls, self.untainted_calls = MAX_STEPS - steps, 0, 0
        with suppress(BudgetExceeded, RecursionError):
            yield
        self.steps, self.calls, self.untainted_calls = spent

    def report(self, found: TaintFinding) -> None:
        """Add a finding; of two at one place, the one with the higher confidence is kept."""
        key = (found.code, found.path, found.line)
        known = self.found.get(key)
        if known is None or found.confidence > known.confidence:
            self.found[key] = found


class Activation:
    """One activation: its state, and the exits reached so far."""

    __slots__ = (
        "call", "caller", "closure", "depth", "function", "handler", "id", "jumps", "module",
        "quiet", "rendering", "returns", "run", "stack", "state", "statement", "untainted",
        "yields",
    )  # fmt: skip

    def __init__(self, run: TaintJob, module: Module, function: Function | None = None) -> None:
        self.run, self.module, self.function = run, module, function
        self.state = AbstractState(run.heap)
        self.closure: Mapping[str, Value] = function.closure if function else {}
        self.depth = self.untainted = 0
        self.stack: tuple[Function, ...] = ()
        self.caller: Activation | None = None
        self.call: EvaluatedCall | None = None  # that of the caller
        self.returns: list[Return] = []
        self.yields: list[Value] = []
        self.jumps: list[tuple[list[AbstractState], list[AbstractState]]] = []  # breaks, continues
        self.quiet = False  # a body that is only run for its names
        self.handler = False  # the activation of a request handler itself
        self.statement: ast.stmt | None = None
        self.rendering: Rendering | None = None  # a template is being rendered
        run.frames += 1
        self.id = run.frames

    def evaluate(self, node: ast.expr) -> Value:
        """The value of an expression here."""
        return self.run.evaluate(self, node)

    def new(self, node: ast.AST, obj: HeapObject, slot: str = "") -> Value:
        """A value that is an object created at this place; the same place gives the same number."""
        key = (self.id, id(node), slot)
        loc = self.run.sites.get(key)
        if loc is None:
            loc = self.run.sites[key] = self.run.heap.allocate()
        self.state.objects[loc] = obj
        return Value(locs=(loc,))

    def site(self, node: ast.AST) -> str:
        """A name for a place in the tree."""
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        return f"{self.module.path}:{line}:{column}"

    def at(self, value: Value, node: ast.AST, what: str) -> Value:
        """The value after one more step, if it is tainted."""
        if not value.taints:
            return value
        line = getattr(node, "lineno", 0)
        path = self.module.path
        return value.with_taints(tuple(taint.step(path, line, what) for taint in value.taints))

    def lookup(self, name: str) -> Value:
        """The value of a name: local, enclosing, global or built-in."""
        value = self.state.vars.get(name)
        if value is None:
            value = self.closure.get(name)
        if value is None and self.module.globals is not None:
            value = self.module.globals.get(name)
        if value is not None:
            return resolve(value)
        if name in _BUILTINS:
            return Value(ref=f"builtins.{name}")
        if self.module.wildcards:
            return Value(ref=f"{self.module.wildcards[-1]}.{name}")
        return UNKNOWN

    @property
    def scope(self) -> str:
        """The dotted name of the function; empty at module level."""
        return self.function.name if self.function else ""


_BUILTINS: Final = frozenset(dir(builtins))
