"""Added calls with which code can end its test runner or change its result.

This is a list of common ways, not a proof: code under test runs in the test runner's process.
"""

import ast
import re
from collections.abc import Iterator, Sequence

from diffchecks.data_files import read_names
from diffchecks.path_kinds import is_test
from diffchecks.python.source_definitions import dotted_name

_MODULES = frozenset({"_pytest", "atexit", "ctypes", "pluggy"})
_TEST_MODULES = frozenset({"pytest", "unittest"})
"""Modules that tests use and code under test does not need."""
_ATTRIBUTES = frozenset({"_exit", "forkpty", "setprofile", "settrace"})
"""Attribute names, for any object, and as strings for ``getattr``."""
_SETTERS = ("setattr", "delattr", "patch.object")
_EXITS = frozenset({"SystemExit", "exit", "quit", "sys.exit"})
_OTHER_LANGUAGES = (
    ((".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue"), r"\bprocess\.(?:exit|reallyExit)\b"),
    ((".go",), r"\bos\.Exit\b"),
    ((".rb",), r"\bexit!|\bat_exit\b"),
    ((".java", ".kt", ".scala"), r"\bSystem\.exit\b|\bRuntime\.getRuntime\(\)\.halt\b"),
    ((".php",), r"\bregister_shutdown_function\b|\bexit\s*\(\s*0?\s*\)"),
    ((".rs",), r"\bprocess::exit\b"),
)


def find_added_tampering(path: str, before: str, after: str) -> str:
    """The first such call that a file has in head and not in base; empty: none."""
    known = set(_find_calls(path, before))
    return next((call for call in _find_calls(path, after) if call not in known), "")


def _find_calls(path: str, text: str) -> Iterator[str]:
    for suffixes, pattern in _OTHER_LANGUAGES:
        if path.endswith(suffixes):
            yield from re.findall(pattern, text)
    if not path.endswith((".py", ".pyi")):
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # a test run ends with an error there
    modules = _MODULES if is_test(path) else _MODULES | _TEST_MODULES
    for node in ast.walk(tree):
        yield from _named(node, modules)
        yield from _replaced(node)
    if not is_test(path):
        yield from _exits_at_import(tree.body)


def _named(node: ast.AST, modules: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (name for a in node.names if (name := a.name.partition(".")[0]) in modules)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        if (top := node.module.partition(".")[0]) in modules:
            yield top
        names = (f"{node.module}.{alias.name}" for alias in node.names)
        yield from (name for name in names if name in read_names("tampering_calls"))
    elif isinstance(node, ast.Attribute):
        if (dotted := dotted_name(node)) in read_names("tampering_calls"):
            yield dotted
        elif node.attr in _ATTRIBUTES or (node.attr == "__code__" and _is_set(node)):
            yield node.attr
    elif isinstance(node, ast.Constant) and node.value in _ATTRIBUTES | _MODULES:
        yield str(node.value)


def _replaced(node: ast.AST) -> Iterator[str]:
    """The assigned name, if it is part of the test framework."""
    targets: Sequence[ast.AST] = ()
    if isinstance(node, ast.Attribute) and _is_set(node):
        targets = [node.value]
    elif isinstance(node, ast.Call) and dotted_name(node.func).endswith(_SETTERS):
        targets = node.args[:1]
    for target in targets:
        dotted = dotted_name(target)
        if dotted.split(".")[0] in _TEST_MODULES or dotted.endswith("TestCase"):
            yield dotted


def _is_set(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)


def _exits_at_import(body: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            continue
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While | ast.ClassDef):
            yield from _exits_at_import(
                [child for child in ast.walk(statement) if isinstance(child, ast.Expr | ast.Raise)]
            )
            continue
        value = statement.exc if isinstance(statement, ast.Raise) else None
        value = statement.value if isinstance(statement, ast.Expr) else value
        value = value.func if isinstance(value, ast.Call) else value
        if value is not None and dotted_name(value) in _EXITS:
            yield f"{dotted_name(value)} at import"
