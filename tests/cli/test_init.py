"""``diffcourt init`` and the files that add Diffcourt to a CI system."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from orchestrator.app.ci_files import ci_systems, detect_ci, make_ci_files
from orchestrator.catalog import settings
from orchestrator.cli.commands.init import NAMES
from orchestrator.cli.main import main
from orchestrator.code_review.tools.test_runners import single_test
from orchestrator.data_directories import data_root
from tests.review.review_kit import Repo

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "4bf2c0a1" * 5
SOURCE = f"git+https://git.example.com/tools/diffcourt@{COMMIT}"


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    made = Repo(tmp_path / "repo")
    monkeypatch.chdir(made.path)
    return made


def test_the_command_knows_every_system() -> None:
    assert set(NAMES) == set(ci_systems())
    templates = {
        name
        for system in ci_systems().values()
        for name in [*system.review, *system.comments, *system.commands, *system.gate]
    }
    assert templates == set(os.listdir(data_root() / "config" / "ci"))


@pytest.mark.parametrize(
    ("ci", "comments", "written"),
    [
        ("github", "yes", [".github/workflows/diffcourt.yml", ".github/workflows/diffcourt-comments.yml"]),
        ("github", "no", [".github/workflows/diffcourt.yml"]),
        ("github", "gate", [".github/workflows/diffcourt.yml"]),
        ("gitlab", "yes", [".gitlab/diffcourt.yml"]),
        ("forgejo", "yes", [".forgejo/workflows/diffcourt.yml"]),
        ("pre-commit", "no", [".pre-commit-config.yaml"]),
    ],
)  # fmt: skip
def test_the_files_of_a_system_are_written_once_and_name_where_to_install_from(
    ci: str, comments: str, written: list[str], repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["init", "--ci", ci, "--comments", comments, "--from", SOURCE]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[: len(written)] == [f"Wrote {name}" for name in written]
    assert lines[len(written)].startswith("Next: ")
    for name in written:
        text = (repo.path / name).read_text()
        assert "pip install" not in text
        assert "pipx" not in text
        assert yaml.safe_load(text)
        assert COMMIT in text
        assert "example.org" not in text
    if ci != "pre-commit":
        assert main(words) == 2
        assert f"{written[0]} already exists" in capsys.readouterr().err
        assert main([*words, "--force"]) == 0


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize(
    ("text", "is_list"),
    [
        ("repos:\n- repo: local  # ours\n  hooks: []\n", True),
        ("repos: [", True),
        ('{"fail_fast": true, "repos": []}', True),
        ("", False),
        ("# repos:\nfail_fast: true\n", False),
    ],
)
def test_the_hooks_that_pre_commit_has_stay_and_the_lines_to_add_are_printed(
    text: str, is_list: bool, force: list[str], repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    file = repo.path / ".pre-commit-config.yaml"
    file.write_text(text)
    assert main(["init", "--ci", "pre-commit", "--from", SOURCE, *force]) == 0
    said, *lines, last = capsys.readouterr().out.splitlines()
    assert file.read_text() == text
    assert said == f"Add to {'repos in ' if is_list else ''}.pre-commit-config.yaml:"
    added = yaml.safe_load("\n".join(lines))
    (added,) = added if is_list else added["repos"]
    assert (added["rev"], added["hooks"]) == (COMMIT, [{"id": "diffcourt"}])
    assert "--hook-type pre-push" in last


@pytest.mark.parametrize(
    ("hooks", "is_there"),
    [
        ("  - id: diffcourt\n", True),
        ("  - {id: 'diffcourt', stages: [pre-push]}\n", True),
        ("  - id: own\n    entry: .venv/bin/diffcourt review --hook\n", True),
        ("  # - id: diffcourt\n", False),
        ("  - id: diffcourt-fix\n", False),
        ("  - id: ruff  # before diffcourt\n", False),
    ],
)
def test_a_hook_that_is_there_is_not_to_be_added_again(
    hooks: str, is_there: bool, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    file = repo.path / ".pre-commit-config.yaml"
    file.write_text(f"repos:\n- repo: https://example.org/x\n  rev: a\n  hooks:\n{hooks}")
    assert main(["init", "--ci", "pre-commit"]) == 0
    said = capsys.readouterr().out
    assert ("has the hook already" in said, "Add to repos" in said) == (is_there, not is_there)
    assert ("Replace" in said) == (not is_there)


@pytest.mark.parametrize(
    ("pipeline", "stage"),
    [
        (None, "test"),
        ("build: {script: [make]}\n", "test"),
        ("stages: [build, test, deploy]\n", "test"),
        ("stages:\n  - static checks\n  - ship\n.rules: !reference [a, b]\n", "static checks"),
        ("stages: [.pre, checks]\n", "checks"),
        ("stages: ${BROKEN\n", "test"),
    ],
)
def test_the_jobs_of_gitlab_are_in_stages_that_the_pipeline_has(
    pipeline: str | None, stage: str, repo: Repo
) -> None:
    if pipeline is not None:
        (repo.path / ".gitlab-ci.yml").write_text(pipeline)
    assert main(["init", "--ci", "gitlab", "--comments", "yes", "--from", SOURCE]) == 0
    jobs = yaml.safe_load((repo.path / ".gitlab/diffcourt.yml").read_text())
    found = {name: job["stage"] for name, job in jobs.items()}
    # GitLab adds .post to every pipeline, and runs none whose jobs are all in .pre and .post.
    assert found == {"diffcourt-review": stage, "diffcourt-comments": ".post"}


def test_commands_in_comments_are_written_where_they_are_asked_for(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["init", "--ci", "github", "--comments", "yes", "--commands", "yes", "--from", SOURCE]
    assert main(words) == 0
    name = ".github/workflows/diffcourt-commands.yml"
    assert f"Wrote {name}\n" in capsys.readouterr().out
    text = (repo.path / name).read_text()
    assert text.count(COMMIT) == 1
    assert "example.org" not in text


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--comments", "no"], "there is no terminal to ask on; give --ci"),
        (["--ci", "github"], "there is no terminal to ask on; give --comments"),
        (["--ci", "pre-commit", "--comments", "yes"], "use --comments no"),
        (["--ci", "gitlab", "--comments", "yes", "--commands", "yes"], "use --commands no"),
        (["--ci", "github", "--comments", "no", "--commands", "yes"], "use --comments yes"),
        (["--ci", "gitlab", "--comments", "gate"], "no trusted job for GitLab CI"),
        (["--ci", "github", "--comments", "gate", "--commands", "yes"], "use --comments yes"),
    ],
)
def test_an_impossible_request_is_one_line(
    words: list[str], error: str, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *words]) == 2
    assert error in capsys.readouterr().err
    assert os.listdir(repo.path) == [".git"]


TOKEN = "ghp_" + "Zk3vQ9xW2mT7bR5nL8cY1pJ6dF4hS0aG0uXe"
PINNED = f"git.example.com/tools/diffcourt@{COMMIT}"


@pytest.mark.attack("init is told to install from what can change, or with a credential")
@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("here", "must start with git+https://"),
        (f"git+ext::sh -c id@{COMMIT}", "must start with git+https://"),
        (f"git+http://{PINNED}", "must start with git+https://"),
        (f"git+ssh://git@{PINNED}", "must start with git+https://"),
        (f"git+file:///srv/diffcourt@{COMMIT}", "must start with git+https://"),
        (f"git+https://user:s3cret@{PINNED}", "holds a user name or token"),
        ("git+https://s3cret@git.example.com/tools/diffcourt", "holds a user name or token"),
        (f"git+https://git.example.com/{TOKEN}/diffcourt@{COMMIT}", "holds a user name or token"),
        (f"git+https://git.example.com/d?private_token=s3cret@{COMMIT}", "is not that of a repository"),
        (f"git+https://git.example.com/d\n  run: id@{COMMIT}", "is not that of a repository"),
        (f"git+https://[::1/diffcourt@{COMMIT}", "is not that of a repository"),
        ("git+https://git.example.com/diffcourt", "a commit in full"),
        ("git+https://git.example.com/diffcourt@main", "a commit in full"),
        ("git+https://git.example.com/diffcourt@v1.2", "a commit in full"),
        ("git+https://git.example.com/diffcourt@4bf2c0a", "a commit in full"),
        (f"git+https://git.example.com/diffcourt@{COMMIT}#egg=x", "a commit in full"),
    ],
)  # fmt: skip
def test_what_is_not_pinned_or_holds_a_credential_is_refused_without_repeating_it(
    source: str, error: str, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--ci", "github", "--comments", "yes", "--from", source]) == 2
    said = capsys.readouterr()
    assert error in said.err
    assert said.err.count("\n") == 1
    assert not [word for word in ("s3cret", TOKEN) if word in said.out + said.err]
    assert os.listdir(repo.path) == [".git"]


def test_a_link_out_of_the_repository_is_not_followed(
    repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "outside").mkdir()
    (repo.path / ".github").symlink_to(tmp_path / "outside")
    assert main(["init", "--ci", "github", "--comments", "no"]) == 2
    assert "leads out of the repository" in capsys.readouterr().err
    assert os.listdir(tmp_path / "outside") == []


@pytest.mark.parametrize(
    ("mark", "ci"),
    [(".gitlab-ci.yml", "gitlab"), (".gitea", "forgejo"), (".github", "github"), ("other", None)],
)
def test_a_checkout_says_which_system_it_uses(mark: str, ci: str | None, tmp_path: Path) -> None:
    (tmp_path / mark).mkdir()
    assert detect_ci(tmp_path) == ci


@pytest.mark.parametrize("gate", [False, True])
def test_zizmor_finds_nothing_in_our_workflows(gate: bool, tmp_path: Path) -> None:
    workflows = tmp_path / ".github" / "workflows"
    workflows.mkdir(parents=True)
    others = not gate
    for path, text in make_ci_files(
        "github", comments=others, commands=others, gate=gate, source=SOURCE
    ).items():
        (tmp_path / path).write_text(text)
    for ours in (ROOT / "action.yml", *(ROOT / ".github" / "workflows").iterdir()):
        (tmp_path / ours.relative_to(ROOT)).write_text(ours.read_text())
    done = subprocess.run(
        [Path(sys.executable).parent / "zizmor", "--offline", "--persona=auditor", "."],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("ci", NAMES)
def test_what_a_person_must_replace_is_in_every_file(
    ci: str, repo: Repo, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.app.ci_files.installed_from", lambda: None)
    assert main(["init", "--ci", ci, "--comments", "no"]) == 0
    *files, replace, _ = capsys.readouterr().out.splitlines()
    _, url, _, commit, *_ = replace.split()
    assert commit == "0" * 40
    for line in files:
        text = (repo.path / line.removeprefix("Wrote ")).read_text()
        assert url in text
        assert commit in text


def test_another_system_and_a_file_that_exists_are_told_before_more_is_asked(repo: Repo) -> None:
    (repo.path / ".github/workflows").mkdir(parents=True)
    (repo.path / ".github/workflows/diffcourt.yml").touch()
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "orchestrator", "init", "--repo", str(repo.path)]
    os.write(ours, b"jenkins\ngithub\n")
    done = subprocess.run(
        command, cwd=ROOT, stdin=theirs, capture_output=True, text=True, timeout=60, check=False
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 2
    assert "'jenkins' is none" in done.stdout
    assert 'diffcourt review --base "origin/$TARGET"' in done.stdout
    assert "comments" not in done.stdout
    assert ".github/workflows/diffcourt.yml already exists" in done.stderr


DEFAULTS = ".diffcourt/config/defaults.yaml"
OPT = "/opt/venv"


@pytest.mark.parametrize(
    ("files", "command", "why", "others"),
    [
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, [f"{OPT}/bin/pytest", "-q"], "pytest, as pyproject.toml says", ()),
        ({"tox.ini": "[testenv]\ncommands =\n    pytest tests\n"}, [f"{OPT}/bin/pytest", "-q"], "pytest, as tox.ini says", ()),
        ({"noxfile.py": "session.run('pytest')\n"}, [f"{OPT}/bin/pytest", "-q"], "pytest, as noxfile.py says", ()),
        ({"setup.cfg": "[tool:pytest]\n"}, [f"{OPT}/bin/pytest", "-q"], "pytest, as setup.cfg says", ()),
        ({".github/workflows/ci.yml": "run: python -m pytest\n"}, [f"{OPT}/bin/pytest", "-q"], "pytest, as .github/workflows/ci.yml says", ()),
        ({"tests/test_a.py": "import unittest\n"}, ["python3", "-m", "unittest"], "unittest, as tests/test_a.py says", ()),
        ({"tests/test_a.py": "import unittest\n", "pytest.ini": "\n"}, [f"{OPT}/bin/pytest", "-q"], "pytest, as pytest.ini says", ("unittest",)),
        ({"package.json": '{"scripts": {"test": "vitest run"}}\n'}, ["node_modules/.bin/vitest", "run"], "vitest, as package.json says", ()),
        ({"package.json": '{"scripts": {"test": "jest"}}\n'}, ["node_modules/.bin/jest"], "jest, as package.json says", ()),
        ({"package.json": '{"scripts": {"test": "node --test"}}\n'}, ["node", "--test"], "node, as package.json says", ()),
        ({"go.mod": "require a v1\n"}, ["env", "GOMODCACHE=/opt/go", "go", "test", "./..."], "Next", ("go",)),
        ({"go.mod": "require a v1\n", "vendor/modules.txt": ""}, ["go", "test", "./..."], "vendor", ("go with modules",)),
        ({"tests/test_a.py": "import unittest.mock\n", "go.mod": ""}, ["go", "test", "./..."], "go, as", ()),
        ({"go.mod": "module x\n", "Makefile": "test:\n\tpytest\n"}, ["go", "test", "./..."], "go, as go.mod says", ("pytest",)),
    ],
)  # fmt: skip
def test_the_tests_of_a_project_are_found_and_written_with_the_reason(
    repo: Repo,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, str],
    command: list[str],
    why: str,
    others: tuple[str, ...],
) -> None:
    repo.write(files)
    assert main(["init", "--tests"]) == 0
    shown, text = capsys.readouterr().out, (repo.path / DEFAULTS).read_text()
    assert yaml.safe_load(text)["tests"]["command"] == command
    assert why in shown
    assert shown.endswith("without that variable or --run-tests is incomplete.\n")
    assert all(f"# {other}, as" in text for other in others)
    assert text.count("# or:") == len(others)
    assert single_test(settings.Tests(tuple(command))) is not None


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("# ours\nproofs: {findings: 3}", ""),
        ("", ""),
        ("tests: {command: [make]}\n", "has tests: already"),
        ("{proofs: {findings: 3}}\n", "cannot be added to"),
        ("proofs: [\n", "cannot be added to"),
        ("- a\n", "cannot be added to"),
    ],
)
def test_what_a_configuration_says_is_kept(
    repo: Repo, capsys: pytest.CaptureFixture[str], before: str, said: str
) -> None:
    repo.write({DEFAULTS: before, "go.mod": "module x\n"})
    assert main(["init", "--tests"]) == (2 if said else 0)
    assert said in capsys.readouterr().err
    after = (repo.path / DEFAULTS).read_text()
    assert after == before if said else after.startswith(before)


def test_without_a_sign_of_tests_nothing_is_written(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--tests"]) == 2
    assert "no known way to run tests was found" in capsys.readouterr().err
    assert not (repo.path / DEFAULTS).exists()
