"""Agents of a program: what they answer, what they may spend, and that nothing is done twice."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from orchestrator import (
    Agent,
    ApprovalPending,
    Bounds,
    Flow,
    Harness,
    InputError,
    Level,
    ReplayMismatch,
    State,
    Usage,
    tool,
)
from orchestrator.engine.types import ToolResult
from tests.scripted_model import ScriptedModel, text_reply, tool_call_reply

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


@tool
async def lookup(number: int) -> str:
    """Look a ticket up."""
    DONE.append(f"lookup {number}")
    return f"ticket {number}: the printer is on fire"


@tool(level=Level.IRREVERSIBLE)
async def refund(number: int, usd: float) -> dict[str, float]:
    """Pay money back."""
    DONE.append(f"refund {number}")
    return {"paid": usd}


class Triage(BaseModel):
    urgent: bool
    team: str


TRIAGE = Agent("triage", "You triage tickets.", tools=[lookup], output=Triage)


async def test_an_agent_calls_tools_and_answers_in_its_output_model(tmp_path: Path) -> None:
    model = ScriptedModel(
        {
            "triage": [
                tool_call_reply(("lookup", {"number": 7})),
                text_reply('{"urgent": true, "team": "IT"}'),
            ]
        }
    )
    async with Harness.open(tmp_path / "runs.db", "r", model=model) as harness:
        result = await harness.run(TRIAGE, "What about ticket 7?")
    assert result.status == "ok"
    assert result.output == Triage(urgent=True, team="IT")
    assert (result.turns, result.tool_calls) == (2, 1)
    seen = model.requests[1].messages[-1].blocks[0]
    assert isinstance(seen, ToolResult)
    assert "the printer is on fire" in seen.content
    assert model.requests[0].system[0].text == "You triage tickets."
    assert [one.name for one in model.requests[0].tools] == ["lookup"]
    model.finish()


async def test_a_restarted_program_does_not_repeat_model_calls(tmp_path: Path) -> None:
    for script in ({"triage": [text_reply('{"urgent": false, "team": "IT"}')] * 2}, {}):
        async with Harness.open(tmp_path / "r.db", "r", model=ScriptedModel(script)) as harness:
            first = await harness.run(TRIAGE, "one")
            second = await harness.run(TRIAGE, "two")
            assert first.output == second.output == Triage(urgent=False, team="IT")
    async with Harness.open(tmp_path / "r.db", "r", model=ScriptedModel({})) as harness:
        with pytest.raises(ReplayMismatch):
            await harness.run(TRIAGE, "another question")


async def test_a_named_work_is_never_one_that_was_numbered(tmp_path: Path) -> None:
    agent = Agent("a")
    answers = [text_reply(text) for text in ("numbered", "named", "of a team", "named after it")]
    for script in ({"a": answers}, {}):
        async with Harness.open(tmp_path / "r.db", "r", model=ScriptedModel(script)) as harness:
            numbered = await harness.run(agent, "first")
            named = await harness.run(agent, "second", call="1")
            (team,) = await harness.run_team([(agent, "third")], call="x")
            after = await harness.run(agent, "fourth", call="x.1")
            shown = [result.output for result in (numbered, named, team, after)]
            assert shown == ["numbered", "named", "of a team", "named after it"]


async def test_an_answer_that_breaks_the_output_model_is_sent_back(tmp_path: Path) -> None:
    model = ScriptedModel(
        {"triage": [text_reply('{"urgent": 1}'), text_reply('{"urgent":true,"team":"a"}')]}
    )
    async with Harness.open(None, "r", model=model) as harness:
        result = await harness.run(TRIAGE, "go")
    assert result.output == Triage(urgent=True, team="a")
    model.finish()


class Person(BaseModel):
    name: str
    reports: "list[Person]" = []


class Plan(BaseModel):
    owner: Triage
    others: list[Triage] = []


async def test_an_output_model_may_hold_others_but_not_itself() -> None:
    answer = '{"owner": {"urgent": true, "team": "a"}, "others": [{"urgent": false, "team": "b"}]}'
    model = ScriptedModel({"a": [text_reply(answer)]})
    async with Harness.open(None, "r", model=model) as harness:
        result = await harness.run(Agent("a", output=Plan), "go")
        assert result.output.others == [Triage(urgent=False, team="b")]
        assert "$ref" not in str(model.requests[0].output_schema)
        with pytest.raises(ValueError, match="Person refers to itself"):
            await harness.run(Agent("b", output=Person), "go")


async def test_a_pending_approval_is_answered_and_the_same_work_goes_on(tmp_path: Path) -> None:
    agent = Agent("cashier", tools=[refund])
    pay = tool_call_reply(("refund", {"number": 7, "usd": 5.0}))
    model = ScriptedModel({"cashier": [pay, text_reply("paid back")]})
    async with Harness.open(tmp_path / "r.db", "r", model=model) as harness:
        with pytest.raises(ApprovalPending) as pending:
            await harness.run(agent, "refund ticket 7")
        assert DONE == []
        harness.approve(pending.value.call, who="the head of support")
        result = await harness.run(agent, "refund ticket 7")
    assert (result.status, result.output) == ("ok", "paid back")
    assert DONE == ["refund 7"]
    model.finish()


async def test_a_rejected_call_is_refused_and_the_agent_goes_on(tmp_path: Path) -> None:
    agent = Agent("cashier", tools=[refund])
    pay = tool_call_reply(("refund", {"number": 7, "usd": 5.0}))
    model = ScriptedModel({"cashier": [pay, text_reply("was not allowed")]})
    async with Harness.open(None, "r", model=model) as harness:
        with pytest.raises(ApprovalPending) as pending:
            await harness.run(agent, "refund ticket 7")
        harness.reject(pending.value.call, who="the head of support")
        result = await harness.run(agent, "refund ticket 7")
    assert (result.status, result.output, DONE) == ("ok", "was not allowed", [])


async def test_a_team_runs_side_by_side_and_a_failure_stays_one_agents_own() -> None:
    model = ScriptedModel({"a": [text_reply("from a")], "b": []})
    async with Harness.open(None, "r", model=model) as harness:
        results = await harness.run_team([(Agent("a"), "go"), (Agent("b"), "go")])
    assert [(one.agent, one.status) for one in results] == [("a", "ok"), ("b", "failed")]
    assert results[0].output == "from a"
    assert "the script has no line left" in results[1].detail


async def test_the_budget_of_the_run_bounds_its_agents() -> None:
    used = Usage(input_tokens=60, output_tokens=0, usd=0.3)
    line = text_reply("done", usage=used)
    model = ScriptedModel({"a": [line], "b": [line]}, worst=used)
    async with Harness.open(None, "r", model=model, bounds=Bounds(usd=0.5)) as harness:
        first = await harness.run(Agent("a"), "go")
        assert (first.tokens, first.usd) == (60, 0.3)
        assert harness.left().usd == pytest.approx(0.2)
        second = await harness.run(Agent("b"), "go")
    assert second.status == "budget"
    assert "usd would reach 0.6, the limit is 0.5" in second.detail


async def test_a_flow_of_states_calls_agents_and_resumes(tmp_path: Path) -> None:
    async def flow_of(harness: Harness) -> Flow[list[str]]:
        def state(name: str, target: str) -> State[list[str]]:
            async def handle(context: list[str]) -> str:
                context.append(str((await harness.run(Agent(name), "go")).output))
                return target

            return State(name, handle, (target,))

        return Flow.of("draft", [state("draft", "check"), state("check", "End"), State("End")])

    for script in ({"draft": [text_reply("a draft")], "check": [text_reply("checked")]}, {}):
        seen: list[str] = []
        async with Harness.open(tmp_path / "r.db", "r", model=ScriptedModel(script)) as harness:
            assert await harness.run_flow(await flow_of(harness), seen) == "End"
        assert seen == ["a draft", "checked"]


async def test_files_that_a_tool_wrote_are_put_back_on_request(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a").write_text("before")

    @tool(level="write")
    async def write(text: str) -> None:
        (root / "a").write_text(text)

    async with Harness.open(tmp_path / "s/r.db", "r", tools=[write], root=root) as harness:
        await harness.execute("write", {"text": "after"})
        assert (root / "a").read_text() == "after"
        (restored,) = (await harness.rollback(who="somebody")).values()
        assert (restored.paths, restored.kept) == (("a",), ())
        assert (root / "a").read_text() == "before"
        with pytest.raises(InputError, match="no call of this run changed files"):
            await harness.rollback()


async def test_the_journal_verifies_and_shows_what_was_altered(tmp_path: Path) -> None:
    async with Harness.open(tmp_path / "r.db", "r", tools=[lookup]) as harness:
        await harness.execute("lookup", {"number": 7})
        assert not (await harness.verify()).errors


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        (Agent("a"), "agent a has no model; name one, such as 'anthropic:strong'"),
        (Agent("a", model="strong"), "a model is named provider:model, not 'strong'"),
        (Agent("a", model="nobody:strong"), "unknown provider 'nobody'"),
        (
            Agent("a", model="anthropic:strong"),
            "anthropic needs the environment variable ANTHROPIC_API_KEY",
        ),
        (Agent("a/b", model=ScriptedModel({})), "letters, digits, - and _ only, not 'a/b'"),
    ],
)
async def test_a_wrong_agent_says_what_to_do(agent: Agent, problem: str) -> None:
    async with Harness.open(None, "r") as harness:
        with pytest.raises(Exception, match=problem.replace("(", r"\(")):
            await harness.run(agent, "go")
