"""Agents: bounded turns, reports held to their contract, and a team in which failure is one's own."""

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.engine.agent_loop import LoopResult, run_agent
from orchestrator.engine.agent_tasks import Task, run_team
from orchestrator.engine.budget import Account
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import MayRetry, always_retry
from orchestrator.engine.types import Bounds, Request, Response, Text, ToolCall, ToolResult, Usage
from orchestrator.errors import ModelError
from orchestrator.providers.offline import OfflineModel
from tests.engine.engine_kit import (
    REPORT,
    RUN,
    Echo,
    TurnModel,
    account,
    created,
    make_runtime,
    open_memory_journal,
    spec,
)
from tests.scripted_model import ScriptedModel, text_reply, tool_call_reply

GOOD = text_reply('{"answer": 1}')


async def run(model: ScriptedModel, *tools: Echo, bounds: Bounds = Bounds(turns=9)) -> LoopResult:  # noqa: B008
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, model, *tools)
        agent = spec("worker", "echo", contract=REPORT, bounds=bounds)
        return await run_agent(agent, "go", runtime, Key("w"), account(tokens=1000, usd=1.0))


async def test_tools_then_a_report() -> None:
    model = ScriptedModel(
        {"worker": [tool_call_reply(("echo", {"text": "a"}), ("echo", {"text": "b"})), GOOD]}
    )
    result = await run(model)
    model.finish()
    assert (result.status, result.report) == ("ok", {"answer": 1})
    assert (result.turns, result.tool_calls) == (2, 2)
    first, second = model.requests[1].messages[-1].blocks
    assert isinstance(first, ToolResult)
    assert isinstance(second, ToolResult)
    assert ["a" in first.content, "b" in second.content] == [True, True]


@pytest.mark.parametrize(
    "bad",
    [
        text_reply("no json"),
        text_reply('{"answer": "one"}'),
        text_reply(""),
        text_reply('{"answer": NaN}'),
    ]
    + [Response((Text('{"answer": 1'),), "max_tokens")],
)
async def test_a_report_that_breaks_its_contract_is_sent_back_twice_then_failed(
    bad: Response,
) -> None:
    other = text_reply('{"answer": [1]}')
    mended = ScriptedModel({"worker": [bad, other, GOOD]})
    assert (await run(mended)).status == "ok"
    mended.finish()
    failed = ScriptedModel({"worker": [bad, other, bad]})
    result = await run(failed)
    failed.finish()
    assert result.status == "failed"
    assert "contract" in result.detail


async def test_an_answer_in_prose_is_shown_a_report_and_not_asked_a_third_time() -> None:
    model = ScriptedModel({"worker": [text_reply("LGTM"), text_reply("LGTM")]})
    result = await run(model)
    model.finish()
    assert (result.status, result.turns) == ("failed", 2)
    (sent,) = model.requests[1].messages[-1].blocks
    assert isinstance(sent, Text)
    assert '- a report with nothing in it is {"answer": []}' in sent.text


@pytest.mark.parametrize("stop", ["refused", "filtered"])
async def test_an_answer_that_is_withheld_is_a_failure(stop: str) -> None:
    model = ScriptedModel({"worker": [Response((), stop)]})  # type: ignore[arg-type]
    assert stop in (await run(model)).detail


async def test_a_paused_answer_is_continued() -> None:
    model = ScriptedModel({"worker": [Response((Text("thinking"),), "paused"), GOOD]})
    assert (await run(model)).status == "ok"


async def test_turns_are_bounded() -> None:
    model = ScriptedModel({"worker": [tool_call_reply(("echo", {"text": "x"}))] * 3})
    result = await run(model, bounds=Bounds(turns=3))
    assert (result.status, result.turns) == ("budget", 3)


async def test_a_model_that_fails_is_a_failed_attempt() -> None:
    result = await run(ScriptedModel({"worker": [ModelError("no route")]}))
    assert (result.status, result.detail) == ("failed", "no route")


async def test_invented_tools_and_arguments_are_observations() -> None:
    wild = Response(
        (ToolCall("a", "rm_rf", {}), ToolCall("a", "echo", {"text": ["x"]})), "tool_use"
    )
    tool = Echo()
    model = ScriptedModel({"worker": [wild, GOOD]})
    assert (await run(model, tool)).status == "ok"
    assert tool.started == []


async def test_a_call_whose_worst_case_does_not_fit_is_not_made() -> None:
    model = ScriptedModel({"worker": [GOOD]}, worst=Usage(2000, 0))
    result = await run(model)
    assert result.status == "budget"
    assert model.requests == []


def tasks(count: int, **more: object) -> list[Task]:
    return [
        Task(spec(f"a{n}", contract=REPORT, **more), "go", Key.parse(f"1/{n}"))
        for n in range(count)
    ]


async def test_the_number_of_parallel_agents_is_limited() -> None:
    now, most = 0, 0

    class Busy(TurnModel):
        async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await anyio.sleep(0.01)
            now -= 1
            return GOOD

    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, Busy(lambda request, turn: GOOD))
        results = await run_team(tasks(12), runtime, account(), concurrency=3)
    assert most == 3
    assert [result.agent for result in results] == [f"a{n}" for n in range(12)]


async def test_one_that_fails_or_hangs_or_breaks_is_a_result_and_the_others_go_on() -> None:
    class Uneven(TurnModel):
        async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
            if request.agent == "a0":
                raise ModelError("dead")
            if request.agent == "a1":
                await anyio.sleep(60)
            if request.agent == "a2":
                raise ZeroDivisionError("a fault of the provider's code")
            return GOOD

    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, Uneven(lambda request, turn: GOOD))
        work = tasks(4, bounds=Bounds(turns=3, seconds=1))
        results = await run_team(work, runtime, account(), concurrency=4)
    assert [result.status for result in results] == ["failed", "timeout", "failed", "ok"]
    assert "ZeroDivisionError" in results[2].detail


async def test_two_hundred_agents_never_overdraw_one_budget() -> None:
    """Peers that compare with what is already spent overshoot many times over."""
    used = Usage(60, 40, usd=0.01)

    def answer(request: Request, turn: int) -> Response:
        return tool_call_reply(("echo", {"text": f"{request.agent}"}), usage=used)

    model = TurnModel(answer, latency=0.005, worst=Usage(60, 40, usd=0.01))
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, model)
        budget = account(tokens=5_000, usd=0.355, tool_calls=20)
        work = tasks(200, bounds=Bounds(turns=3))
        results = await run_team(work, runtime, budget, concurrency=200)
        spent = journal.spent()
    assert spent.tokens <= 5_000
    assert spent.usd <= 0.355
    assert spent.tool_calls == 20
    assert budget.held.tokens == budget.held.tool_calls == 0
    assert len(model.answered) == 35
    assert all(result.status == "budget" for result in results)


async def test_the_offline_model_follows_its_playbook_exactly() -> None:
    from orchestrator.engine.types import Skill

    # What all playbooks name is proposed together, each call once: a second would say the same.
    text = "## Steps\n\n1. Read with `echo`.\n2. Think.\n3. Read `echo` and `gone` again.\n"
    more = "## Steps\n\n1. Read with `echo`.\n"
    contract = {
        "type": "object",
        "properties": {"said": {"type": "string"}, "gaps": {"type": "array"}},
        "required": ["said", "gaps"],
    }
    tool = Echo()
    agent = spec(
        "worker", "echo", contract=contract, skills=(Skill("s", "d", text), Skill("t", "d", more))
    )
    agent = replace(agent, bounds=Bounds(turns=9))
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, OfflineModel(), tool)
        brief = '<untrusted n0nce>\n{"text": "from the brief", "other": 1}\n</untrusted n0nce>'
        result = await run_agent(agent, brief, runtime, Key("w"), account())
    assert tool.started == ["from the brief"]
    assert result.status == "ok"
    assert result.turns == 2
    why = "its output was cut, or is not a JSON object"
    assert result.report["gaps"] == [{"tool": "echo", "why": why}]


async def test_without_a_skill_step_the_offline_model_says_so() -> None:
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, OfflineModel())
        result = await run_agent(
            spec("worker", bounds=Bounds(turns=3)), "go", runtime, Key("w"), account()
        )
    assert result.status == "failed"
    assert "has no skill with a step" in result.detail


class Priced(TurnModel):
    """Each token of an answer may be used; remembers how long it was allowed to answer."""

    def __init__(self, use: float) -> None:
        super().__init__(lambda request, turn: tool_call_reply(("echo", {"text": str(turn)})))
        self._use = use
        self.allowed: list[int] = []

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        self.allowed.append(request.max_tokens)
        answer = await super().respond(request)
        used = int(request.max_tokens * self._use)
        return Response(answer.blocks, answer.stop, Usage(100, used, usd=used / 1000))

    def worst_case(self, request: Request) -> Usage:
        return Usage(100, request.max_tokens, usd=request.max_tokens / 1000)


@pytest.mark.parametrize("use", [1.0, 0.4])
@pytest.mark.parametrize("bounds", [{"tokens": 9_000}, {"usd": 7.5}])
async def test_an_answer_is_kept_short_enough_for_what_is_left(
    use: float, bounds: dict[str, float]
) -> None:
    model, budget = Priced(use), account(**bounds)
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, model)
        result = await run_agent(spec(bounds=Bounds(turns=50)), "go", runtime, Key("w"), budget)
        spent = journal.spent()
    assert result.status == "budget"
    assert model.allowed[0] == 4096
    assert model.allowed[-1] < 4096
    assert min(model.allowed) >= 256
    assert spent.tokens <= bounds.get("tokens", float("inf"))
    assert spent.usd <= bounds.get("usd", float("inf")) + 1e-9


async def test_a_resumed_run_has_the_same_record_though_less_is_left() -> None:
    model, store = Priced(1.0), await created()
    for turns, left in ((1, 9_000), (3, 9_000)):
        async with open_memory_journal(store) as journal:
            budget = Account("the run", Bounds(tokens=left), used=journal.spent())
            agent = spec(bounds=Bounds(turns=turns))
            await run_agent(agent, "go", make_runtime(journal, model), Key("w"), budget)
    assert model.answered.count(("worker", 1)) == 1


async def test_a_secret_in_a_models_reply_is_not_recorded() -> None:
    store, said = await created(), text_reply('{"answer": 1, "note": "hunter2-hunter2"}')
    async with open_memory_journal(store, secrets=["hunter2-hunter2"]) as journal:
        runtime = make_runtime(journal, ScriptedModel({"worker": [said]}))
        await run_agent(spec("worker", "echo"), "go", runtime, Key("w"), account())
    assert not any(b"hunter2" in row.body for row in await store.rows(RUN))
