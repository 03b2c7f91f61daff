"""Every place where somebody else's path reaches the disk keeps to the policy."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from diffchecks.check_io import Gap
from diffchecks.check_io import read as read_bytes
from diffchecks.python.source_definitions import read_text
from orchestrator.app import policy_sources
from orchestrator.app.runs import run_archive, state_directory
from orchestrator.code_review.change.file_export import write_files
from orchestrator.errors import InputError, StoreError


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    place = tmp_path / "outside"
    place.mkdir()
    (place / "secret.py").write_text("token = 1\n")
    return place


def test_a_check_in_a_worker_reads_no_link_and_waits_for_no_pipe(
    tmp_path: Path, outside: Path
) -> None:
    (tmp_path / "a.py").symlink_to(outside / "secret.py")
    (tmp_path / "b").symlink_to(outside)
    os.mkfifo(tmp_path / "c.py")
    signal.alarm(5)
    try:
        for path in ("a.py", "b/secret.py", "c.py", "../outside/secret.py", "d\0.py"):
            with pytest.raises(Gap):
                read_bytes(str(tmp_path), path)
            with pytest.raises(Gap):
                read_text(str(tmp_path), path)
    finally:
        signal.alarm(0)


def test_an_export_goes_through_no_link(tmp_path: Path, outside: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "d").symlink_to(outside)
    told = write_files(root, [("d/secret.py", b"x"), ("d/new.py", b"x"), ("e/.GIT/hooks", b"x")])
    assert set(told) == {"d/secret.py", "d/new.py", "e/.GIT/hooks"}
    assert [file.read_text() for file in outside.iterdir()] == ["token = 1\n"]


@pytest.mark.parametrize("link", [".diffcourt", ".diffcourt/state", ".diffcourt/state/journal.db"])
def test_a_checkout_cannot_move_the_state_elsewhere(
    link: str, tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "users"))
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    (repo / link).parent.mkdir(parents=True, exist_ok=True)
    (repo / link).symlink_to(outside / "new.db" if link.endswith("db") else outside)
    home = state_directory.state_dir(repo)
    assert home.is_relative_to(tmp_path / "users")
    state_directory.save_patch(home, "run1", b"patch")
    assert state_directory.load_patch(home, "run1") == b"patch"
    with state_directory.open_store(repo):
        assert (home / "journal.db").exists()
    assert os.listdir(outside) == ["secret.py"]


def test_a_runs_own_folder_is_no_link_either(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "runs").symlink_to(outside)
    (outside / "run1").mkdir()
    state_directory.remove_scratch_dir(tmp_path, "run1")
    with pytest.raises(StoreError, match="remove any link in its path"):
        state_directory.make_scratch_dir(tmp_path, "run1")
    assert sorted(os.listdir(outside)) == ["run1", "secret.py"]


def test_policy_on_disk_is_read_through_no_link(tmp_path: Path, outside: Path) -> None:
    folder = tmp_path / ".diffcourt/config"
    folder.mkdir(parents=True)
    (folder / "defaults.yaml").write_text("judge: false\n")
    (folder / "tools.yaml").symlink_to(outside / "secret.py")
    (tmp_path / ".diffcourt/agents").symlink_to(outside)
    os.mkfifo(folder / "verdict.yaml")
    (_, overlay) = policy_sources.read_layers_on_disk(tmp_path)
    assert set(overlay.files) == {"config/defaults.yaml"}
    shutil.rmtree(folder)
    (tmp_path / ".diffcourt/config").symlink_to(outside)
    assert len(policy_sources.read_layers_on_disk(tmp_path)) == 1


def test_an_import_reads_no_link_and_waits_for_no_pipe(tmp_path: Path, outside: Path) -> None:
    source = tmp_path / "run"
    source.mkdir()
    (source / "journal.jsonl").symlink_to(outside / "secret.py")
    with pytest.raises(InputError, match="cannot read"):
        run_archive.import_run(tmp_path, source)
    (source / "journal.jsonl").unlink()
    os.mkfifo(source / "journal.jsonl")
    signal.alarm(5)
    try:
        with pytest.raises(InputError, match="not a regular file"):
            run_archive.import_run(tmp_path, source)
    finally:
        signal.alarm(0)
