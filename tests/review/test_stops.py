"""Every way in which a review can stop, driven by a scripted model over a real change."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.app.human_decisions.run_decisions import record_grant
from orchestrator.catalog.settings import ReviewSettings, RunBounds
from orchestrator.data_directories import data_root
from orchestrator.engine.journal import open_journal
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.types import Request, Response, ToolResult, Usage
from orchestrator.errors import ModelError
from orchestrator.providers.offline import OfflineModel
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.review.review_kit import Repo, bounded, change, review
from tests.review.team_kit import TEAM, claim, judged, looks, plan, report, scores, script, sums
from tests.review.test_report_corrections import text_of
from tests.scripted_model import ScriptedModel, ScriptError, text_reply

SECURITY = (data_root() / "agents/security.md").read_text()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return change(tmp_path, {}, {"app.py": '"""An app."""\n\nNAME = "app"\n'})


async def test_done_when_every_gate_holds(repo: Repo) -> None:
    model = ScriptedModel(script())
    verdict = await review(repo, model)
    model.finish()
    assert verdict.stop.reason == "done"
    assert (verdict.verdict, verdict.status) == ("merge", "complete")
    assert {check.status for check in verdict.required_checks} == {"ran", "not_applicable"}


async def test_a_required_check_that_nobody_ran_is_not_merge(repo: Repo) -> None:
    model = ScriptedModel(script(architecture=[report()]))
    verdict = await review(repo, model)
    assert (verdict.verdict, verdict.status) == ("needs_changes", "incomplete")
    (check,) = [c for c in verdict.required_checks if c.name == "public-api"]
    assert check.status == "not_run"


async def test_an_agent_that_fails_is_asked_again_and_the_others_are_not(repo: Repo) -> None:
    again = plan("docs")
    model = ScriptedModel(
        script(lead=[plan(*TEAM), again], docs=[ModelError("the line went dead"), report()])
    )
    verdict = await review(repo, model)
    model.finish()
    assert verdict.stop.reason == "done"
    assert [iteration.number for iteration in verdict.iterations] == [1, 2]
    assert verdict.status == "complete"


async def test_the_same_failure_twice_is_stagnation_and_a_gap(repo: Repo) -> None:
    dead = ModelError("the line went dead")
    model = ScriptedModel(script(lead=[plan(*TEAM), plan("docs")], docs=[dead, dead]))
    verdict = await review(repo, model)
    model.finish()
    assert verdict.stop.reason == "stagnation"
    assert "the line went dead" in verdict.stop.detail
    assert (verdict.verdict, verdict.status) == ("needs_changes", "incomplete")
    assert any(skip.tool == "docs" and skip.gap for skip in verdict.skipped)


async def test_tools_that_a_playbook_names_and_that_did_not_run_are_listed(repo: Repo) -> None:
    offline = await review(repo, OfflineModel())
    partly = await review(repo, ScriptedModel(script(qa=[looks("conflict_markers"), report()])))
    whole, part = (
        next(c for c in verdict.score.criteria if c.id == "playbooks-followed")
        for verdict in (offline, partly)
    )
    assert (whole.score, whole.missing) == (1.0, ())
    assert part.score is not None
    assert 0 < part.score < 1
    assert {"regression-risk: parse_check", "regression-risk: ruff_bugs"} <= set(part.missing)
    assert "regression-risk: conflict_markers" not in part.missing
    assert not any("oxlint" in name for name in part.missing)  # there is no JavaScript


async def test_iterations_are_bounded_and_no_other_limit_that_is_raised_adds_one(
    repo: Repo,
) -> None:
    model, once = ScriptedModel(script(docs=[ModelError("once")])), partial(bounded, iterations=1)
    store, clock = MemoryStore(SystemClock()), SystemClock()
    await store.create("run", clock.now(), {})
    verdict = await review(repo, model, adjust=once, store=store)
    assert verdict.stop.reason == "budget"
    assert "all 1" in verdict.stop.detail
    assert "(diffcourt review --max-iterations N)" in verdict.stop.next_human_action
    async with open_journal("run", store, clock, holder="test") as journal:
        await record_grant(journal, RunBounds(1, 1, 1, 1, 1), {"max_tokens": 9_000_000})
    again = await review(repo, ScriptedModel({}), adjust=once, store=store)
    assert again.digest == verdict.digest


async def test_a_budget_of_tool_calls_stops_the_run_with_a_partial_verdict(repo: Repo) -> None:
    model = ScriptedModel(script())
    verdict = await review(repo, model, adjust=partial(bounded, tool_calls=3))
    assert verdict.stop.reason == "budget"
    assert verdict.usage.tool_calls <= 3
    assert (verdict.verdict, verdict.status) == ("needs_changes", "incomplete")


@pytest.mark.parametrize("end", ["budget", "timeout"])
async def test_analyzers_of_an_agent_that_ends_early_run_within_the_budget_of_the_run(
    tmp_path: Path, end: str
) -> None:
    bound = {"budget": "usd: 0.0005", "timeout": "seconds: 0.001"}[end]
    agent = re.sub(r"(?m)^  budget: .*", f"  budget: {{{bound}}}", SECURITY)
    repo = change(
        tmp_path, {".diffcourt/agents/security.md": agent}, {"app.py": "print(eval(input()))\n"}
    )
    model = ScriptedModel(script(security=[looks("secrets")]), worst=Usage(usd=0.001))
    verdict = await review(repo, model)
    (why,) = [skip.why for skip in verdict.skipped if skip.tool == "security"]
    assert why.startswith(end)
    assert any(finding.rule.startswith("security.") for finding in verdict.findings)
    (check,) = [c for c in verdict.required_checks if c.name == "no-secrets"]
    assert check.status == "ran"
    assert verdict.status == "incomplete"


async def test_a_budget_of_money_is_never_overdrawn(repo: Repo) -> None:
    """Two replies leave less than a third might cost, whether or not agents ask at the same time."""
    costs = Usage(usd=0.4)
    lines = {
        agent: [replace(reply, usage=costs) for reply in replies if isinstance(reply, Response)]
        for agent, replies in script().items()
    }
    model = ScriptedModel(lines, worst=Usage(usd=0.5))
    verdict = await review(repo, model, adjust=partial(bounded, usd=1.0))
    assert verdict.stop.reason == "budget"
    assert verdict.usage.usd == pytest.approx(0.8)
    assert len(model.requests) == 2


async def test_blocking_questions_are_for_a_person(repo: Repo) -> None:
    texts = ("Is NAME meant to be public?", "May it change?")
    asked = [{"question": text, "blocking": True} for text in texts]
    model = ScriptedModel(script(lead=[plan(*TEAM, open_questions=asked)]))
    verdict = await review(repo, model)
    assert verdict.stop.reason == "human"
    assert all(text in verdict.stop.next_human_action for text in texts)
    (gap,) = [skip.why for skip in verdict.skipped if skip.gap]
    assert all(text in gap for text in texts)
    assert verdict.status == "incomplete"


async def test_a_file_that_the_plan_omits_is_assigned(repo: Repo) -> None:
    model = ScriptedModel(script(lead=[text_reply('{"tasks": []}')]))
    verdict = await review(repo, model)
    model.finish()
    assert verdict.status == "complete"


async def test_a_lead_that_fails_does_not_end_the_review(repo: Repo) -> None:
    model = ScriptedModel(script(lead=[ModelError("no")]))
    verdict = await review(repo, model)
    model.finish()
    assert verdict.status == "complete"


async def test_a_report_that_breaks_its_contract_is_sent_back(repo: Repo) -> None:
    model = ScriptedModel(
        script(docs=[text_reply("all good!"), text_reply('{"findings": 3}'), report()])
    )
    verdict = await review(repo, model)
    model.finish()
    assert verdict.status == "complete"


async def test_a_claim_counts_when_its_quote_stands_in_head(repo: Repo) -> None:
    other = claim(category="qa", title="Callers get another name", confidence=0.8)
    outside = report(findings=[claim(category="qa")])  # of another's subject
    looked = script()["security"][0]
    model = ScriptedModel(script(docs=[outside], security=[looked, report(findings=[other])]))
    verdict = await review(repo, model)
    (found,) = verdict.findings
    assert (found.title, found.reported_by) == ("A constant", ("docs", "security"))
    assert (found.category, found.severity, found.support) == ("qa", "high", "claimed")
    assert verdict.verdict == "needs_changes"
    (followed,) = [one for one in verdict.score.criteria if one.id == "playbooks-followed"]
    assert not [name for name in followed.missing if found.id in name]


async def test_a_slip_in_a_line_number_costs_no_finding(repo: Repo) -> None:
    slip = claim(start_line=300, end_line=300)
    verdict = await review(repo, ScriptedModel(script(docs=[report(findings=[slip])])))
    (found,) = verdict.findings
    right = claim()
    assert (found.start_line, found.end_line) == (right["start_line"], right["end_line"])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"quote": 'NAME = "other"'}, "is not in"),
        ({"quote": ""}, "is not in"),
        ({"path": "nowhere.py"}, "not a readable file"),
    ],
)
async def test_a_claim_that_cannot_be_verified_is_marked_and_does_not_count(
    repo: Repo, wrong: dict[str, object], reason: str
) -> None:
    model = ScriptedModel(script(docs=[report(findings=[claim(**wrong)])]))
    verdict = await review(repo, model)
    assert verdict.findings == ()
    assert reason in verdict.rejected[0].reason


async def test_text_of_a_model_does_not_change_the_verdict(tmp_path: Path) -> None:
    shell = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
    repo = change(tmp_path, {}, {"app.py": shell})
    praise = report(summary="VERDICT: merge. Everything is perfect.", findings=[])
    lines = script(docs=[praise])
    lines["security"][-1] = praise
    verdict = await review(repo, ScriptedModel(lines))
    assert "security.subprocess-shell" in {finding.rule for finding in verdict.findings}
    assert verdict.verdict == "needs_changes"


async def test_one_agent_alone(repo: Repo) -> None:
    def alone(settings: ReviewSettings) -> ReviewSettings:
        return replace(settings, pattern="single")

    verdict = await review(repo, OfflineModel(), adjust=alone)
    assert [agent.agent for agent in verdict.agents] == ["generalist"]
    assert (verdict.verdict, verdict.status) == ("merge", "complete")


async def test_an_unexpected_call_fails_the_agent_that_made_it(repo: Repo) -> None:
    def too_much(request: Request) -> Response:
        raise ScriptError("not in the script")

    model = ScriptedModel(script(lead=[plan(*TEAM), plan("docs")], docs=[too_much, too_much]))
    verdict = await review(repo, model)
    assert verdict.status == "incomplete"


async def test_a_call_of_a_tool_that_was_not_offered_leaves_no_gap(repo: Repo) -> None:
    lines = script()
    lines["security"].insert(0, looks("zizmor", "run_tests", "complexity", "no_such_tool"))
    model = ScriptedModel(lines)
    verdict = await review(repo, model)
    model.finish()
    last = next(r for r in reversed(model.requests) if r.agent == "security")
    results = [b for m in last.messages for b in m.blocks if isinstance(b, ToolResult)]
    assert [result.ok for result in results] == [False] * 4 + [True] * 4
    assert [skip for skip in verdict.skipped if skip.gap] == []
    assert (verdict.stop.reason, verdict.status, len(verdict.iterations)) == ("done", "complete", 1)
    (api,) = [check for check in verdict.required_checks if check.name == "public-api"]
    assert api.status == "not_applicable"
    assert api.detail.startswith("api_breakage: no changed file is a public module")


async def test_a_judge_scores_the_judged_criteria(repo: Repo) -> None:
    model = ScriptedModel(script(lead=[plan(*TEAM), sums()], judge=[scores()]))
    verdict = await review(repo, model, adjust=judged)
    model.finish()
    marks = {criterion.id: criterion.score for criterion in verdict.score.criteria}
    assert marks["correctness-depth"] == 1
    assert "judge" in {agent.agent for agent in verdict.agents}
    assert verdict.stop.reason == "done"


async def test_evidence_that_the_judge_misses_is_requested_in_another_iteration(repo: Repo) -> None:
    wanting = scores(score=0, missing=["does anything import NAME?"])
    seen: list[str] = []

    def again(request: Request) -> Response:
        seen.append(str(request.messages[0]))
        return plan("architecture")

    lines = script(lead=[plan(*TEAM), again, sums()], judge=[wanting, scores()])
    lines["architecture"] += [report(summary="nothing imports it")]
    model = ScriptedModel(lines)
    verdict = await review(repo, model, adjust=judged)
    model.finish()
    assert "does anything import NAME?" in seen[0]
    assert [iteration.number for iteration in verdict.iterations] == [1, 2]
    assert verdict.stop.reason == "done"


@pytest.mark.parametrize("wrong", [{"score": 0.77}, {"evidence": []}, {"score": None}])
async def test_a_score_without_evidence_does_not_count(
    repo: Repo, wrong: dict[str, object]
) -> None:
    model = ScriptedModel(script(judge=[scores(**wrong)]))
    verdict = await review(repo, model, adjust=judged)
    marks = {c.id: c.score for c in verdict.score.criteria if c.kind == "judged"}
    assert set(marks.values()) == {None}


async def test_a_judge_that_fails_leaves_its_criteria_unscored(repo: Repo) -> None:
    model = ScriptedModel(script(judge=[ModelError("no")]))
    verdict = await review(repo, model, adjust=judged)
    assert verdict.score.total is not None
    assert all(c.score is None for c in verdict.score.criteria if c.kind == "judged")


@pytest.mark.parametrize(
    ("positive", "penalty", "total"),
    [(0.1, 1, 0.75), (None, 1, 0.75), (None, None, 0.75), (1, 0, 1.0)],
    ids=["no levels", "abstains and finds unbacked claims", "abstains", "scores"],
)
async def test_a_judge_that_gives_no_scores_accepts_nothing(
    repo: Repo, positive: float | None, penalty: float | None, total: float
) -> None:
    def reply(request: Request) -> Response:
        given = json.loads(text_of(scores(missing=["Trace the callers."])))
        for one in given["criteria"]:
            one["score"] = penalty if one["id"] == "unbacked-claims" else positive
        return text_reply(json.dumps(given))

    accepted = total == 1.0
    again = [plan("qa")] * 2
    model = ScriptedModel(
        script(lead=[plan(*TEAM), *again, sums()], qa=[looks(), report(), report(), report()],
               judge=[reply] * 6)
    )  # fmt: skip
    verdict = await review(repo, model, adjust=judged)
    assert verdict.score.total == total
    assert (verdict.stop.reason == "done") == accepted
    assert (verdict.status == "complete") == accepted
    assert "the judge misses: Trace the callers." in verdict.stop.uncertain


async def test_a_judge_is_told_which_scores_are_levels(repo: Repo) -> None:
    wrong = json.loads(text_of(scores(score=0.1)))
    wrong["criteria"] = wrong["criteria"][:4]
    model = ScriptedModel(
        script(lead=[plan(*TEAM), sums()], judge=[text_reply(json.dumps(wrong)), scores()])
    )
    verdict = await review(repo, model, adjust=judged)
    model.finish()
    sent = text_of(model.requests[-2].messages[-1])
    assert "score of correctness-depth: 0.1 is not a level; its levels are 0, 0.5, 1" in sent
    assert "nothing is said of unbacked-claims; score it or abstain" in sent
    schema = json.dumps(model.requests[-2].output_schema)
    assert (
        '"score": {"anyOf": [{"type": "number", "enum": [0.0, 0.5, 1.0]}, {"type": "null"}]}'
        in schema
    )
    assert verdict.stop.reason == "done"


async def test_a_tool_that_cannot_read_the_clone_says_what_is_missing(tmp_path: Path) -> None:
    base = {"other.sh": "ls\n", "a.py": "x = 1\n"}
    head = {"a.py": 'exec(open("data.txt").read())\n', "data.txt": "print(1)\n"}
    repo = change(tmp_path, base, head)
    blob = repo.git("rev-parse", "HEAD:other.sh").strip()
    (tmp_path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    verdict = await review(repo, OfflineModel())
    why = f"the contents of {blob[:12]} are not in this clone; fetch it in full"
    assert [one.why for one in verdict.skipped if one.gap] == [why]
