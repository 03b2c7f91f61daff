"""Inputs and places that break tools: generated files, lock files, a disk without room."""

import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrator.app.run_review import run_review
from orchestrator.cli.main import main
from orchestrator.engine.observer_events import ignore_event
from orchestrator.foreign_json import MAX_DEPTH, parse_json
from tests.review.change.conftest import Repo as BombRepo
from tests.review.change.test_change_forged import tree_bomb
from tests.review.review_kit import Repo, change, options

SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
ENTRY = '    "node_modules/p{n}": {{"version": "{v}", "resolved": "https://example.invalid/p{n}"}}'


def limited(room: int) -> None:
    """No file may grow beyond this many bytes: what a full disk looks like from inside."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))


def diffcourt(*arguments: str, cwd: Path, room: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", *arguments, "--quiet"],
        cwd=cwd, capture_output=True, text=True, timeout=100, check=False,
        preexec_fn=partial(limited, room),
    )  # fmt: skip


Verdict = Callable[[Repo], dict[str, Any]]
Refused = Callable[..., str]


@pytest.fixture
def verdict_of(capsys: pytest.CaptureFixture[str]) -> Verdict:
    """The verdict of a repository's newest commit."""

    def review(repo: Repo) -> dict[str, Any]:
        main(["review", "--repo", str(repo.path), "--base", "HEAD~1", "--json", "-", "--quiet"])
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return review


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """The one line with which nothing is reviewed."""

    def review(repo: Path, *arguments: str) -> str:
        assert main(["review", "--repo", str(repo), "--quiet", *arguments]) == 3
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return review


def lock(entries: int, version: str) -> str:
    listed = ",\n".join(ENTRY.format(n=n, v=version) for n in range(entries))
    return f'{{\n  "lockfileVersion": 3,\n  "packages": {{\n{listed}\n  }}\n}}\n'


def test_a_lock_file_of_thirty_thousand_packages_is_read_beside_the_rest(
    tmp_path: Path, verdict_of: Verdict
) -> None:
    base = {"package-lock.json": lock(30_000, "1.0.0"), "app.py": "X = 1\n"}
    repo = change(
        tmp_path / "repo", base, {"package-lock.json": lock(30_000, "1.0.1"), "app.py": SHELL}
    )
    verdict = verdict_of(repo)
    assert not [skip for skip in verdict["skipped"] if skip["path"] == "package-lock.json"]
    assert {finding["path"] for finding in verdict["findings"]} == {"app.py"}
    assert verdict["status"] == "complete"


def test_a_generated_file_of_fifty_megabytes_is_named_and_the_rest_is_reviewed(
    tmp_path: Path, verdict_of: Verdict
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


def test_a_review_that_runs_out_of_room_says_so_and_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = change(tmp_path / "repo", {}, {"app.py": SHELL})
    whole = run_review(options(repo.path), ignore_event).digest
    for room in (30_000, 200_000):
        here = shutil.copytree(repo.path, tmp_path / str(room))
        failed = diffcourt("review", "--base", "HEAD~1", cwd=here, room=room)
        assert failed.returncode == 3
        assert failed.stdout == ""
        assert failed.stderr.count("\n") == 1
        assert failed.stderr.startswith("diffcourt: ")
        assert "room" in failed.stderr or "space" in failed.stderr
        words = ["resume", "latest", "--repo", str(here), "--json", "-", "--quiet"]
        assert main(words) == 1
        assert json.loads(capsys.readouterr().out)["digest"] == whole


# From a process of its own: a child begins with the size of the one that forks it.
MEASURED = """
import resource, subprocess, sys
code = subprocess.run([sys.executable, *sys.argv[1:]], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
EACH_REVIEW = """
import json, sys
from orchestrator.cli.main import main
print(*[main(["review", *words]) for words in json.loads(sys.argv[1])], file=sys.stderr)
"""
PATCH = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"


def test_a_tree_of_a_trillion_paths_takes_neither_time_nor_memory(tmp_path: Path) -> None:
    repo = BombRepo(tmp_path / "repo")
    repo.root.mkdir()
    repo.git("init", "-q", "-b", "main")
    repo.commit({"a.py": "x = 1\n"})
    repo.git("update-ref", "HEAD", tree_bomb(repo, 40))
    (tmp_path / "p.diff").write_text(PATCH)
    sources = [["--worktree"], ["--diff", str(tmp_path / "p.diff")], ["--base", "HEAD~1"]]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "-c", EACH_REVIEW, json.dumps(sources)],
        cwd=repo.root, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *errors, codes = done.stderr.splitlines()
    assert codes == "2 2 2"
    assert sum("more than " in line for line in errors) == 3
    assert int(done.stdout.splitlines()[-1]) < 400 << 10  # kilobytes of its largest process


@pytest.mark.parametrize("source", ["--worktree", "--base=HEAD~1"])
def test_the_time_of_a_run_bounds_finding_out_what_to_review(
    tmp_path: Path, refused: Refused, source: str
) -> None:
    repo = change(tmp_path / "repo", {"a.py": "x = 1\n"}, {"a.py": "x = 2\n"})
    line = refused(repo.path, source, "--max-minutes", "0.00001")
    assert "longer than --max-minutes 1e-05; nothing was reviewed" in line


@pytest.mark.parametrize("source", ["--worktree", "--diff", "--base"])
def test_the_minutes_of_base_s_policy_bound_finding_out_what_to_review(
    tmp_path: Path, refused: Refused, source: str
) -> None:
    repo = BombRepo(tmp_path / "repo")
    repo.root.mkdir()
    repo.git("init", "-q", "-b", "main")
    policy = {".diffcourt/config/defaults.yaml": "bounds: {minutes: 0.0001}\n"}
    base = repo.commit({"a.py": "x = 1\n", **policy})
    if source == "--base":
        repo.git("update-ref", "HEAD", tree_bomb(repo, 16))
    (tmp_path / "p.diff").write_text(PATCH)
    more = {"--worktree": [], "--diff": [str(tmp_path / "p.diff")], "--base": [base]}[source]
    line = refused(repo.root, source, *more)
    assert "longer than bounds.minutes 0.0001; nothing was reviewed" in line


@pytest.mark.attack("JSON that is nested too deeply for what reads it")
@pytest.mark.parametrize(
    "command",
    [
        "fix FILE",
        "export FILE --format sarif=-",
        "post FILE --to github --project a/b --request 1",
        "review --base HEAD~1 --previous FILE",
        "audit verify --verdict FILE",
        "runs import FILE",
        "rubric import FILE --out new.yaml",
        "rubric gate pr-review FILE --baseline FILE",
        "rubric import-items FILE --from jsonl --out new.jsonl",
    ],
)
def test_json_of_any_depth_is_one_line(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(change(tmp_path / "repo", {"a.py": "A = 1\n"}, {"a.py": "A = 2\n"}).path)
    monkeypatch.setenv("GITHUB_TOKEN", "token")
    for depth in (101, 900, 200_000):
        Path("deep.json").write_text(
            '{"schema_version": "1.0", "x": ' + "[" * depth + "]" * depth + "}"
        )
        assert main(command.replace("FILE", "deep.json").split()) == 2, depth
        (line,) = capsys.readouterr().err.splitlines()
        assert "deep.json" in line, depth


def test_documents_of_usual_depth_are_read() -> None:
    usual = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse_json(usual) == json.loads(usual)
    for deeper in (f"[{usual}]", "[" * 200_000):
        with pytest.raises(ValueError, match="deeper than 100 levels"):
            parse_json(deeper)
