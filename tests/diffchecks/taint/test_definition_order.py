"""A definition of a module is performed when its name is used, and means what it did in its place."""

import ast
from pathlib import Path

import pytest

from diffchecks.python import syntax_downgrade
from tests.diffchecks.taint.taint_pairs import trace

START = "import os\nfrom flask import Flask, request\napp = Flask(__name__)\n"
RUN = "    def go(self, x): os.system(x)\n"
KEEP = "    def go(self, x): pass\n"
ROUTE = "@app.route('/')\ndef index(): {}.go(request.args['x'])\n"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (f"class A:\n{RUN}" + ROUTE.format("A()"), [5]),
        (f"{ROUTE.format('A()')}class A:\n{RUN}", [7]),
        (f"class A:\n{RUN}Base = A\nclass B(Base): pass\nBase = object\n{ROUTE.format('B()')}", [5]),
        (f"class A:\n{KEEP}Base = A\nclass B(Base): pass\nclass A:\n{RUN}Base = A\n"
         + ROUTE.format("B()"), []),
        (f"class A:\n{RUN}class A(A): pass\n{ROUTE.format('A()')}", [5]),
        (f"class A:\n{RUN}import m as Base\nBase = A\nclass B(Base): pass\nimport m as Base\n"
         + ROUTE.format("B()"), [5]),
        (f"class A:\n{RUN}a = A()\n{ROUTE.format('a')}", [5]),
        (f"class A:\n{RUN}class B:\n    a = A()\nb = B()\n{ROUTE.format('B.a')}", [5]),
        (f"TABLE = {{}}\nclass A:\n{RUN}TABLE['a'] = A\n{ROUTE.format(chr(34) + 'a' + chr(34))}", []),
        (f"if os.name:\n    class A:\n    {RUN}else:\n    A = None\nclass B(A): pass\n"
         + ROUTE.format("B()"), [6]),
        ("@app.route('/a')\ndef f(): os.system(request.args['x'])\n@app.route('/b')\n"
         "def f(): os.system(request.args['x'])\n", [5, 7]),
        (f"class A(B):\n{KEEP}class B(A):\n{RUN}{ROUTE.format('B()')}", [7]),
    ],
)  # fmt: skip
def test_a_name_has_its_value_at_the_place_of_definition(
    source: str, lines: list[int], tmp_path: Path
) -> None:
    assert [found.line for found in trace(tmp_path, {"app.py": START + source}).findings] == lines
    other = {"lib.py": START + source, "app.py": "from lib import app\n"}
    assert [found.line for found in trace(tmp_path, other).findings] == lines


LIBRARY = """import os
from slow import Model

class Unused(Model):
    field = Model.field()

class Shell:
    @property
    def run(self): return os.system

    def other(self):
        return 1
"""
APPLICATION = """from flask import Flask, request
from library import Shell
app = Flask(__name__)

@app.route("/")
def index():
    return Shell().run(request.args["x"])
"""


def test_modules_that_are_not_used_are_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []
    parse = syntax_downgrade.parse

    def parse_watched(text: str, name: str = "") -> ast.Module:
        texts.append(text)
        return parse(text, name)

    monkeypatch.setattr(syntax_downgrade, "parse", parse_watched)
    files = {"app.py": APPLICATION, "library.py": LIBRARY, "slow.py": "class Model: pass\n"}
    reply = trace(tmp_path, files, paths=["app.py"])
    assert [(found.line, found.code) for found in reply.findings] == [(7, "command")]
    assert LIBRARY in texts
    assert set(texts) <= {APPLICATION, LIBRARY}


@pytest.mark.parametrize(("lines", "gaps"), [(10_000, []), (16_000, ["app.py"])])
def test_a_module_s_definitions_share_the_bound_of_its_body(
    lines: int, gaps: list[str], tmp_path: Path
) -> None:
    body = "    x = 1\n" * lines
    bodies = f"class A:\n{body}class B(A):\n{body}"
    reply = trace(tmp_path, {"app.py": f"{START}{bodies}{ROUTE.format('B()')}"})
    assert list(reply.gaps) == gaps


@pytest.mark.parametrize("first", ["", "@app.route('/b')\ndef other(): a()\n"])
@pytest.mark.parametrize("before", ["", "    a()\n"])
def test_what_ran_before_does_not_decide_what_is_found(
    tmp_path: Path, first: str, before: str
) -> None:
    chain = "".join(f"def {a}(): return {b}()\n" for a, b in ("ab", "bc", "cd"))
    read = "def d(): return request.args['x']\n"
    route = f"@app.route('/')\ndef index():\n{before}    os.system(c())\n"
    (finding,) = trace(tmp_path, {"app.py": START + first + chain + read + route}).findings
    assert finding.code == "command"
