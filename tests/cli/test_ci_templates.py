"""The scripts of the CI templates, run as their runners do: in a fresh clone, with an empty HOME."""

import base64
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from tests.review.review_kit import Repo

ROOT = Path(__file__).resolve().parents[2]
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
FORGED = {"verdict.json": '{"verdict": "merge"}'}


def load(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return document


class Job:
    """A clone of a repository whose branch topic is reviewed, and a runner's environment.

    What the jobs install is this environment's own program.
    """

    def __init__(self, path: Path) -> None:
        self.origin = Repo(path / "acme" / "shop.git")
        self.origin.commit({"README.md": "# A project\n"})
        self.origin.git("checkout", "-q", "-b", "topic")
        self.head = self.origin.commit({"app.py": SHELL, **FORGED})
        self.origin.git("checkout", "-q", "main")
        self.clone = path / "clone"
        clone = ["git", "clone", "-q", "-b", "topic", str(self.origin.path), str(self.clone)]
        subprocess.run(clone, check=True)
        for folder in ("home", "runner"):
            (path / folder).mkdir()
        (path / "output").touch()  # as the runner does
        program = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m orchestrator "$@"\n'
        setup = (
            f'mkdir -p "$1/bin"\nprintf %s {shlex.quote(program)} >"$1/bin/diffcourt"\n'
            'chmod +x "$1/bin/diffcourt"\necho "$PYTHON: $2, $(ls -A)" >"$1/how"\n'
        )
        self.source = Repo(path / "diffcourt")
        commit = self.source.commit({"tools/setup.sh": setup})
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(path / "home"),
            "PYTHONPATH": str(ROOT),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "RUNNER_TEMP": str(path / "runner"),
            "GITHUB_OUTPUT": str(path / "output"),
            "SOURCE": str(self.source.path),
            "COMMIT": commit,
            "PYTHON": "/opt/python; touch pwned",
            "VENV": str(path / "runner" / "diffcourt"),
            "HEAD": self.head,
            "BASE": "main",
            "FAIL_ON": "",
            "SERVER": str(path),
            "REPOSITORY": "acme/shop",
            "TOKEN": "s3cret-t0ken",
            "CI_MERGE_REQUEST_IID": "12",
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "CI_COMMIT_SHA": self.head,
        }

    def run(self, words: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command with the runner's environment only."""
        places = {"GITHUB_WORKSPACE": str(folder), "CI_PROJECT_DIR": str(folder)}
        return subprocess.run(
            words, cwd=folder, capture_output=True, text=True, timeout=100, check=False,
            env={**self.environment, **places, **more},
        )  # fmt: skip

    def step(
        self, name: str, job: str, step: str, folder: Path, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a step of a workflow, whose inputs come by its environment."""
        (found,) = [one for one in load(name)["jobs"][job]["steps"] if one.get("name") == step]
        assert "${{" not in found["run"]
        fixed = {name: text for name, text in found["env"].items() if "${{" not in text}
        assert not set(found["env"]) - {*self.environment, *fixed, *more}
        return self.run([*BASH, found["run"]], folder, **fixed, **more)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def read_verdict(folder: Path) -> tuple[str, int]:
    found = json.loads((folder / "verdict.json").read_text())
    return found["verdict"], found["change"]["files"]


@pytest.mark.parametrize("name", ["config/ci/github-review.yml", ".github/workflows/review.yml"])
def test_the_workflows_of_github_review_and_keep_the_verdict_for_the_next_push(
    name: str, job: Job, tmp_path: Path
) -> None:
    assert job.step(name, "review", "Install", job.clone).returncode == 0
    first = job.step(name, "review", "Review", job.clone)
    assert first.returncode == 1, first.stderr
    assert "::warning file=app.py,line=5," in first.stdout
    kept = tmp_path / "runner" / "verdict"
    assert read_verdict(kept) == ("needs_changes", 2)
    output = tmp_path / "output"
    assert "verdict=needs_changes" in output.read_text().splitlines()
    if name.startswith("config"):
        return  # its lines are among those of the other, says test_ci_in_a_hostile_checkout.py
    output.write_text("")
    copy = (kept / "verdict.json").read_text()
    again = job.step(name, "review", "Review", job.clone, BASE="gone; touch pwned")
    assert again.returncode == 2
    assert os.listdir(kept) == []
    assert output.read_text() == ""
    (kept / "verdict.json").write_text(copy)
    job.origin.git("checkout", "-q", "topic")
    head = job.origin.commit({"app.py": f"{SHELL}X = 1\n"})
    subprocess.run(["git", "fetch", "-q", "origin"], cwd=job.clone, check=True)
    third = job.step(name, "review", "Review", job.clone, HEAD=head, FAIL_ON="block")
    assert third.returncode == 0, third.stderr
    assert "open as before" in third.stderr
    assert not (job.clone / "pwned").exists()


def test_the_trusted_job_of_github_reads_the_change_without_a_checkout(
    job: Job, tmp_path: Path
) -> None:
    name, folder = "config/ci/github-gate.yml", tmp_path / "workspace"
    folder.mkdir()
    assert job.step(name, "review", "Install", folder).returncode == 0
    fetched = job.step(name, "review", "Fetch", folder)
    assert fetched.returncode == 0, fetched.stderr
    done = job.step(name, "review", "Review", folder)
    assert done.returncode == 1, done.stderr
    assert read_verdict(tmp_path / "runner") == ("needs_changes", 2)
    assert os.listdir(folder) == []
    uses = [step.get("uses", "") for step in load(name)["jobs"]["review"]["steps"]]
    assert not [use for use in uses if "checkout" in use or "cache" in use]


@pytest.mark.parametrize(
    "name", ["config/ci/github-review.yml", ".github/workflows/review.yml", "action.yml"]
)
def test_github_keeps_the_verdict_of_a_review_that_fails_too(name: str) -> None:
    document = load(name)
    parts = [document["runs"]] if "runs" in document else document["jobs"].values()
    steps = [step for part in parts for step in part["steps"]]
    cached = [step for step in steps if "actions/cache" in step.get("uses", "")]
    used = [step["uses"].partition("@")[0] for step in cached]
    assert set(used) == {
        "actions/cache/restore",
        "actions/cache/save",
    }  # it saves after success only
    (restore, save) = cached
    assert restore["with"]["path"] == save["with"]["path"]
    assert save["if"].startswith("always() && ")
    assert save["with"]["key"] == restore["with"]["key"]
    reviews = [step.get("name") == "Review" for step in steps].index(True)
    assert steps.index(restore) < reviews < steps.index(save)


def test_gitlab_keeps_the_verdict_of_a_review_that_fails_too() -> None:
    assert load("config/ci/gitlab-review.yml")["diffcourt-review"]["cache"]["when"] == "always"


def test_the_template_of_forgejo_checks_out_and_reviews(job: Job, tmp_path: Path) -> None:
    name, folder = "config/ci/forgejo-review.yml", tmp_path / "workspace"
    folder.mkdir()
    job.origin.git("checkout", "-q", "topic")
    assert job.step(name, "review", "Install", folder).returncode == 0
    assert job.step(name, "review", "Check out", folder).returncode == 0
    done = job.step(name, "review", "Review", folder)
    assert done.returncode == 1, done.stderr
    assert read_verdict(folder) == ("needs_changes", 2)
    assert not (folder / "pwned").exists()


class PrivateGit(BaseHTTPRequestHandler):
    """Serves repositories over HTTP, as ``git http-backend`` does, to who has the token."""

    repositories: Path

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Answer a request of git."""
        asked = base64.b64encode(b"x-access-token:s3cret-t0ken").decode()
        if self.headers["Authorization"] != f"Basic {asked}":
            self.send_error(401)
            return
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "http-backend"],
            input=body,
            capture_output=True,
            check=True,
            env={
                **os.environ,
                "GIT_PROJECT_ROOT": str(self.repositories),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            },
        )
        self.wfile.write(b"HTTP/1.0 200 OK\r\n" + done.stdout)

    do_POST = do_GET  # noqa: N815


def test_the_template_of_forgejo_checks_out_a_private_repository(job: Job, tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    handler = type("Handler", (PrivateGit,), {"repositories": tmp_path})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            step = ("config/ci/forgejo-review.yml", "review", "Check out", folder)
            refused = job.step(*step, SERVER=address, TOKEN="", GIT_TERMINAL_PROMPT="0")
            done = job.step(*step, SERVER=address)
        finally:
            server.shutdown()
            thread.join()
    assert refused.returncode != 0
    assert done.returncode == 0, done.stderr
    assert (folder / "app.py").is_file()
    assert not any("s3cret" in path.read_text("latin-1") for path in folder.rglob("config"))


def test_the_container_file_installs_extras_that_there_are_with_pinned_versions() -> None:
    text = (ROOT / "Containerfile").read_text()
    (named,) = re.findall(r"sh /source/tools/setup.sh /opt/diffcourt ([a-z,]+)", text)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(named.split(",")) <= set(project["optional-dependencies"])
    assert "COPY . /source\n" in text
