"""Quotes of a finding are withheld when its file could not be searched for secrets."""

from pathlib import Path

import anyio
import pytest

from diffchecks import PREFIX
from orchestrator.code_review.analyzers.program_execution import Program
from orchestrator.code_review.findings import analyzer_findings
from orchestrator.code_review.findings.located_findings import AnalysisResult, LocatedFinding
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.tools.analyzer_tools import SideTool
from orchestrator.engine.ports import CallContext
from orchestrator.engine.types import Observation
from orchestrator.sandbox.worker_pool import WorkerPool
from tests.diffchecks.programs.program_tools import Ruff
from tests.review.review_kit import change, workspace_of

SECRET = "tuna" + "Salad41"
EVAL = f'def run(name):\n    return eval(name, password="{SECRET}")\n'
# Each of the markers is searched behind for the key that it announces: ten seconds, all in all.
SLOW = '"""\n' + "PuTTY-User-Key-File-2: \n" * 30_000 + '"""\n'


async def _looked(workspace: ReviewWorkspace, pool: WorkerPool) -> Observation:
    ruff = Ruff({"S307"}, Program("ruff", Ruff.package))
    tool = SideTool("ruff_security", "", [ruff], workspace, pool)
    return await tool.run({}, CallContext("", "", 60))


def _findings(seen: Observation) -> tuple[LocatedFinding, ...]:
    return AnalysisResult.from_json(seen.data).findings


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # it takes its time
async def test_a_file_whose_search_times_out_is_not_quoted_and_the_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analyzer_findings, "SECONDS", 1.0)
    repo = change(tmp_path, {}, {"app.py": EVAL, "slow.py": EVAL + SLOW})
    quotes = "diffchecks.redacted_text"
    async with (
        workspace_of(repo) as workspace,
        WorkerPool(1, prefix=PREFIX, modules=[quotes]) as pool,
    ):
        with anyio.fail_after(60):
            seen = await _looked(workspace, pool)
    good, bad = sorted(_findings(seen), key=lambda found: found.path)
    assert good.quote == EVAL.split("\n")[1].replace(SECRET, "[redacted]")
    assert (bad.path, bad.start_line, bad.quote) == ("slow.py", 2, "[withheld]")
    assert "redacted_text: ran longer than 1 s" in bad.detail
    assert SECRET not in repr((seen.content, seen.data))


async def test_nothing_is_quoted_when_no_worker_can_search_it(tmp_path: Path) -> None:
    closed = WorkerPool(1, prefix=PREFIX)
    async with workspace_of(change(tmp_path, {}, {"app.py": EVAL})) as workspace:
        seen = await _looked(workspace, closed)
    (found,) = _findings(seen)
    assert found.quote == "[withheld]"
    assert found.detail.endswith("(the workers are closed)")
    assert SECRET not in repr((seen.content, seen.data))


async def test_no_worker_is_needed_when_there_is_nothing_to_quote(tmp_path: Path) -> None:
    repo = change(tmp_path, {}, {"app.py": f'PASSWORD = "{SECRET}"\n'})
    async with workspace_of(repo) as workspace, WorkerPool(1, prefix=PREFIX) as pool:
        seen = await _looked(workspace, pool)
        assert not pool._slots
    assert _findings(seen) == ()
