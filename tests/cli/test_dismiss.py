"""``diffcourt dismiss``: what is remembered of a finding, and what cannot be dismissed."""

import json
from pathlib import Path

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.runs.stored_runs import load_verdict
from orchestrator.catalog.repository_memory import DismissalFile
from orchestrator.catalog.yaml_validation import read_yaml
from orchestrator.cli.main import main
from tests.cli.test_waive_and_override import REVIEW, RULE, SHELL, repo
from tests.review.memory_kit import FILE, commit_to_base
from tests.review.review_kit import Repo

__all__ = ["repo"]


def state_of(rule: str = RULE) -> tuple[str, str]:
    (found,) = [one for one in load_verdict(None, "latest").findings if one.rule == rule]
    return found.state, found.waiver


def to_base(repo: Repo) -> None:
    """Commit what was written to the base branch, and review again."""
    text = (repo.path / FILE).read_text()
    (repo.path / FILE).unlink()
    commit_to_base(repo, {FILE: text})


def test_a_dismissal_names_who_why_and_until_and_what_it_is_about(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["dismiss", "F1", "--reason", 'It\'s "ours": # yes', "--until", "2999-12-31"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    text = (repo.path / FILE).read_text()
    assert text.endswith(
        printed.removesuffix(f"Added to {FILE}; it takes effect once it is in the base branch.\n")
    )
    (one,) = read_yaml(DismissalFile, text.encode(), FILE).dismissed
    about = one.about
    assert about is not None
    assert (one.why, one.by, str(one.until)) == ('It\'s "ours": # yes', "", "2999-12-31")
    assert one.recorded_by == current_user().partition(" on ")[0] != ""
    assert one.on is not None
    assert (about.path, about.line, about.rule) == ("app.py", 5, RULE)
    assert (about.quote, about.scope) == ("    subprocess.run(x, shell=True)", "def run(x):")
    assert main(words) == 2
    assert "has that dismissal already" in capsys.readouterr().err
    assert main([*REVIEW, "--worktree"]) == 1  # not in base yet
    to_base(repo)
    assert main(REVIEW) == 0
    assert state_of() == ("waived", 'It\'s "ours": # yes')
    (use,) = load_verdict(None, "latest").memory
    assert (use.file, use.effect, use.findings) == (FILE, "dismissed", ("F1",))
    assert main(["show"]) == 0
    assert f"{FILE}: " in capsys.readouterr().out


@pytest.mark.parametrize(("scope", "elsewhere"), [("path", "open"), ("rule", "waived")])
def test_a_rule_is_dismissed_in_its_file_or_everywhere(
    scope: str, elsewhere: str, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dismiss", "F1", "--reason", "By hand.", "--scope", scope]) == 0
    to_base(repo)
    repo.commit({"app.py": f"{SHELL}\n\n{SHELL}", "tools/app.py": SHELL.replace("run(x)", "go(y)")})
    main(REVIEW)
    found = [(one.path, one.state) for one in load_verdict(None, "latest").findings
             if one.rule == RULE]  # fmt: skip
    assert sorted(found) == [
        ("app.py", "waived"), ("app.py", "waived"), ("tools/app.py", elsewhere),
    ]  # fmt: skip


CRITICAL = "from flask import request\n\n\ndef run():\n    return eval(request.args['x'])\n"


def test_a_critical_finding_takes_a_name(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    repo.commit({"app.py": CRITICAL})
    assert main(REVIEW) == 1
    capsys.readouterr()
    assert main(["dismiss", "F1", "--reason", "x"]) == 2
    assert "F1 is critical, so a person must accept it: give --by NAME" in capsys.readouterr().err
    assert not (repo.path / FILE).exists()
    assert main(["dismiss", "F1", "--reason", "x", "--by", "dana"]) == 0


WORDS = [
    (["F9", "--reason", "x"], "has no finding F9; it has F1"),
    (["F1", "--reason", "x", "--until", "soon"], "--until: soon is not a date"),
    (["F1", "--reason", "x", "--until", "2020-01-01"], "--until: 2020-01-01 has passed"),
    (["F1", "--reason", " "], "is empty; name a reason"),
    (["F1", "--reason", "x", "--scope", "all"], "invalid choice: 'all'"),
    (["F1", "--reason", "x", "--run", "gone"], "gone"),
    (["F1"], "--reason"),
]


def test_an_invalid_dismissal_is_one_line_and_writes_nothing(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, error in WORDS:
        code: object = None
        try:
            code = main(["dismiss", *words])
        except SystemExit as exit_:
            code = exit_.code
        said = capsys.readouterr().err
        assert (code, said.count("\n")) == (2, 1), words
        assert error in said
        assert not (repo.path / FILE).exists()


def test_a_rule_that_an_agent_made_up_cannot_be_dismissed(
    repo: Repo, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It would be an error in base, which ends every review."""
    verdict = load_verdict(None, "latest")
    file = tmp_path / "verdict.json"
    for rule in ("qa.reported", "qa.made-up"):
        found = replace(verdict.findings[0], rule=rule)
        file.write_text(json.dumps(to_builtins(replace(verdict, findings=(found,)))))
        for scope in ("path", "rule"):
            words = ["dismiss", "F1", "--reason", "x", "--run", str(file), "--scope", scope]
            assert main(words) == 2
            said = capsys.readouterr().err
            assert f"--scope {scope}: F1 has no known rule ({rule})" in said
            assert not (repo.path / FILE).exists()
    assert main(["dismiss", "F1", "--reason", "x", "--run", str(file)]) == 0


FILES = [
    ("dismissed.yaml", "dismissed: [{why: x}]\n", "one of the two"),
    ("dismissed.yaml", "dismissed: [{rule: no.such-rule, why: x}]\n", "no rule no.such-rule"),
    ("dismissed.yaml", f"dismissed: [{{rule: {RULE}, why: x, about: 3}}]\n", "about"),
    ("dismissals.yaml", "dismissed: []\n", "nothing reads this file; allowed: memory/conv"),
    (
        "preferences.md",
        "---\nrules: [{rule: no.such-rule, severity: low, why: x}]\n---\n",
        "no rule no.such-rule",
    ),
    (
        "preferences.md",
        f"---\nrules: [{{rule: {RULE}, severity: none, why: x}}]\n---\n",
        "severity",
    ),
    ("preferences.md", "---\nrules: []\n", "the front matter does not end"),
]


def test_an_error_in_the_memory_names_its_file(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text, error in FILES:
        commit_to_base(repo, {f".diffcourt/memory/{name}": text})
        assert main(REVIEW) == 2
        said = capsys.readouterr().err
        assert f".diffcourt/memory/{name}" in said
        assert error in said
        assert said.count("\n") == 1
        commit_to_base(repo, {f".diffcourt/memory/{name}": None})


def test_a_file_that_cannot_be_appended_to_is_unchanged(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    place = repo.path / FILE
    place.parent.mkdir(parents=True)
    for text in (f"dismissed: [{{rule: {RULE}, why: x}}]\n", "- nonsense\n"):
        place.write_text(text)
        assert main(["dismiss", "F1", "--reason", "x"]) == 2
        assert capsys.readouterr().err.startswith("diffcourt: ")
        assert place.read_text() == text
