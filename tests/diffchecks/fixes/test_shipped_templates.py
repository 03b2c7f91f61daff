"""The shipped templates: each can be read, and none guesses."""

import re
import time
from pathlib import Path

import pytest

from diffchecks import DATA
from diffchecks.fixes.template_edits import run
from diffchecks.fixes.template_loading import build_templates
from diffchecks.own_data import check_search
from diffchecks.patterns.pattern_loading import read_definitions
from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.policy_loading import load_rules
from tests.diffchecks.fix_kit import apply

FILES = sorted(str(file) for file in (DATA / "fixes").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: Path(file).stem)
def test_every_template_is_of_a_rule_and_can_be_searched_for(file: str) -> None:
    templates = build_templates(read_definitions(file))
    rules = load_rules([read_shipped_layer()]).rules
    grammars = {name for names in templates.grammars.values() for name in names}
    for fix in templates.fixes:
        assert fix.rule in rules
        if fix.match is None:
            assert re.compile(fix.regex or "").search("") is None, "it would match anywhere"
        else:
            check_search(fix.config, grammars, fix.rule, file)


def fixed(root: Path, rule: str, path: str, text: str) -> list[str]:
    """What is proposed for a finding in all lines of a file."""
    (root / path).write_text(text)
    last = text.count("\n")
    finding = {"fingerprint": "f", "path": path, "rule": rule, "line": 1, "end_line": last}
    job = {"paths": [path], "templates": FILES, "findings": [finding]}
    return [apply(text, edits) for edits in run({"root": str(root), **job}).get("f", ())]


QUERY = "SELECT a FROM b WHERE c = "
C_POINTER = "void f(char *to, char *from) { strcpy(to, from); }\n"
C_PARAMETER = "void f(char to[9], char *from) { strcpy(to, from); }\n"
C_POINTERS = "void f(char *from) { char *to[9]; strcpy(to, from); }\n"
C_BRANCH = "void f(int a) { char x[9]; if (a) gets(x); else g(); }\n"


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        # A password needs a slow hash with a salt.
        ("security.weak-hash", "a.py", "def f(password):\n    return hashlib.md5(password)\n"),
        ("security.weak-hash", "a.py", "x = hashlib.md5(user.passwd)\n"),
        ("security.weak-hash", "a.js", "h = crypto.createHash('md5').update(password);\n"),
        ("security.weak-hash", "a.go", "func f(password []byte) {\n\tmd5.Sum(password)\n}\n"),
        ("security.weak-hash", "a.go", "func f(b []byte) [16]byte {\n\treturn md5.Sum(b)\n}\n"),
        # A name of a table or a part of a pattern is no parameter, and libraries differ.
        ("security.sql-injection", "a.py", 'cursor.execute(f"SELECT a FROM {table}")\n'),
        ("security.sql-injection", "a.py", "cursor.execute(f\"SELECT a WHERE b LIKE '%{x}%'\")\n"),
        ("security.sql-injection", "a.py", 'cursor.execute("DELETE FROM t ORDER BY " + x)\n'),
        ("security.sql-injection", "a.py", 'db.execute(f"SELECT a FROM b WHERE c = {x}")\n'),
        ("security.sql-injection", "a.py", 'await cur.execute("SELECT a WHERE c = " + x)\n'),
        (
            "security.sql-injection",
            "a.py",
            f'q = f"{QUERY}{{x}}"\nq += " LIMIT 1"\ncur.execute(q)\n',
        ),
        ("security.sql-injection", "a.py", f'q = f"{QUERY}{{x}}"\nif y:\n    cur.execute(q)\n'),
        (
            "security.sql-injection",
            "a.py",
            f'q = f"{QUERY}{{x}}"\ncur.execute(q)\ncur.execute(q)\n',
        ),
        (
            "security.sql-injection",
            "a.py",
            f'def f(x):\n    with y:\n        q = f"{QUERY}{{x}}"\n        cur.execute(q)\n    g(q)\n',
        ),
        ("security.sql-built", "a.js", 'db.query("SELECT a FROM b WHERE c = " + x);\n'),
        ("security.sql-built", "a.go", 'db.Query("SELECT a FROM b WHERE c = " + x)\n'),
        # Go refuses an import that nothing uses any more.
        (
            "security.sql-built",
            "a.go",
            f'import _ "github.com/lib/pq"\n\nvar r = db.QueryRow(fmt.Sprintf("{QUERY}%s", x))\n',
        ),
        # More than plain words is the shell's.
        ("security.command-injection", "a.py", 'os.system("ls | grep " + x)\n'),
        ("security.command-injection", "a.py", 'code = os.system("ls " + x)\n'),
        ("security.command-injection", "a.py", "subprocess.run('ls $HOME ' + x, shell=True)\n"),
        # `sizeof` is the size of an array only.
        ("security.buffer-overflow", "a.c", C_POINTER),
        ("security.buffer-overflow", "a.c", C_PARAMETER),
        ("security.buffer-overflow", "a.c", C_POINTERS),
        ("security.unbounded-read", "a.c", C_BRANCH),
        # Text of the page that is markup must not be escaped.
        ("security.template-unescaped", "a.vue", "<p v-html=\"'<b>' + x\"></p>\n"),
        ("security.template-unescaped", "a.html", "{{ ('<b>' ~ x)|safe }}\n"),
        ("security.html-built", "a.js", 'e.innerHTML = "<b>" + x;\n'),
        # Git asks only whether it is set, and a map must not become empty.
        ("security.tls-unverified", "a.yml", "variables:\n  GIT_SSL_NO_VERIFY: 'true'\njob: {}\n"),
        # An image of its own may not run as root.
        ("qa.docker-sudo", "Dockerfile", "FROM jenkins/jenkins:2\nRUN sudo make\n"),
        ("qa.docker-sudo", "Dockerfile", "FROM debian:12\nUSER app\nRUN sudo make\n"),
        ("security.jwt-unsigned", "a.py", 'jwt.decode(t, k, algorithms=["none"])\n'),
        (
            "security.workflow-injection",
            "a.yml",
            "- run: echo ${{ github.head_ref }}\n  env:\n    A: b\n",
        ),
        ("security.workflow-injection", "a.yml", "- run: echo '${{ github.head_ref }}'\n"),
        ("security.workflow-injection", "a.yml", '- run: node -e "f(${{ github.head_ref }})"\n'),
        (
            "security.workflow-injection",
            "a.yml",
            "- run: |\n    cat <<'END'\n    ${{ github.head_ref }}\n    END\n",
        ),
        (
            "security.workflow-injection",
            "a.yml",
            "- run: |\n    echo ${{ github.head_ref }}\n    echo ${{ github.event.a.title }}\n",
        ),
        (
            "security.workflow-injection",
            "a.yml",
            "- run: echo ${{ github.head_ref }}\n  shell: pwsh\n",
        ),
    ],
)
def test_no_fix_is_proposed_without_certainty(
    tmp_path: Path, rule: str, path: str, text: str
) -> None:
    assert fixed(tmp_path, rule, path, text) == []


@pytest.mark.parametrize(
    ("rule", "path", "text", "expected"),
    [
        (
            "security.sql-injection",
            "a.py",
            f"import psycopg\ndb.execute(f\"{QUERY}'{{x}}' AND d>{{y.z}}\")\n",
            f'import psycopg\ndb.execute("{QUERY}%s AND d>%s", (x, y.z))\n',
        ),
        (
            "security.sql-injection",
            "a.py",
            f'db.execute("{QUERY}?", (x,))\ndb.execute("{QUERY}" + x)\n',
            f'db.execute("{QUERY}?", (x,))\ndb.execute("{QUERY}?", (x,))\n',
        ),
        (
            "security.sql-injection",
            "a.py",
            f"import sqlite3\ndb.execute(\"{QUERY}'{{}}'\".format(x))\n",
            f'import sqlite3\ndb.execute("{QUERY}?", (x,))\n',
        ),
        (
            "security.sql-injection",
            "a.py",
            f'cur.execute("{QUERY}%s AND d = %s" % (x, f(y)))\n',
            f'cur.execute("{QUERY}%s AND d = %s", (x, f(y)))\n',
        ),
        (
            "security.sql-built",
            "a.js",
            f"const {{ Pool }} = require(\"pg\");\ndb.query(`{QUERY}${{x}} AND d = '${{y.z}}'`);\n",
            f'const {{ Pool }} = require("pg");\ndb.query(`{QUERY}$1 AND d = $2`, [x, y.z]);\n',
        ),
        (
            "security.sql-built",
            "a.go",
            f'import _ "github.com/lib/pq"\n\nvar r = db.QueryRow(fmt.Sprintf("{QUERY}\'%s\'", x))\n'
            "var s = fmt.Sprint(1)\n",
            f'import _ "github.com/lib/pq"\n\nvar r = db.QueryRow("{QUERY}$1", x)\n'
            "var s = fmt.Sprint(1)\n",
        ),
        (
            "security.weak-hash",
            "a.go",
            'package a\n\nimport (\n\t"crypto/md5"\n)\n\nfunc f() any { return md5.New() }\n',
            'package a\n\nimport (\n\t"crypto/sha256"\n)\n\nfunc f() any { return sha256.New() }\n',
        ),
        (
            "security.predictable-random",
            "a.py",
            "import random\n\nt = random.choice(x)\n",
            "import secrets\n\nt = secrets.choice(x)\n",
        ),
        (
            "security.predictable-random",
            "a.py",
            "import random\n\nt = random.choice(x)\nrandom.seed(1)\n",
            "import random\nimport secrets\n\nt = secrets.choice(x)\nrandom.seed(1)\n",
        ),
        (
            "security.command-injection",
            "a.py",
            'import os, re\nos.system("ls " + x)\n',
            'import re\nimport subprocess\nsubprocess.run(["ls", x], check=False)\n',
        ),
        (
            "security.command-injection",
            "a.py",
            'subprocess.run(f"tar czf {a.b}.tgz --x={c} .", cwd=d, shell=True, check=True)\n',
            'subprocess.run(["tar", "czf", f"{a.b}.tgz", f"--x={c}", "."], cwd=d, check=True)\n',
        ),
        ("security.tls-unverified", "a.py", "requests.get(u, verify=False)\n", "requests.get(u)\n"),
        (
            "security.tls-unverified",
            "a.py",
            "requests.get(u, verify=False, timeout=9)\n",
            "requests.get(u, timeout=9)\n",
        ),
        (
            "security.subprocess-shell",
            "a.py",
            "subprocess.run('ls ' + d, shell=True, check=True)\n",
            'subprocess.run(["ls", d], check=True)\n',
        ),
        (
            "security.jwt-unsigned",
            "a.py",
            'jwt.decode(t, k, algorithms=["HS256", "none"])\n',
            'jwt.decode(t, k, algorithms=["HS256"])\n',
        ),
        (
            "security.workflow-injection",
            "a.yml",
            "- name: x\n  run: |\n    set -e\n    echo ${{ github.event.issue.title }} a\n- run: 'b'\n",
            "- name: x\n  env:\n    UNTRUSTED_TEXT: ${{ github.event.issue.title }}\n"
            "  run: |\n    set -e\n    echo \"${UNTRUSTED_TEXT}\" a\n- run: 'b'\n",
        ),
        (
            "security.tls-unverified",
            "a.yml",
            "variables:\n  A: b\n  GIT_SSL_NO_VERIFY: 'true'\n",
            "variables:\n  A: b\n",
        ),
    ],
)
def test_conditions_on_the_file_decide_whether_a_template_applies(
    tmp_path: Path, rule: str, path: str, text: str, expected: str
) -> None:
    assert fixed(tmp_path, rule, path, text)[:1] == [expected]


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        ("security.sql-injection", "a.py", "cursor.execute('SELECT a WHERE b = ' + c)\n" * 3000),
        ("security.sql-injection", "a.py", f'q = f"{QUERY}{{x}}"\ncur.execute(q)\n' * 1700),
        ("security.predictable-random", "a.py", "import a\n" * 7000 + "random.choice(x)\n" * 200),
        ("security.cross-site-scripting", "a.py", "x = (" + "'<a>' + y +\n" * 3000 + "z)\n"),
        ("security.cross-site-scripting", "a.py", "x = " + "'<a>' + y + " * 3000 + "z\n"),
        ("security.buffer-overflow", "a.c", "void f() {\n" + "sprintf(c, d, e);\n" * 3000 + "}\n"),
        ("qa.async-loop", "a.js", "async function f() {\n" * 900 + "a.forEach(b);" + "}\n" * 900),
        ("qa.shell-test-operator", "a.sh", ("[ " + "a " * 990 + "\n") * 200),
        ("security.template-unescaped", "a.html", ("{{" + "a | " * 490 + "\n") * 200),
    ],
)
def test_a_large_file_with_many_findings_takes_seconds_at_most(
    tmp_path: Path, rule: str, path: str, text: str
) -> None:
    (tmp_path / path).write_text(text)
    last = text.count("\n")
    findings = [
        {"fingerprint": f"{n}", "path": path, "rule": rule, "line": n, "end_line": n, "column": 1}
        for n in range(max(1, last - 150), last + 1)
    ]
    start = time.process_time()
    run({"root": str(tmp_path), "paths": [path], "templates": FILES, "findings": findings})
    assert time.process_time() - start < 2
