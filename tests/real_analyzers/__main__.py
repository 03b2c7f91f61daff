"""Run real analyzers in whole reviews: ``python -m tests.real_analyzers [NAME ...]``.

Each is configured as ``docs/analyzers.md`` says, or as a type checker. Its change adds one defect beside one that base has
already; the review must report the new one alone. What is not installed is installed into a
directory that is removed at the end, or is skipped with the reason.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import yaml
from msgspec import Struct

PAGE = Path(__file__).parents[2] / "docs/analyzers.md"
INSTALL_SECONDS = 900
_EXAMPLE = re.compile(
    r"^```yaml file=\.diffcourt/config/defaults\.yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


class Case(Struct, frozen=True):
    """An analyzer, and a change in which it has something to say.

    Attributes:
        rule: of the finding.
        path, old, new: the file, a defect that base has, and the same one in another place.
        pip, npm: packages that hold it.
        beside: other files of base.
        typecheck: the command, where it is a type checker.
    """

    rule: str
    path: str
    old: str
    new: str
    pip: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    beside: Mapping[str, str] = {}
    typecheck: tuple[str, ...] = ()


TERRAFORM = 'resource "aws_s3_bucket" "{0}" {{\n  bucket = "{0}"\n  acl    = "public-read"\n}}\n'
BUCKET = "  {0}:\n    Type: AWS::S3::Bucket\n    Properties:\n      Bucket: {0}\n"
IGNORED = "Metadata: {cfn-lint: {config: {ignore_checks: [E3002]}}}\n"
SEMGREP_RULE = """\
rules:
  - id: no-eval
    languages: [python]
    severity: ERROR
    message: Text is evaluated
    pattern: eval(...)
"""
CASES: Mapping[str, Case] = {
    "mypy": Case(
        "import.mypy.return-value",
        "shop.py",
        "def pay(n: int) -> str:\n    return n\n",
        "\n\ndef refund(total: int) -> str:\n    return total\n",
        pip=("mypy",),
    ),
    "bandit": Case(
        "import.bandit.b101",  # Diffcourt has no rule of its own for it
        "shop.py",
        "def pay(n):\n    assert n\n",
        "\n\ndef refund(total):\n    assert total  # nosec\n",
        pip=("bandit[sarif]",),
    ),
    "pylint": Case(
        "import.pylint.no-member",
        "shop.py",
        '"""Shop."""\n\nOLD = "a".to_upper()\n',
        'NEW = "b".to_lower()\n',
        pip=("pylint",),
    ),
    "semgrep": Case(
        "import.semgrep-oss.no-eval",
        "shop.py",
        "def pay(n):\n    return eval(n)\n",
        "\n\ndef refund(total):\n    return eval(total)  # nosemgrep\n",
        pip=("semgrep",),
        beside={"rules.yaml": SEMGREP_RULE},
    ),
    "eslint": Case(
        "import.eslint.no-dupe-keys",
        "shop.js",
        "export const old = { a: 1, a: 2 };\n",
        "export const now = { b: 1, b: 2 }; // eslint-disable-line\n",
        npm=("eslint",),
        beside={"eslint.config.mjs": 'export default [{ rules: { "no-dupe-keys": "error" } }];\n'},
    ),
    "cppcheck": Case(
        "import.cppcheck.nullpointer",
        "shop.c",
        "int pay(void) {\n    int *p = 0;\n    return *p;\n}\n",
        "int refund(void) {\n    int *total = 0;\n    return *total;\n}\n",
    ),
    "checkov": Case(
        "import.checkov.ckv-aws-20",
        "main.tf",
        TERRAFORM.format("old"),
        TERRAFORM.format("new"),
        pip=("checkov",),
    ),
    "cfn-lint": Case(
        "import.cfn-lint.e3002",
        "template.yaml",
        f"{IGNORED}Resources:\n{BUCKET.format('Old')}",
        BUCKET.format("New"),
        pip=("cfn-lint[sarif]",),
    ),
    "sqlfluff": Case(
        "import.sqlfluff.cv05",
        "shop.sql",
        "SELECT a FROM t WHERE a = NULL;\n",
        "SELECT b FROM t WHERE b = NULL; -- noqa\n",
        pip=("sqlfluff",),
    ),
    "pyright": Case(
        "qa.type-error",
        "shop.py",
        "def pay(n: int) -> str:\n    return n\n",
        "\n\ndef refund(total: int) -> str:\n    return total\n",
        npm=("pyright",),
        typecheck=("pyright", "--outputjson"),
    ),
    "tsc": Case(
        "qa.type-error",
        "shop.ts",
        "export function pay(n: number): string {\n  return n;\n}\n",
        "export function refund(total: number): string {\n  return total;\n}\n",
        npm=("typescript",),
        beside={"tsconfig.json": '{"compilerOptions": {"strict": true, "noEmit": true}}'},
        typecheck=("tsc", "-p", "."),
    ),
}


def install(case: Case, place: Path) -> str:
    """Install what a case needs below a directory; why that failed, or empty."""
    place.mkdir(parents=True)
    commands: list[list[str]] = []
    if case.pip:
        commands += [[sys.executable, "-m", "venv", str(place)]]
        commands += [[str(place / "bin/pip"), "install", "--quiet", *case.pip]]
    elif case.npm and (npm := shutil.which("npm")):
        commands += [[npm, "install", "--silent", "--prefix", str(place), *case.npm]]
    else:
        return "install it with the system's package manager, such as apt-get" + (
            ", and npm" if case.npm else ""
        )
    for command in commands:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"{Path(command[0]).name} took longer than {INSTALL_SECONDS} s"
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            return f"{Path(command[0]).name} failed: {' '.join(last)}"
    return ""


def commit(repository: Path, files: Mapping[str, str]) -> None:
    """Write files and commit them."""
    for name, text in files.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "change"], check=True)


def configuration(name: str, case: Case) -> dict[str, object]:
    """Base's settings for a case."""
    if case.typecheck:
        return {"typecheck": {"command": case.typecheck}}
    (example,) = _EXAMPLE.findall(PAGE.read_text())
    configured = yaml.safe_load(example)["analyzers"][name]
    return {"analyzers": {name: {**configured, "files": [f"*{Path(case.path).suffix}"]}}}


def review(name: str, case: Case, path: str, place: Path, sandbox: str = "auto") -> str:
    """Review the case's change; what is wrong with the verdict, or empty."""
    key, tool = ("typecheck",) * 2 if case.typecheck else (name, "configured_analyzers")
    repository, verdict = place / "repository", place / "verdict.json"
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    settings = json.dumps({**configuration(name, case), "sandbox": sandbox})
    config = {".diffcourt/config/defaults.yaml": settings}
    commit(repository, {**config, **case.beside, case.path: case.old})
    commit(repository, {case.path: case.old + case.new})
    done = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("diffcourt")), "review", "--quiet"),
            *("--repo", str(repository), "--base", "HEAD~1", "--json", str(verdict)),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path, "DIFFCOURT_RUN_ANALYZERS": "1"},
        check=False,
    )
    if not verdict.exists():
        return f"no verdict: {done.stderr.strip()}"
    document = json.loads(verdict.read_text())
    problems = [f"gap: {s['why']}" for s in document["skipped"] if s["path"] == key]
    found = [f for f in document["findings"] if tool in f["reported_by"]]
    first = len(case.old.splitlines())
    if not [f for f in found if f["rule"] == case.rule]:
        problems.append(f"{case.rule} is not among {[f['rule'] for f in found]}")
    problems += [
        f"{f['rule']} is reported at line {f['start_line']}, which is old"
        for f in found
        if f["start_line"] <= first
    ]
    return "; ".join(problems)


def main(arguments: list[str]) -> int:
    """Run the cases that were asked for, all by default; the exit code says whether one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_analyzers", allow_abbrev=False)
    parser.add_argument("name", nargs="*", help=f"of {', '.join(CASES)}")
    parser.add_argument("--tools", help="a directory that keeps what is installed")
    parser.add_argument("--sandbox", default="auto", help="bubblewrap or landlock; default: auto")
    given = parser.parse_args(arguments)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="real-analyzers-") as directory:
        tools = Path(given.tools or directory).absolute() / "tools"
        for name in given.name or CASES:
            case, place = CASES[name], (tools / name).resolve()
            # Where they are installed: below it, or else on PATH, but not our own virtualenv.
            path = os.pathsep.join(
                [str(place / "bin"), str(place / "node_modules/.bin"), *_path_without_ours()]
            )
            why = "" if shutil.which(name, path=path) else install(case, place)
            if why or not shutil.which(name, path=path):
                say(f"skipped {name}: {why or 'it holds no such program'}")
                continue
            begin = time.monotonic()
            wrong = review(name, case, path, Path(directory) / name, given.sandbox)
            failed += bool(wrong)
            took = f"{time.monotonic() - begin:.1f} s"
            say(f"FAILED {name}: {wrong}" if wrong else f"passed {name}, {took}")
    return bool(failed)


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _path_without_ours() -> list[str]:
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return [entry for entry in entries if not Path(entry).is_relative_to(sys.prefix)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
