"""Docstrings left behind."""

from collections.abc import Callable

import pytest

from diffchecks.check_io import CheckReply
from diffchecks.doc_quality import docstrings

Codes = Callable[..., list[str]]
Compare = Callable[..., CheckReply]

GOOGLE = "Read.\n\n    Args:\n        {0} (int): what.\n            more\n    "
NUMPY = "Read.\n\n    Parameters\n    ----------\n    {0} : int\n        What.\n    "
SPHINX = "Read.\n\n    :param {0}: what\n    :type {0}: int\n    "


def told(style: str, name: str, head: str = "def f(path):") -> str:
    return f'{head}\n    """{style.format(name)}"""\n'


@pytest.mark.parametrize("style", [GOOGLE, NUMPY, SPHINX])
def test_a_documented_parameter_that_does_not_exist(compare: Compare, style: str) -> None:
    good, bad = told(style, "path"), told(style, "file")
    reply = compare(docstrings, {"a.py": good}, {"a.py": bad})
    (one,) = reply.findings
    assert one.code == "stale-parameter"
    assert one.message == "The docstring of f documents 'file', which does not exist"
    assert "file" in bad.split("\n")[one.line - 1]
    assert compare(docstrings, {"a.py": bad}, {"a.py": good}).findings == []
    assert compare(docstrings, {"a.py": bad}, {"a.py": bad + "x = 1\n"}).findings == []


def test_a_parameter_that_was_renamed_without_its_docstring(codes: Codes) -> None:
    base = {"a.py": told(GOOGLE, "path")}
    assert codes(docstrings, base, {"a.py": told(GOOGLE, "path", "def f(file):")}) == [
        "stale-parameter"
    ]


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("def f(path, **options):", "file"),
        ("def f(*paths):", "file"),
        ("def f(*, file):", "file"),
        ("def f(__file):", "file"),
        ("@command('x')\ndef f(path):", "file"),
        ("def f(path):", "Default"),
        ("def f(path):", "see also"),
    ],
)
def test_where_a_docstring_may_know_better(codes: Codes, head: str, name: str) -> None:
    assert codes(docstrings, {}, {"a.py": told(GOOGLE, name, head)}) == []


def test_a_decorator_may_document_its_inner_function(codes: Codes) -> None:
    text = told(GOOGLE, "file", "def f(path):") + "    def inner(file): ...\n    return inner\n"
    assert codes(docstrings, {}, {"a.py": text}) == []


@pytest.mark.parametrize(
    ("constructor", "found"),
    [
        ("    def __init__(self, path): ...\n", ["stale-parameter"]),
        ("    def __init__(self, path):\n        self.file = path\n", []),
        ("    file: int = 0\n    def __init__(self, path): ...\n", []),
        ("", []),
    ],
)
def test_a_class_documents_its_constructor(
    codes: Codes, constructor: str, found: list[str]
) -> None:
    text = told(GOOGLE, "file", "class C:") + constructor
    assert codes(docstrings, {}, {"a.py": text}) == found
