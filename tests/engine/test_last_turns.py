"""Before a bound ends an agent it is told to report; what is sent back once is never lost."""

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.engine.agent_loop import LoopResult, run_agent
from orchestrator.engine.agent_tasks import Task, run_task
from orchestrator.engine.budget import Account
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.types import (
    Bounds,
    Json,
    Request,
    Response,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from orchestrator.errors import ModelError
from tests.engine.engine_kit import (
    REPORT,
    TurnModel,
    account,
    created,
    make_runtime,
    open_memory_journal,
    spec,
)
from tests.scripted_model import text_reply

GOOD = text_reply('{"answer": 1}')
BETTER = text_reply('{"answer": 2}')
CALLS = [Response((ToolCall("c", "echo", {"text": word * 9}),), "tool_use") for word in "abcd"]


def told(request: Request) -> str:
    """Why the agent is asked to report now, empty where it is not."""
    texts = [b.text for b in request.messages[-1].blocks if isinstance(b, Text)]
    return next((text for text in texts if text.startswith("Report now")), "")


class Reporting(TurnModel):
    """Calls a tool with another text each turn, until it is told to report."""

    def __init__(self, worst: Usage = Usage(), latency: float = 0.0) -> None:
        super().__init__(self.reply, worst=worst, latency=latency)
        self._used = worst
        self.reasons: list[str] = []

    def reply(self, request: Request, turn: int) -> Response:
        self.reasons.append(told(request))
        if self.reasons[-1]:
            return GOOD
        call = ToolCall(f"c{turn}", "echo", {"text": str(turn) * turn})
        return Response((call,), "tool_use", self._used)


async def run(model: TurnModel, bounds: Bounds, budget: Account) -> LoopResult:
    async with open_memory_journal() as journal:
        agent = spec("worker", "echo", contract=REPORT, bounds=bounds)
        task = Task(agent, "go", Key("w"))
        return await run_task(task, make_runtime(journal, model), budget)


@pytest.mark.parametrize(
    ("bounds", "budget", "turns", "why"),
    [
        (Bounds(turns=3), {}, 3, "this is your last turn"),
        (Bounds(turns=9), {"tokens": 400}, 4, "your tokens are nearly used up"),
        (Bounds(turns=9), {"usd": 4.0}, 4, "your usd are nearly used up"),
    ],
)
async def test_an_agent_whose_bounds_end_is_told_to_report(
    bounds: Bounds, budget: dict[str, float], turns: int, why: str
) -> None:
    model = Reporting(Usage(input_tokens=60, output_tokens=40, usd=1.0))
    result = await run(model, bounds, account(**budget))
    assert (result.status, result.report, result.turns) == ("ok", {"answer": 1}, turns)
    assert model.reasons == [*[""] * (turns - 1), model.reasons[-1]]
    assert why in model.reasons[-1]


async def test_what_tools_find_last_does_not_cost_an_agent_its_report() -> None:
    """The last results alone are more than the budget holds, so older ones make room."""

    class Growing(Reporting):
        def worst_case(self, request: Request) -> Usage:
            results = [b for m in request.messages for b in m.blocks if isinstance(b, ToolResult)]
            return Usage(input_tokens=sum(len(one.content) for one in results))

        def reply(self, request: Request, turn: int) -> Response:
            results = [b for m in request.messages for b in m.blocks if isinstance(b, ToolResult)]
            self.seen = [one.content for one in results]
            answer = super().reply(request, turn)
            call = ToolCall(f"c{turn}", "echo", {"text": str(turn) * 2000})
            return answer if answer is GOOD else replace(answer, blocks=(call,))

    model = Growing(Usage(input_tokens=100))
    result = await run(model, Bounds(turns=9), account(tokens=9_000))
    assert (result.status, result.report, result.turns) == ("ok", {"answer": 1}, 6)
    assert ["left out, no room" in text for text in model.seen] == [True, *[False] * 4]


async def test_an_agent_whose_time_ends_is_told_to_report() -> None:
    model = Reporting(latency=0.05)
    result = await run(model, Bounds(turns=2000, seconds=1.0), account())
    assert (result.status, result.report) == ("ok", {"answer": 1})
    assert "your time is nearly used up" in model.reasons[-1]


async def test_an_agent_without_a_time_of_its_own_works_on_while_the_run_has_time() -> None:
    model = Reporting()
    budget = Account("the run", Bounds(seconds=3600), elapsed=lambda: 0.0)
    await run(model, Bounds(turns=4), budget)
    assert model.reasons[:3] == ["", "", ""]


async def test_one_turn_alone_is_not_told_anything() -> None:
    model = Reporting()
    result = await run(model, Bounds(turns=1), account())
    assert (result.status, model.reasons) == ("budget", [""])


async def test_a_resumed_agent_is_told_the_same_though_more_is_left() -> None:
    store = await created()
    worst = Usage(input_tokens=100, usd=0.0)
    agent = spec("worker", "echo", contract=REPORT, bounds=Bounds(turns=9))
    for tokens in (400, 4_000_000):
        async with open_memory_journal(store) as journal:
            model = Reporting(worst)
            runtime = make_runtime(journal, model)
            result = await run_agent(agent, "go", runtime, Key("w"), account(tokens=tokens))
            assert (result.status, result.turns) == ("ok", 4)
    assert model.started == []


# --- reports that are sent back for their contents --------------------------------------------


async def wants_two(agent: str, report: Json, earlier: Json) -> tuple[Json, list[str]]:
    return report, [] if report == {"answer": 2} else ["finding 1: its quote stands nowhere"]


@pytest.mark.parametrize(
    ("replies", "report", "asked"),
    [
        ([BETTER], {"answer": 2}, 1),
        ([GOOD, BETTER], {"answer": 2}, 2),
        ([GOOD, GOOD], {"answer": 1}, 2),
        ([GOOD, text_reply("sorry"), BETTER], {"answer": 2}, 3),
        ([GOOD, text_reply("a"), text_reply("b"), text_reply("c")], {"answer": 1}, 4),
        ([GOOD, *CALLS], {"answer": 1}, 5),
        ([GOOD, ModelError("the connection was lost")], {"answer": 1}, 2),
        ([GOOD, Response((), "refused")], {"answer": 1}, 2),
        ([*CALLS, GOOD], {"answer": 1}, 5),
    ],
)
async def test_a_report_is_sent_back_once_and_counts_where_no_better_one_comes(
    replies: list[Response | ModelError], report: Json, asked: int
) -> None:
    waiting = iter(replies)

    def reply(request: Request, turn: int) -> Response:
        answer = next(waiting)
        if isinstance(answer, ModelError):
            raise answer
        return answer

    async with open_memory_journal() as journal:
        model = TurnModel(reply)
        runtime = replace(make_runtime(journal, model), check_report=wants_two)
        agent = spec("worker", "echo", contract=REPORT, bounds=Bounds(turns=5))
        result = await run_agent(agent, "go", runtime, Key("w"), account())
    assert (result.status, result.report, len(model.started)) == ("ok", report, asked)


async def test_a_report_that_was_sent_back_outlives_the_agents_time() -> None:
    class Hangs(TurnModel):
        async def respond(self, request: Request, *more: object) -> Response:
            if len(self.started) == 1:
                await anyio.sleep_forever()
            return await super().respond(request)

    async with open_memory_journal() as journal:
        model = Hangs(lambda request, turn: GOOD)
        runtime = replace(make_runtime(journal, model), check_report=wants_two)
        agent = spec("worker", "echo", contract=REPORT, bounds=Bounds(turns=5, seconds=0.3))
        result = await run_task(Task(agent, "go", Key("w")), runtime, account())
    assert (result.status, result.report) == ("ok", {"answer": 1})


@pytest.mark.parametrize(
    "text",
    [
        'Here is my report:\n```json\n{"answer": 1}\n```',
        '```\n{"answer": 1}\n```\nI hope this helps.',
        '{"answer": 1}\n\nThat is all.',
    ],
)
async def test_prose_around_a_report_costs_no_second_reply(text: str) -> None:
    model = TurnModel(lambda request, turn: text_reply(text))
    result = await run(model, Bounds(turns=5), account())
    assert (result.status, result.report, result.turns) == ("ok", {"answer": 1}, 1)
