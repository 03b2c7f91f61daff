"""What the reply says: the path step by step, where the finding stands, what was not looked at."""

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from diffchecks import DataFileError, taint
from diffchecks.rules import shipped_rules
from diffchecks.taint import run
from diffchecks.taint.analysis_driver import TaintAnalysis
from tests.diffchecks.check_kit import run_check
from tests.diffchecks.taint.taint_pairs import LIBRARY_MODELS, trace, write

APP = """from flask import Flask, request
from helpers import launch
app = Flask(__name__)

@app.route("/x")
def handler():
    name = request.args["name"]
    command = "ls " + name
    launch(command)
    return "ok"
"""
HELPERS = """import os

def launch(line):
    os.system(line)
"""


def test_shows_the_way_from_source_to_sink_step_by_step(tmp_path: Path) -> None:
    (finding,) = trace(tmp_path, {"app.py": APP, "helpers.py": HELPERS}).findings
    assert finding.detail.splitlines() == [
        "app.py:7  flask.request.args is read",
        "app.py:8  'command' is set",
        "helpers.py:3  launch() takes it as 'line'",
        "helpers.py:4  reaches os.system",
    ]
    assert (finding.path, finding.line, finding.scope) == (
        "app.py",
        9,
        "handler",
    )  # builds the text
    assert finding.confidence == 0.9
    assert finding.message == "request data reaches a command line (os.system)"


def test_values_are_followed_through_syntax_newer_than_the_interpreter(tmp_path: Path) -> None:
    app = APP.replace('"ls " + name', "f'ls {request.args['name']}'")
    reply = trace(tmp_path, {"app.py": app, "helpers.py": HELPERS})
    assert ([one.line for one in reply.findings], reply.gaps) == ([9], {})


def test_nothing_begins_in_a_test(tmp_path: Path) -> None:
    reply = trace(tmp_path, {"tests/test_app.py": APP, "helpers.py": HELPERS})
    assert reply.findings == []
    assert "tests/test_app.py" in reply.examined


@pytest.mark.attack("a handler whose file is named like a test")
@pytest.mark.parametrize(
    ("handler", "text"),
    [
        ("shop/test_console.py", "from . import (\n    test_console,\n)"),
        ("shop/run_tests.py", "ROUTES = ['shop.run_tests.handler']"),
        ("tests/console.py", "from tests.console import app"),
        ("shop/conftest.py", "import conftest"),
    ],
)
def test_what_other_code_imports_is_no_test_whatever_its_name(
    tmp_path: Path, handler: str, text: str
) -> None:
    files = {handler: APP, "shop/urls.py": text, "helpers.py": HELPERS}
    (finding,) = trace(tmp_path, files, paths=[handler]).findings
    assert shipped_rules().find_for("taint", finding) is not None
    if handler.startswith("shop"):
        assert trace(tmp_path, files, paths=["helpers.py"]).findings
    assert trace(tmp_path, {**files, "shop/urls.py": ""}, paths=[handler]).findings == []


@pytest.mark.attack("a program in a folder that is named like one of samples")
@pytest.mark.parametrize("path", ["examples/tool.py", "shop/testdata/tool.py"])
def test_what_other_code_imports_is_no_sample_whatever_its_folder(
    tmp_path: Path, path: str
) -> None:
    tool = "import os, sys\n\n\ndef run():\n    os.system('ls ' + sys.argv[1])\n\n\nrun()\n"
    files = {path: tool, "shop/main.py": f"import {path.removesuffix('.py').replace('/', '.')}"}

    def rules(files: dict[str, str]) -> list[bool]:
        found = trace(tmp_path, files, paths=[path]).findings
        return [shipped_rules().find_for("taint", one) is not None for one in found]

    assert rules(files) == [True]
    assert True not in rules({**files, "shop/main.py": ""})


@pytest.mark.parametrize(
    "imported",
    [
        "try:\n    from helpers import launch\nexcept ImportError:\n    launch = None",
        "if True:\n    import helpers as h\nlaunch = h.launch",
        "class Tools:\n    from helpers import launch\nlaunch = Tools.launch",
    ],
)
def test_imports_inside_other_statements_of_a_module_are_followed(
    tmp_path: Path, imported: str
) -> None:
    app = APP.replace("from helpers import launch", imported)
    (finding,) = trace(tmp_path, {"app.py": app, "helpers.py": HELPERS}).findings
    assert finding.code == "command"


@pytest.mark.parametrize(
    ("body", "constant"),
    [
        ("if name in ('df', 'free'): os.system(name)", True),
        ("if name in ('df', 'free'): os.system('sudo ' + name)", False),
        ("x = 'ls'\n    os.system(x)", True),
        ("x = ['ls', name][0]\n    os.system(x)", True),
        ("x = 'ls' if name else 'df'\n    os.system(x)", True),
        ("x = 'ls ' + name\n    os.system(x)", False),
        ("x = unknown()\n    os.system(x)", False),
        ("x = 'ls'\n    for x in [name]: pass\n    os.system(x)", False),
    ],
)
def test_sinks_that_only_constants_reach_are_listed(
    body: str, constant: bool, tmp_path: Path
) -> None:
    text = (
        "from flask import Flask, request\nimport os\napp = Flask(__name__)\n\n"
        f"@app.route('/x')\ndef handler():\n    name = request.args['name']\n    {body}\n"
    )
    facts = trace(tmp_path, {"app.py": text}).facts
    line = text.count("\n")
    assert facts["constant"] == ([["app.py", line, "command"]] if constant else [])


def test_a_sink_in_a_function_that_others_may_call_is_not_listed_as_constant(
    tmp_path: Path,
) -> None:
    app = APP.replace('"ls " + name', '"ls"')
    reply = trace(tmp_path, {"app.py": app, "helpers.py": HELPERS})
    assert (reply.findings, reply.facts["constant"]) == ([], [])


def test_a_sink_outside_the_change_is_reported_where_the_change_leads_to_it(tmp_path: Path) -> None:
    files = {"app.py": APP, "helpers.py": HELPERS}
    reply = trace(tmp_path, files, paths=["app.py"])
    assert [(one.path, one.line) for one in reply.findings] == [("app.py", 9)]
    assert reply.examined == ["app.py"]


def test_a_changed_helper_is_reached_from_handlers_that_did_not_change(tmp_path: Path) -> None:
    service = "import helpers\n\ndef start(line):\n    helpers.launch(line)\n"
    app = APP.replace("from helpers import launch", "from service import start").replace(
        "launch(", "start("
    )
    files = {"app.py": app, "service.py": service, "helpers.py": HELPERS}
    (finding,) = trace(tmp_path, files, paths=["helpers.py"]).findings
    assert (finding.path, finding.line) == ("helpers.py", 4)


def test_a_plain_library_function_is_no_source(tmp_path: Path) -> None:
    assert trace(tmp_path, {"helpers.py": HELPERS}).findings == []


def test_command_line_input_has_another_code_and_a_lower_confidence(tmp_path: Path) -> None:
    text = "import os, sys\n\ndef main():\n    os.system('make ' + sys.argv[1])\n"
    (finding,) = trace(tmp_path, {"tool.py": text}).findings
    assert (finding.code, finding.confidence) == ("command-local", 0.4)
    assert "command-line argument" in finding.message


def test_module_level_code_is_followed(tmp_path: Path) -> None:
    text = "import os\ntarget = os.environ['TARGET']\nos.system(f'make {target}')\n"
    (finding,) = trace(tmp_path, {"tool.py": text}).findings
    assert (finding.code, finding.line, finding.scope) == ("command-local", 3, None)


def test_relative_imports_within_a_package(tmp_path: Path) -> None:
    files = {
        "src/pkg/__init__.py": "",
        "src/pkg/app.py": APP.replace("from helpers", "from .util.helpers"),
        "src/pkg/util/__init__.py": "",
        "src/pkg/util/helpers.py": HELPERS,
    }
    (finding,) = trace(tmp_path, files).findings
    assert [step.path for step in finding.steps][-1] == "src/pkg/util/helpers.py"


def test_import_cycles_end(tmp_path: Path) -> None:
    files = {"app.py": APP, "helpers.py": "import app\n" + HELPERS}
    assert [one.code for one in trace(tmp_path, files).findings] == ["command"]


def test_the_same_tree_gives_the_same_reply(tmp_path: Path) -> None:
    files = {"app.py": APP, "helpers.py": HELPERS}
    assert trace(tmp_path, files) == trace(tmp_path, files)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def broken(:\n", "does not parse: line 1: invalid syntax"),
        ("# coding: utf-7\nx = 1\n", "does not parse: line 1: its encoding, utf-7, decodes it to "),
        ("x = '" + "a" * 2_000_001 + "'\n", "larger than 2000000 bytes"),
        ("x = 1\0\n", "does not parse: "),
        ("import os\nos.system(" + "(" * 250 + ")" * 250 + ")\n", "does not parse: "),
    ],
    ids=["syntax", "encoding", "size", "null", "parentheses"],
)
def test_what_cannot_be_read_is_a_named_gap(text: str, why: str, tmp_path: Path) -> None:
    reply = trace(tmp_path, {"bad.py": text, "good.py": "x = 1\n"})
    assert reply.gaps["bad.py"].startswith(why)
    assert reply.examined == ["good.py"]


def test_a_missing_file_is_a_named_gap(tmp_path: Path) -> None:
    job = {"root": str(tmp_path), "paths": ["gone.py"], "tree": [], "data": LIBRARY_MODELS}
    assert "cannot be read" in run_check(run, job).gaps["gone.py"]


_HEAD = "from flask import Flask, request\napp = Flask(__name__)\n@app.route('/')\ndef f():\n"


@pytest.mark.parametrize(
    "text",
    [
        _HEAD + "    x = request.args['a']\n    return " + " + ".join(["x"] * 8000) + "\n",
        _HEAD + "    x = request.args[0]\n" * 31_000,
    ],
    ids=["deep", "long"],
)
def test_an_exhausted_budget_is_a_gap(text: str, tmp_path: Path) -> None:
    assert "traced" in trace(tmp_path, {"big.py": text}).gaps["big.py"]


@pytest.mark.parametrize(
    "text",
    [
        "def a(x):\n    return b(x)\ndef b(x):\n    return a(x)\n"
        + _HEAD.replace("def f", "def g")
        + "    return {'a': a(request.args['a'])}\n",
        _HEAD
        + "    x = [request.args['a']]\n    while True:\n        x.append(x)\n        x = [x, x[0]]\n",
        _HEAD + "    x = 'a' * 10 ** 10 ** 10\n    y = 2 ** 99999999\n    return {'x': x * y}\n",
        "".join(f"def f{i}(x):\n    return f{i + 1}(x) + f{i + 1}(x)\n" for i in range(40))
        + _HEAD
        + "    return {'a': f0(request.args['a'])}\n",
        "class A(A):\n    pass\nclass B:\n    def m(self):\n        return self.m().m()\n"
        + _HEAD
        + "    return {'a': B().m()}\n",
    ],
    ids=["recursion", "cyclic-list", "huge-constants", "doubling-calls", "odd-classes"],
)
def test_hostile_programs_end(text: str, tmp_path: Path) -> None:
    assert trace(tmp_path, {"odd.py": text}).gaps == {}


def test_a_user_file_extends_the_models(tmp_path: Path) -> None:
    program = {
        "app.py": "import bus, shop\n\ndef run():\n    shop.charge(bus.receive().body)\n",
        "safe.py": "import bus, shop\n\ndef run():\n    shop.charge(shop.known(bus.receive()))\n",
    }
    extra = tmp_path / "extra.yaml"
    extra.write_text(
        "sources: [{match: bus.receive(), kind: socket}]\n"
        "sinks: [{match: shop.charge, class: sql, args: ['0']}]\n"
        "sanitizers: [{match: shop.known, clears: [sql]}]\n"
    )
    assert trace(tmp_path / "a", program).findings == []
    (finding,) = trace(tmp_path / "b", program, data=[*LIBRARY_MODELS, str(extra)]).findings
    assert (finding.path, finding.code) == ("app.py", "sql")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sauces: []\n", "unknown section 'sauces'; allowed are "),
        ("sources: [{match: a.b, kin: x}]\n", "sources: unknown key 'kin'; allowed are "),
        (
            "sinks: [{match: a.b, class: sql}]\n",
            "sinks: an entry is wrong: Object missing required field `args`",
        ),
        (
            "sinks: [{match: a, class: sql, args: ['0'], select: x}]\n",
            "sinks: an entry is wrong: Invalid enum value 'x' - at `\\$.select`",
        ),
        ("sources: [a.b]\n", "sources: an entry must be a mapping"),
        ("- a\n", "a library model must be a mapping"),
        ("a: [\n", "not valid YAML"),
    ],
)
def test_an_error_in_a_model_file_names_what_is_allowed(
    text: str, why: str, tmp_path: Path
) -> None:
    extra = tmp_path / "extra.yaml"
    extra.write_text(text)
    with pytest.raises(DataFileError, match=why) as caught:
        trace(tmp_path, {"a.py": ""}, data=[*LIBRARY_MODELS, str(extra)])
    assert caught.value.file == extra.name


def test_the_program_is_not_executed(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    write(tmp_path, {"evil.py": f"open({str(mark)!r}, 'w')\nimport os\nx = os.environ\n"})
    trace(tmp_path, {"app.py": "import evil\n" + APP, "helpers.py": HELPERS})
    assert not mark.exists()


def test_memory_is_freed_when_an_analysis_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[TaintAnalysis]] = []

    def watched(*arguments: Any) -> TaintAnalysis:
        analysis = TaintAnalysis(*arguments)
        made.append(weakref.ref(analysis))
        return analysis

    monkeypatch.setattr(taint, "TaintAnalysis", watched)
    gc.disable()  # as in a worker, which does not look for cycles in what a run leaves
    try:
        trace(tmp_path, {"app.py": APP, "helpers.py": HELPERS})
        assert [reference() for reference in made] == [None]
    finally:
        gc.enable()
