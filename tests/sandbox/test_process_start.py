"""Programs are found and started without the working directory, whatever names it."""

import os
import sys
from pathlib import Path

import pytest

from orchestrator import program_search
from orchestrator.program_search import distrust, find_program, given_path, trusted_entries
from orchestrator.sandbox.process_start import start_process

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


@pytest.fixture
def elsewhere(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with links to the checkout's programs, and a program of its own."""
    place = tmp_path_factory.mktemp("elsewhere")
    (place / "linked").symlink_to(checkout / "bin")
    (place / "ours").symlink_to(checkout / "bin/ours")
    (place / "theirs").write_bytes((checkout / "ours").read_bytes())
    (place / "theirs").chmod(0o755)
    (checkout / "theirs").symlink_to(place / "theirs")
    return place


def test_no_absolute_name_or_entry_finds_a_program_of_the_working_directory(
    checkout: Path, elsewhere: Path
) -> None:
    entries = (f"{checkout}", f"{checkout}/bin", f"{elsewhere}/../{checkout.name}/bin")
    for entry in (*entries, f"{elsewhere}", f"{elsewhere}/linked"):
        assert find_program("ours", entry) is None
        assert find_program(f"{entry}/ours", "") is None
    assert find_program("theirs", f"{checkout}") is None
    assert find_program("theirs", f"{checkout}:{elsewhere}") == f"{elsewhere}/theirs"
    assert trusted_entries(f"{checkout}/bin:{elsewhere}/linked:{elsewhere}:") == str(elsewhere)


@pytest.mark.parametrize("below", ["", "bin", "bin/deep"])
def test_all_of_the_checkout_around_the_working_directory_is_left_out(
    checkout: Path, below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / ".git").write_text("gitdir: elsewhere\n")
    (checkout / "bin/deep").mkdir()
    monkeypatch.chdir(checkout / below)
    assert find_program("ours", f"{checkout}:{checkout}/bin") is None
    assert find_program("ours", f"{checkout}:{checkout}/bin", in_checkout=True)


def test_no_program_of_a_repository_that_was_opened_is_found(
    checkout: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    assert find_program("ours", f"{elsewhere}/linked") == f"{elsewhere}/linked/ours"
    distrust(str(checkout))
    assert find_program("ours", f"{elsewhere}/linked:{checkout}") is None


def test_a_home_and_the_system_are_no_checkouts(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(checkout))
    assert find_program("ours", f"{checkout}/bin") == f"{checkout}/bin/ours"
    for place in ("/", "/usr", "/usr/bin"):
        monkeypatch.chdir(place)
        assert find_program("env", "/usr/bin") == "/usr/bin/env"


def test_our_own_installation_may_lie_in_the_checkout(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_search, "_OWN", f"{checkout}/bin")
    assert find_program("ours", f"{checkout}/bin") == f"{checkout}/bin/ours"
    assert find_program("ours", f"{checkout}") is None


def test_libraries_find_nothing_of_a_repository_and_its_base_may_name_its_programs(
    checkout: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_search, "_given", {})
    monkeypatch.chdir("/")
    monkeypatch.setenv("PATH", f".:{checkout}/bin:{elsewhere}")
    program_search.clean_path()
    assert os.environ["PATH"] == f"{checkout}/bin:{elsewhere}"
    distrust(str(checkout))
    assert os.environ["PATH"] == str(elsewhere)
    assert given_path() == f"{checkout}/bin:{elsewhere}"


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
