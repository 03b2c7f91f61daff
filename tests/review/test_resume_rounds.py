"""A review of several rounds is gone on with where it stood, and takes the same way again."""

from functools import partial
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from orchestrator.app.human_decisions.run_decisions import record_grant
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.forking import Fork, fork_run
from orchestrator.app.runs.verdict_recording import record_verdict
from orchestrator.catalog.settings import ReviewSettings, RunBounds
from orchestrator.engine.journal import open_journal
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.types import Request, Response, Usage
from orchestrator.errors import ModelError
from orchestrator.report.verdict_text import render_verdict
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.review.review_kit import bounded, change, options, review
from tests.review.team_kit import TEAM, claim, plan, report, script, sums
from tests.review.test_responses import name_of
from tests.scripted_model import ScriptedModel, ScriptedReply, tool_call_reply

LOW = RunBounds(iterations=3, tool_calls=500, tokens=10**9, usd=0.75, minutes=30)


async def test_rows_of_a_later_iteration_do_not_change_an_earlier_decision(tmp_path: Path) -> None:
    repo = change(tmp_path, {}, {"app.py": '"""An app."""\n\nNAME = "app"\n'})
    store = MemoryStore(SystemClock())
    await store.create("run", 1.0, {})
    failing = script(lead=[plan(*TEAM), plan("docs")], docs=[ModelError("once"), report()])
    first = await review(repo, ScriptedModel(failing), store=store)
    again = await review(repo, ScriptedModel({}), store=store)
    assert [iteration.number for iteration in again.iterations] == [1, 2]
    assert again.digest == first.digest


async def test_a_report_that_was_sent_back_is_sent_back_again_though_its_evidence_came_later(
    tmp_path: Path,
) -> None:
    repo = change(tmp_path, {}, {"app.py": '"""An app."""\n\nNAME = "app"\n'})
    store = MemoryStore(SystemClock())
    await store.create("run", 1.0, {})
    seen = {"source": "tool", "name": "read_file", "quote": 'NAME = "app"'}
    dispute = {
        "finding": name_of(claim()),
        "action": "dispute",
        "reason": "No.",
        "evidence": [seen],
    }
    said = report(findings=[claim()], responses=[dispute])
    looks = tool_call_reply(("read_file", {"path": "app.py"}))

    with anyio.CancelScope() as run:

        def interrupted(request: Request) -> Response:
            run.cancel()
            return tool_call_reply(("read_file", {"path": "README.md"}))

        await review(repo, ScriptedModel(script(docs=[said, looks, interrupted])), store=store)
    assert run.cancelled_caught
    model = ScriptedModel({**script(), "lead": [plan(*TEAM)], "docs": [said]})
    verdict = await review(repo, model, store=store)
    (docs,) = [agent for agent in verdict.agents if agent.agent == "docs"]
    assert (docs.status, docs.turns) == ("ok", 4)


async def test_a_finding_dropped_at_any_state_of_two_iterations_counts_no_more(
    tmp_path: Path,
) -> None:
    repo = change(tmp_path, {}, {"app.py": '"""An app."""\n\nNAME = "app"\n'})
    said = report(findings=[claim()])
    lines = script(lead=[plan(*TEAM), plan("docs"), sums()], docs=[ModelError("once"), report()])
    lines["security"] = [said, said]
    with state_directory.open_store(repo.path) as store:
        await store.create("run", 1.0, {"options": options(repo.path).as_meta()})
        first = await review(repo, ScriptedModel(lines), store=store)
        async with open_journal("run", store, SystemClock(), holder="test") as journal:
            record_verdict(journal, first)
    (finding,) = [one for one in first.findings if one.title == "A constant"]
    assert (finding.state, len(first.iterations)) == ("open", 2)
    for at in ("5", "6", "7", "8", "Triage", "Act", "Synthesize", "Evaluate"):
        fork = Fork("run", at, dropped=[finding.id])
        forked = await anyio.to_thread.run_sync(fork_run, repo.path, fork)
        lines["lead"] = [plan("docs"), sums()] if at.isdigit() else [sums()]
        with state_directory.open_store(repo.path) as store:
            again = await review(repo, ScriptedModel(lines), store=store, run_id=forked)
            replayed = await review(repo, ScriptedModel({}), store=store, run_id=forked)
        states = {one.title: one.state for one in again.findings}
        assert states["A constant"] == "waived", at
        assert replayed.digest == again.digest, at
        fork = Fork(forked, "Evaluate")  # what this one drops stays dropped in forks of it
        twice = await anyio.to_thread.run_sync(fork_run, repo.path, fork)
        with state_directory.open_store(repo.path) as store:
            last = await review(repo, ScriptedModel({"lead": [sums()]}), store=store, run_id=twice)
        assert {one.title: one.state for one in last.findings} == states, at


async def test_what_a_limit_cut_off_is_done_when_the_limit_is_raised_though_the_lead_forgets_it(
    tmp_path: Path,
) -> None:
    repo = change(tmp_path, {}, {"app.py": '"""An app."""\n\nNAME = "app"\n'})
    store = MemoryStore(SystemClock())
    await store.create("run", 1.0, {})
    paid = Response(report().blocks, "end", Usage(usd=0.2))
    lines = {"lead": [plan(*TEAM)], **{name: [paid] for name in TEAM}}
    worst, low = Usage(usd=0.3), partial(bounded, usd=0.75)
    first = await review(repo, ScriptedModel(lines, worst=worst), store=store, adjust=low)
    assert first.stop.reason == "budget"
    cut = {one.agent for one in first.agents if one.status == "budget"}
    assert cut
    assert "--max-usd N" in first.stop.next_human_action
    async with open_journal("run", store, SystemClock(), holder="test") as journal:
        await record_grant(journal, LOW, {"max_usd": 9.0})
    model = ScriptedModel({**lines, "lead": [plan(), sums()]}, worst=worst)
    done = await review(repo, model, store=store, adjust=partial(bounded, usd=9.0))
    assert {one.agent for one in done.agents if one.status == "ok"} >= cut
    assert done.stop.reason != "budget"
    assert "0.75" not in done.stop.detail


async def test_analyzers_that_a_limit_cut_off_run_when_it_is_raised_and_replay_alike(
    tmp_path: Path,
) -> None:
    repo = change(tmp_path, {}, {"app.py": "NAME = eval(input())\n"})
    store = MemoryStore(SystemClock())
    await store.create("run", 1.0, {})
    calls = [1, 6, 500]
    for before, most in zip([0, *calls], calls, strict=False):
        if before:
            limits = RunBounds(iterations=9, tool_calls=before, tokens=10**9, usd=9.0, minutes=30)
            async with open_journal("run", store, SystemClock(), holder="test") as journal:
                await record_grant(journal, limits, {"max_tool_calls": float(most)})
        lead: list[ScriptedReply] = [plan(*TEAM)] if most == calls[0] else [plan(), sums()]
        limited = partial(bounded, tool_calls=most)
        model = ScriptedModel(script(lead=lead))
        verdict = await review(repo, model, store=store, adjust=limited)
        assert (verdict.stop.reason == "budget") == (most < calls[-1])
    assert {check.status for check in verdict.required_checks} <= {"ran", "not_applicable"}
    assert [finding.path for finding in verdict.findings if finding.rule == "security.eval"]
    again = await review(repo, ScriptedModel({}), store=store, adjust=limited)
    assert again.digest == verdict.digest


@pytest.mark.parametrize("pattern", ["team", "single"])
async def test_a_limit_that_nothing_fits_leaves_no_trace_when_it_is_raised(
    tmp_path: Path, pattern: Literal["team", "single"]
) -> None:
    repo = change(tmp_path, {}, {"app.py": '"""An app."""\n\nNAME = "app"\n'})
    store = MemoryStore(SystemClock())
    await store.create("run", 1.0, {})
    paid = Response(report().blocks, "end", Usage(usd=0.02))
    lines = {name: [paid] for name in (*TEAM, "generalist")} | {"lead": [plan(*TEAM), sums()]}
    limits = [0.001, 0.002, 0.003, 0.004, 9.0]
    for before, usd in zip([0.0, *limits], limits, strict=False):
        if before:
            async with open_journal("run", store, SystemClock(), holder="test") as journal:
                await record_grant(journal, replace(LOW, usd=before), {"max_usd": usd})
        model = ScriptedModel(lines if usd == 9 else {}, worst=Usage(usd=0.3))

        def limited(settings: ReviewSettings, usd: float = usd) -> ReviewSettings:
            return replace(bounded(settings, usd=usd), pattern=pattern)

        verdict = await review(repo, model, store=store, adjust=limited)
        assert (verdict.stop.reason == "budget") == (usd < 9)
    assert (verdict.stop.reason, verdict.status, verdict.verdict) == ("done", "complete", "merge")
    assert "the limit is" not in render_verdict(verdict)
