"""Reads the tests of one Python file: their assertions, and whether they are skipped."""

import ast
from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

from diffchecks.data_files import read_patterns
from diffchecks.python.source_definitions import (
    Definition,
    DefinitionNode,
    ParsedModule,
    dotted_name,
    find_definitions,
    first_line,
    read_decorator_names,
)
from diffchecks.python.syntax_tree_cache import walk

_ASSERTS = read_patterns("python_tests")["asserts"]
_SKIPS = frozenset({"skip", "xfail", "expectedFailure", "skipTest", "SkipTest"})


class SkipMark(Struct, frozen=True):
    """An unconditional ``skip`` or ``xfail``, and its line."""

    line: int
    how: str


class Case:
    """A test function or test class; properties are computed on access."""

    def __init__(
        self, definition: Definition, source: ParsedModule, helpers: frozenset[str]
    ) -> None:
        self.dotted, self.node = definition.dotted, definition.node
        self.line = self.node.lineno
        self._source, self._helpers = source, helpers

    @cached_property
    def text(self) -> tuple[str, ...]:
        """Its lines without indentation and without the line of its name."""
        start, end = first_line(self.node), self.node.end_lineno or self.line
        lines = enumerate(self._source.lines[start - 1 : end], start)
        return tuple(line.strip() for at, line in lines if at != self.line and line.strip())

    @property
    def mark(self) -> SkipMark | None:
        """The mark that skips the test, if any."""
        marks = map(_mark, self.node.decorator_list)
        return next(filter(None, marks), None) or _body_mark(self.node)

    @property
    def assertions(self) -> int:
        """The number of statements and calls that can fail it."""
        return _counts(self.node, self._helpers)

    @property
    def trivial(self) -> list[int]:
        """Lines of assertions that cannot fail."""
        return list(_trivial(self.node))

    @property
    def calls(self) -> frozenset[str]:
        """The last part of the names of all called functions."""
        calls = (inner for inner in walk(self.node) if isinstance(inner, ast.Call))
        return frozenset(dotted_name(call.func).rpartition(".")[2] for call in calls)

    @property
    def parametrized(self) -> bool:
        """Whether it is parametrized."""
        names = read_decorator_names(self.node)
        return any("param" in name or name.endswith(".given") for name in names)


class Suite(Struct, frozen=True):
    """The tests of a file by dotted name, its classes, and a mark that skips the whole file."""

    functions: dict[str, Case]
    classes: dict[str, Case]
    mark: SkipMark | None


def read_suite(source: ParsedModule) -> Suite:
    """Read the tests of a file, as pytest and unittest would find them."""
    found = find_definitions(source.tree)
    helpers = frozenset(
        definition.name
        for definition in found
        if not isinstance(definition.node, ast.ClassDef)
        and not _is_test(definition)
        and _counts(definition.node, frozenset())
    )
    cases = [Case(definition, source, helpers) for definition in found if _is_test(definition)]
    groups = [
        Case(definition, source, helpers)
        for definition in found
        if isinstance(definition.node, ast.ClassDef)
    ]
    return Suite(
        {case.dotted: case for case in cases},
        {group.dotted: group for group in groups},
        _module_mark(source.tree),
    )


def _is_test(definition: Definition) -> bool:
    return (
        definition.name.startswith("test")
        and not isinstance(definition.node, ast.ClassDef)
        and (definition.parent is None or isinstance(definition.parent.node, ast.ClassDef))
    )


def _counts(node: ast.AST, helpers: frozenset[str]) -> int:
    """The number of statements and calls in a function that can fail a test.

    Without those that tell of an error, which fails it anyway.
    """
    handlers = (inner for inner in walk(node) if isinstance(inner, ast.ExceptHandler))
    told = {each for one in handlers for each in walk(one) if isinstance(each, ast.Call)}
    return sum(
        isinstance(inner, ast.Assert)
        or (isinstance(inner, ast.Raise) and _raises_assertion(inner))
        or (isinstance(inner, ast.Call) and _may_fail(inner, helpers))
        for inner in walk(node)
        if inner not in told or not dotted_name(inner.func).endswith(".fail")
    )


def _raises_assertion(node: ast.Raise) -> bool:
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return raised is not None and dotted_name(raised).endswith("AssertionError")


def _may_fail(node: ast.Call, helpers: frozenset[str]) -> bool:
    name = dotted_name(node.func).rpartition(".")[2]
    return name in helpers or _ASSERTS.match(name) is not None


def _trivial(node: ast.AST) -> Iterator[int]:
    """Lines of assertions on constants, which are always true."""
    for inner in walk(node):
        if isinstance(inner, ast.Assert) and _always_true(inner.test):
            yield inner.lineno
        elif isinstance(inner, ast.Call) and inner.args:
            name = dotted_name(inner.func).rpartition(".")[2]
            same = len(inner.args) > 1 and _equal_constants(inner.args[0], inner.args[1])
            if (name == "assertTrue" and _always_true(inner.args[0])) or (
                name in {"assertEqual", "assertIs"} and same
            ):
                yield inner.lineno


def _always_true(test: ast.expr) -> bool:
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return isinstance(test.operand, ast.Constant) and not test.operand.value
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq | ast.Is):
        return len(test.ops) == 1 and _equal_constants(test.left, test.comparators[0])
    return False


def _equal_constants(first: ast.expr, second: ast.expr) -> bool:
    return (
        isinstance(first, ast.Constant)
        and isinstance(second, ast.Constant)
        and type(first.value) is type(second.value)
        and first.value == second.value
    )


def _mark(node: ast.expr) -> SkipMark | None:
    """The mark in an expression, if it is unconditional."""
    call = node if isinstance(node, ast.Call) else None
    name = dotted_name(call.func if call else node).rpartition(".")[2]
    if name not in _SKIPS:
        return None
    conditional = name == "xfail" and call is not None and (
        bool(call.args) or any(keyword.arg == "condition" for keyword in call.keywords)
    )  # fmt: skip
    return None if conditional else SkipMark(node.lineno, name)


def _body_mark(node: DefinitionNode) -> SkipMark | None:
    """The mark of a test that begins by skipping itself."""
    if isinstance(node, ast.ClassDef):
        return None
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    if not body:
        return None
    if isinstance(body[0], ast.Raise) and body[0].exc:
        return _mark(body[0].exc)
    is_call = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Call)
    return _imperative(body[0]) if is_call else None


def _imperative(statement: ast.stmt) -> SkipMark | None:
    """``pytest.skip("why")`` as a statement; its arguments are no condition."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        name = dotted_name(statement.value.func)
        if name in {"pytest.skip", "pytest.xfail", "self.skipTest"}:
            return SkipMark(statement.lineno, name.rpartition(".")[2])
    return None


def _module_mark(tree: ast.Module) -> SkipMark | None:
    for statement in tree.body:
        if mark := _imperative(statement):
            return mark
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "pytestmark"
            for target in statement.targets
        ):
            value = statement.value
            marks = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
            if found := next((mark for each in marks if (mark := _mark(each))), None):
                return found
    return None
