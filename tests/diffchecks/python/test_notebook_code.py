"""The code of a Jupyter notebook, on the lines of its file."""

import json
from typing import Any

import pytest

from diffchecks.check_io import Gap
from diffchecks.python.notebook_code import NotebookCode, extract_notebook_code


def _cell(*lines: str, kind: str = "code", **more: Any) -> dict[str, Any]:
    source = [f"{line}\n" for line in lines[:-1]] + [*lines[-1:]]
    return {"cell_type": kind, "metadata": {}, **more, "source": source}


def _notebook(*cells: dict[str, Any], **metadata: Any) -> str:
    """As Jupyter writes it."""
    whole = {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _lines(program: str | None) -> list[str]:
    assert program is not None
    return [line for line in program.split("\n") if line]


def _code(*lines: str) -> NotebookCode:
    return extract_notebook_code(_notebook(_cell(*lines)))


def test_each_line_of_code_is_on_the_line_that_holds_it() -> None:
    output = {"data": {"source": ["not code\n"]}, "source": ["not code"], "text": 'a "\\'}
    text = _notebook(
        _cell("# About", "code()", kind="markdown"),
        {**_cell(kind="markdown"), "source": ["Lines\nof one string"]},
        _cell('show("é\\n", x)', "", "def f():", "    return [{}]", outputs=[output]),
        _cell(),
        _cell("f()"),
    )
    python = extract_notebook_code(text).python or ""
    assert _lines(python) == ['show("é\\n", x)', "def f():", "    return [{}]", "f()"]
    for line, row in zip(python.split("\n"), text.split("\n"), strict=True):
        assert not line or json.dumps(line, ensure_ascii=False)[1:-1] in row


@pytest.mark.parametrize(
    ("line", "python"),
    [
        ("%matplotlib inline", "pass"),
        ("    %time f(x)", "    pass"),
        ("took = %timeit -o f(x)", "took = None"),
        ("df.head?", "pass"),
        ("?df.head", "pass"),
        ("%run other.ipynb", "from unknown import *"),
        ("!ls {path}", "pass"),
        ("names = !ls", "names = None"),
        ("pip install x", "pass"),
        ("rm -rf $path", "pass"),
        ("rm - x", "rm - x"),
        ("x = 7 % 3", "x = 7 % 3"),
        ("    % (a, b))", "    % (a, b))"),
        ("if a != b: f()", "if a != b: f()"),
        ("print('a?')", "print('a?')"),
    ],
)
def test_what_is_no_python_is_a_statement_that_does_nothing(line: str, python: str) -> None:
    assert _lines(_code("first()", line).python) == ["first()", python]


def test_commands_are_a_program_for_a_shell() -> None:
    code = _code("a = 1", "!pip install \\", "  b c", "d = !ls", "e()")
    assert _lines(code.shell) == ["pip install \\", "  b c", "ls"]
    assert _lines(code.python) == ["a = 1", "pass", "d = None", "e()"]


def test_a_magic_goes_on_where_its_line_does() -> None:
    code = _code("%timeit f(a, \\", "          b)", "g()")
    assert (_lines(code.python), _lines(code.shell)) == (["pass", "g()"], [])


def test_a_cell_may_be_indented() -> None:
    assert _lines(_code("", "  if a:", "    !ls", "  b()").python) == ["if a:", "  pass", "b()"]


@pytest.mark.parametrize(
    ("magic", "python", "shell"),
    [
        ("%%bash", [], ["f (x)"]),
        ("%%sh -e", [], ["f (x)"]),
        ("%%time", ["pass", "f (x)"], []),
        ("%%html", [], []),
        ("%%writefile a.py", [], []),
    ],
)
def test_the_magic_of_a_cell_says_what_it_is(
    magic: str, python: list[str], shell: list[str]
) -> None:
    code = _code("", magic, "f (x)")
    assert (_lines(code.python), _lines(code.shell)) == (python, shell)


def test_of_another_language_only_commands_are_read() -> None:
    text = _notebook(_cell("x <- 1", "!ls"), kernelspec={"language": "R"})
    code = extract_notebook_code(text)
    assert (code.python, _lines(code.shell)) == (None, ["ls"])
    assert extract_notebook_code("\n").shell.strip() == ""
    unknown = _notebook(_cell("x = 1"), kernelspec=None, language_info=["R"])
    assert _lines(extract_notebook_code(unknown).python) == ["x = 1"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "does not parse as JSON"),
        ("[" * 100_000, "does not parse as JSON"),
        ("[]", "no notebook of format 4"),
        ('{"worksheets": []}', "no notebook of format 4"),
        ('{"cells": [{"source": ["a"]}]}', "no notebook of format 4"),
        ('{"cells": [3], "metadata": {"kernelspec": 3}}', "no notebook of format 4"),
        (json.dumps(json.loads(_notebook(_cell("a", "b")))), "share a line"),
        ('{"cells": [\n{"cell_type": "code", "source": "a\\nb"}]}', "share a line"),
    ],
)
def test_what_cannot_be_read_line_by_line_is_a_gap(text: str, why: str) -> None:
    with pytest.raises(Gap, match=why):
        extract_notebook_code(text)
