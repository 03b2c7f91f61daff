"""Give a whole review to programs that read its formats: ``python -m tests.format_readers``.

Microsoft's SARIF Multitool, which knows the schema and the rules of code scanning, is installed with
npm into a directory that is removed at the end; reviewdog is used where it is on ``PATH``. What is
not there is skipped with the reason.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.real_analyzers.__main__ import Case, commit, install, say

FORMATS = ("json", "sarif", "rdjson", "checkstyle")
MULTITOOL = "node_modules/@microsoft/sarif-multitool-linux/Sarif.Multitool"
UNHEEDED = {"SARIF2005": "Diffcourt has no public address to name"}
"""Rules of the Multitool at the level of a warning that no document passes, and why."""

BASE = """\
from flask import Flask, request
import subprocess

app = Flask(__name__)


def check(user):
    if not user.admin:
        raise PermissionError
    return user
"""
HEAD = (
    BASE.replace("    if not user.admin:\n        raise PermissionError\n", "")
    + """

def convert(name):
    subprocess.run("convert " + name, shell=True)


@app.route("/")
def index():
    convert(request.args["name"])
    return eval(request.args["x"])
"""
)


def review(place: Path) -> dict[str, Any]:
    """Review a change with flows, a removed guard, an odd path, a patch and gaps; the verdict."""
    repository = place / "repository"
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    commit(repository, {"app.py": BASE})
    commit(
        repository,
        {"app.py": HEAD, "é ü.py": "import os\n\neval(input())\n", "bad.py": "def f(:\n"},
    )
    subprocess.run(
        [
            *(str(Path(sys.executable).with_name("diffcourt")), "review", "--quiet", "--short"),
            *("--repo", str(repository), "--base", "HEAD~1"),
            *(f"--format={name}={place / name}" for name in FORMATS),
        ],
        stdout=subprocess.DEVNULL,
        check=False,
    )
    verdict: dict[str, Any] = json.loads((place / "json").read_text())
    assert '"fixes"' in (place / "sarif").read_text()
    assert '"suggestions"' in (place / "rdjson").read_text()
    return verdict


def validate_sarif(multitool: str, document: Path) -> str:
    """What the Multitool finds wrong, at the level of an error or a warning."""
    named = document.rename(document.with_suffix(".sarif"))
    done = subprocess.run(
        [multitool, "validate", str(named), "--rule-kind", "Sarif;Gh;Ghas"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "Analysis completed successfully" not in done.stdout:
        return f"it did not finish: {done.stdout}{done.stderr}"
    found = re.findall(r": (?:error|warning) ([A-Z]+\d+): (.*)", done.stdout)
    return "; ".join(f"{rule}: {text}" for rule, text in found if rule not in UNHEEDED)


def read_with_reviewdog(name: str, document: Path, verdict: dict[str, Any]) -> str:
    """Which findings or gaps do not come out of reviewdog."""
    done = subprocess.run(
        ["reviewdog", f"-f={name}", "-reporter=local", "-filter-mode=nofilter", "-fail-level=none"],
        input=document.read_text(), capture_output=True, text=True, check=False,
        cwd=document.parent / "repository",
    )  # fmt: skip
    wanted = [finding["rule"] for finding in verdict["findings"] if finding["state"] == "open"]
    if name != "sarif":  # there, gaps are notifications, which reviewdog does not read
        wanted += ["diffcourt.not-reviewed" for entry in verdict["skipped"] if entry["gap"]]
    missing = {rule for rule in wanted if done.stdout.count(rule) < wanted.count(rule)}
    told = f"{', '.join(sorted(missing))} did not come out" if missing or not wanted else ""
    return "; ".join(filter(None, (told, done.stderr.strip())))


def find_multitool(tools: Path) -> tuple[str, str]:
    """The Multitool's program, and why there is none."""
    program = tools / MULTITOOL
    if not program.exists():
        case = Case("", "", "", "", npm=("@microsoft/sarif-multitool",))
        if why := install(case, tools):
            return "", why
    if not program.exists():
        return "", "its package holds no program for this system"
    program.chmod(0o755)
    return str(program), ""


def main(arguments: list[str]) -> int:
    """Let each reader read; the exit code says whether one found something wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.format_readers", allow_abbrev=False)
    parser.add_argument("--tools", help="a directory that keeps what is installed")
    given = parser.parse_args(arguments)
    results: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="format-readers-") as directory:
        place = Path(directory)
        verdict = review(place)
        if shutil.which("reviewdog"):
            for name in FORMATS[1:]:
                results[f"reviewdog {name}"] = read_with_reviewdog(name, place / name, verdict)
        else:
            say("skipped reviewdog: it is not on PATH")
        multitool, why = find_multitool(Path(given.tools or place).absolute() / "multitool")
        if multitool:
            results["SARIF Multitool"] = validate_sarif(multitool, place / "sarif")
        else:
            say(f"skipped SARIF Multitool: {why}")
    for name, wrong in results.items():
        say(f"FAILED {name}: {wrong}" if wrong else f"passed {name}")
    return any(results.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
