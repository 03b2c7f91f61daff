"""Programs are found and started without the working directory, whatever names it."""

import os
import sys
from pathlib import Path

import pytest

from orchestrator.sandbox.process_start import find_program, start_process

pytestmark = pytest.mark.attack("a program that is looked up in the working directory")

SAY = "import os; print(os.getcwd(), os.environ['PATH'], os.environ.get('PWD'), os.environ['KEPT'])"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with programs in it and below."""
    for place in ("ours", "bin/ours"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text("#!/bin/sh\n")
        (tmp_path / place).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["ours", "./ours", "bin/ours"])
@pytest.mark.parametrize("path", ["", ":", ".", ":/usr/bin", "/usr/bin:", "/usr/bin::bin", "./bin"])
def test_no_relative_name_or_entry_finds_a_program(checkout: Path, name: str, path: str) -> None:
    assert find_program(name, path) is None


def test_absolute_names_and_entries_find_a_program(checkout: Path) -> None:
    found = str(checkout / "bin/ours")
    assert find_program("ours", f":.:{checkout}/bin") == found
    assert find_program(found, "") == found


@pytest.mark.parametrize("name", ["ours", "./ours", "bin/ours"])
def test_a_program_without_an_absolute_path_is_not_started(checkout: Path, name: str) -> None:
    with pytest.raises(ValueError, match="absolute path"):
        start_process([name], env=os.environ)


@pytest.mark.parametrize(
    ("path", "theirs"), [(":/usr/bin:.", "/usr/bin"), ("", "/usr/local/bin:/usr/bin:/bin")]
)
def test_a_process_is_not_told_of_the_working_directory(
    checkout: Path, path: str, theirs: str
) -> None:
    env = {"PATH": path, "PWD": str(checkout), "KEPT": "kept"}
    with start_process([sys.executable, "-I", "-c", SAY], env=env) as process:
        printed, _ = process.communicate(timeout=60)
    assert printed.decode().split() == ["/", theirs, "None", "kept"]
