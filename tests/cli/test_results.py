"""Where a result goes, and the exit code that tells of it."""

import argparse
import json
import os
import resource
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from msgspec import convert
from msgspec.structs import replace

from orchestrator.catalog.shared_literals import Outcome
from orchestrator.cli.arguments import Parser, add_arguments
from orchestrator.cli.main import main
from orchestrator.cli.output import OutputTarget
from orchestrator.cli.review_output import Outputs, open_progress, write_verdict
from orchestrator.code_review.verdict.model import (
    ChangeRef,
    Provenance,
    ReviewScore,
    RunUsage,
    Verdict,
    VerdictStop,
)
from orchestrator.engine.observer_events import Observer
from orchestrator.errors import InputError, OutputError
from orchestrator.report.formats import FORMATS
from orchestrator.report.terminal_escaping import as_json
from orchestrator.sandbox.worker_pool import WorkerPool


def verdict(
    outcome: Outcome = "merge",
    status: Literal["complete", "incomplete"] = "complete",
    base: str = "a",
) -> Verdict:
    return Verdict(
        run_id="r1",
        change=ChangeRef(base=base, head="b", files=0, added_lines=0, removed_lines=0),
        verdict=outcome,
        status=status,
        confidence=1,
        reasons=(),
        stop=VerdictStop(reason="done", detail="d", next_human_action="n"),
        score=ReviewScore(total=None, threshold=0.8, criteria=()),
        findings=(),
        rejected=(),
        checked=(),
        skipped=(),
        required_checks=(),
        next_actions=(),
        agents=(),
        iterations=(),
        usage=RunUsage(),
        provenance=Provenance(version="0", provider="offline", digests={}, analyzers={}),
    )


def test_an_unwritable_json_target_is_found_before_anything_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for target in (tmp_path / "no" / "v.json", tmp_path, tmp_path / ("n" * 300), Path("a\0b")):
        assert main(["review", "--json", str(target), "--diff", "no such file"]) == 2
        assert "--json: cannot write" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("file_modes_hold")
def test_a_write_protected_target_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "v.json"
    target.touch(0o444)
    with pytest.raises(InputError, match="Permission denied"):
        OutputTarget(str(target))


def test_json_is_replaced_whole_and_keeps_its_mode_and_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    target = OutputTarget(str(link))
    assert real.read_text() == "old"
    target.write(as_json({"name": "\udcff é", "n": 1}))
    assert link.is_symlink()
    assert json.loads(real.read_text("ascii")) == {"name": "\\xff é", "n": 1}
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "real.json"]


@pytest.mark.parametrize("name", ["verdict.json", "out/verdict.json", "hook.json"])
def test_no_link_of_a_checkout_leads_the_verdict_out_of_it(tmp_path: Path, name: str) -> None:
    home, repo = tmp_path / "home", tmp_path / "repo"
    home.mkdir()
    (home / "profile").write_text("mine")
    (repo / ".git" / "hooks").mkdir(parents=True)
    (repo / "verdict.json").symlink_to(home / "profile")
    (repo / "out").symlink_to(home)
    (repo / "hook.json").symlink_to(".git/hooks/pre-push")
    with pytest.raises(InputError, match="leads out of the checkout through a symbolic link"):
        OutputTarget(str(repo / name))
    assert [path.read_text() for path in home.iterdir()] == ["mine"]
    (repo / "real.json").write_text("old")
    (repo / "link.json").symlink_to("real.json")
    OutputTarget(str(repo / "link.json")).write("[]")
    assert json.loads((repo / "real.json").read_text()) == []


def test_a_failed_write_leaves_the_old_file_and_no_scraps(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_text("old")
    target = OutputTarget(str(path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        with pytest.raises(OutputError, match="File too large"):
            target.write("new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_a_full_disk_is_an_error_of_its_own() -> None:
    target = OutputTarget("/dev/full")
    with pytest.raises(OutputError, match="No space left"):
        target.write("{}")


def test_a_named_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        OutputTarget(str(pipe)).write('{"a": 1}')
        assert json.loads(reader.communicate(timeout=20)[0]) == {"a": 1}
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def result_args(*argv: str) -> argparse.Namespace:
    parser = Parser(prog="diffcourt resume")
    add_arguments(parser, "resume")
    return parser.parse_args(argv)


def deliver(
    args: argparse.Namespace, outputs: Outputs, work: Callable[[Observer, WorkerPool], Verdict]
) -> int:
    """What a command does with a review."""
    with open_progress(args) as (observer, pool):
        found = work(observer, pool)
    return write_verdict(args, outputs, found)


def test_a_result_is_a_report_on_stdout_and_progress_on_stderr(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "v.json"

    def work(observer: Observer, pool: WorkerPool) -> Verdict:
        from orchestrator.engine.observer_events import Event

        observer(Event("state", 0.0, detail="act"))
        return verdict("block", base="n\udcffme")

    assert deliver(result_args("--json", str(path)), Outputs([], str(path)), work) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith("BLOCK")
    assert "act" in captured.err
    written = convert(json.loads(path.read_text()), Verdict)
    assert written == replace(verdict("block", base="n\\xffme"), exit_code=1)


def test_json_on_stdout_moves_the_report_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert deliver(result_args("--json", "-"), Outputs([], "-"), lambda *_: verdict()) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["verdict"] == "merge"
    assert "NOTHING TO REVIEW" in captured.err


def test_quiet_leaves_the_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    args = result_args("--json", "-", "--quiet")
    assert deliver(args, Outputs([], "-"), lambda *_: verdict()) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["verdict"] == "merge"
    assert captured.err == ""


def test_how_a_review_went_is_printed_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    assert deliver(result_args("--quiet"), Outputs([]), lambda *_: verdict()) == 0
    assert capsys.readouterr().out == (
        "NOTHING TO REVIEW · no file is changed\n"
        "Verdict  merge   review complete   no findings\n"
        "Change   a..b   0 files   +0 -0\n"
        "Finished: d.\n"
        "Agents, checks and usage: diffcourt show r1\n"
    )
    assert deliver(result_args("--quiet", "--verbose"), Outputs([]), lambda *_: verdict()) == 0
    assert "\nUsed     time 0 ms   iterations 0   tool calls 0" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        result_args("--full", "--verbose")


def test_the_last_line_names_the_exit_code_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    args = result_args("--quiet", "--fail-on", "never")
    assert deliver(args, Outputs([]), lambda *_: verdict("block")) == 0
    assert capsys.readouterr().out.endswith("\nBLOCK  no findings · exit 0 · diffcourt show r1\n")


def test_a_patch_without_a_repository_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    patch = ChangeRef(
        base="before ../p.diff", head="../p.diff", files=0, added_lines=0, removed_lines=0
    )
    deliver(result_args("--quiet"), Outputs([]), lambda *_: replace(verdict(), change=patch))
    assert capsys.readouterr().out.splitlines()[2] == "Change   ../p.diff   0 files   +0 -0"


def test_a_file_that_is_no_report_is_not_replaced(tmp_path: Path) -> None:
    for name in ("a.py", "Dockerfile.dev", "v.json", "V.XML", "report", "a.csv"):
        (tmp_path / name).touch()
    for option, name in (("--json", "a.py"), ("--format sarif", "Dockerfile.dev")):
        with pytest.raises(
            InputError, match="exists, and by its name is no report; name another file"
        ):
            OutputTarget(str(tmp_path / name), option)
    for name in ("v.json", "V.XML", "report", "new.py", "/dev/null"):
        OutputTarget(str(tmp_path / name))
    for name in FORMATS:
        (tmp_path / f"v.{name}").touch()
        OutputTarget(str(tmp_path / f"v.{name}"), f"--format {name}")
    OutputTarget(str(tmp_path / "a.csv"), "--csv")
