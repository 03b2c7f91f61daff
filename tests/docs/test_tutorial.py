"""The tutorial's steps, in their order: files are written, commands run, and print what it shows."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from orchestrator.cli.main import main

PAGE = (Path(__file__).resolve().parents[2] / "docs/tutorial.md").read_text()
STEP = re.compile(r"^```(?:python file=(\S+)|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of a command, and what it prints."""
    words = shlex.split(line, comments=True)
    if words[0] == "diffcourt":
        code = main(words[1:])
        return code, capsys.readouterr().out
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_steps_of_the_tutorial_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ana")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ana@example.org")
    first, *steps = STEP.findall(PAGE)
    assert run(first[1].removeprefix("$ "), tmp_path, capsys)[0] == 0
    repo = tmp_path / "shop"
    monkeypatch.chdir(repo)
    ran = 0
    for name, text in steps:
        if name:
            (repo / name).write_text(text)
            continue
        for line, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            code, printed = run(line, repo, capsys)
            expected = re.search(r"# exit code (\d)", line)
            assert code == (int(expected[1]) if expected else 0), f"{line}\n{printed}"
            assert not [one for one in shown.splitlines() if one not in printed], printed
            ran += 1
    assert ran >= 20
