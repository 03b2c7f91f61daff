"""Inputs and places that break tools: generated files, lock files, a disk without room."""

import json
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.review.review_kit import Repo, change

SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
ENTRY = '    "node_modules/p{n}": {{"version": "{v}", "resolved": "https://example.invalid/p{n}"}}'


def limited(room: int) -> None:
    """No file may grow beyond this many bytes: what a full disk looks like from inside."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))


def diffcourt(
    *arguments: str, cwd: Path, room: int | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", *arguments, "--quiet"],
        cwd=cwd, capture_output=True, text=True, timeout=100, check=False,
        preexec_fn=partial(limited, room) if room else None,
    )  # fmt: skip


def verdict_of(repo: Repo) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        diffcourt("review", "--base", "HEAD~1", "--json", "-", cwd=repo.path).stdout
    )
    return found


def lock(entries: int, version: str) -> str:
    listed = ",\n".join(ENTRY.format(n=n, v=version) for n in range(entries))
    return f'{{\n  "lockfileVersion": 3,\n  "packages": {{\n{listed}\n  }}\n}}\n'


def test_a_lock_file_of_thirty_thousand_lines_does_not_hold_the_rest_up(tmp_path: Path) -> None:
    base = {"package-lock.json": lock(30_000, "1.0.0"), "app.py": "X = 1\n"}
    repo = change(
        tmp_path / "repo", base, {"package-lock.json": lock(30_000, "1.0.1"), "app.py": SHELL}
    )
    verdict = verdict_of(repo)
    (skipped,) = [skip for skip in verdict["skipped"] if skip["path"] == "package-lock.json"]
    assert (skipped["why"], skipped["gap"]) == ("lock file", False)
    assert {finding["path"] for finding in verdict["findings"]} == {"app.py"}
    assert verdict["status"] == "complete"


def test_a_generated_file_of_fifty_megabytes_is_named_and_the_rest_is_reviewed(
    tmp_path: Path,
) -> None:
    line = "const table = [" + "1234567890," * 90 + "];\n"
    repo = change(
        tmp_path / "repo",
        {"app.py": "X = 1\n"},
        {"app.py": SHELL, "bundle.js": line * (50_000_000 // len(line))},
    )
    verdict = verdict_of(repo)
    assert [finding["path"] for finding in verdict["findings"]] == ["app.py"]
    (skipped,) = [skip for skip in verdict["skipped"] if skip["path"] == "bundle.js"]
    assert skipped["why"].startswith("too large: ")
    assert skipped["gap"]
    assert verdict["status"] == "incomplete"


@pytest.mark.parametrize("room", [30_000, 90_000, 200_000])
def test_a_review_that_runs_out_of_room_says_so_and_loses_nothing(
    tmp_path: Path, room: int
) -> None:
    repo = change(tmp_path / "repo", {}, {"app.py": SHELL})
    whole = verdict_of(repo)
    failed = diffcourt("review", "--base", "HEAD~1", cwd=repo.path, room=room)
    assert failed.returncode == 3
    assert failed.stdout == ""
    assert failed.stderr.count("\n") == 1
    assert failed.stderr.startswith("diffcourt: ")
    assert "room" in failed.stderr or "space" in failed.stderr
    again = diffcourt("resume", "latest", "--json", "-", cwd=repo.path)
    assert json.loads(again.stdout)["digest"] == whole["digest"]
