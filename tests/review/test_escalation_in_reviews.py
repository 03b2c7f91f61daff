"""Whole reviews that escalate: who does and why, what a person is asked, and how it goes on."""

import json
from functools import partial
from pathlib import Path

import pytest

from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.catalog.model_config import load_models
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.human_questions import record_answer
from orchestrator.engine.journal import open_journal
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.types import Request, Response, Text
from orchestrator.errors import ModelError
from orchestrator.providers.model_selection import choose_model
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.review.review_kit import Repo, change, review
from tests.review.team_kit import TEAM, judged, looks, plan, report, scores, script, sums
from tests.scripted_model import ScriptedModel, text_reply, tool_call_reply

MODELS = load_models([read_shipped_layer()])
CHOOSE = partial(choose_model, MODELS, "anthropic", {})
DEAD = ModelError("the line went dead")
CHEAP_FIRST = "agents: {qa: {model: fast}, docs: {model: fast}, architecture: {model: fast}}\n"
FAST = ["fast", "fast-retry", "strong", "strongest", "human"]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    policy = {".diffcourt/config/defaults.yaml": CHEAP_FIRST}
    return change(tmp_path, policy, {"app.py": '"""An app."""\n\nNAME = "app"\n'})


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore(SystemClock())
    await store.create("run", 1.0, {})
    return store


async def say(store: MemoryStore, text: str, name: str = "") -> None:
    async with open_journal("run", store, SystemClock(), holder="a person") as journal:
        await record_answer(journal, name, text, who="someone", now=1_800_000_000.0)


def stage_changes(verdict: Verdict) -> list[tuple[str, int, str, str]]:
    return [(e.agent, e.iteration, e.from_stage, e.to_stage) for e in verdict.escalations]


async def test_a_task_that_fails_escalates_until_it_is_done_and_the_verdict_says_why(
    repo: Repo,
) -> None:
    broken = [text_reply("no JSON")] * 3
    calling = [looks("typos"), Response((), "refused")]
    model = ScriptedModel(script(docs=[DEAD, *broken, *calling, report()]))
    verdict = await review(repo, model, choose_model=CHOOSE)
    model.finish()
    assert stage_changes(verdict) == [("docs", 1, *FAST[n : n + 2]) for n in range(3)]
    assert [step.why.split(":")[0] for step in verdict.escalations] == [
        "the line went dead",
        "its report broke the contract",
        "the model's answer was refused",
    ]
    assert (verdict.stop.reason, verdict.status) == ("done", "complete")
    assert verdict.iterations[0].gaps == 0
    # What an attempt that failed has looked at is evidence all the same.
    keys = {call.id: call.key for call in verdict.calls}
    assert any(
        keys[ref].startswith("1/act/docs/attempt3/")
        for c in verdict.checked
        for ref in c.tool_calls
    )
    (docs,) = [agent for agent in verdict.agents if agent.agent == "docs"]
    assert (docs.status, docs.turns, docs.tool_calls) == ("ok", 7, 1)


async def test_a_guard_that_refuses_after_an_escalation_names_the_agent(repo: Repo) -> None:
    repeated = [looks("typos", "typos")] * 2
    other = tool_call_reply(("typos", {"paths": ["app.py", "app.py"]}))
    model = ScriptedModel(script(docs=[DEAD, *repeated, other, report()]))
    verdict = await review(repo, model, choose_model=CHOOSE)
    model.finish()
    assert stage_changes(verdict) == [("docs", 1, "fast", "fast-retry")]
    (ruling,) = [ruling for ruling in verdict.guards if ruling.layer == "tool"]
    assert (ruling.guard, ruling.action, ruling.agent) == ("repetition", "block", "docs")
    assert ruling.reason.startswith("typos was already called 3 times")


async def test_a_score_below_the_minimum_lets_the_next_task_begin_at_the_next_stage(
    repo: Repo,
) -> None:
    poor = scores(score=0)
    lines = script(lead=[plan(*TEAM), plan("security", "qa"), sums()], judge=[poor, scores()])
    lines["security"] += [report(summary="deeper")]
    lines["qa"] += [report(summary="deeper")]
    model = ScriptedModel(lines)
    verdict = await review(repo, model, adjust=judged, choose_model=CHOOSE)
    model.finish()
    assert stage_changes(verdict) == [
        ("qa", 2, "fast", "fast-retry"),
        ("security", 2, "strong", "strongest"),
    ]
    assert verdict.escalations[0].why == "the judge scored 0.00, below the minimum 0.5 of fast"
    again = {r.agent: r for r in model.requests if r.agent in {"qa", "security"}}
    assert again["security"].model == "claude-opus-5-5"
    _, role = again["qa"].messages[0].blocks  # the opening is the same for all agents
    assert isinstance(role, Text)
    assert any(stage.strategy and stage.strategy in role.text for stage in MODELS.stages)
    assert verdict.stop.reason == "done"


async def test_what_a_judge_leaves_out_spares_no_agent_the_next_stage(repo: Repo) -> None:
    partly = json.loads(scores(score=None).blocks[0].text)  # type: ignore[union-attr]
    partly["criteria"][2] |= {"score": 1, "missing": ["Trace the callers."]}
    partly["criteria"][4]["score"] = 0
    poor = text_reply(json.dumps(partly))
    lines = script(lead=[plan(*TEAM), plan("security", "qa"), sums()], judge=[poor, scores()])
    lines["security"] += [report(summary="deeper")]
    lines["qa"] += [report(summary="deeper")]
    model = ScriptedModel(lines)
    verdict = await review(repo, model, adjust=judged, choose_model=CHOOSE)
    model.finish()
    assert stage_changes(verdict) == [
        ("qa", 2, "fast", "fast-retry"),
        ("security", 2, "strong", "strongest"),
    ]


async def test_a_review_that_waits_scores_no_more_than_one_that_its_judge_found_worst(
    repo: Repo,
) -> None:
    missing = {"score": 0, "missing": ["Trace the callers."]}
    lines = script(lead=[plan(*TEAM), plan("docs"), sums()], judge=[scores(**missing)])
    lines["docs"] += [DEAD] * 4
    verdict = await review(repo, ScriptedModel(lines), adjust=judged, choose_model=CHOOSE)
    assert (verdict.stop.reason, verdict.confidence) == ("human", None)
    worst = verdict.iterations[0].score
    assert worst is not None
    assert verdict.score.total is not None
    assert verdict.score.total <= worst < verdict.score.threshold
    assert "the judge misses: Trace the callers." in verdict.stop.uncertain


async def test_a_task_of_a_later_round_begins_where_the_last_one_ended(repo: Repo) -> None:
    refused = tool_call_reply(("typos", {"files": "all"}))
    lines = script(lead=[plan(*TEAM), plan("docs")])
    lines["docs"] = [DEAD, DEAD, refused, report(), looks("typos"), report()]
    model = ScriptedModel(lines)
    verdict = await review(repo, model, choose_model=CHOOSE)
    model.finish()
    assert stage_changes(verdict) == [("docs", 1, *FAST[n : n + 2]) for n in range(2)]
    assert [r.model for r in model.requests if r.agent == "docs"][2:] == ["claude-sonnet-5-5"] * 4
    assert (verdict.stop.reason, len(verdict.iterations)) == ("done", 2)


async def test_a_person_is_the_last_stage_and_the_answer_continues_the_review(
    repo: Repo, store: MemoryStore
) -> None:
    first = ScriptedModel(script(docs=[DEAD] * 4))
    asked = await review(repo, first, store=store, choose_model=CHOOSE)
    first.finish()
    assert (asked.stop.reason, asked.status, asked.verdict) == (
        "human",
        "incomplete",
        "needs_changes",
    )
    assert asked.stop.next_human_action.endswith("diffcourt resume run --answer TEXT")
    (question,) = asked.questions
    assert (question.name, question.agent, question.answer) == ("1/act/docs", "docs", "")
    assert "the line went dead" in question.question
    assert [e.to_stage for e in asked.escalations] == FAST[1:]
    (docs,) = [agent for agent in asked.agents if agent.agent == "docs"]
    assert docs.status == "waiting"
    assert any(skip.tool == "docs" and skip.gap for skip in asked.skipped)
    assert {c.status for c in asked.required_checks} == {"ran", "not_applicable"}

    # Gone on with and no answer: the same is asked, and no model is.
    still = await review(repo, ScriptedModel({}), store=store, choose_model=CHOOSE)
    assert (still.stop, still.questions, still.digest) == (
        asked.stop,
        asked.questions,
        asked.digest,
    )

    await say(store, "It has no documentation on purpose.")
    last = ScriptedModel({"docs": [report()]})
    done = await review(repo, last, store=store, choose_model=CHOOSE)
    last.finish()
    assert "no documentation on purpose" in str(last.requests[0].messages[0])
    assert last.requests[0].model == "claude-opus-5-5"
    assert (done.stop.reason, done.status) == ("done", "complete")
    (question,) = done.questions
    assert (question.answer, question.answered_by) == (
        "It has no documentation on purpose.",
        "someone",
    )
    assert question.answered_at == "2027-01-15T08:00:00+00:00"
    replayed = await review(repo, ScriptedModel({}), store=store, choose_model=CHOOSE)
    assert replayed.digest == done.digest


async def test_several_questions_are_asked_at_once_and_answered_one_by_one(
    repo: Repo, store: MemoryStore
) -> None:
    lines = script(docs=[DEAD] * 4)
    lines["architecture"] = [DEAD] * 4
    asked = await review(repo, ScriptedModel(lines), store=store, choose_model=CHOOSE)
    assert [q.name for q in asked.questions] == ["1/act/architecture", "1/act/docs"]
    gaps = str([skip.why for skip in asked.skipped if skip.gap])
    assert all(question.question in gaps for question in asked.questions)
    assert "--to 1/act/architecture" in asked.stop.next_human_action
    await say(store, "Go on.", "1/act/docs")
    model = ScriptedModel({"docs": [report()]})
    asked = await review(repo, model, store=store, choose_model=CHOOSE)
    model.finish()
    assert [q.answer for q in asked.questions] == ["", "Go on."]
    assert asked.stop.reason == "human"
    await say(store, "Go on.")
    model = ScriptedModel({"architecture": [looks("api_breakage"), report()]})
    assert (await review(repo, model, store=store, choose_model=CHOOSE)).stop.reason == "done"
    model.finish()


@pytest.mark.parametrize(("agent", "name"), [("lead", "1/plan"), ("judge", "1/judge")])
async def test_a_lead_and_a_judge_that_fail_ask_as_well(
    repo: Repo, store: MemoryStore, agent: str, name: str
) -> None:
    lines = script(judge=[scores()])
    lines[agent] = [DEAD, DEAD]
    go = partial(review, repo, adjust=judged, store=store, choose_model=CHOOSE)
    asked = await go(ScriptedModel(lines))
    assert [q.name for q in asked.questions] == [name]
    assert stage_changes(asked) == [
        (agent, 1, "strong", "strongest"),
        (agent, 1, "strongest", "human"),
    ]
    assert agent in {report.agent for report in asked.agents if report.status == "waiting"}
    await say(store, "Try again.")
    rest = script(lead=[plan(*TEAM), sums()], judge=[scores()])
    model = ScriptedModel(rest if agent == "lead" else {"lead": [sums()], "judge": [scores()]})
    assert (await go(model)).stop.reason == "done"
    model.finish()


async def test_the_answer_to_a_blocking_question_is_looked_into(
    repo: Repo, store: MemoryStore
) -> None:
    asking = plan(*TEAM, open_questions=[{"question": "Is NAME public?", "blocking": True}])
    first = ScriptedModel(script(lead=[asking]))
    asked = await review(repo, first, store=store)
    first.finish()
    assert asked.stop.detail == "Is NAME public?"
    assert [q.name for q in asked.questions] == ["1/plan/question1"]
    await say(store, "No, and it must not be.")
    seen: list[str] = []

    def again(request: Request) -> Response:
        seen.append(str(request.messages[0]))
        return plan("architecture")

    last = ScriptedModel({"lead": [again], "architecture": [report(summary="it is not")]})
    done = await review(repo, last, store=store)
    last.finish()
    assert "No, and it must not be." in seen[0]
    assert (done.stop.reason, len(done.iterations)) == ("done", 2)
