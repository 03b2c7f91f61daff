"""Newer syntax gives the tree that older syntax for the same thing gives."""

import ast
import sys
from pathlib import Path

import pytest

import diffchecks
from diffchecks.python import syntax_downgrade


class _Joined(ast.NodeTransformer):
    """Text beside text as one, as the parser of each version has it in its own way."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        self.generic_visit(node)
        values: list[ast.expr] = []
        for value in node.values:
            last = values[-1] if values else None
            if isinstance(value, ast.Constant) and isinstance(last, ast.Constant):
                assert isinstance(last.value, str)
                assert isinstance(value.value, str)
                values[-1] = ast.Constant(last.value + value.value)
            else:
                values.append(value)
        node.values = values
        return node


def shape(tree: ast.AST) -> str:
    return ast.dump(_Joined().visit(tree))


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("x = f'{d['k']}'", "x = f'{d[\"k\"]}'"),
        ("x = f'a\\'{d['k']}\\'b {{c}}'", "x = f'a\\'{d[\"k\"]}\\'b {{c}}'"),
        ("x = f'{a!r:>{w}}{d['k']:x}'", "x = f'{a!r:>{w}}{d[\"k\"]:x}'"),
        ("x = f'{d['k'] = }'", "x = f'd[\\'k\\'] = {d[\"k\"]!r}'"),
        ("x = f'\\N{EM DASH}{d['k']}'", "x = f'\\N{EM DASH}{d[\"k\"]}'"),
        ("x = f'{a:=5}{d['k']}'", "x = f'{a:=5}{d[\"k\"]}'"),
        ("type(a).b = f'{d['k']}'", "type(a).b = f'{d[\"k\"]}'"),
        ("x = t'{a['k']}'", "x = f'{a[\"k\"]}'"),
        ("x = f'{f'{f'{a}'}'}'", "x = f'''{f\"{f'{a}'}\"}'''"),
        ("x = rf'\\{d['k']}\\n'", "x = rf'\\{d[\"k\"]}\\n'"),
        ("x = ('a'\n  f'{d['k']}' # c\n  'b')", "x = ('a'\n  f'{d[\"k\"]}'\n  'b')"),
        ("x = f'{\n  a  # why\n}'", "x = f'''{a}'''"),
        ("x = f'{a}{d['k']}'\n'''doc'''", "x = f'{a}{d[\"k\"]}'\n'''doc'''"),
        ("def f[T: (int, str) = int](x: T) -> T: pass", "def f(x: T) -> T: pass"),
        ("class A[\n  T,\n](B[T]): pass\ny = 1", "class A(B[T]): pass\ny = 1"),
        ("async def f[**P](): pass", "async def f(): pass"),
        ("if a:\n    type X[T] = list[T]", "if a:\n    X = list[T]"),
        ("type X = int", "X = int"),
        ("try: pass\nexcept A, b.C: pass", "try: pass\nexcept (A, b.C): pass"),
    ],
)
def test_newer_syntax_has_the_tree_of_the_older(newer: str, older: str) -> None:
    old, taken = syntax_downgrade.rewrite_newer_syntax(newer)
    tree = ast.parse(old)
    syntax_downgrade._Restore(taken, 0).visit(tree)
    assert shape(tree) == shape(ast.parse(older))


def test_rewriting_what_needs_none_changes_nothing() -> None:
    files = sorted(Path(diffchecks.__file__).parent.rglob("*.py"))[::12]
    assert len(files) > 12
    for file in files:
        text = file.read_text("utf-8")
        was = ast.parse(text)
        got = syntax_downgrade._rewritten(text, "<text>", 0)
        lines = [
            [
                (type(node).__name__, node.lineno, node.end_lineno)
                for node in ast.walk(tree)
                if isinstance(node, ast.stmt)
            ]
            for tree in (was, got)
        ]
        assert lines[0] == lines[1], file
        assert shape(was) == shape(got), file


@pytest.mark.parametrize(
    "wrong",
    [
        "x = f'{'",
        "x = f'{}'",
        "x = f'{a b}'",
        "x = f'{lambda: 1}'",
        "x = f'{a)(b}'",
        "x = f'{d['k']}",
        "def f[T(x): pass",
        "x = = 1",
        "f'{" * 40 + "1" + "}'" * 40,
        "x = f'{a!}'",
        "x = f'}'",
    ],
)
def test_invalid_syntax_stays_an_error(wrong: str) -> None:
    with pytest.raises((SyntaxError, ValueError, RecursionError, MemoryError)):
        syntax_downgrade.parse(wrong)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python reads it by itself")
def test_a_file_is_read_by_its_own_encoding() -> None:
    text = "# -*- coding: latin-1 -*-\nx = f'{d['\xe9']}'\n"
    assert "\xe9" in ast.dump(syntax_downgrade.parse(text.encode("latin-1")))


def test_equal_strings_get_equal_names() -> None:
    one, _ = syntax_downgrade.rewrite_newer_syntax("a = f'{d['k']}'\n")
    other, _ = syntax_downgrade.rewrite_newer_syntax("zzz = 1\na = f'{d['k']}'\n")
    assert other.endswith(one)
