"""The steps of the CI files, word for word, in a runner's folders, beside a change that shadows what they start."""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.review.review_kit import Repo

ROOT = Path(__file__).resolve().parents[2]
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
MODULES = [
    "argparse",
    "asyncio",
    "base64",
    "contextlib",
    "dataclasses",
    "email",
    "encodings",
    "ensurepip",
    "importlib",
    "json",
    "logging",
    "os",
    "pathlib",
    "platform",
    "re",
    "runpy",
    "shutil",
    "signal",
    "site",
    "sitecustomize",
    "ssl",
    "subprocess",
    "sysconfig",
    "tempfile",
    "tomllib",
    "types",
    "typing",
    "usercustomize",
    "venv",
    "warnings",
    "zipfile",
    "backend",
    "hatchling",
    "locked_dependency",
    "msgspec",
    "orchestrator",
    "pip",
    "setuptools",
    "yaml",
    "_distutils_hack",
    "diffcourt",
]
PROGRAMS = [
    "diffcourt",
    "git",
    "mktemp",
    "pip",
    "pipx",
    "python",
    "python3",
    "sh",
    "uv",
    "ruff",
    "rg",
]
FOLDERS = (
    *("", "bin/", "venv/bin/", ".venv/bin/", "source/tools/"),
    *(f"__pypackages__/3.{minor}/lib/bin/" for minor in range(10, 16)),
)
BACKEND = '''"""Builds the wheel of a stand-in for Diffcourt; its program is that of the tests."""
import os, zipfile

def build_wheel(folder, *_):
    name = "diffcourt-1.0-py3-none-any.whl"
    info = "diffcourt-1.0.dist-info/"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("diffcourt_stand_in.py", PROGRAM)
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: diffcourt\\nVersion: 1.0\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "entry_points.txt", "[console_scripts]\\ndiffcourt = diffcourt_stand_in:main\\n")
        wheel.writestr(info + "RECORD", "")
    return name

'''
PROGRAM = f"""import os, sys
import locked_dependency
def main():
    os.execv({sys.executable!r}, [{sys.executable!r}, "-P", "-m", "orchestrator", *sys.argv[1:]])
"""
STUB = """mkdir -p "$1/bin"
printf '#!/bin/sh\\nexec %s -P -m orchestrator "$@"\\n' {} >"$1/bin/diffcourt"
chmod +x "$1/bin/diffcourt"
"""


def steps_of(name: str, job: str = "review") -> dict[str, dict[str, Any]]:
    """The steps with a name, of a job or an action."""
    document = yaml.safe_load((ROOT / name).read_text())
    steps = document["runs"]["steps"] if "runs" in document else document["jobs"][job]["steps"]
    return {step["name"]: step for step in steps if "name" in step}


class Runner:
    """The folders of a GitHub runner: a hostile checkout in it, and Diffcourt in a repository elsewhere.

    Args:
        installs: with our own script; else one in its place writes a program at once.

    Attributes:
        witness: exists once anything of the change has run.
    """

    def __init__(self, home: Path, *, installs: bool = False) -> None:
        self.work = home / "work" / "shop" / "shop"
        self.temporary = home / "work" / "_temp"
        self.witness = home / "witness"
        for folder in (self.temporary, home / "tools"):
            folder.mkdir(parents=True)
        self.wheels = home / "wheels"
        self.wheels.mkdir()
        self.source = Repo(home / "diffcourt")
        stub = {"tools/setup.sh": STUB.format(shlex.quote(sys.executable))}
        commit = self.source.commit(self._source() if installs else stub)
        repo = Repo(self.work)
        repo.commit({"README.md": "# A shop\n"})
        repo.git("update-ref", "refs/remotes/origin/main", "HEAD")
        repo.git("checkout", "-q", "-b", "topic")
        repo.write(self._change())
        for name in PROGRAMS:
            for place in FOLDERS:
                (self.work / place / name).chmod(0o755)
        head = repo.commit({})
        (home / "output").touch()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(self.work),
            "GITHUB_OUTPUT": str(home / "output"),
            "RUNNER_TEMP": str(self.temporary),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PYTHONPATH": str(ROOT),
            "PYTHON": self._python(home / "tools" / "python3"),
            "SOURCE": str(self.source.path),
            "COMMIT": commit,
            "BASE": "main",
            "HEAD": head,
            "FAIL_ON": "",
            "SARIF": "",
            "VENV": str(self.temporary / "diffcourt"),
            "CI_PROJECT_DIR": str(self.work),
            "CI_COMMIT_SHA": head,
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        }

    def _source(self) -> dict[str, str]:
        """A repository with our script, one locked release, and a program to build."""
        wheel = self.wheels / "locked_dependency-1.0-py3-none-any.whl"
        info = "locked_dependency-1.0.dist-info/"
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr("locked_dependency.py", "")
            file.writestr(
                f"{info}METADATA", "Metadata-Version: 2.1\nName: locked-dependency\nVersion: 1.0\n"
            )
            file.writestr(
                f"{info}WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            file.writestr(f"{info}RECORD", "")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        return {
            "tools/setup.sh": (ROOT / "tools/setup.sh").read_text(),
            "constraints.txt": f"locked-dependency==1.0 --hash=sha256:{digest} # core build analyzers github\n",
            "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
            "backend.py": f"{BACKEND}PROGRAM = {PROGRAM!r}\n",
        }

    def _change(self) -> dict[str, str]:
        """A change that shadows modules and programs, and brings a verdict and settings."""
        touch = f"open({str(self.witness)!r}, 'a').write(__file__ + '\\n')\n"
        forge = 'for word; do case $word in *.json) echo \'{"verdict": "merge"}\' >"$word" ;; esac; done\n'
        program = f'#!/bin/sh\necho "$0" >>{shlex.quote(str(self.witness))}\n{forge}exit 0\n'
        return {
            "app.py": "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n",
            "verdict.json": '{"verdict": "merge"}',
            "pip.conf": "[install]\nno-deps = true\n",
            "uv.toml": "offline = true\n",
            **{f"{module}.py": touch for module in MODULES},
            "venv/__init__.py": touch,
            "venv/__main__.py": touch,
            **{f"{folder}{name}": program for folder in FOLDERS for name in PROGRAMS},
        }

    def _python(self, place: Path) -> str:
        """A Python whose environments take pip from it, which spares the seconds of installing pip."""
        base = getattr(sys, "_base_executable", sys.executable)
        has_pip = [base, "-I", "-c", "import pip"]
        fast = subprocess.run(has_pip, check=False, capture_output=True).returncode == 0
        more = "--without-pip --system-site-packages" if fast else ""
        place.write_text(
            f'#!/bin/sh\ncase " $* " in *" -m venv "*) set -- "$@" {more} ;; esac\nexec {shlex.quote(base)} "$@"\n'
        )
        place.chmod(0o755)
        return str(place)

    def run(self, script: str, words: list[str] = BASH) -> subprocess.CompletedProcess[str]:
        """Run a step's script in the checkout, as a runner does."""
        return subprocess.run(
            [*words, script],
            cwd=self.work, capture_output=True, text=True, timeout=100, check=False, env=self.environment,
        )  # fmt: skip

    def seen(self) -> str:
        """What of the change ran."""
        return self.witness.read_text() if self.witness.exists() else ""


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path / "home" / "runner")


@pytest.fixture
def installing(tmp_path: Path) -> Runner:
    return Runner(tmp_path / "home" / "runner", installs=True)


def assert_honest(place: Path) -> None:
    verdict = json.loads(place.read_text())
    assert verdict["verdict"] != "merge"
    assert any(finding["path"] == "app.py" for finding in verdict["findings"])


def test_the_change_of_these_tests_would_run(runner: Runner) -> None:
    """Or the tests below would hold for no reason."""
    done = runner.run('"$PYTHON" -m venv "$RUNNER_TEMP/x"; PATH=.:$PATH diffcourt review')
    assert done.returncode == 0
    assert f"{runner.work}/venv/__init__.py" in runner.seen()
    assert "diffcourt\n" in runner.seen()


@pytest.mark.attack("a change shadows modules and programs of a GitHub job")
def test_nothing_of_the_change_runs_in_the_jobs_of_github(installing: Runner) -> None:
    runner = installing
    own, gate = steps_of("config/ci/github-review.yml"), steps_of("config/ci/github-gate.yml")
    reusable = steps_of(".github/workflows/review.yml")
    assert own["Install"] == reusable["Install"]
    commands = reusable["Review"]["run"].replace("options+=(--previous", "options=(--previous")
    assert set(own["Review"]["run"].splitlines()) <= set(commands.splitlines())
    installed = runner.run(own["Install"]["run"])
    assert (installed.returncode, runner.seen()) == (0, ""), installed.stderr
    done = runner.run(reusable["Review"]["run"])
    assert (done.returncode, runner.seen()) == (1, ""), done.stderr
    assert_honest(runner.temporary / "verdict" / "verdict.json")

    place = {"SERVER": str(runner.work.parent), "REPOSITORY": "shop", "TOKEN": "t"}
    runner.environment |= {**place, **gate["Review"]["env"]}
    for name in ("Fetch", "Review"):
        done = runner.run(gate[name]["run"])
    assert (done.returncode, runner.seen()) == (1, ""), done.stderr
    assert_honest(runner.temporary / "verdict.json")


@pytest.mark.attack("a change shadows modules and programs of the action")
def test_nothing_of_the_change_runs_in_the_action(runner: Runner) -> None:
    steps = steps_of("action.yml")
    planted = runner.temporary / "diffcourt-venv" / "bin"  # as a restored cache could
    planted.mkdir(parents=True)
    for name in ("python", "diffcourt", "pip"):
        shutil.copy(runner.work / "bin" / "diffcourt", planted / name)
    (planted.parent / "complete").touch()
    checkout = runner.temporary / "action"
    subprocess.run(["git", "clone", "-q", runner.source.path, checkout], check=True)
    runner.environment |= {"SOURCE": str(checkout), "BASE": "origin/main"}
    for name, code in {"Install": 0, "Review": 1}.items():
        done = runner.run(steps[name]["run"])
        assert (done.returncode, runner.seen()) == (code, ""), done.stderr
    assert_honest(runner.temporary / "diffcourt-verdict.json")


@pytest.mark.attack("a change shadows modules and programs of a GitLab or Forgejo job")
@pytest.mark.parametrize("name", ["gitlab", "forgejo"])
def test_nothing_of_the_change_runs_in_the_jobs_of_gitlab_and_forgejo(
    name: str, runner: Runner
) -> None:
    python = runner.environment["PYTHON"]
    if name == "gitlab":
        lines = yaml.safe_load((ROOT / "config/ci/gitlab-review.yml").read_text())
        script = "\n".join(lines["diffcourt-review"]["script"])
        script = script.replace("/usr/local/bin/python3", python)
        subprocess.run(["git", "init", "-q", "--bare", runner.work.parent / "o"], check=True)
        repo = Repo(runner.work)
        repo.git("remote", "add", "origin", str(runner.work.parent / "o"))
        repo.git("push", "-q", "origin", "main")
        done = runner.run(script, ["sh", "-e", "-c"])
    else:
        steps = steps_of("config/ci/forgejo-review.yml")
        assert runner.run(steps["Install"]["run"]).returncode == 0
        subprocess.run(
            ["git", "update-ref", "refs/remotes/origin/base", "main"], cwd=runner.work, check=True
        )
        done = runner.run(steps["Review"]["run"])
    assert (done.returncode, runner.seen()) == (1, ""), done.stderr
    assert_honest(runner.work / "verdict.json")
    if name == "gitlab":
        reported = json.loads((runner.work / "quality.json").read_text())
        assert "app.py" in {entry["location"]["path"] for entry in reported}


@pytest.mark.attack("a change shadows modules and programs of the pre-commit hook")
def test_nothing_of_the_change_runs_in_the_hook_of_pre_commit(runner: Runner) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (named,) = yaml.safe_load((ROOT / "config/ci/pre-commit.yml").read_text())["repos"]
    assert [one["id"] for one in named["hooks"]] == [hook["id"]]
    (runner.work / "more.py").write_text(
        "import subprocess\n\nsubprocess.run(input(), shell=True)\n"
    )
    runner.environment["PATH"] = f"{Path(sys.executable).parent}:{runner.environment['PATH']}"
    runner.environment["PRE_COMMIT"] = "1"
    done = runner.run(f"git add more.py; {hook['entry']}")
    assert (done.returncode, runner.seen()) == (1, ""), done.stderr
    assert "more.py:3: medium:" in done.stdout


@pytest.mark.attack("an index serves another file for a locked release")
def test_a_file_with_another_hash_is_not_installed(installing: Runner) -> None:
    runner = installing
    (wheel,) = runner.wheels.iterdir()
    with zipfile.ZipFile(wheel, "a") as file:
        file.writestr("sitecustomize.py", f"open({str(runner.witness)!r}, 'w')")
    done = runner.run(steps_of("config/ci/github-comments.yml", "post")["Install"]["run"])
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (runner.temporary / "diffcourt/bin/diffcourt").exists()
    assert runner.seen() == ""


def test_a_branch_or_tag_in_place_of_the_commit_is_not_installed(runner: Runner) -> None:
    runner.source.git("tag", "v1")
    script = steps_of(".github/workflows/review.yml")["Install"]["run"]
    for runner.environment["COMMIT"] in ("main", "v1", "HEAD"):
        runner.run(script)
        assert not (runner.temporary / "diffcourt").exists()
