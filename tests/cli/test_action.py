"""The steps of the composite action, run as the runner runs them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.review.review_kit import Repo

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"


def run_step(name: str, cwd: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a step of the action with bash, as the runner does."""
    (step,) = [step for step in ACTION["runs"]["steps"] if step.get("name") == name]
    assert step["shell"] == "bash"
    assert not set(step["env"]) - set(environment)
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=cwd, capture_output=True, text=True, timeout=100, check=False,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **environment},
    )  # fmt: skip


@pytest.fixture
def job(tmp_path: Path) -> tuple[Repo, dict[str, str]]:
    """A checkout of a branch, and the variables of a job, with this environment's program."""
    repo = Repo(tmp_path / "repo")
    repo.commit({"README.md": "# A project\n"})
    repo.git("checkout", "-q", "-b", "topic")
    repo.commit({"app.py": SHELL})
    temporary = tmp_path / "runner"
    temporary.mkdir()
    (temporary / "diffcourt-venv").symlink_to(Path(sys.executable).parent.parent)
    variables = {
        "RUNNER_TEMP": str(temporary),
        "GITHUB_OUTPUT": str(temporary / "output"),
        "GITHUB_STEP_SUMMARY": str(temporary / "summary"),
        "GITHUB_WORKSPACE": str(repo.path),
        "GITHUB_REF": "refs/pull/12/merge",
        "BASE": "main",
        "HEAD": repo.git("rev-parse", "HEAD"),
        "FAIL_ON": "",
        "SARIF": "",
    }
    for name in ("output", "summary"):
        (temporary / name).touch()
    return repo, variables


def test_every_step_passes_inputs_by_its_environment_only() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+(/[\w-]+)+@[0-9a-f]{40}", step["uses"])


def test_a_push_after_a_push_says_what_is_new_and_sets_the_outputs(
    job: tuple[Repo, dict[str, str]],
) -> None:
    repo, variables = job
    temporary = Path(variables["RUNNER_TEMP"])
    first = run_step("Review", repo.path, {**variables, "SARIF": "r.sarif"})
    assert first.returncode == 1, first.stderr
    assert first.stdout.startswith("::warning file=app.py,line=5,")
    assert "### Diffcourt: NEEDS CHANGES" in (temporary / "summary").read_text()
    outputs = dict(line.split("=") for line in (temporary / "output").read_text().splitlines())
    declared = {
        match[1]
        for output in ACTION["outputs"].values()
        if (match := re.search(r"outputs\.([\w-]+) ", output["value"]))
    }
    assert declared <= set(outputs)
    assert outputs["verdict"] == "needs_changes"
    assert json.loads(Path(outputs["verdict-file"]).read_text())["exit_code"] == 1
    assert json.loads((repo.path / "r.sarif").read_text())["version"] == "2.1.0"

    assert "Since" not in first.stderr
    head = repo.commit({"app.py": f"{SHELL}X = 1\n"})
    third = run_step("Review", repo.path, {**variables, "HEAD": head, "FAIL_ON": "never"})
    assert third.returncode == 0, third.stderr
    assert re.search(r"Since +the review of \w+: .* open as before", third.stderr)


def test_an_error_is_the_steps_exit_code_and_leaves_no_verdict(
    job: tuple[Repo, dict[str, str]],
) -> None:
    repo, variables = job
    failed = run_step("Review", repo.path, {**variables, "BASE": "origin/gone; touch pwned"})
    assert failed.returncode == 2
    assert not (repo.path / "pwned").exists()
    assert "verdict-file" not in (Path(variables["RUNNER_TEMP"]) / "output").read_text()


def test_only_the_previous_verdict_is_restored_from_a_cache() -> None:
    cached = [step for step in ACTION["runs"]["steps"] if "actions/cache" in step.get("uses", "")]
    assert {step["with"]["path"] for step in cached} == {"${{ runner.temp }}/diffcourt"}
