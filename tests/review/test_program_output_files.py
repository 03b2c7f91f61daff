"""What programs print: kept beside the run, bounded, without secrets, and no part of the digest."""

import hashlib
import os
from pathlib import Path

import pytest

from orchestrator.app.check_worker_startup import new_pool
from orchestrator.app.run_review import run_review
from orchestrator.app.runs.run_archive import export_run, import_run
from orchestrator.app.runs.stored_runs import prune_runs
from orchestrator.code_review.tools import program_output_files
from orchestrator.code_review.tools.program_output_files import ProgramOutputs
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.program_output_collection import ProgramOutput
from orchestrator.engine.secret_redaction import Redactor
from tests.review.review_kit import change, options

SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"


def test_the_verdict_points_to_what_the_programs_of_each_call_printed(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"app.py": SHELL})
    verdict = run_review(options(repo.path, no_cache=True), ignore_event)
    again = run_review(options(repo.path, no_cache=True), ignore_event)
    assert again.digest == verdict.digest
    run = repo.path / ".diffcourt/state/runs" / verdict.run_id
    (ruff,) = (artifact for artifact in verdict.artifacts if artifact.name == "ruff_security")
    assert ruff.tool_call.endswith("/ruff_security")
    assert {name for name, _ in ruff.exit_statuses} == {"ruff"}
    for artifact in verdict.artifacts:
        data = (run / artifact.path).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (artifact.sha256, artifact.bytes)
    assert "S602" in (run / ruff.path).read_text()

    export_run(repo.path, verdict.run_id, tmp_path / "exported")
    assert "S602" in (tmp_path / "exported" / ruff.path).read_text()
    other = change(tmp_path / "other", {}, {"app.py": SHELL})
    (tmp_path / "exported" / verdict.artifacts[0].path).write_text("altered\n")
    import_run(other.path, tmp_path / "exported")
    imported = other.path / ".diffcourt/state/runs" / verdict.run_id
    there = {artifact.path for artifact in verdict.artifacts if (imported / artifact.path).exists()}
    assert there == {artifact.path for artifact in verdict.artifacts[1:]}
    prune_runs(repo.path, 0, None)
    assert not run.exists()


async def test_outputs_are_bounded_and_hold_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    redact = Redactor(["our-own-provider-key"])
    token = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"[::-1]
    printed = ProgramOutput("x", 1, f"{token} our-own-provider-key".encode(), b"\xff\x00\n")
    silent = ProgramOutput("y", 0, b"", b"")
    async with new_pool() as pool:
        outputs = ProgramOutputs(tmp_path, pool, redact)
        kept = await outputs.keep("1/act/a/turn1/tool1/../x", [printed, silent])
        assert kept["programs"] == [["x", 1], ["y", 0]]
        text = (tmp_path / kept["file"]["path"]).read_text()
        assert token not in text
        assert "our-own-provider-key" not in text
        assert "\\xff" in text
        assert (tmp_path / kept["file"]["path"]).parent == tmp_path / "outputs"
        assert await outputs.keep("b", [silent]) == {"programs": [["y", 0]]}
        large = ProgramOutput("x", 0, b"a" * 1_000_000, b"")
        kept = await outputs.keep("c", [large])
        assert kept["file"]["bytes"] < 70_000
        monkeypatch.setattr(program_output_files, "MAX_FILES", 2)
        assert "file" not in await outputs.keep("d", [large])
        assert len(os.listdir(tmp_path / "outputs")) == 2
