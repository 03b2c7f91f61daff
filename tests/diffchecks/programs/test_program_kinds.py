"""Which files each external program analyzes, and which findings are left out on purpose."""

import json
from collections.abc import Callable, Mapping

import pytest

from diffchecks.script_languages import interpreter
from orchestrator.code_review.analyzer_types import AnalyzerReport, Side
from tests.diffchecks.programs.program_tools import Hadolint, Make, Oxlint, Ruff, ShellCheck, Zizmor

pytestmark = pytest.mark.either_loop

Export = Callable[[Mapping[str, str | bytes]], Side]


def codes(report: AnalyzerReport) -> list[str]:
    assert report.error is None
    assert not report.gaps
    return [found.code for found in report.findings]


@pytest.mark.parametrize(
    ("make", "wanted", "others"),
    [
        (
            Ruff,
            ["a.py", "a/b.pyi", "c.pyw", "d.ipynb", "deploy/x-1.2"],
            ["a.pyc", "a/.gitignore", "setup.cfg"],
        ),
        (
            ShellCheck,
            [
                *(
                    "a.sh",
                    "b.bash",
                    "c.ksh",
                    "d.bats",
                    "bin/run",
                    "src/run from source v1.2",
                    ".envrc",
                ),
                ".husky/pre-push",
                *(
                    "a/hooks/pre-commit",
                    "Makefile",
                    "a/Makefile.am",
                    "Makefile.test-arm",
                    "rules.mk",
                    "justfile",
                ),
            ],
            [
                *("a.zsh", "a.fish", "a.txt", "bin/a.py", "bin/.keep"),
                *("Makefile.PL", "a/CMakeLists.txt"),
            ],
        ),
        (
            Hadolint,
            ["Dockerfile", "a/Dockerfile.dev", "dev.Dockerfile", "x.dockerfile", "Containerfile"],
            [
                "Dockerfile.dockerignore",
                "Dockerfile.j2",
                "Dockerfiles/a",
                "docker.py",
                "compose.yml",
            ],
        ),
        (
            Zizmor,
            [
                ".github/workflows/a.yml",
                ".github/workflows/b.yaml",
                "action.yml",
                "a/b/action.yaml",
                ".github/dependabot.yml",
            ],
            [
                "workflows/a.yml",
                "x/.github/workflows/a.yml",
                ".github/workflows/a/b.yml",
                "my-action.yml",
                ".github/a.yml",
                "a/.github/dependabot.yml",
            ],
        ),
    ],
)
async def test_files_are_selected_by_name(make: Make, wanted: list[str], others: list[str]) -> None:
    analyzer = make({"x"})
    assert [path for path in wanted + others if analyzer.wants(path)] == wanted


@pytest.mark.parametrize(
    ("first", "name"),
    [
        ("#!/bin/sh", "sh"),
        ("#! /usr/bin/bash -e\r", "bash"),
        ("#!/usr/bin/env bash", "bash"),
        ("#!/usr/bin/env -S A=1 dash -e", "dash"),
        ("#!/bin/busybox sh", "sh"),
        ("#!@SHELL@", "@SHELL@"),
        ("\ufeff#!/bin/ksh", "ksh"),
        ("#!/usr/bin/env -S uv run --script", "uv"),
        ("#!/usr/bin/env -S uv run bash", "bash"),
        ("#!/usr/bin/env -S a run bash", "a"),
        ("#compdef x", "zsh"),
        ("#!/usr/bin/python3", "python3"),
        ("#!", ""),
        ("#!/usr/bin/env", ""),
        ("echo", None),
        ("", None),
    ],
)
def test_interpreter_is_read_from_the_first_line(first: str, name: str | None) -> None:
    assert interpreter(f"{first}\nrest\n".encode()) == name


async def test_only_shell_scripts_are_examined(export: Export) -> None:
    hazard = 'rm -rf "$1/"\n'
    side = export(
        {
            "bin/a": f"#!/usr/bin/env bash\n{hazard}",
            "bin/b": f"#!/usr/bin/env python3\n{hazard}",
            "bin/c": hazard,
            "d.sh": f"#!/bin/zsh\n{hazard}",
            "e.sh": hazard,
            "f.sh": b"",
            "bin/g": b"\x7fELF\0\0",
            "deploy/h": f"#!/bin/sh\n{hazard}",
            ".husky/pre-push": hazard,
            ".envrc": hazard,
        }
    )
    paths = ["bin/a", "bin/b", "bin/c", "d.sh", "e.sh", "f.sh", "bin/g", "deploy/h"]
    paths += [".husky/pre-push", ".envrc"]
    report = await ShellCheck({"SC2115"}).run(side, paths)
    hazards = [(".envrc", 1), (".husky/pre-push", 1), ("bin/a", 2), ("deploy/h", 2), ("e.sh", 1)]
    assert report.examined == {*dict(hazards), "f.sh"}
    assert sorted((found.path, found.line) for found in report.findings) == hazards
    assert not report.gaps


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ('D=build\nrm -rf "$D/"*\n', False),
        ('f() {\n  local D=build\n  rm -rf "$D/"*\n}\nf\n', False),
        ('# D=build\nrm -rf "$D/"*\n', True),
        ('echo "D=build"\nrm -rf "$D/"*\n', True),
        ('if a; then\n  D=build\nfi\nrm -rf "$D/"*\n', True),
        ('rm -rf "$D/"*\nD=build\n', True),
        ('D=build\nread -r D\nrm -rf "$D/"*\n', True),
        ('D=build\nunset D\nrm -rf "$D/"*\n', True),
        ('D=build\nfor D in $(ls); do\n  rm -rf "$D/"*\ndone\n', True),
    ],
)
async def test_a_path_is_constant_if_each_way_to_its_removal_sets_it(
    export: Export, lines: str, found: bool
) -> None:
    report = await ShellCheck({"SC2115"}).run(export({"a.sh": lines}), ["a.sh"])
    assert codes(report) == ["SC2115"] * found


async def test_a_part_of_a_script_may_be_read_in_a_function(export: Export) -> None:
    files = {"part.sh": "local a=1\n", "whole.sh": "#!/bin/bash\nlocal a=1\n"}
    report = await ShellCheck({"SC2168"}).run(export(files), [*files])
    assert [found.path for found in report.findings] == ["whole.sh"]


async def test_of_a_makefile_the_recipes_are_examined(export: Export) -> None:
    recipes = (
        "DIR ?= build\nifeq ($(CI),)\n\tDIR := out\nendif\n\n"
        'clean: all\n\t@if [ -n "$(DIR)" ]; then rm -rf "$$HOME/"; fi\n\t$(AM_V_GEN) (cd a && ls)\n'
    )
    files = {"Makefile": recipes, "other.mk": f"SHELL := /usr/bin/pwsh\n{recipes}"}
    files["named.mk"] = f"SHELL = $(SHELL_PATH)\n{recipes}"
    report = await ShellCheck({"SC2115", "SC2157"}).run(export(files), list(files))
    assert report.examined == {"Makefile", "named.mk"}  # a shell of Unix runs these two
    found, _ = sorted(report.findings, key=lambda each: each.line)
    assert (found.code, found.line, found.edits) == ("SC2115", 7, ())
    assert not report.gaps


async def test_of_a_notebook_the_python_code_is_examined(export: Export) -> None:
    cells = [
        ("markdown", ["eval(a)"]),
        ("code", ["import os\n", "%run other.ipynb\n", "a == 1\n", "await b(display(a))\n", "!ls"]),
        ("code", ["import os\n", "eval(b)"]),
    ]
    notebook = {
        "cells": [{"cell_type": kind, "metadata": {}, "source": text} for kind, text in cells],
        "metadata": {"kernelspec": {"language": "python"}},
        "nbformat": 4,
    }
    text = json.dumps(notebook, indent=1)
    files: dict[str, str | bytes] = {
        "a.ipynb": text,
        "of_r.ipynb": text.replace('"python"', '"R"'),
        "old.ipynb": '{"worksheets": []}',
        "prose.ipynb": text.replace('"code"', '"markdown"'),
    }
    rules = {"B015", "F401", "F704", "F811", "F821", "S307"}
    report = await Ruff(rules).run(export(files), list(files))
    assert report.examined == {"a.ipynb", "prose.ipynb"}
    (found,) = report.findings
    assert (found.code, found.edits) == ("S307", ())
    assert text.split("\n")[found.line - 1].strip() == '"eval(b)"'
    assert report.gaps.keys() == {"old.ipynb"}
    assert "no notebook of format 4" in report.gaps["old.ipynb"]


async def test_python_is_recognized_by_the_first_line_or_by_a_rare_suffix(export: Export) -> None:
    files: dict[str, str | bytes] = {
        "bin/a": "#!/usr/bin/env python3\neval(input())\n",
        "bin/b": "#!/bin/sh\neval(input())\n",
        "bin/c": "eval(input())\n",
        "bin/d": b"\x7fELF\0\xff",
        "srv/app.wsgi": "\neval(input())\n",
    }
    report = await Ruff({"S307"}).run(export(files), list(files))
    assert report.examined == {"bin/a", "srv/app.wsgi"}
    assert {(found.path, found.line) for found in report.findings} == {
        ("bin/a", 2),
        ("srv/app.wsgi", 2),
    }
    assert not report.gaps


async def test_line_endings_are_reported_once_per_script(export: Export) -> None:
    side = export({"a.sh": "#!/bin/sh\r\necho a\r\necho b\r\n"})
    report = await ShellCheck({"SC1017"}).run(side, ["a.sh"])
    assert [found.line for found in report.findings] == [1]


async def test_an_action_file_of_another_program_is_not_analyzed(export: Export) -> None:
    side = export({"a/action.yml": "steps: [\n", "b/action.yml": "name: x\n{{ runs: }}\n"})
    report = await Zizmor({"template-injection"}).run(side, ["a/action.yml", "b/action.yml"])
    assert report.error is None
    assert not report.examined
    assert not report.gaps


async def test_actions_are_analyzed_as_actions(export: Export) -> None:
    text = (
        "name: x\ndescription: x\nruns:\n  using: composite\n  steps:\n    - shell: bash\n"
        "      run: echo ${{ github.event.issue.title }}\n"
    )
    side = export({"setup/action.yml": text, "action.yaml": text})
    report = await Zizmor({"template-injection"}).run(side, ["setup/action.yml", "action.yaml"])
    assert [(found.path, found.line) for found in report.findings] == [
        ("action.yaml", 7),
        ("setup/action.yml", 7),
    ]
    assert report.examined == {"setup/action.yml", "action.yaml"}


async def test_text_of_strangers_is_seen_however_an_expression_names_it(export: Export) -> None:
    text = "name: x\ndescription: x\nruns:\n  using: composite\n  steps:\n"
    named = [
        "github['event']['issue']['title']", "GITHUB.Event.Issue.TITLE", "toJSON(github.event)",
        "join(github.event.comment.*)", "\n          github.event.issue.body",
    ]  # fmt: skip
    harmless = ["github.event.issue.number", "github.event.pull_request.head.sha"]
    text += "".join(
        f"    - shell: bash\n      run: |\n          echo ${{{{ {one} }}}}\n"
        for one in (*named, *harmless)
    )
    report = await Zizmor({"template-injection"}).run(
        export({"a/action.yml": text}), ["a/action.yml"]
    )
    assert codes(report) == ["template-injection"] * len(named)


async def test_a_constant_command_and_a_debugger_import_are_not_reported(export: Export) -> None:
    text = "import os, pdb\nimport subprocess as s\nos.system('a')\ns.run('a', shell=True)\n"
    side = export({"a.py": text})
    assert codes(await Ruff({"S602", "S605", "T100"}).run(side, ["a.py"])) == []


async def test_a_script_may_give_its_own_constants_to_a_shell(export: Export) -> None:
    text = "import subprocess as s\n\ndef run(c: str) -> str:\n    return s.run(c, shell=True)\n\n"
    main = 'if __name__ == "__main__":\n    run("a | b")\n    run({})\n'
    for value, found in (("'c'", []), ("f'{x}'", ["S602"]), ("'c' + x", ["S602"]), ("x", ["S602"])):
        side = export({"a.py": text + main.format(value)})
        assert codes(await Ruff({"S602"}).run(side, ["a.py"])) == found
    side = export({"a.py": text + "run('c')\n"})
    assert codes(await Ruff({"S602"}).run(side, ["a.py"])) == ["S602"]


async def test_the_newest_syntax_is_no_error_and_new_names_are_known(export: Export) -> None:
    text = (
        "type A[T] = list[T]\nx = t'{1}'\ntry:\n    pass\nexcept* ValueError, OSError:\n    pass\n"
        "def f(b: B) -> B: ...\nclass B: ...\n"
    )
    report = await Ruff({"F821"}).run(export({"a.py": text}), ["a.py"])
    assert codes(report) == []
    assert report.examined == {"a.py"}


@pytest.mark.parametrize(
    "line",
    [
        "import array  # noqa: F401\n",
        "from array import (  # noqa\n    array,\n)\n",
        "import array  # pylint: disable=unused-import\n",
        "import array  # re-exported for plugins\n",
        "try:\n    import array\nexcept ImportError:\n    array_is_there = False\n",
        "from array import array as array\n",
        "from a import b, c, d, e, f\n",
    ],
)
async def test_an_import_with_a_comment_that_it_is_intended_is_not_reported(
    export: Export, line: str
) -> None:
    side = export({"a.py": line, "b.py": "import array\n"})
    report = await Ruff({"F401"}).run(side, ["a.py", "b.py"])
    assert [(found.path, found.code) for found in report.findings] == [("b.py", "F401")]


async def test_in_tests_a_quoted_type_may_be_undefined(export: Export) -> None:
    text = "class A:\n    a: 'Gone'\n    b: Other\n    c: Other\n"
    side = export({"tests/test_a.py": text, "a.py": text})
    report = await Ruff({"F821"}).run(side, ["tests/test_a.py", "a.py"])
    places = [(found.path, found.line) for found in report.findings]
    assert places == [("a.py", 2), ("a.py", 3), ("tests/test_a.py", 3)]  # each name once


async def test_data_of_tests_gets_its_names_and_a_cut_digest_of_a_file_names_it(
    export: Export,
) -> None:
    given, cut = "uri('/a')\n", "import hashlib\ndef f(token, a):\n    return hashlib.md5({}){}\n"
    files: dict[str, str | bytes] = {
        "tests/valid/a.py": f"from a import b\n{given}",
        "tests/valid/b.py": f"def f():\n    {given}",
        "a.py": given,
        "b.py": cut.format("a.read()", ".hexdigest()[:6]"),
        "c.py": cut.format("a.read()", ".hexdigest()"),
        "d.py": cut.format("token", ".hexdigest()[:6]"),
    }
    report = await Ruff({"F821", "S324"}).run(export(files), list(files))
    assert [found.path for found in report.findings] == ["a.py", "c.py", "d.py", "tests/valid/b.py"]


async def test_a_fixture_requested_by_name_is_no_redefinition(export: Export) -> None:
    text = (
        "from fixtures import server\n\n\ndef test_a(server):\n    assert server\n\n\n"
        "def test_a():\n    assert 1 + 1 == 2\n"
    )
    report = await Ruff({"F811"}).run(export({"tests/test_a.py": text}), ["tests/test_a.py"])
    assert [found.line for found in report.findings] == [8]
    text = "from web import request, serve\n\n\ndef f(\n    self, request\n):\n    serve = request\n    return serve\n"
    files = {"a.py": f"{text}\n\ndef serve(a, request):\n    return request\n"}
    report = await Ruff({"F811"}).run(export(files), list(files))
    assert [found.line for found in report.findings] == [11]


async def test_a_comment_vouches_for_a_quoted_type_and_no_name(export: Export) -> None:
    text = (
        'def f() -> "Client":  # noqa\n    return g()  # noqa\n\n\ndef h() -> "Client":\n    pass\n'
        "Import(1)  # noqa: E501, F821\nExport(1)  # type: ignore[name-defined]\nGlob(1)  # noqa: E501\n"
    )
    text += "class A:\n    b: 'list[web.Client]' = None  # NOQA: a cycle\n"
    text += "class B(BaseModel):\n    b: 'tuple[app.Client]'  # noqa\n    c = ('d', user, 'e')  # noqa\n"
    report = await Ruff({"F821"}).run(export({"a.py": text}), ["a.py"])
    places = [(2, 12), (5, 13), (9, 1), (12, 9), (13, 15), (14, 15)]
    assert [(found.line, found.column) for found in report.findings] == places


async def test_security_findings_have_a_lower_confidence(export: Export) -> None:
    side = export(
        {"a.py": "import os\ndef f(x):\n    os.system(x)\n    if x or True:\n        return y\n"}
    )
    report = await Ruff({"S605", "F821", "SIM222"}).run(side, ["a.py"])
    assert {found.code: found.confidence for found in report.findings} == {
        "S605": 0.8,
        "F821": 1.0,
        "SIM222": 1.0,
    }


async def test_reports_are_equal_and_in_order(export: Export) -> None:
    files = {f"{n}.py": "import os\ndef f(x):\n    os.system(x)\n    return y\n" for n in range(9)}
    side = export(files)
    first = await Ruff({"S605", "F821"}).run(side, sorted(files, reverse=True))
    second = await Ruff({"F821", "S605"}).run(side, sorted(files))
    assert first == second
    assert [found.path for found in first.findings] == sorted(
        found.path for found in first.findings
    )


@pytest.mark.parametrize(
    "heredoc",
    [
        "RUN <<EOF bash\nset -eu\nEOF",
        "RUN <<-EOF\n\techo a\n\tEOF",
        "COPY <<-\\EOT /data.txt\n  echo $X\nEOT",
        "ADD <<'E.1' /data.txt\na\nE.1",
        'COPY <<A <<"B" /d/\nx\nA\ny\nB',
        "RUN cat <<EOF > /x && \\\n  ls\nRUN <<Q\nEOF",
        "RUN echo $((1 << X)) '<<EOF'",
    ],
)
async def test_a_heredoc_of_a_dockerfile_is_read_and_lines_stay_those_of_the_file(
    export: Export, heredoc: str
) -> None:
    text = f"FROM debian:12\n{heredoc}\n# next\nRUN sudo ls\n"
    report = await Hadolint(frozenset({"DL3004"})).run(export({"Dockerfile": text}), ["Dockerfile"])
    assert codes(report) == ["DL3004"]
    assert report.findings[0].line == text.count("\n")


SPLIT = """\
pairs=(a=1 b=2)
env_vars=(a b)
export ${pairs[@]}
export ${env_vars[@]}
unset -v a ${pairs[@]}
# shellcheck disable=SC2068
# One word each.
cp ${pairs[@]} /tmp
unset a; cp ${pairs[@]} /tmp
"""
CASES = """\
function f(a) {
  switch (a) {
    case 1:
      return {
        a,
      };
      break;
    default: throw new Error(a); break;
  }
  f();
}
"""
FETCHES = """\
export function f(method, url, body) {
  fetch(url, { method, headers: { a: `b ${url}` }, body: body && g(body) });
  const g = () => url;
  const h = () => body;
  fetch(url, { method: "GET", body: body });
  return [g, h];
}
"""
STAGES = """\
FROM --platform=$BUILDPLATFORM tonistiigi/xx:${XX} AS xx
FROM debian:12 AS a
COPY --from=xx / /
FROM debian:12 AS b
COPY --from=a / /
FROM scratch
COPY --from=b / /
"""

SETTINGS = """\
FROM debian:12
ARG USERNAME=shop
ENV TOKENIZERS_PARALLELISM=true TOKEN_URL=https://shop.test/token
ENV USERNAME=shop DB_PASSWORD=horse
ENV USERNAME=shop \\
    API_KEY=horse
"""
OTHERWISE = """#!/bin/sh
if a; then b
else case e in #(
  e) c ;;
esac; fi
case f in
  f) c ;;
esac
"""
WHOLE_ARRAYS = """#!/bin/bash
if [[ "${a[@]}" == *-Xmx* ]]; then b; fi
if [[ "${a[@]}" == -Xmx ]]; then b; fi
if [[ ${a[@]+set} ]]; then b; fi
"""
CLASSES = 'a=(1 2)\ngrep "^$name[[:space:]]*$" b\ngrep "$name[^,]" "$name[0-9]"\necho "$a[0]"\n'


@pytest.mark.parametrize(
    ("make", "code", "path", "text", "lines"),
    [
        (ShellCheck, "SC1087", "a.sh", CLASSES, [4]),
        (ShellCheck, "SC2199", "a.sh", WHOLE_ARRAYS, [3]),
        (ShellCheck, "SC2194", "a.sh", OTHERWISE, [6]),
        (Hadolint, "DL3064", "Dockerfile", SETTINGS, [4, 5]),
        (ShellCheck, "SC2068", "a.sh", SPLIT, [3, 9]),
        (Oxlint, "no-unreachable", "a.ts", CASES, [10]),
        (Oxlint, "no-unreachable", "a.test.cjs", f'import a from "a";\n{CASES}', [11]),
        (Oxlint, "unicorn/no-invalid-fetch-options", "a.js", FETCHES, [5]),
        (Hadolint, "DL3067", "Dockerfile", STAGES, [5]),
    ],
)
async def test_what_the_lines_above_show_to_be_intended_is_not_reported(
    export: Export, make: Make, code: str, path: str, text: str, lines: list[int]
) -> None:
    report = await make(frozenset({code})).run(export({path: text}), [path])
    assert codes(report) == [code] * len(lines)
    assert [found.line for found in report.findings] == lines


async def test_a_logger_from_elsewhere_may_have_messages_with_braces(export: Export) -> None:
    log = 'def f(log):\n    log.info("a {}", 1)\n'
    other = 'def g(log):\n    log.info("b %s", 1)\n'
    files = {"a.py": log, "b.py": f"import logging\n{log}", "c.py": log + other}
    files["d.py"] = f"from os import path\n{log}"
    report = await Ruff({"PLE1205"}).run(export(files), list(files))
    assert [finding.path for finding in report.findings] == ["b.py", "c.py"]
