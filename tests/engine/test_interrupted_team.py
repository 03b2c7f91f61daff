"""A team that is cut off in the middle and gone on with; and the words that its journal holds."""

import json
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert, to_builtins

from orchestrator.engine.agent_loop import LoopResult
from orchestrator.engine.agent_tasks import Task, run_team
from orchestrator.engine.journal import open_journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import MayRetry, SystemClock, always_retry
from orchestrator.engine.types import (
    Bounds,
    Opaque,
    Request,
    Response,
    StopKind,
    Text,
    ToolCall,
    Usage,
)
from orchestrator.stores.sqlite_journal import SqliteStore
from tests.engine.engine_kit import REPORT, RUN, Echo, TurnModel, account, make_runtime, spec
from tests.scripted_model import text_reply, tool_call_reply

AGENTS, LATENCY = 60, 0.03


def answer(request: Request, turn: int) -> Response:
    """Two turns of calls, then a report, each for 10 tokens."""
    used = Usage(6, 4)
    if turn <= 2:
        return tool_call_reply(("echo", {"text": f"{request.agent} {turn}"}), usage=used)
    return text_reply('{"answer": 1}', usage=used)


class CutOff(TurnModel):
    """Cancels everything once it has given so many answers."""

    scope: anyio.CancelScope
    left = 0

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        said = await super().respond(request)
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()
        return said


async def sit(store: SqliteStore, model: CutOff, tool: Echo, cut: int) -> list[LoopResult]:
    """One session of the whole team, cancelled after so many answers; 0 lets it go on."""
    results: list[LoopResult] = []
    model.left = cut
    with anyio.CancelScope() as model.scope:
        async with open_journal(RUN, store, SystemClock(), holder="a test") as journal:
            work = [
                Task(
                    spec(f"a{n}", contract=REPORT, bounds=Bounds(turns=4)),
                    "go",
                    Key.parse(f"1/act/a{n}"),
                )
                for n in range(AGENTS)
            ]
            budget = account(tokens=AGENTS * 40, tool_calls=AGENTS * 3)
            budget = type(budget)("the run", budget.bounds, used=journal.spent())
            runtime = make_runtime(journal, model, tool)
            results = await run_team(work, runtime, budget, concurrency=AGENTS)
            assert budget.held.tokens == budget.held.tool_calls == 0
            assert journal.spent().tokens == budget.used.tokens
    return results


@pytest.mark.either_loop
@pytest.mark.parametrize("cut", [1, 100, 179])
async def test_sixty_agents_cut_off_and_resumed_repeat_nothing_recorded(
    tmp_path: Path, cut: int
) -> None:
    model, tool = CutOff(answer, latency=LATENCY, worst=Usage(6, 4)), Echo()
    with closing(SqliteStore(tmp_path / "journal.db")) as store:
        await store.create(RUN, 0.0, {})
        assert await sit(store, model, tool, cut) == []
        rows = await store.rows(RUN)
        recorded = {row.key for row in rows if row.kind == "outcome"}
        before = list(model.answered)
        results = await sit(store, model, tool, 0)
        assert [result.status for result in results] == ["ok"] * AGENTS
        again = model.answered[len(before) :]
        paid = {
            (agent, turn) for agent, turn in before if f"1/act/{agent}/turn{turn}/model" in recorded
        }
        assert paid.isdisjoint(again)
        assert paid | set(again) == {(f"a{n}", t) for n in range(AGENTS) for t in (1, 2, 3)}
        assert len(again) == len(set(again))


async def test_what_an_agent_spent_before_it_was_cut_off_counts_against_its_own_bounds(
    tmp_path: Path,
) -> None:
    model = CutOff(answer, latency=LATENCY, worst=Usage(6, 4))
    bounds = Bounds(turns=4, tokens=25)  # two calls of 10
    work = [Task(spec("a0", contract=REPORT, bounds=bounds), "go", Key.parse("1/act/a0"))]
    with closing(SqliteStore(tmp_path / "journal.db")) as store:
        await store.create(RUN, 0.0, {})
        model.left = 1
        with anyio.CancelScope() as model.scope:
            async with open_journal(RUN, store, SystemClock(), holder="a test") as journal:
                await run_team(work, make_runtime(journal, model), account(), concurrency=1)
        assert model.answered == [("a0", 1)]
        async with open_journal(RUN, store, SystemClock(), holder="a test") as journal:
            runtime = make_runtime(journal, model)
            [result] = await run_team(work, runtime, account(), concurrency=1)
        assert (result.status, result.detail) == (
            "budget",
            "a0: tokens would reach 30, the limit is 25",
        )


def usages() -> st.SearchStrategy[Usage]:
    count = st.integers(0, 10**9)
    return st.builds(Usage, count, count, count, count, usd=st.floats(0, 1e6))


def json_values() -> st.SearchStrategy[object]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    return st.recursive(
        leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
    )


@given(
    blocks=st.lists(
        st.builds(Text, st.text())
        | st.builds(ToolCall, st.text(), st.text(), st.dictionaries(st.text(), json_values()))
        | st.builds(Opaque, st.text(), st.dictionaries(st.text(), json_values()))
    ),
    stop=st.sampled_from(["end", "tool_use", "max_tokens", "refused", "filtered", "paused"]),
    usage=usages(),
    model=st.text(),
)
def test_a_response_comes_back_from_the_journal_as_it_was(
    blocks: list[Text | ToolCall | Opaque], stop: StopKind, usage: Usage, model: str
) -> None:
    said = Response(tuple(blocks), stop, usage, model)
    assert convert(json.loads(json.dumps(to_builtins(said))), Response) == said
