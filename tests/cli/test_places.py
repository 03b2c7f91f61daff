"""Where CI jobs run: users without a home, bare repositories, folders below the top or gone."""

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.policy_sources import read_layers_on_disk
from orchestrator.app.runs import state_directory
from orchestrator.cli.main import main
from orchestrator.data_directories import user_directory
from orchestrator.errors import StoreError
from tests.review.review_kit import Repo, change

SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user: no HOME, and no line in the system's table."""

    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "LOGNAME", "USER", "LNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("USERNAME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.mark.usefixtures("homeless")
def test_without_any_place_for_the_state_it_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / ".diffcourt").write_text("in the way")  # root writes into a read-only folder
    with pytest.raises(StoreError, match=r"\.diffcourt/state writable, or set XDG_STATE_HOME"):
        state_directory.state_dir(tmp_path)


def test_a_users_folder_is_absolute_or_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def found(environment: dict[str, str]) -> Path | None:
        return user_directory(environment, "XDG_CACHE_HOME", ".cache")

    monkeypatch.setenv("HOME", str(tmp_path))
    assert found({}) == tmp_path / ".cache/diffcourt"
    assert found({"XDG_CACHE_HOME": "relative"}) == tmp_path / ".cache/diffcourt"
    assert found({"XDG_CACHE_HOME": "/x"}) == Path("/x/diffcourt")
    monkeypatch.setenv("HOME", "relative")
    assert found({}) is None


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home_reviews_a_bare_repository_through_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = change(tmp_path / "repo", {}, {"app.py": SHELL})
    bare, link = tmp_path / "mirror.git", tmp_path / "link"
    repo.git("clone", "-q", "--bare", ".", str(bare))
    link.symlink_to(bare)
    assert main(["review", "--repo", str(link), "--quiet", "--json", "-"]) == 1
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["status"], verdict["checked"][0]["path"]) == ("complete", "app.py")
    assert state_directory.state_dir(link) == bare / ".diffcourt/state"
    assert state_directory.repo_root(repo.path / ".git") == repo.path
    assert current_user().startswith(f"user {os.getuid()} on ")


def test_a_work_tree_and_a_state_folder_behind_links_are_real_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = change(tmp_path / "real/repo", {"app.py": "X = 1\n"}, {})
    repo.write({"app.py": SHELL, ".diffcourt": "in the way"})
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "link/state"))
    words = ["review", "--worktree", "--quiet", "--json", "-"]
    assert main([*words, "--repo", str(tmp_path / "link/repo")]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert {finding["path"] for finding in found} == {"app.py"}


def test_an_invalid_git_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".git").write_text("garbage")
    assert main(["review", "--quiet", "--repo", str(tmp_path)]) == 2
    assert "is not a git repository, or may not be read" in capsys.readouterr().err


def test_policy_on_disk_is_read_from_the_top_directory(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    repo.write({".diffcourt/config/defaults.yaml": "fail_on: block\n", "a/b/c.py": ""})
    assert len(read_layers_on_disk(repo.path / "a/b")) == len(read_layers_on_disk(repo.path)) == 2


def test_a_current_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    script = f'rmdir "$PWD"; exec {sys.executable} -m orchestrator runs'
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path / "gone", capture_output=True, text=True, timeout=60,
        check=False, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "diffcourt: the current directory no longer exists; change to another\n"


@pytest.mark.usefixtures("file_modes_hold")
def test_an_unreadable_directory_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theirs").mkdir(mode=0o000)
    assert main(["review", "--repo", str(tmp_path / "theirs")]) == 2
    assert "cannot be read by this user" in capsys.readouterr().err
    assert state_directory.inside_repository(tmp_path / "theirs") is False
