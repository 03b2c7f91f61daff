"""An agent that goes round in circles is cut, with the reason; one that gets on is not."""

from collections.abc import Callable, Mapping

import pytest
from msgspec.structs import replace

from orchestrator.engine.agent_loop import LoopResult, run_agent
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.loop_detection import LoopPolicy
from orchestrator.engine.tool_call_guards import RepetitionGuard
from orchestrator.engine.types import Bounds, Json, Observation, Request, Response, Text, ToolCall
from tests.engine.engine_kit import (
    Echo,
    TurnModel,
    account,
    created,
    make_runtime,
    open_memory_journal,
    spec,
)
from tests.scripted_model import text_reply, tool_call_reply

Answer = Callable[[Request, int], Response]

LONG = " ".join(f"word{n}" for n in range(300))


async def work(
    journal: Journal, answer: Answer, *tools: Echo, turns: int = 30, **more: Json
) -> LoopResult:
    runtime = make_runtime(journal, TurnModel(answer), *tools, **more)
    agent = spec("worker", *(tool.spec.name for tool in tools), bounds=Bounds(turns=turns))
    return await run_agent(agent, "go", runtime, Key.parse("1/act/worker"), account())


def why(journal: Journal) -> str:
    notes = journal.notes("1/act/worker/loop")
    return str(notes["1/act/worker/loop"]["why"]) if notes else ""


async def cut(answer: Answer, *tools: Echo, **more: Json) -> tuple[int, str]:
    """At which turn it was cut, and why; resumed, it is cut at the same one."""
    store = await created()
    for _ in range(2):
        async with open_memory_journal(store) as journal:
            result = await work(journal, answer, *(tools or (Echo(),)), **more)
            reason = why(journal)
            assert (result.status, result.detail) == (
                "failed",
                f"it went round in circles: {reason}",
            )
    return result.turns, reason


async def test_the_same_call_with_the_same_result() -> None:
    turns, reason = await cut(lambda _, turn: tool_call_reply(("echo", {"text": "x"})))
    assert (turns, reason) == (4, "4 of its last 4 turns are nearly the same")


async def test_a_circle_of_several_turns() -> None:
    steps = ["a", "b"]
    turns, reason = await cut(
        lambda _, turn: tool_call_reply(("echo", {"text": steps[turn % 2] * 9}))
    )
    assert (turns, reason) == (7, "4 of its last 7 turns are nearly the same")


async def test_the_same_work_with_a_growing_counter_is_a_loop() -> None:
    """A counter that grows, and a time that moves, do not make a new turn."""

    def answer(_: Request, turn: int) -> Response:
        said = Text(f"{LONG} attempt {turn}")
        return Response(
            (said, ToolCall(f"c{turn}", "echo", {"text": f"{LONG} {turn}"})), "tool_use"
        )

    assert (await cut(answer))[0] == 4


async def test_the_same_text_after_a_pause_is_a_loop() -> None:
    answer = Response((Text("One moment please, I am thinking about it."),), "paused")
    assert (await cut(lambda _, turn: answer))[0] == 4


async def test_the_same_failure_whatever_is_asked() -> None:
    def broken(arguments: object, context: object) -> Observation:
        raise ConnectionError("nobody answers at port 80")

    turns, reason = await cut(
        lambda _, turn: tool_call_reply(("echo", {"text": f"question {turn}" * turn})),
        Echo(run=broken),
    )
    assert (turns, reason) == (4, "echo failed the same way 4 times: failed")


async def test_refusals_are_failures_too() -> None:
    def answer(_: Request, turn: int) -> Response:
        return tool_call_reply(
            ("no_such_tool", {"text": f"{turn}"}), ("echo", {"text": LONG[turn * 50 :]})
        )

    turns, reason = await cut(answer)
    assert (turns, reason) == (4, "no_such_tool failed the same way 4 times: not_registered")


async def test_an_agent_that_repeats_a_refused_call_forever() -> None:
    turns, reason = await cut(
        lambda _, turn: tool_call_reply(("echo", {"text": "x"})), guards=[RepetitionGuard(1)]
    )
    assert (turns, reason) == (5, "4 of its last 5 turns are nearly the same")


PAGE = "\n".join(f"{n}: line number {n} says {n * 7919 % 1000}" for n in range(3000))


def page(arguments: Mapping[str, Json], context: object) -> Observation:
    start = int(arguments["text"])
    return Observation("\n".join(PAGE.split("\n")[start : start + 100]))


ORDINARY: dict[str, tuple[Answer, Echo]] = {
    "pages of one file": (lambda _, turn: tool_call_reply(("echo", {"text": str(turn * 100)})), Echo(run=page)),
    "short searches that find nothing": (
        lambda _, turn: tool_call_reply(("echo", {"text": f"name_{turn}"})),
        Echo(run=lambda a, c: Observation("nothing matches")),
    ),
    "the same words before other calls": (
        lambda _, turn: Response(
            (Text("Let me look further."), ToolCall("c", "echo", {"text": str(turn)})), "tool_use"
        ),
        Echo(),
    ),
    "failures that differ": (
        lambda _, turn: tool_call_reply(("echo", {"text": chr(96 + turn) * 4})),
        Echo(run=lambda a, c: Observation(f"{a['text']} does not stand in head", ok=False)),
    ),
    "a failure now and then": (
        lambda _, turn: tool_call_reply(("echo", {"text": "bad" if turn % 2 else chr(96 + turn) * 4})),
        Echo(run=lambda a, c: Observation(a["text"], ok=a["text"] != "bad")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(ORDINARY.keys() - {"a failure now and then"}))
async def test_an_agent_that_makes_progress_is_not_stopped(name: str) -> None:
    answer, tool = ORDINARY[name]
    last = 20

    def told(request: Request, turn: int) -> Response:
        return text_reply("finished") if turn == last else answer(request, turn)

    async with open_memory_journal() as journal:
        result = await work(journal, told, tool)
        assert (result.status, result.turns, why(journal)) == ("ok", last, "")


async def test_a_success_in_between_forgets_the_failures() -> None:
    answer, tool = ORDINARY["a failure now and then"]
    async with open_memory_journal() as journal:
        result = await work(journal, answer, tool, turns=6)
        assert result.status == "budget"


async def test_the_limits_of_loops_come_from_the_policy() -> None:
    async with open_memory_journal() as journal:
        runtime = make_runtime(
            journal, TurnModel(lambda _, turn: tool_call_reply(("echo", {"text": "x"})))
        )
        runtime = replace(runtime, loops=LoopPolicy(window=3, repeats=2))
        result = await run_agent(spec(), "go", runtime, Key.parse("1/act/worker"), account())
        assert result.turns == 2
