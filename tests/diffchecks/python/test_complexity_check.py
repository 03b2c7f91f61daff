"""Functions brought over the limit, and what may stay quiet."""

import ast
from collections.abc import Callable

import pytest

from diffchecks.check_io import CheckReply
from diffchecks.python import complexity

Codes = Callable[..., list[str]]


def function(branches: int, name: str = "f", indent: str = "") -> str:
    """A function of complexity ``branches + 1``."""
    body = "".join(f"{indent}    if a == {at}:\n{indent}        b()\n" for at in range(branches))
    return f"{indent}def {name}(a):\n{body}{indent}    return a\n"


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("pass", 1),
        ("if a: pass\n    elif b: pass\n    else: pass", 3),
        ("for a in b: pass\n    while c: pass", 3),
        ("try: pass\n    except A: pass\n    except B: pass\n    finally: pass", 3),
        ("return [a for a in b if a] if b else 1", 3),
        ("return a and b or c", 1),
        ("match a:\n        case 1: pass\n        case 2: pass\n        case _: pass", 3),
        ("def g():\n        if a: pass\n    return lambda: 1 if a else 2", 1),
    ],
)
def test_the_count_is_mccabes(body: str, count: int) -> None:
    node = ast.parse(f"def f():\n    {body}\n").body[0]
    assert isinstance(node, ast.FunctionDef)
    assert complexity.cyclomatic(node) == count


@pytest.mark.parametrize(
    ("before", "after", "jumps"),
    [
        (12, 15, True),  # 13 -> 16 crosses the limit
        (11, 14, False),  # 12 -> 15 does not
        (13, 15, False),  # 14 -> 16 crosses it by a step
        (17, 22, True),  # 18 -> 23 was over it, and grew by five
        (17, 21, False),
        (17, 10, False),
    ],
)
def test_a_known_function_jumps(codes: Codes, before: int, after: int, jumps: bool) -> None:
    found = codes(complexity, {"a.py": function(before)}, {"a.py": function(after)})
    assert found == (["jump"] if jumps else [])


@pytest.mark.parametrize(("branches", "jumps"), [(15, True), (14, False)])
def test_a_new_function_over_the_limit(codes: Codes, branches: int, jumps: bool) -> None:
    found = codes(complexity, {"a.py": "x = 1\n"}, {"a.py": "x = 1\n" + function(branches)})
    assert found == (["jump"] if jumps else [])


def test_the_message_names_the_function_and_its_growth(compare: Callable[..., CheckReply]) -> None:
    base = {"a.py": "class C:\n" + function(5, "go", "    ")}
    head = {"a.py": "class C:\n" + function(20, "go", "    ")}
    (one,) = compare(complexity, base, head).findings
    assert one.message == "The cyclomatic complexity of C.go went from 6 to 21 (limit 15)"
    assert (one.line, one.key, one.scope) == (2, "C.go", "C.go")


def test_moved_renamed_and_split_functions_are_not_new(codes: Codes) -> None:
    big = function(20)
    assert codes(complexity, {"a.py": big}, {"b.py": big, "a.py": "x = 1\n"}) == []
    assert codes(complexity, {"a.py": big}, {"b.py": big}, {"a.py": "b.py"}) == []
    assert codes(complexity, {"a.py": function(40)}, {"a.py": function(18, "g")}) == []
    assert codes(complexity, {"a.py": function(3)}, {"a.py": function(18, "g")}) == ["jump"]


def test_tests_may_be_complex_and_untouched_functions_are_not_measured(codes: Codes) -> None:
    assert codes(complexity, {}, {"tests/test_a.py": function(20)}) == []
    big = function(20)
    assert codes(complexity, {"a.py": big}, {"a.py": big + "\n\nx = 1\n"}) == []


def test_a_base_that_does_not_parse_is_a_gap_where_it_is_needed(
    compare: Callable[..., CheckReply],
) -> None:
    reply = compare(complexity, {"a.py": "def (:\n"}, {"a.py": function(20)})
    assert reply.gaps == {"a.py": "the base version does not parse: line 1: invalid syntax"}
    reply = compare(complexity, {"a.py": "def (:\n"}, {"a.py": function(2)})
    assert reply.gaps == {}
