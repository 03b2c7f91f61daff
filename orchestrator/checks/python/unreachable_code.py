"""Python statements that no path leads to."""

import ast
from collections.abc import Iterator, Sequence

from orchestrator.checks.check_io import RawFinding
from orchestrator.checks.python.syntax_tree_cache import all_blocks

_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def find_unreachable(path: str, tree: ast.Module) -> Iterator[RawFinding]:
    """The first statement behind each one that leaves its block for good."""
    for block in all_blocks(tree):
        yield from _behind_an_exit(path, block)


def _behind_an_exit(path: str, block: Sequence[ast.stmt]) -> Iterator[RawFinding]:
    for at, statement in enumerate(block[:-1]):
        if not (isinstance(statement, _EXITS) or _is_endless(statement)):
            continue
        rest = block[at + 1 :]
        if not (_makes_a_generator(rest) or all(_does_nothing(statement) for statement in rest)):
            kind = type(statement).__name__.lower()
            says = f"unreachable: line {statement.lineno} exits before it ({kind})"
            yield RawFinding("unreachable", path, rest[0].lineno, says)
        return


def _is_endless(statement: ast.stmt) -> bool:
    """A ``while True`` that nothing in it breaks."""
    return (
        isinstance(statement, ast.While)
        and isinstance(statement.test, ast.Constant)
        and bool(statement.test.value)
        and not any(map(_breaks, statement.body))
    )


def _breaks(node: ast.AST) -> bool:
    """Whether a ``break`` in it ends the loop around it; inner loops have their own."""
    if isinstance(node, ast.Break):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return False
    inner = node.orelse if isinstance(node, ast.For | ast.AsyncFor | ast.While) else None
    return any(map(_breaks, ast.iter_child_nodes(node) if inner is None else inner))


def _makes_a_generator(block: Sequence[ast.stmt]) -> bool:
    """A ``yield`` that is never reached is written to make the function a generator."""
    return any(
        isinstance(child, ast.Yield | ast.YieldFrom)
        for statement in block
        for child in ast.walk(statement)
    )


def _does_nothing(statement: ast.stmt) -> bool:
    """What is written for readers and type checkers: ``pass``, a text, a refusal to get here."""
    return (
        isinstance(statement, ast.Pass | ast.Raise)
        or (isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Constant))
        or (
            isinstance(statement, ast.Expr)
            and (
                isinstance(statement.value, ast.Constant)
                or "assert_never" in ast.dump(statement.value)
            )
        )
    )
