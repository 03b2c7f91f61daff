"""Checks a test that a model wrote to prove a finding: by its text, it can show only an effect.

A test that passes on base and fails on head proves a claim only if it fails for the reason that was
claimed. So a test may not look at how the code is written, replace what the change defines, count
calls, depend on chance, time or the machine, or raise the expected error itself.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any

from msgspec import Struct

from diffchecks.check_io import Gap, Source, read
from diffchecks.data_files import read_yaml
from diffchecks.python.source_definitions import dotted_name

MAX_BYTES = 8 << 10


class Why(StrEnum):
    """Why a test proves nothing."""

    LOOKS = "looks at how the code is written, not at what it does"
    CALLS = "asserts on calls instead of effects"
    CHANCE = "depends on chance or time"
    MACHINE = "depends on the machine or a version"
    SKIPS = "can skip, or end, or excuse itself"
    RAISES = "raises or fails by itself, without an assertion"
    MOCKS = "uses a mock without a specification; use a real object, autospec or spec"
    REPLACES = "replaces what the change defines"
    CONSTANT = "asserts a constant"


class ProofTestJob(Struct, frozen=True):
    """A test to check.

    Attributes:
        language: ``python``, ``javascript`` (TypeScript as well) or ``go``.
        paths: the changed files.
        roots: the directories that hold them, of both sides.
        same: the test compares two ways that have to agree.
    """

    text: str
    language: str
    paths: Sequence[str] = ()
    roots: Sequence[str] = ()
    same: bool = False


def run(job: Mapping[str, Any]) -> list[str]:
    """Why the test proves nothing, a reason each; empty: it may be run."""
    given = ProofTestJob(**job)
    if len(given.text.encode("utf-8", "replace")) > MAX_BYTES:
        return [f"has more than {MAX_BYTES >> 10} KiB"]
    if given.language != "python":
        return _check_by_patterns(given.text, given.language)
    try:
        tree = ast.parse(given.text)
    except (SyntaxError, ValueError, RecursionError) as error:
        return [f"does not parse: {error}"]
    defined = {name: names for root in given.roots for name, names in _defined(root, given.paths)}
    found = list(_PythonTest(tree, defined).problems())
    if given.same and not any(map(_compares_two, ast.walk(tree))):
        found.append("compares no two values that are both computed")
    return list(dict.fromkeys(found))


def _compares_two(node: ast.AST) -> bool:
    """Whether it asserts that two values are equal of which neither is written out."""
    match node:
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
            values = (left, right)
        case ast.Call(func=ast.Attribute(attr="assertEqual"), args=[left, right, *_]):
            values = (left, right)
        case _:
            return False
    return not any(all(isinstance(one, _WRITTEN) for one in ast.walk(value)) for value in values)


def _defined(root: str, paths: Sequence[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Each changed module under all of its dotted names, with what it defines."""
    for path in paths:
        if not path.endswith(".py"):
            continue
        try:
            tree = ast.parse(Source(path, read(root, path)).text)
        except (Gap, SyntaxError, ValueError, RecursionError):
            continue
        names = frozenset(_names_of(tree))
        parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
        for first in range(len(parts)):
            yield ".".join(parts[first:]), names


def _names_of(tree: ast.Module) -> Iterator[str]:
    """What a module defines itself, without what it imports."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (
                one.id
                for target in targets
                for one in ast.walk(target)
                if isinstance(one, ast.Name)
            )


_WRITTEN: tuple[type[ast.AST], ...] = (
    *(ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.UnaryOp),
    *(ast.unaryop, ast.expr_context),
)
_BUILTINS = frozenset({"exec", "eval", "compile", "dir", "vars", "id", "hash", "exit", "quit"})
"""Names that mean something else as a method, such as ``session.exec`` or ``re.compile``."""
_DATA = "proof_tests.yaml"


@cache
def _named(kind: str) -> Mapping[str, Why]:
    """Name in Python → what is wrong with it: ``calls``, ``attributes`` or ``modules``."""
    groups = read_yaml(_DATA)["python"][kind]
    return {name: Why[why.upper()] for why, names in groups.items() for name in names}


_CALL_ASSERTIONS = re.compile(r"assert_(?:not_)?(?:called|any_call|has_calls|awaited)")
_DECORATORS = frozenset({"skip", "skipif", "skipIf", "skipUnless", "xfail", "expectedFailure"})
_REPEATS = frozenset({"flaky", "repeat", "rerun", "retry"})
_MOCKS = frozenset({"Mock", "MagicMock", "AsyncMock", "NonCallableMock", "PropertyMock"})
_SPECIFIED = frozenset({"spec", "spec_set", "autospec", "new", "new_callable", "wraps"})
_OWN_FILES = frozenset({"tmp_path", "tmpdir", "tmp_path_factory", "tempfile"})


class _PythonTest:
    """One test file."""

    def __init__(self, tree: ast.Module, defined: Mapping[str, frozenset[str]]) -> None:
        self._tree, self._defined = tree, defined
        self._nodes = list(ast.walk(tree))
        self._imports = dict(self._imported())
        self._names = {node.id for node in self._nodes if isinstance(node, ast.Name)}
        self._names |= {node.arg for node in self._nodes if isinstance(node, ast.arg)}

    def _imported(self) -> Iterator[tuple[str, str]]:
        """Local name → what it stands for, dotted."""
        for node in self._nodes:
            if isinstance(node, ast.Import):
                for one in node.names:
                    yield (
                        (one.asname or one.name.partition(".")[0]),
                        (one.name if one.asname else one.name.partition(".")[0]),
                    )
            elif isinstance(node, ast.ImportFrom):
                for one in node.names:
                    yield one.asname or one.name, f"{node.module or ''}.{one.name}".strip(".")

    def problems(self) -> Iterator[str]:
        tests = [
            node
            for node in self._nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("test")
        ]
        if len(tests) != 1:
            yield f"holds {len(tests)} tests; write one for one claim"
        if not any(map(self._asserts, self._nodes)):
            yield "asserts nothing"
        for node in self._nodes:
            yield from self._of(node)

    def _of(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from self._of_import(node)
            case ast.Call():
                yield from self._of_call(node)
            case ast.Attribute():
                yield from self._of_attribute(node)
            case ast.Name(id="__file__"):
                yield Why.LOOKS
            case ast.Raise():
                yield Why.RAISES
            case ast.Assert(test=ast.Constant()):
                yield Why.CONSTANT
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from _of_decorators(node)
            case ast.Try() if any(_catches_all(one) for one in node.handlers):
                yield "catches any exception; let it fail"

    def _of_attribute(self, node: ast.Attribute) -> Iterator[str]:
        if _is_stored(node):
            yield from self._of_replacement(self._dotted(node))
        elif why := _named("attributes").get(node.attr):
            yield why
        elif _CALL_ASSERTIONS.match(node.attr):
            yield Why.CALLS

    def _of_import(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        names = [one.name for one in node.names]
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
        for module in modules:
            if why := _named("modules").get(module.partition(".")[0]):
                yield why
            if module == "random" and isinstance(node, ast.ImportFrom) and "Random" not in names:
                yield Why.CHANCE

    def _of_call(self, node: ast.Call) -> Iterator[str]:
        dotted = self._dotted(node.func)
        name = dotted.rpartition(".")[2]
        qualified = ".".join(dotted.split(".")[-2:])
        if isinstance(node.func, ast.Attribute) and name in _BUILTINS:
            name = ""  # a method
        called = _named("calls")
        if why := called.get(name) or (called.get(qualified) if "." in qualified else None):
            yield why
        if dotted.startswith("random.") and not (name in {"Random", "seed"} and node.args):
            yield Why.CHANCE
        if name == "sleep" and not _is_zero(node.args):
            yield Why.CHANCE
        if name == "getattr" and len(node.args) == 3:
            yield Why.LOOKS
        if name in {"open", "read_text", "read_bytes"} and not self._names & _OWN_FILES:
            yield Why.LOOKS
        yield from _of_mock(dotted, node)
        if name in {"setattr", "delattr", "patch", "object", "delitem", "setitem"} and node.args:
            yield from self._of_replacement(self._target(node.args))

    def _of_replacement(self, target: str) -> Iterator[str]:
        """A name that the test replaces, such as ``shop.prices.tax``."""
        parts = target.split(".")
        for end in range(len(parts) - 1, 0, -1):
            names = self._defined.get(".".join(parts[:end]))
            if names is not None and parts[end] in names:
                yield Why.REPLACES
                return

    def _target(self, arguments: Sequence[ast.expr]) -> str:
        first = arguments[0]
        if text := _text_of(first):
            return text
        return f"{self._dotted(first)}.{_text_of(arguments[1]) if len(arguments) > 1 else ''}"

    def _dotted(self, node: ast.expr) -> str:
        """The dotted name, of what was imported under its own."""
        first, dot, rest = dotted_name(node).partition(".")
        return f"{self._imports.get(first, first)}{dot}{rest}".lstrip(".")

    def _asserts(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Assert):
            return True
        return isinstance(node, ast.Call) and bool(
            re.search(r"(?:^|\.)(?:raises|warns|assert\w+|raises_group)$", self._dotted(node.func))
        )


def _of_mock(dotted: str, node: ast.Call) -> Iterator[str]:
    """A call that makes a mock, which accepts anything unless it has a specification."""
    name = dotted.rpartition(".")[2]
    specified = bool({word.arg for word in node.keywords} & _SPECIFIED)
    if name in _MOCKS and not (specified or node.args):
        yield Why.MOCKS
    if name in {"patch", "object"} and "patch" in dotted:
        replaced = node.args[2:] if name == "object" else node.args[1:]
        if not (replaced or specified):
            yield Why.MOCKS


def _of_decorators(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[str]:
    for one in node.decorator_list:
        called = one.func if isinstance(one, ast.Call) else one
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in _DECORATORS:
            yield Why.SKIPS
        if name in _REPEATS:
            yield Why.CHANCE
        if name == "parametrize":
            yield "holds several cases; write one test for one claim"


def _is_stored(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)


def _text_of(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_zero(arguments: Sequence[ast.expr]) -> bool:
    return len(arguments) == 1 and isinstance(arguments[0], ast.Constant) and not arguments[0].value


def _catches_all(handler: ast.ExceptHandler) -> bool:
    names = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        name is None or getattr(name, "id", "") in {"Exception", "BaseException", "AssertionError"}
        for name in names
    )


_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def _check_by_patterns(text: str, language: str) -> list[str]:
    """The same for languages that are read as text, without their comments."""
    code = _COMMENTS.sub(" ", text) if "//go:embed" not in text else text
    table = read_yaml(_DATA)[language]
    found: list[str] = [
        Why[name.upper()]
        for problem in table["problems"]
        for name, pattern in problem.items()
        if re.search(pattern, code)
    ]
    tests = len(re.findall(table["tests"], code))
    if tests != 1:
        found.insert(0, f"holds {tests} tests; write one for one claim")
    if not re.search(table["asserts"], code):
        found.append("asserts nothing")
    return list(dict.fromkeys(found))
