"""Docstrings left out and left behind, against what the project is used to."""

from collections.abc import Callable

import pytest

from diffchecks.check_io import CheckReply
from diffchecks.doc_quality import docstrings

Codes = Callable[..., list[str]]
Compare = Callable[..., CheckReply]

BODY = "    a = 1\n    b = 2\n    c = 3\n    return a + b + c\n"


def documented(count: int, kind: str = "def") -> str:
    return "".join(f'{kind} f{at}():\n    """Say."""\n{BODY}' for at in range(count))


def with_new(definition: str) -> tuple[dict[str, str], dict[str, str]]:
    """A file whose functions have docstrings, and the same with one more definition."""
    base = documented(5)
    return {"pkg/a.py": base}, {"pkg/a.py": base + definition}


def test_a_new_public_function_without_a_docstring_stands_out(compare: Compare) -> None:
    (one,) = compare(docstrings, *with_new(f"def load():\n{BODY}")).findings
    assert one.code == "missing"
    assert one.message == "Public function load has no docstring, unlike its neighbors"
    assert one.key == one.scope == "load"


@pytest.mark.parametrize(
    "definition",
    [
        f'def load():\n    """Read."""\n{BODY}',
        f"def _load():\n{BODY}",
        "def load():\n    a = 1\n    return a\n",
        f"@overload\ndef load():\n{BODY}",
        f"@override\ndef load():\n{BODY}",
        f"@load.setter\ndef load():\n{BODY}",
        f"@typing.overload\ndef load():\n{BODY}",
        'def outer():\n    """Say."""\n    def load():\n        a = 1\n        b = 2\n'
        "        c = 3\n        return a\n    return load\n",
        "class _Hidden:\n    def load(self):\n        a = 1\n        b = 2\n        return a\n",
        # A method of a derived class has its base's docstring.
        'class New(Base):\n    """Say."""\n    def load(self):\n        a = 1\n        b = 2\n'
        "        c = 3\n        return a\n",
    ],
)
def test_what_needs_no_docstring(codes: Codes, definition: str) -> None:
    assert codes(docstrings, *with_new(definition)) == []


@pytest.mark.parametrize(
    "path", ["tests/a.py", "test_a.py", "pkg/_private.py", "docs/a.py", "setup.py"]
)
def test_files_without_a_docstring_convention(codes: Codes, path: str) -> None:
    base = documented(5)
    assert codes(docstrings, {path: base}, {path: base + f"def load():\n{BODY}"}) == []


def test_the_convention_decides(codes: Codes) -> None:
    bare = "".join(f"def g{at}():\n{BODY}" for at in range(5))
    new = f"def load():\n{BODY}"
    assert codes(docstrings, {"pkg/a.py": bare}, {"pkg/a.py": bare + new}) == []
    few = documented(3)
    assert codes(docstrings, {"pkg/a.py": few}, {"pkg/a.py": few + new}) == []
    # Another file of the change tells the habit when the file itself is too small for one.
    base = {"pkg/a.py": few, "pkg/b.py": documented(8)}
    head = {"pkg/a.py": few + new, "pkg/b.py": documented(8) + "x = 1\n"}
    assert codes(docstrings, base, head) == ["missing"]


def test_moved_definitions_are_not_new_and_lost_docstrings_are(compare: Compare) -> None:
    base, _ = with_new("")
    old = f"def load():\n{BODY}"
    moved = compare(docstrings, base | {"pkg/b.py": old}, {"pkg/a.py": base["pkg/a.py"] + old})
    assert moved.findings == []
    lost = {"pkg/a.py": base["pkg/a.py"].replace('    """Say."""\n', "", 1)}
    (one,) = compare(docstrings, base, lost).findings
    assert one.message == "f0 lost its docstring"
    kept_elsewhere = lost | {"pkg/b.py": documented(1)}
    assert compare(docstrings, base, kept_elsewhere).findings == []


def test_a_new_module_among_documented_ones(codes: Codes) -> None:
    base = {f"pkg/m{at}.py": '"""Say."""\nx = 1\n' for at in range(5)}
    head = {path: text + "y = 2\n" for path, text in base.items()}
    code = "a = 1\nb = 2\nc = 3\nd = 4\n"
    assert codes(docstrings, base, head | {"pkg/new.py": code}) == ["missing"]
    assert codes(docstrings, base, head | {"pkg/new.py": '"""Say."""\n' + code}) == []
    assert codes(docstrings, base, head | {"pkg/_new.py": code}) == []


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
