"""Trees that several checks share, and walking them by their blocks of statements."""

import ast
import tracemalloc
from pathlib import Path

import pytest

from diffchecks.python import compact_syntax_trees, syntax_tree_cache
from diffchecks.python.compact_syntax_trees import compact
from diffchecks.python.syntax_tree_cache import all_blocks, parse, walk

EVERYTHING = """
async def a():
    async with b: c
    async for d in e: f
    else: g
class H:
    while i: j
    else: k
if l: m
elif n: o
else: p
for q in r: s
try: t
except u: v
except w: x
else: y
finally: z
try: aa
except* bb: cc
match dd:
    case 1: ee
    case _:
        def ff(): lambda: gg
with hh: ii
"""


def every_block(tree: ast.Module) -> list[list[ast.stmt]]:
    """All lists of statements that the general walk finds."""
    fields = (value for node in ast.walk(tree) for _, value in ast.iter_fields(node))
    return [
        value
        for value in fields
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt)
    ]


@pytest.mark.parametrize("source", [EVERYTHING, Path(__file__).read_text(), Path(ast.__file__)])
def test_all_blocks_of_statements_are_found(source):
    tree = parse(source if isinstance(source, str) else source.read_text())
    found = [block for block in all_blocks(tree) if block]
    assert sorted(map(id, found)) == sorted(map(id, every_block(tree)))


def test_a_text_is_parsed_once_however_it_is_written():
    assert parse("x = 'é'\n") is parse("x = 'é'\n".encode())
    assert parse("# coding: latin-1\nx = 'é'\n".encode("latin-1")) is parse(
        "# coding: latin-1\nx = 'é'\n"
    )
    assert parse(b"\xef\xbb\xbfx = 1\r\n") is parse("x = 1\n")


def test_the_trees_parsed_first_and_those_used_last_are_kept():
    trees = syntax_tree_cache._Trees(kept=25, recent=1)
    texts = [f"x = {n}\n#567890" for n in range(5)]
    first = [trees.of(text, "<text>") for text in texts]
    again = [trees.of(text, "<text>") for text in texts]
    same = [one is other for one, other in zip(first, again, strict=True)]
    assert same == [True, False, False, False, False]
    assert trees.of(texts[4], "<text>") is again[4]
    assert trees.of("y = 1\n" + "#" * 50, "<text>") is not None
    assert trees.of(texts[0], "<text>") is first[0]


@pytest.mark.parametrize("source", [EVERYTHING, Path(ast.__file__).read_text()])
def test_the_walk_leaves_out_operators_and_contexts_alone(source):
    tree = parse(source)
    left_out = (ast.operator, ast.cmpop, ast.boolop, ast.unaryop, ast.expr_context)
    assert list(walk(tree)) == [n for n in ast.walk(tree) if not isinstance(n, left_out)]


@pytest.mark.parametrize("source", ["x = (", b"x = (", b"# coding: none\n", b"x = '\xff'\n", "\0"])
def test_a_syntax_error_is_raised_each_time(source):
    for _ in range(2):
        with pytest.raises((SyntaxError, ValueError)):
            parse(source)


def as_data(tree: ast.AST) -> list[tuple[str, list[object], list[object]]]:
    """A tree's nodes in order: kinds, fields without nodes, positions."""
    return [
        (
            type(node).__name__,
            [
                v
                for v in (getattr(node, f) for f in node._fields)
                if not isinstance(v, list | ast.AST)
            ],
            [getattr(node, name) for name in node._attributes],
        )
        for node in ast.walk(tree)
    ]


@pytest.mark.parametrize("text", [EVERYTHING, Path(ast.__file__).read_text()])
def test_a_compact_tree_equals_that_of_the_parser(text):
    plain, smaller = ast.parse(text), compact(ast.parse(text))
    assert (as_data(smaller), ast.unparse(smaller)) == (as_data(plain), ast.unparse(plain))
    of_ast = (isinstance(node, getattr(ast, type(node).__name__)) for node in ast.walk(smaller))
    assert all(of_ast)


def test_classes_of_other_packages_are_not_made_compact():
    name = type("Name", (ast.expr,), {"_fields": ("other",)})
    statement = ast.Expr(name("kept"), lineno=1, col_offset=0)
    tree = compact(ast.Module([statement], []))
    assert name not in set(compact_syntax_trees._kinds(ast.AST))
    assert [type(each) for each in ast.walk(tree)].count(name) == 1


def test_a_compact_tree_takes_less_than_half_of_the_memory_of_the_parsers():
    text = Path(ast.__file__).read_text()
    taken = []
    for make in (ast.parse, lambda text: compact(ast.parse(text))):
        tracemalloc.start()
        tree = make(text)
        taken.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert tree.body
    assert taken[1] < taken[0] / 2


def test_a_tree_nested_too_deeply_to_be_copied_is_still_a_tree():
    text = "x = " + "+".join(f"a{n}" for n in range(700))
    names = {node.id for node in ast.walk(parse(text)) if isinstance(node, ast.Name)}
    assert len(names) == 701
    assert len(list(walk(parse(text)))) == len(list(walk(ast.parse(text))))
