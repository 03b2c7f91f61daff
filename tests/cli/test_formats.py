"""``--format``, ``--short``, ``diffcourt export`` and the files of a GitHub step."""

import json
import re
import resource
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.cli.review_output import write_job_files
from orchestrator.errors import OutputError
from tests.report.verdict_samples import verdict
from tests.review.review_kit import Repo, change

SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    made = change(tmp_path / "repo", {"app.py": "X = 1\n"}, {"app.py": SHELL})
    monkeypatch.chdir(made.path)
    return made


REVIEW = ("review", "--base", "HEAD~1", "--quiet")


def test_formats_go_to_files_and_to_standard_output_beside_the_report(
    repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = {name: tmp_path / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for name, file in step.items():
        file.write_text("before\n")
        monkeypatch.setenv(name, str(file))
    out = tmp_path / "out"
    out.mkdir()
    code = main(
        [
            *REVIEW[:-1],
            *(f"--format={name}={out / name}" for name in ("sarif", "json", "junit")),
            "--format",
            "github",
        ]
    )
    printed = capsys.readouterr()
    assert code == 1
    assert printed.out.startswith("::warning file=app.py,line=5,")
    assert "NEEDS CHANGES" in printed.err
    assert json.loads((out / "json").read_text())["exit_code"] == 1
    written = json.loads((out / "sarif").read_text())["runs"][0]
    assert written["results"][0]["ruleId"] == "security.subprocess-shell"
    assert "shell" in written["tool"]["driver"]["rules"][0]["help"]["markdown"]
    assert (
        step["GITHUB_STEP_SUMMARY"].read_text().startswith("before\n### Diffcourt: NEEDS CHANGES")
    )
    outputs = dict(line.split("=") for line in step["GITHUB_OUTPUT"].read_text().splitlines()[1:])
    assert outputs | {"run-id": ""} == {
        "verdict": "needs_changes",
        "status": "complete",
        "exit-code": "1",
        "findings": str(len(written["results"])),
        "run-id": "",
    }
    assert main(["export", "--format", f"sarif={out / 'again'}"]) == 0
    assert main(["export", str(out / "json"), "--format", f"junit={out / 'junit2'}"]) == 0
    assert (out / "again").read_text() == (out / "sarif").read_text()
    assert (out / "junit2").read_text() == (out / "junit").read_text()


def test_short_is_a_line_for_each_finding(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*REVIEW, "--short"]) == 1
    first, _, *lines, last = capsys.readouterr().out.splitlines()
    (at,) = [n for n, line in enumerate(lines) if line.startswith("Next     Start with F1 at ")]
    findings = [line for line in lines[:at] if line != "Also noticed:"]
    assert first == "NEEDS CHANGES by analyzers · nobody read it for logic"
    assert findings
    assert all(line.startswith("app.py:") for line in findings)
    assert re.fullmatch(r"NEEDS CHANGES  1 medium · exit 1 · diffcourt show \S+", last)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--format", "sarfi"), "there is no format 'sarfi'; did you mean sarif?"),
        (("--format", "sarif="), "--format sarif=: name a file after the equals sign"),
        (("--format", "junit", "--format", "sarif=-"), "two formats go to standard output"),
        (("--json", "v", "--format", "sarif=./v"), "two formats go to "),
        (("--format", "sarif=no/such/v"), "--format sarif: cannot write no/such/v"),
        (("--format", "sarif=."), "--format sarif: cannot write .: Is a directory"),
        (
            ("--json", "/proc/v"),
            "--json: cannot write /proc/v: No such file or directory; make its folder first",
        ),
        (("--format", "sarif", "--estimate"), "--estimate has no verdict to write"),
    ],
)
def test_a_wrong_format_is_one_line_before_any_work(
    words: tuple[str, ...], error: str, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*REVIEW, *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert error in line
    assert not (repo.path / ".diffcourt").exists()


def test_an_unwritable_output_does_not_prevent_the_others(
    repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, outputs = tmp_path / "verdict.json", tmp_path / "outputs"
    outputs.touch()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "missing"))
    monkeypatch.setenv("GITHUB_OUTPUT", str(outputs))
    words = ["--format", "sarif=/dev/full", "--format", f"json={out}"]
    assert main([*REVIEW, *words]) == 3
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert "cannot write /dev/full: No space left on device; cannot write " in line
    assert line.endswith("missing of GITHUB_STEP_SUMMARY: No such file or directory")
    assert json.loads(out.read_text())["verdict"] == "needs_changes"
    assert printed.out.startswith("NEEDS CHANGES")
    assert "verdict=needs_changes\n" in outputs.read_text()


def test_a_step_gets_its_summary_and_outputs_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {name: tmp_path / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for file in files.values():
        file.write_text("before\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))  # the disk is full in the middle
    try:
        with pytest.raises(OutputError, match=r"GITHUB_STEP_SUMMARY: .*GITHUB_OUTPUT: "):
            write_job_files(verdict(), {name: str(file) for name, file in files.items()})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [file.read_text() for file in files.values()] == ["before\n"] * 2


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "is not a verdict"),
        ('{"schema_version": "7.3"}', "is a verdict of schema version 7.3"),
        ('{"schema_version": "1.0", "run_id": 3}', "is not a valid verdict: Expected `str`"),
    ],
)
def test_a_file_that_is_no_verdict_is_one_line(
    content: str, error: str, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    (repo.path / "v.json").write_text(content)
    assert main(["export", "v.json", "--format", "sarif"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert error in line


def test_export_asks_for_a_format_and_for_a_run_that_is_there(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "latest"]) == 2
    assert main(["export", "nothing", "--format", "sarif"]) == 2
    assert main(["export", "nothing.json", "--format", "sarif"]) == 2
    assert main(["export", ".git/", "--format", "sarif"]) == 2
    first, second, third, fourth = capsys.readouterr().err.splitlines()
    assert "name a format with --format" in first
    assert "there is no run nothing" in second
    assert "cannot read the verdict nothing.json: No such file or directory; write one" in third
    assert "cannot read the verdict .git: Is a directory" in fourth
