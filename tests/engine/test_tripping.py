"""A tool that keeps breaking is left alone for a while, the same in a resumed run."""

from collections.abc import Mapping

import anyio
import pytest

from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.journal import Journal
from orchestrator.engine.ports import CallContext
from orchestrator.engine.tool_registry import ToolPolicy
from orchestrator.engine.types import Json, Level, Observation, ToolCall
from orchestrator.errors import InputError
from tests.engine.engine_kit import (
    Echo,
    Person,
    account,
    created,
    make_runtime,
    open_memory_journal,
    spec,
)
from tests.scripted_model import ScriptedModel

POLICY = ToolPolicy(failures={"*": 3, "sturdy": 5}, pause={"*": 2})


class Moody(Echo):
    """A tool that ends as it is told: ``ok``, ``breaks``, ``answers no``, ``hangs``, ``declines``."""

    def __init__(self, name: str = "echo", level: Level = Level.READ) -> None:
        super().__init__(name, level=level, timeout=0.02)

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        self.started.append(arguments["text"])
        match arguments["text"].split("#")[0]:
            case "breaks":
                raise ValueError("a fault of its own")
            case "declines":
                raise InputError("there is no such file")
            case "hangs":
                await anyio.sleep(5)
            case "answers no":
                return Observation("it did not work", ok=False)
        return Observation("done")


class Session:
    """Calls one after the other, numbered."""

    def __init__(self, journal: Journal, *tools: Echo, policy: ToolPolicy = POLICY) -> None:
        self.runtime: AgentRuntime = make_runtime(
            journal, ScriptedModel({}), *(tools or (Moody(),)), policy=policy
        )
        self.number = 0

    async def ask(self, *moods: str, tool: str = "echo") -> list[str]:
        """The codes that the calls end with; ``ok`` for none."""
        codes = []
        for mood in moods:
            self.number += 1
            result = await self.runtime.executor.call(
                spec("worker", tool),
                ToolCall("c", tool, {"text": f"{mood}#{self.number}"}),
                f"1/act/worker/turn{self.number}/tool1/{tool}",
                account(),
            )
            codes.append(result.code or "ok")
        return codes


def transitions(journal: Journal) -> list[tuple[str, str]]:
    return [(key, str(body["state"])) for key, body in journal.notes("breaker").items()]


async def test_a_breaker_opens_pauses_admits_a_trial_and_closes() -> None:
    tool = Moody()
    async with open_memory_journal() as journal:
        ask = Session(journal, tool).ask
        assert await ask("breaks", "hangs", "answers no") == ["failed", "timeout", "failed"]
        assert await ask("ok", "ok") == ["tool_down", "tool_down"]
        assert len(tool.started) == 3
        assert await ask("breaks") == ["failed"]  # let through, to see
        assert await ask("ok", "ok", "ok", "ok") == ["tool_down", "tool_down", "ok", "ok"]
        assert transitions(journal) == [
            ("breaker/1/echo", "open"),
            ("breaker/2/echo", "half-open"),
            ("breaker/3/echo", "open"),
            ("breaker/4/echo", "half-open"),
            ("breaker/5/echo", "closed"),
        ]
        refused = [r.reason for r in journal.refusals().values() if r.code == "tool_down"]
        assert refused[0] == "echo failed 3 times in a row; it is disabled for the next 1 call"
        assert refused[1].endswith("it is disabled until the next call, which tries it again")


async def test_successes_and_declined_calls_do_not_open_the_breaker() -> None:
    async with open_memory_journal() as journal:
        ask = Session(journal).ask
        assert await ask("breaks", "breaks", "ok", "breaks", "breaks")
        assert set(await ask(*["declines"] * 20)) == {"declined"}
        assert await ask("breaks", "breaks", "ok") == ["failed", "failed", "ok"]
        assert transitions(journal) == []


async def test_each_tool_has_its_own_breaker_and_limits() -> None:
    async with open_memory_journal() as journal:
        session = Session(journal, Moody(), Moody("sturdy"))
        await session.ask(*["breaks"] * 3)
        assert await session.ask(*["breaks"] * 6, tool="sturdy") == ["failed"] * 5 + ["tool_down"]
        assert await session.ask("ok") == ["tool_down"]


async def test_without_limits_no_tool_is_disabled() -> None:
    async with open_memory_journal() as journal:
        session = Session(journal, policy=ToolPolicy())
        assert set(await session.ask(*["breaks"] * 30)) == {"failed"}


@pytest.mark.parametrize("cut", range(1, 13))
async def test_a_resumed_run_restores_the_breaker(cut: int) -> None:
    moods = (
        "breaks",
        "breaks",
        "breaks",
        "ok",
        "ok",
        "breaks",
        "ok",
        "ok",
        "ok",
        "breaks",
        "ok",
        "ok",
    )
    async with open_memory_journal() as journal:
        whole = await Session(journal).ask(*moods)
        told = transitions(journal)
    store = await created()
    async with open_memory_journal(store) as journal:
        assert await Session(journal).ask(*moods[:cut]) == whole[:cut]
    async with open_memory_journal(store) as journal:
        tool = Moody()
        assert await Session(journal, tool).ask(*moods) == whole
        assert transitions(journal) == told
        assert all(int(text.split("#")[1]) > cut for text in tool.started)


async def test_of_parallel_calls_one_is_let_through() -> None:
    async with open_memory_journal() as journal:
        tool = Moody()
        session = Session(journal, tool)
        await session.ask("breaks", "breaks", "breaks", "ok", "ok")
        codes: list[str] = []

        async def one(number: int) -> None:
            result = await session.runtime.executor.call(
                spec(), ToolCall("c", "echo", {"text": "hangs"}), f"1/act/w{number}/echo", account()
            )
            codes.append(result.code)

        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(one, number)
        assert sorted(codes) == ["timeout", "tool_down", "tool_down", "tool_down"]


async def test_a_trial_that_a_person_denies_does_not_count() -> None:
    async with open_memory_journal() as journal:
        tool, person = Moody(level=Level.IRREVERSIBLE), Person(True)
        session = Session(journal, tool)
        session.runtime = make_runtime(
            journal,
            ScriptedModel({}),
            tool,
            policy=ToolPolicy(max_level=Level.IRREVERSIBLE, failures={"*": 3}, pause={"*": 2}),
            approver=person,
        )
        await session.ask("breaks", "breaks", "breaks", "ok", "ok")
        person.answer = False
        assert await session.ask("ok") == ["denied"]
        person.answer = True
        assert await session.ask("ok", "ok") == ["ok", "ok"]
