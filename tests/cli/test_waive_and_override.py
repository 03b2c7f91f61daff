"""``diffcourt waive`` and ``diffcourt override``: what a person accepts or decides, on record."""

import json
import os
import shutil
from functools import cache
from pathlib import Path

import pytest

from orchestrator.app.runs.stored_runs import load_verdict
from orchestrator.cli.main import main
from tests.review.review_kit import Repo, templates

SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
FILE = ".diffcourt/waivers.yaml"
RULE = "security.subprocess-shell"
REVIEW = ["review", "--base", "main", "--quiet"]


@cache
def _reviewed() -> Path:
    """A reviewed branch with one finding, of which each test gets a copy."""
    made = Repo(templates() / "waive")
    made.commit({"README.md": "# A project\n", ".gitignore": ".diffcourt/state/\n"})
    made.git("checkout", "-q", "-b", "feature")
    made.commit({"app.py": SHELL})
    assert main([*REVIEW, "--repo", str(made.path)]) == 1
    return made.path


@pytest.fixture
def repo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Repo:
    """A reviewed branch with one finding."""
    made = Repo(shutil.copytree(_reviewed(), tmp_path / "repo"))
    monkeypatch.chdir(made.path)
    capsys.readouterr()
    return made


def test_a_finding_is_waived_by_its_fingerprint_and_counts_once_it_is_in_base(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "waive",
        "F1",
        "--why",
        'It\'s "ours": # yes',
        "--by",
        "security-team",
        "--until",
        "2999-12-31",
    ]
    assert main(words) == 0
    printed = capsys.readouterr().out
    text = (repo.path / FILE).read_text()
    assert text.endswith(
        printed.removesuffix(f"Added to {FILE}; it takes effect once it is in the base branch.\n")
    )
    assert f"[{RULE}]" in text
    assert main(words) == 2
    assert "has that waiver already" in capsys.readouterr().err
    assert main(["waive", RULE, "--path", "tools/**", "--why", "By hand."]) == 0
    assert (repo.path / FILE).read_text().startswith(text)
    # In base it counts, in the change it does not.
    assert main([*REVIEW, "--worktree"]) == 1
    repo.git("stash", "-q", "--include-untracked")
    repo.git("checkout", "-q", "main")
    repo.git("stash", "pop", "-q")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "accept")
    repo.git("checkout", "-q", "feature")
    repo.git("rebase", "-q", "main")
    assert main(REVIEW) == 0
    (finding,) = [one for one in load_verdict(None, "latest").findings if one.rule == RULE]
    assert (finding.state, finding.waiver) == ("waived", 'It\'s "ours": # yes (security-team)')


def test_findings_in_any_name_and_bytes_are_waived_and_dismissed(repo: Repo) -> None:
    names = ["app/[id]/a.py", os.fsdecode(b"na\xefve.py"), "latin.py"]
    for name in names:
        (repo.path / name).parent.mkdir(parents=True, exist_ok=True)
        text = f"# coding: latin-1\n{SHELL}".replace("(x):", "(x):  # caf\xe9")
        (repo.path / name).write_bytes(text.replace("True)", "True)  # \xe9").encode("latin-1"))
    for command in ("checkout -q main", "checkout -qb other", "add -A", "commit -qm other"):
        repo.git(*command.split())
    assert main(REVIEW) == 1
    assert [main(["waive", f"F{n}", "--why", "Ours."]) for n in (1, 3)] == [0, 0]
    assert [main(["dismiss", f"F{n}", "--reason", "Ours."]) for n in (2, 3)] == [0, 0]
    for command in ("checkout -q main", "add -A", "commit -qm accept", "rebase -q main other"):
        repo.git(*command.split())
    assert main(REVIEW) == 0


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["F9", "--why", "x"], "has no finding F9; it has F1"),
        (["F1", "--why", "x", "--until", "soon"], "--until: soon is not a date"),
        (["F1", "--why", "x", "--until", "2020-01-01"], "--until: 2020-01-01 has passed"),
        (["F1", "--why", "x", "--path", "a"], "--path is for a rule or a fingerprint"),
        (["no.rule", "--why", "x"], "no.rule is not a finding (F3), fingerprint"),
        (["F1", "--why", " "], "is empty; name a reason"),
        (["F1", "--why", "x", "--run", "gone"], "gone"),
    ],
)
def test_an_invalid_waiver_is_one_line_and_writes_nothing(
    words: list[str], error: str, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    code: object = None
    try:
        code = main(["waive", *words])
    except SystemExit as exit_:
        code = exit_.code
    assert code == 2
    assert error in capsys.readouterr().err
    assert not (repo.path / FILE).exists()


def test_a_file_that_does_not_end_with_its_list_is_left_to_a_person(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    before = "waivers: [{rule: qa.syntax, why: x}]\n"
    (repo.path / ".diffcourt").mkdir(exist_ok=True)
    (repo.path / FILE).write_text(before)
    assert main(["waive", "F1", "--why", "x"]) == 2
    assert "add this by hand" in capsys.readouterr().err
    assert (repo.path / FILE).read_text() == before


def test_an_override_is_recorded_shown_exported_and_of_this_head_only(
    repo: Repo, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    computed = load_verdict(None, "latest")
    assert main(["override", "--reason", "The old client\nis gone."]) == 0
    printed = capsys.readouterr().out
    assert f"needs_changes is overridden to merge for head {computed.change.head[:12]}" in printed
    verdict = load_verdict(None, "latest")
    assert verdict.override is not None
    assert (verdict.verdict, verdict.digest) == ("needs_changes", computed.digest)
    assert (verdict.override.verdict, verdict.override.head) == ("merge", computed.change.head)
    assert main(["show"]) == 0
    assert "Override to merge by " in capsys.readouterr().out
    out = tmp_path / "verdict.json"
    assert main(["export", "--format", f"json={out}"]) == 0
    assert json.loads(out.read_text())["override"]["reason"] == "The old client\nis gone."
    assert main(["audit", "verify", "latest", "--verdict", str(out)]) == 0
    repo.commit({"app.py": SHELL + "X = 1\n"})
    assert main(REVIEW) == 1
    assert load_verdict(None, "latest").override is None


def test_the_outcome_that_a_run_has_already_is_no_override(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    to = ["override", "--reason", "x", "--verdict"]
    assert main([*to, "needs_changes"]) == 2
    assert "is needs_changes already; name another with --verdict" in capsys.readouterr().err
    assert main([*to, "merge"]) == 0
    assert main([*to, "merge"]) == 2
    assert main([*to, "needs_changes"]) == 0


def test_an_incomplete_review_cannot_be_overridden_to_merge(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.commit({"app.pas": "begin end.\n"})
    assert main(REVIEW) == 3
    capsys.readouterr()
    assert main(["override", "--reason", "x"]) == 2
    assert "incomplete is never merge" in capsys.readouterr().err
    assert main(["override", "--reason", "x", "--verdict", "block"]) == 0
