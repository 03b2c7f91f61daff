"""Where a template applies, what it replaces, and what it leaves alone."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from diffchecks.check_io import Edit
from diffchecks.fixes.program_tree import drop_import, is_taken
from diffchecks.fixes.template_edits import run
from tests.diffchecks.fix_kit import apply

SHAPE = {
    "grammars": {".py": ["python"], ".js": ["javascript"], ".php": ["php"], ".sh": ["bash"]},
    "imports": ["import_statement", "import_from_statement", "future_import_statement"],
    "files": ["*.yaml"],
}


def propose(
    root: Path, name: str, text: str, fix: Any, *, line: int = 1, **place: int
) -> list[list[Edit]]:
    """What is proposed for a finding of ``line`` by one template, or by several."""
    (root / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    fixes = [{"rule": "x.y", **each} for each in (fix if isinstance(fix, list) else [fix])]
    # A worker reads a file of templates once.
    file = root / f"templates{len(list(root.iterdir()))}.yaml"
    file.write_text(yaml.safe_dump({**SHAPE, "fixes": fixes}))
    finding = {"fingerprint": "f", "path": name, "rule": "x.y", "line": line, "end_line": line}
    job = {"paths": [name], "templates": [str(file)], "findings": [{**finding, **place}]}
    return run({"root": str(root), **job}).get("f", [])


def fixed(root: Path, name: str, text: str, fix: Any, **place: int) -> list[str]:
    found = propose(root, name, text, fix, **place)
    return [apply(text, edits) for edits in found]


MD5 = {"match": "md5($A)", "replace": "sha256($A)"}
TOKEN = {"match": "random.$F($$$A)", "replace": "secrets.$F($$$A)", "imports": ["import secrets"]}
QUERY = {
    "match": "$C.execute($SQL)",
    "constraints": {"SQL": {"kind": "string", "regex": "^f"}},
    "derive": [
        {"of": "SQL", "find": "^f", "put": ""},
        {
            "of": "SQL",
            "find": r"= '?\{(\w+)\}'?",
            "put": "= $<n>",
            "collect": "VALUES",
            "fits": r"[^{}]*",
        },
    ],
    "replace": "$C.execute($SQL, $VALUES)",
}


@pytest.mark.parametrize(
    ("name", "text", "fix", "expected"),
    [
        ("a.py", "é = md5('é') + md5\n", MD5, "é = sha256('é') + md5\n"),
        ("a.py", "x = md5(a)\r\ny = 1\r\n", MD5, "x = sha256(a)\r\ny = 1\r\n"),
        ("a.py", "f(1, md5(\n  a,\n))\n", MD5, "f(1, sha256(a))\n"),
        ("a.vue", "<script>x = md5(a)</script>", MD5, "<script>x = sha256(a)</script>"),
        ("a.php", "<b><?= md5($a) ?></b>\n", MD5, "<b><?= sha256($a) ?></b>\n"),
        ("a.py", "f(g(1, 2), 3)\n", {"match": "f($A, $$$)", "replace": "h($A)"}, "h(g(1, 2))\n"),
        ("a.py", "f(1)\n", {"match": "f($$$A)", "replace": "f($$$A, t=2)"}, "f(1, t=2)\n"),
        ("a.py", "f()\n", {"match": "f($$$A)", "replace": "f($$$A, t=2)"}, "f(t=2)\n"),
        ("a.py", "f(1, 2,)\n", {"match": "f($$$A)", "replace": "f($$$A, t=2)"}, "f(1, 2, t=2)\n"),
        ("a.py", "f(t=2)\n", {"match": "f($$$A, t=2)", "replace": "f($$$A)"}, "f()\n"),
        (
            "a.py",
            "f(1, t=2, u=3)\n",
            {"match": "f($$$A, t=2, $$$B)", "replace": "f($$$A, $$$B)"},
            "f(1, u=3)\n",
        ),
        ("a.js", "  debugger;\nx();\n", {"match": "debugger;", "replace": ""}, "x();\n"),
        ("a.js", "x(); debugger;\n", {"match": "debugger;", "replace": ""}, "x(); \n"),
        (
            "a.py",
            "  c.execute(f\"a = '{b}' AND c = {d}\")\n",
            QUERY,
            '  c.execute("a = $1 AND c = $2", b, d)\n',
        ),
        (
            "a.py",
            "md5(a)\nmd5.x\n",
            {**MD5, "also": [{"regex": r"^md5\.(x)", "replace": r"sha256.\1"}]},
            "sha256(a)\nsha256.x\n",
        ),
        (
            "b.yaml",
            "a: true # é\n",
            {"regex": r"(a:) true", "replace": r"\1 false"},
            "a: false # é\n",
        ),
        (
            "a.py",
            "    if md5(a):\n        pass\n",
            {"match": "if md5($A): $$$B", "replace": "if $A:\n    $$$B"},
            "    if a:\n        pass\n",
        ),
    ],
)
def test_a_template_replaces_what_it_matches(
    tmp_path: Path, name: str, text: str, fix: Any, expected: str
) -> None:
    assert fixed(tmp_path, name, text, fix) == [expected]


@pytest.mark.parametrize(
    ("name", "text", "fix"),
    [
        ("a.py", 'c.execute(f"FROM {t} WHERE a = {b}")\n', QUERY),
        ("a.py", 'c.execute(f"a")\n', QUERY),
        ("a.py", "md5(a)\n", {**MD5, "when": "^import hashlib"}),
        ("a.py", "md5(a)\nlegacy = 1\n", {**MD5, "unless": "^legacy"}),
        ("a.py", "x = 1\nmd5(a)\n", MD5),
        ("a.rb", "md5(a)\n", MD5),
        ("b.txt", "a: true\n", {"regex": "true", "replace": "false"}),
        ("b.yaml", f"a: true {'x' * 3000}\n", {"regex": "true", "replace": "false"}),
        ("a.vue", "<script>random.choice(x)</script>", TOKEN),
        ("a.py", "md5(a)\n", {**MD5, "replace": "md5($A)"}),
        ("a.py", "md5(a)\n", {**MD5, "also": [{"regex": "d5", "replace": "d6"}]}),
        ("a.py", "x = md5('\udcff')\n", MD5),
    ],
)
def test_a_template_that_does_not_fit_proposes_nothing(
    tmp_path: Path, name: str, text: str, fix: Any
) -> None:
    assert fixed(tmp_path, name, text, fix) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "import secrets\n"),
        ("# note\n", "# note\nimport secrets\n"),
        ('"""Doc."""\n', '"""Doc."""\nimport secrets\n'),
        ("import random\n\nx = 1\n", "import random\nimport secrets\n\nx = 1\n"),
        ("from __future__ import a\nx = 1\n", "from __future__ import a\nimport secrets\nx = 1\n"),
        ("from a import (\n    b,\n)\n", "from a import (\n    b,\n)\nimport secrets\n"),
        ('x = """\nimport secrets\n"""\n', 'import secrets\nx = """\nimport secrets\n"""\n'),
        ("from secrets import choice\n", "from secrets import choice\nimport secrets\n"),
        ("x = my.secrets == y\n", "import secrets\nx = my.secrets == y\n"),
        ("import secrets as s\n", "import secrets as s\nimport secrets\n"),
        ("import a.secrets\n", "import a.secrets\nimport secrets\n"),
        ("import random, secrets\n", "import random, secrets\n"),
        ("import random\r\n", "import random\r\nimport secrets\r\n"),
    ],
)
def test_a_missing_import_is_added_behind_the_others(
    tmp_path: Path, before: str, after: str
) -> None:
    line = before.count("\n") + 1
    text = f"{before}t = random.choice(x)"
    expected = f"{after}t = secrets.choice(x)"
    assert fixed(tmp_path, "a.py", text, TOKEN, line=line) == [expected]


@pytest.mark.parametrize(
    "before",
    [
        "from shop import secrets",
        "from shop import a, secrets",
        "import shop as secrets",
        "secrets = []",
        "secrets: list[str] = []",
        "def secrets(): ...",
        "def f(a, secrets): ...",
        "for secrets in x: ...",
        "with x as secrets: ...",
    ],
)
def test_a_name_that_the_file_uses_otherwise_leaves_no_proposal(
    tmp_path: Path, before: str
) -> None:
    text = f"{before}\nt = random.choice(x)\n"
    assert fixed(tmp_path, "a.py", text, TOKEN, line=2) == []


def test_an_import_that_has_no_line_of_its_own_leaves_no_proposal(tmp_path: Path) -> None:
    assert fixed(tmp_path, "a.py", "import random; t = random.choice(x)\n", TOKEN) == []


def test_the_place_at_the_column_comes_first_and_three_are_enough(tmp_path: Path) -> None:
    text = "md5(a), md5(b), md5(c), md5(d)\n"
    found = fixed(tmp_path, "a.py", text, MD5, column=17)
    assert found[0] == "md5(a), md5(b), sha256(c), md5(d)\n"
    assert len(found) == 3


def test_templates_are_tried_in_their_order(tmp_path: Path) -> None:
    fixes = [{**MD5, "replace": "sha512($A)", "when": "fips"}, {**MD5, "replace": "sha3($A)"}, MD5]
    assert fixed(tmp_path, "a.py", "md5(a)\n", fixes) == ["sha3(a)\n", "sha256(a)\n"]
    assert fixed(tmp_path, "a.py", "md5(a)  # fips\n", fixes)[0] == "sha512(a)  # fips\n"


@pytest.mark.parametrize("line", [0, 3, 10**9])
def test_a_line_that_is_not_in_the_file_gets_no_proposal(tmp_path: Path, line: int) -> None:
    assert fixed(tmp_path, "a.py", "md5(a)\n", MD5, line=line) == []


def test_code_of_a_notebook_gets_no_proposal_as_its_text_is_json(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": ["md5(a)"]}
    notebook = json.dumps({"cells": [cell]}, indent=1)
    for line in range(1, notebook.count("\n") + 1):
        assert fixed(tmp_path, "a.ipynb", notebook, MD5, line=line) == []


def test_hostile_files_get_no_proposal_and_spare_the_others(tmp_path: Path) -> None:
    files = {
        "deep.py": b"(" * 20000 + b"md5(a)",
        "zero.py": b"\0md5(a)\0",
        "bytes.py": b"\xff\xfe\xff",
        "open.vue": b"<script>md5(a)",
        "large.py": b"md5(a)\n" * 300_000,
        "fine.py": b"md5(a)\n",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    templates = tmp_path / "t.yaml"
    templates.write_text(yaml.safe_dump({**SHAPE, "fixes": [{"rule": "x.y", **MD5}]}))
    paths = [*files, "link.py", "gone.py", "../up.py"]
    findings = [
        {"fingerprint": path, "path": path, "rule": "x.y", "line": 1, "end_line": 1, "column": 1}
        for path in [*paths, "not-asked.py"]
    ]
    job = {"paths": paths, "templates": [str(templates)], "findings": findings}
    found = run({"root": str(tmp_path), **job})
    assert set(found) - {"deep.py", "zero.py"} == {"fine.py"}


def test_a_last_line_that_imports_a_module_again_and_again_takes_no_time() -> None:
    began = time.process_time()
    assert drop_import("os", "import " + "os," * 20_000, "os") is None
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("from lxml import html", True),
        ("from lxml import etree, html", True),
        ("import os, html", True),
        ("from lxml import etree, \\\n    html", True),
        ("import lxml as html", True),
        ("html = 1", True),
        ("from html import escape", False),
        ("import html.parser", False),
        ("from lxml import htmlx", False),
        ("html == 1", False),
    ],
)
def test_a_name_that_is_used_for_something_else_is_taken(text: str, taken: bool) -> None:
    assert is_taken(f"import sys\n{text}\n", "import html") == taken


@pytest.mark.timeout(10)
@pytest.mark.parametrize("word", ["from ", "import ", "from a import b, ", "(", "html, "])
def test_a_line_of_a_hundred_thousand_keywords_is_soon_looked_through(word: str) -> None:
    assert is_taken(word * 100_000 + "\nhtml = 1\n", "import html")
    assert not is_taken(word * 100_000 + "\njson\n", "import json")
