"""Analyzers that base configures run on both sides, and their results are findings."""

import json
import os
import re
import sys
import time
import venv
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from diffchecks.imported_reports import formats
from diffchecks.programs import batches
from orchestrator.app.run_review import run_review
from orchestrator.code_review.analyzers import (
    configured_analyzers,
    configured_programs,
    program_execution,
)
from orchestrator.code_review.analyzers.configured_programs import NO_SANDBOX, NOT_ALLOWED
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import ConfigError
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.level_and_launchers import SANDBOX
from orchestrator.sandbox.program_permissions import ResourceLimits
from tests.review.review_kit import change, in_ci, options

GRUMBLE = """\
import json, os, sys
from pathlib import Path

report, *files = sys.argv[1:]
off = Path("pyproject.toml").exists() and "grumble = false" in Path("pyproject.toml").read_text()
results = []
for file in [] if off else files:
    for number, text in enumerate(Path(file).read_text().splitlines(), 1):
        if "BAD" in text:
            place = {"artifactLocation": {"uri": os.path.abspath(file)}, "region": {"startLine": number}}
            results.append({"ruleId": "bad", "message": {"text": "This is bad"},
                            "locations": [{"physicalLocation": place}]})
run = {"tool": {"driver": {"name": "Grumble"}}, "results": results}
Path(report).write_text(json.dumps({"version": "2.1.0", "runs": [run]}))
sys.exit(bool(results))
"""
COMMAND = ["grumble", "{report}", "{files}"]
FORMATS = ", ".join(formats.FORMATS)
BASE = {"app/old.cob": "IDENTIFICATION.\nBAD OLD.\n"}
HEAD = {"app/old.cob": "IDENTIFICATION.\nBAD OLD.\nMOVE.\nBAD NEW.\n"}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of programs on PATH."""
    place = tmp_path / "programs"
    place.mkdir()
    monkeypatch.setenv("PATH", str(place), prepend=os.pathsep)
    return place


def install(programs: Path, text: str, name: str = "grumble") -> None:
    program = programs / name
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o755)


def settings(*, imports: Mapping[str, Any] | None = None, **given: Any) -> dict[str, str]:
    said = {"command": COMMAND, "files": ["*.cob"], **given}
    document = {"analyzers": {"grumble": said}, **({"imports": imports} if imports else {})}
    return {".diffcourt/config/defaults.yaml": json.dumps(document)}


def review(
    place: Path,
    base: Mapping[str, str] = BASE,
    head: Mapping[str, str | None] = HEAD,
    *,
    allowed: bool | None = True,
    imports: Mapping[str, Any] | None = None,
    **given: Any,
) -> Verdict:
    configured = settings(imports=imports, **given)
    repository = change(place / "repo", {**configured, **base}, head).path
    return run_review(options(repository, run_analyzers=allowed), ignore_event)


def found(verdict: Verdict) -> list[tuple[str, str, int]]:
    return [
        (one.rule, one.path, one.start_line)
        for one in verdict.findings
        if one.rule.startswith("import.")
    ]


def gap(verdict: Verdict, name: str = "grumble") -> str:
    (why,) = [skip.why for skip in verdict.skipped if skip.path == name and skip.gap]
    return why


def test_a_result_that_base_does_not_have_is_a_finding_and_the_file_is_read_as_code(
    tmp_path: Path, programs: Path
) -> None:
    install(programs, GRUMBLE)
    verdict = review(tmp_path)
    assert found(verdict) == [("import.grumble.bad", "app/old.cob", 4)]
    (one,) = [one for one in verdict.findings if one.rule == "import.grumble.bad"]
    assert one.evidence.quote == "BAD NEW."
    assert one.reported_by == ("configured_analyzers", "security")
    (checked,) = [one for one in verdict.checked if one.path == "app/old.cob"]
    assert checked.depth == "code"
    assert "configured_analyzers" in checked.by
    assert not [skip for skip in verdict.skipped if skip.gap]


def test_a_program_that_is_not_on_path_is_found_beside_our_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An extra such as ``sql`` puts it there, and pipx exposes only our own command."""
    own = tmp_path / "own"
    own.mkdir()
    install(own, GRUMBLE)
    monkeypatch.setattr(program_execution, "OWN_DIRECTORIES", (str(own),))
    assert found(review(tmp_path)) == [("import.grumble.bad", "app/old.cob", 4)]


def test_a_line_that_was_only_moved_is_not_new(tmp_path: Path, programs: Path) -> None:
    install(programs, GRUMBLE)
    moved = {"app/old.cob": None, "app/new.cob": "MOVE.\nIDENTIFICATION.\n  BAD OLD.\nSTOP.\n"}
    assert found(review(tmp_path, BASE, moved)) == []


@pytest.mark.parametrize(("lines", "expected"), [("added", [3]), ("file", [1, 3])])
def test_lines_say_where_results_count(
    tmp_path: Path, programs: Path, lines: str, expected: list[int]
) -> None:
    """A tool may report a line that the change does not touch, and not report it in base."""
    install(programs, GRUMBLE.replace('"BAD" in text', '"STOP" in Path(file).read_text()'))
    base, head = {"a.cob": "MOVE.\n"}, {"a.cob": "MOVE.\n\nSTOP.\n"}
    (tmp_path / "both").mkdir()
    by_analyzer = review(tmp_path / "own", base, head, lines=lines)
    by_imports = review(tmp_path / "both", base, head, imports={"lines": lines})
    assert [line for _, _, line in found(by_analyzer)] == expected
    assert [line for _, _, line in found(by_imports)] == expected


def test_severities_and_waivers_hold_as_for_imported_results(
    tmp_path: Path, programs: Path
) -> None:
    install(programs, GRUMBLE)
    waiver = {"rule": "import.grumble.bad", "why": "bad is good here"}
    policy = {".diffcourt/config/verdict.yaml": json.dumps({"waivers": [waiver]})}
    verdict = review(tmp_path, {**BASE, **policy}, imports={"severities": {"grumble:b*": "high"}})
    (one,) = [one for one in verdict.findings if one.rule == "import.grumble.bad"]
    assert (one.severity, one.state) == ("high", "waived")


def test_standard_output_is_the_report_where_none_is_named_and_its_paths_may_be_odd(
    tmp_path: Path, programs: Path
) -> None:
    install(
        programs,
        "import json, sys\n"
        "message = {'ruleId': 'r', 'severity': 2, 'message': 'm', 'line': 1}\n"
        "print(json.dumps([{'filePath': f, 'messages': [message]} for f in sys.argv[1:]]))\n",
    )
    names = ["-x.cob", "@y.cob", "a b.cob", "d/\u00e9.cob", "head/a.cob", "a.cob"]
    verdict = review(
        tmp_path,
        {},
        dict.fromkeys([*names, "a.txt"], "STOP.\n"),
        command=["grumble", "{files}"],
        format="eslint",
    )
    assert sorted(path for _, path, _ in found(verdict)) == sorted(names)


def test_a_format_without_the_name_of_a_tool_gets_that_of_the_configuration(
    tmp_path: Path, programs: Path
) -> None:
    error = '<error line="1" severity="error" message="no"/>'
    install(programs, f"print('<checkstyle><file name=\"a.cob\">{error}</file></checkstyle>')\n")
    verdict = review(tmp_path, {}, {"a.cob": "STOP.\n"}, command=["grumble"])
    assert found(verdict) == [("import.grumble.result", "a.cob", 1)]


def test_real_analyzers_find_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    page = (Path(__file__).parents[3] / "docs/analyzers.md").read_text()
    example = page.partition("```yaml file=.diffcourt/config/defaults.yaml\n")[2].partition("```")[
        0
    ]
    ruff = ["ruff", "check", "--no-cache", "--select=PLR2004", "--ignore-noqa", "--output-format"]
    programs = {
        "mypy": yaml.safe_load(example)["analyzers"]["mypy"],
        "ruff": {"command": [*ruff, "sarif", "{files}"], "files": ["*.py"]},
    }
    config = {".diffcourt/config/defaults.yaml": json.dumps({"analyzers": programs})}
    old = "def pay(n: int) -> str:\n    return n if n > 12 else n\n"
    new = "\n\ndef refund(total: int) -> str:\n    return total > 34  # noqa\n"
    repository = change(tmp_path / "repo", {**config, "shop.py": old}, {"shop.py": old + new}).path
    verdict = run_review(options(repository, run_analyzers=True), ignore_event)
    assert set(found(verdict)) == {
        ("import.mypy.return-value", "shop.py", 6),
        ("import.ruff.plr2004", "shop.py", 6),
    }
    assert not {"mypy", "ruff"} & {skip.path for skip in verdict.skipped}


def test_more_files_than_a_command_line_holds_are_given_in_parts(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_file = GRUMBLE.replace("report, *files", "report, file").replace(
        "else files", "else [file]"
    )
    install(programs, one_file)
    monkeypatch.setattr(f"{configured_analyzers.__name__}.batches", partial(batches, max_files=1))
    verdict = review(tmp_path, {}, {"a.cob": "BAD.\n", "b.cob": "GOOD.\n", "c.cob": "BAD.\n"})
    assert [path for _, path, _ in found(verdict)] == ["a.cob", "c.cob"]
    assert {one.path for one in verdict.checked if one.depth == "code"} == {
        "a.cob",
        "b.cob",
        "c.cob",
    }


# --- what it finds around it ----------------------------------------------------------------------


@pytest.fixture(params=["landlock", "bubblewrap"])
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each level of the sandbox, where it is available."""
    if request.param == "bubblewrap":
        request.getfixturevalue("namespaces")
    yield request.param
    SANDBOX.close()


def test_a_program_has_its_virtualenv_and_its_interpreter(
    tmp_path: Path, programs: Path, level: str
) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    (library,) = environment.glob("lib/python*/site-packages")
    (library / "grumbling.py").write_text("WORD = 'BAD'\n")
    text = GRUMBLE.replace('"BAD" in text', "grumbling.WORD in text")
    script = environment / "bin/grumble"
    script.write_text(f"#!{environment}/bin/python\nimport grumbling\n{text}")
    script.chmod(0o755)
    (programs / "grumble").symlink_to(script)
    assert found(review(tmp_path)) == [("import.grumble.bad", "app/old.cob", 4)]
    assert SANDBOX.level == level


def test_a_linked_script_finds_what_lies_beside_it_and_its_interpreter_on_path(
    tmp_path: Path, programs: Path, level: str
) -> None:
    runs = "import runpy, sys\nsys.argv.pop(0)\nrunpy.run_path(sys.argv[0])\n"
    install(programs, runs, "inter")
    package = tmp_path / "node_modules/grumble"
    package.mkdir(parents=True)
    (package / "main").write_text(
        "#!/usr/bin/env inter\nimport pathlib, runpy\n"
        "runpy.run_path(pathlib.Path(__file__).with_name('other.py'))\n"
    )
    (package / "main").chmod(0o755)
    (package / "other.py").write_text(GRUMBLE)
    (programs / "grumble").symlink_to(package / "main")
    assert found(review(tmp_path)) == [("import.grumble.bad", "app/old.cob", 4)]


def test_dependencies_of_the_checkout_stand_in_the_tree(
    tmp_path: Path, programs: Path, level: str
) -> None:
    reads = "from pathlib import Path\nword = Path('web/modules/word').read_text().strip()\n"
    install(programs, reads + GRUMBLE.replace('"BAD" in text', "word in text"))
    repository = change(tmp_path / "repo", settings(dependencies=["web/modules"]) | BASE, HEAD)

    def reviewed() -> Verdict:
        return run_review(options(repository.path, run_analyzers=True), ignore_event)

    missing = "is not a directory of the checkout; install it"
    assert gap(reviewed()).endswith(missing)
    (repository.path / "web").mkdir()
    (repository.path / "web/modules").symlink_to("/etc")
    assert gap(reviewed()).endswith(missing)
    (repository.path / "web/modules").unlink()
    repository.write({"web/modules/word": "BAD\n"})
    assert found(reviewed()) == [("import.grumble.bad", "app/old.cob", 4)]


def test_dependencies_that_are_committed_are_the_changes_own(
    tmp_path: Path, programs: Path
) -> None:
    install(programs, GRUMBLE)
    why = gap(review(tmp_path, dependencies=["m"], head={**HEAD, "m/x.js": "export {};\n"}))
    assert why.endswith("is committed; name directories that are not")


@pytest.mark.parametrize("path", [".git", "../x", "/etc", ".diffcourt/state", "a//b"])
def test_dependencies_are_in_the_checkout_and_not_those_of_diffcourt(
    tmp_path: Path, path: str
) -> None:
    with pytest.raises(ConfigError, match=r"analyzers\.grumble\.dependencies: "):
        review(tmp_path, dependencies=[path])


# --- who decides ----------------------------------------------------------------------------------


def test_configuration_in_the_change_has_no_effect(tmp_path: Path, programs: Path) -> None:
    install(programs, GRUMBLE)
    install(programs, f"open({str(tmp_path / 'ran')!r}, 'w')\n", "other")
    for number, theirs in enumerate((settings(command=["other"]), {})):
        config = {".diffcourt/config/defaults.yaml": None, **theirs}
        verdict = review(tmp_path / str(number), BASE, {**HEAD, **config})
        assert found(verdict) == [("import.grumble.bad", "app/old.cob", 4)]
    repository = change(tmp_path / "new", BASE, {**HEAD, **settings(command=["other"])}).path
    assert found(run_review(options(repository, run_analyzers=True), ignore_event)) == []
    assert not (tmp_path / "ran").exists()


def test_an_analyzer_runs_only_where_the_user_allows_it(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(programs, GRUMBLE)
    refused = review(tmp_path / "undecided", allowed=None)
    assert gap(refused) == NOT_ALLOWED
    assert f"Let grumble do its work: {NOT_ALLOWED}. To do" in refused.stop.next_human_action
    monkeypatch.setenv("DIFFCOURT_RUN_ANALYZERS", "1")
    assert found(review(tmp_path / "said", allowed=None))
    monkeypatch.delenv("DIFFCOURT_RUN_ANALYZERS")
    in_ci(monkeypatch)
    assert found(review(tmp_path / "ci", allowed=None))


@pytest.mark.attack("an interpreter of a configured program that lies in the change")
def test_an_interpreter_of_the_changes_tree_is_not_run(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = change(tmp_path / "repo", {**settings(), **BASE}, {**HEAD})
    repository.write({"tools/interpret": f"#!/bin/sh\ntouch {tmp_path}/ran\n"})
    (repository.path / "tools/interpret").chmod(0o755)
    repository.commit({"x.cob": "STOP.\n"})
    monkeypatch.setenv("PATH", str(repository.path / "tools"), prepend=os.pathsep)
    for line in ("/usr/bin/env interpret", str(repository.path / "tools/interpret")):
        (programs / "grumble").write_text(f"#!{line}\n")
        (programs / "grumble").chmod(0o755)
        verdict = run_review(options(repository.path, run_analyzers=True), ignore_event)
        assert gap(verdict).startswith("grumble is only found in the change's own tree")


@pytest.mark.attack("a configured program that lies in the change")
def test_a_program_of_the_changes_tree_is_not_run(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = f"#!{sys.executable}\nopen({str(tmp_path / 'ran')!r}, 'w')\n"
    monkeypatch.setenv("PATH", str(tmp_path / "a/repo/tools"), prepend=os.pathsep)
    monkeypatch.setenv("PATH", str(tmp_path / "b/repo/tools"), prepend=os.pathsep)

    def reviewed(name: str) -> Verdict:
        repository = change(tmp_path / name / "repo", {**settings(), **BASE}, {**HEAD})
        repository.write({"tools/grumble": theirs})
        (repository.path / "tools/grumble").chmod(0o755)
        repository.commit({"x.cob": "STOP.\n"})
        return run_review(options(repository.path, run_analyzers=True), ignore_event)

    assert gap(reviewed("a")).startswith("grumble is only found in the change's own tree")
    install(programs, GRUMBLE)
    assert not [skip for skip in reviewed("b").skipped if skip.path == "grumble"]


@pytest.mark.parametrize("command", [["./grumble"], ["tools/grumble"], ["grumble", "--in={files}"]])
def test_a_command_that_could_run_the_changes_program_is_an_error(
    tmp_path: Path, command: list[str]
) -> None:
    with pytest.raises(ConfigError, match="command must begin with|must be a separate argument"):
        review(tmp_path, command=command)


def test_a_glob_that_matches_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"analyzers\.grumble: the pattern"):
        review(tmp_path, files=["#*.cob"])


@pytest.mark.parametrize(
    ("name", "given", "before"),
    [
        ("pyproject.toml", {}, None),
        ("pyproject.toml", {}, "grumble = true\n"),
        ("grumble.conf", {"config_files": ["grumble.conf"]}, None),
        ("rules/grumble.conf", {"command": ["grumble", "--rules=rules/grumble.conf"]}, "old\n"),
        ("rules/grumble.conf", {"command": ["grumble", "--rules", "./rules/"]}, None),
    ],
)
def test_a_configuration_file_of_the_change_does_not_switch_it_off(
    tmp_path: Path, programs: Path, name: str, given: dict[str, Any], before: str | None
) -> None:
    text = GRUMBLE.replace("pyproject.toml", name).replace("report, *files", "*_, report, file")
    install(programs, text.replace("file in [] if off else files", "file in [] if off else [file]"))
    command = [*given.get("command", ["grumble"]), "{report}", "{files}"]
    base = {**BASE, **({name: before} if before else {})}
    switched_off = {**HEAD, name: "grumble = false\n"}
    verdict = review(tmp_path, base, switched_off, **{**given, "command": command})
    assert found(verdict) == [("import.grumble.bad", "app/old.cob", 4)]


def test_a_changed_file_that_configures_analyzers_is_as_in_base_and_not_examined(
    tmp_path: Path, programs: Path
) -> None:
    install(programs, GRUMBLE)
    base = {"pyproject.toml": "[project]\n", "a.cob": "STOP.\n"}
    head = {"pyproject.toml": "# BAD\n[project]\n", "a.cob": "STOP.\nBAD.\n"}
    verdict = review(tmp_path, base, head, files=["*.cob", "*.toml"])
    assert found(verdict) == [("import.grumble.bad", "a.cob", 2)]
    (checked,) = [one for one in verdict.checked if one.path == "pyproject.toml"]
    assert "configured_analyzers" not in checked.by


# --- failures -------------------------------------------------------------------------------------

WRITE = "from pathlib import Path\nimport os, sys\nreport = Path(sys.argv[1])\n"
EMPTY = "report.write_text('{\"runs\": []}')\n"


FAILURES = [
    ("raise RuntimeError('it broke')", "wrote no report.*RuntimeError: it broke"),
    ("import sys; sys.exit('bad option')", "wrote no report.*bad option"),
    ("import sys; sys.exit(7)", "ended with exit code 7: it printed no error"),
    ("import os; os.kill(os.getpid(), 11)", "ended with signal 11"),
    ("import time; time.sleep(60)", r"fails\d+ ran longer than 1.5 s"),
    ("bytearray(1 << 30)", "wrote no report.*: MemoryError"),
    ("while True: print('x' * 99999)", r"fails\d+ printed more than 1000000 bytes"),
    (WRITE + "report.write_text('no report')", "is in no known format"),
    (WRITE + "report.write_text('{' * 99999)", "is in no known format"),
    (WRITE + "report.symlink_to('/etc/passwd')", "report cannot be read: Too many levels"),
    (WRITE + "report.mkdir()", "report cannot be read: Is a directory"),
    (WRITE + "os.mkfifo(report)", "report cannot be read"),
    (WRITE + "report.write_bytes(b'x' * 2_000_000)", "its report is larger than"),
    (WRITE + EMPTY + "sys.exit(1)", "exit code 1 and reports no result, as if it had failed"),
]


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    """A review with an analyzer for each failure, and one that works."""
    place = tmp_path_factory.mktemp("failed")
    programs = place / "programs"
    programs.mkdir()
    analyzers: dict[str, Any] = {}
    texts = [text for text, _ in FAILURES]
    for name, text in [
        *((f"fails{n}", text) for n, text in enumerate(texts)),
        ("grumble", GRUMBLE),
    ]:
        install(programs, text, name)
        seconds = 1.5 if "sleep" in text else 60
        command = [name, "{report}", "{files}"]
        analyzers[name] = {"command": command, "files": ["*.cob"], "timeout": seconds}
    config = {".diffcourt/config/defaults.yaml": json.dumps({"analyzers": analyzers})}
    repository = change(place / "repo", {**config, **BASE}, HEAD).path
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(programs), prepend=os.pathsep)
        fewer = partial(ResourceLimits, output=1_000_000)
        patch.setattr(f"{configured_programs.__name__}.ResourceLimits", fewer)
        patch.setattr(configured_analyzers, "MAX_REPORT_BYTES", 1_000_000)
        patch.setattr(configured_programs, "DATA", 500 << 20)
        return run_review(options(repository, run_analyzers=True), ignore_event)


@pytest.mark.parametrize(("number", "why"), list(enumerate(why for _, why in FAILURES)))
def test_a_failure_is_a_named_gap_and_the_other_analyzers_count(
    failed: Verdict, number: int, why: str
) -> None:
    assert re.search(why, gap(failed, f"fails{number}"))
    assert found(failed) == [("import.grumble.bad", "app/old.cob", 4)]
    assert failed.status == "incomplete"


def test_a_missing_program_is_a_gap_that_says_what_to_do(tmp_path: Path) -> None:
    why = gap(review(tmp_path))
    assert why.startswith("grumble is not installed: it is not on PATH; install it, or remove it")
    assert not [one for one in review(tmp_path / "b").checked if one.depth == "code"]


def test_without_a_sandbox_it_is_not_run(tmp_path: Path, programs: Path) -> None:
    install(programs, GRUMBLE)
    config = json.loads(settings()[".diffcourt/config/defaults.yaml"]) | {"sandbox": "off"}
    base = {**BASE, ".diffcourt/config/defaults.yaml": json.dumps(config)}
    try:
        assert gap(review(tmp_path, base)) == NO_SANDBOX
    finally:
        SANDBOX.use("auto")


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("sys.exit(9)", "ended with exit code 9: it printed no error"),
        ("open(sys.argv[1], 'w').write('?'); sys.exit()", f"is in no known format: {FORMATS}"),
    ],
)
def test_a_failure_on_base_is_a_note_and_results_at_added_lines_count(
    tmp_path: Path, programs: Path, end: str, why: str
) -> None:
    install(programs, f"import sys\nif 'NEW' not in open(sys.argv[2]).read(): {end}\n{GRUMBLE}")
    verdict = review(tmp_path, lines="file")
    assert found(verdict) == [("import.grumble.bad", "app/old.cob", 4)]
    assert [(skip.path, skip.why, skip.gap) for skip in verdict.skipped] == [
        ("grumble", f"on base: {why}; so only results at added lines count", False)
    ]
    assert verdict.status == "complete"


def test_it_can_write_nothing_and_read_nothing_else_and_has_no_network(
    tmp_path: Path, programs: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    attempts = f"""
import json, os, socket, sys
from pathlib import Path

def outcome(attempt):
    try:
        attempt()
    except PermissionError:
        return "refused"
    return "done"

report, file = sys.argv[1:]
told = [outcome(attempt) for attempt in (
    lambda: Path(file).write_text("STOP."),
    lambda: Path(file).unlink(),
    lambda: Path("new").write_text("x"),
    lambda: Path({str(secret)!r}).read_text(),
    lambda: os.listdir({str(tmp_path)!r}),
    lambda: socket.socket().connect(("127.0.0.1", 1)),
    lambda: Path(os.environ["HOME"], "cache").write_text("x"),
    lambda: Path(os.environ["TMPDIR"], "x").write_text("x"),
)]
result = {{"ruleId": " ".join(told), "severity": 2, "message": "m", "line": 1}}
Path(report).write_text(json.dumps([{{"filePath": file, "messages": [result]}}]))
"""
    install(programs, attempts)
    verdict = review(tmp_path, {}, {"a.cob": "MOVE.\n"})
    assert found(verdict) == [
        ("import.eslint." + "-".join(["refused"] * 6 + ["done"] * 2), "a.cob", 1)
    ]


def test_processes_that_it_starts_end_with_it(tmp_path: Path, programs: Path) -> None:
    mark = f"mark-{os.getpid()}"
    child = f"[sys.executable, '-c', 'import time; time.sleep(600)', {mark!r}]"
    install(programs, f"import subprocess, sys\nsubprocess.Popen({child})\n{GRUMBLE}")
    began = time.monotonic()
    assert found(review(tmp_path))
    assert time.monotonic() - began < 60
    alive = [place for place in Path("/proc").glob("[0-9]*/cmdline") if mark in _read(place)]
    assert not alive


def _read(place: Path) -> str:
    try:
        return place.read_text(errors="replace")
    except OSError:
        return ""


def test_directories_that_it_nests_deeply_are_removed(tmp_path: Path, programs: Path) -> None:
    nests = "import os\nhere = os.getcwd()\nos.chdir(os.environ['TMPDIR'])\n"
    nests += "for _ in range(1200):\n    os.mkdir('d')\n    os.chdir('d')\nos.chdir(here)\n"
    install(programs, nests + GRUMBLE)
    before = set(scratch_directory.work_directory().iterdir())
    assert found(review(tmp_path))
    assert set(scratch_directory.work_directory().iterdir()) <= before


def test_it_may_not_read_private_directories(tmp_path: Path, programs: Path) -> None:
    install(programs, GRUMBLE)
    why = gap(review(tmp_path, reads=["/home"]))
    assert why.startswith("not run: analyzers.grumble.reads names /home, but /home is private")


def test_a_patch_of_the_repository_is_analyzed_as_a_whole_tree(
    tmp_path: Path, programs: Path
) -> None:
    install(programs, GRUMBLE)
    repository = change(tmp_path / "repo", {**settings(), **BASE}, HEAD)
    patch = repository.git("diff", "HEAD~1", "HEAD").encode() + b"\n"
    repository.git("checkout", "-q", "HEAD~1")
    reviewed = options(repository.path, base=None, diff=patch, run_analyzers=True)
    verdict = run_review(reviewed, ignore_event)
    assert found(verdict) == [("import.grumble.bad", "app/old.cob", 4)]


def test_a_pattern_for_every_file_does_not_count_as_reading_code(
    tmp_path: Path, programs: Path
) -> None:
    install(programs, GRUMBLE)
    verdict = review(tmp_path, files=["*"])
    assert found(verdict)
    (checked,) = [one for one in verdict.checked if one.path == "app/old.cob"]
    assert checked.depth == "text"
