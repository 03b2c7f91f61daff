"""``diffcourt show`` tells of an agent that was cut and of a tool that is left alone."""

from orchestrator.app.runs.stored_runs import build_timeline
from orchestrator.engine.agent_tasks import Task, run_team
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.tool_registry import ToolPolicy
from orchestrator.engine.types import Observation
from orchestrator.report.runs_text import render_timeline
from tests.engine.engine_kit import (
    RUN,
    Echo,
    TurnModel,
    account,
    created,
    make_runtime,
    open_memory_journal,
    spec,
)
from tests.scripted_model import tool_call_reply


async def test_both_are_shown_with_their_reason() -> None:
    store = await created()
    broken = Echo(run=lambda arguments, context: Observation("no", ok=False))
    model = TurnModel(lambda request, turn: tool_call_reply(("echo", {"text": f"{turn}" * turn})))
    async with open_memory_journal(store) as journal:
        runtime = make_runtime(
            journal, model, broken, policy=ToolPolicy(failures={"*": 2}, pause={"*": 9})
        )
        task = Task(spec(), "go", Key.parse("1/act/worker"))
        await run_team([task], runtime, account(turns=20), concurrency=1)
    shown = " ".join(render_timeline(build_timeline(await store.rows(RUN)), 200).split())
    assert "open: it failed 2 times in a row; the last: failed" in shown
    assert "cut: echo failed the same way 4 times: tool_down" in shown
    assert "failed: it went round in circles: echo failed the same way 4 times" in shown
