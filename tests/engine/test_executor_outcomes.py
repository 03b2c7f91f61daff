"""What becomes of a call that is cut off, declined, odd or replayed; expectations are fixed."""

from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from orchestrator.engine.budget import Account, Cost, Reservation
from orchestrator.engine.journal import EffectResult
from orchestrator.engine.observer_events import Event
from orchestrator.engine.ports import CallContext
from orchestrator.engine.tool_call_guards import RateGuard
from orchestrator.engine.tool_registry import ToolPolicy
from orchestrator.engine.types import Json, Level, Observation, ToolCall, ToolResult
from orchestrator.errors import InputError, ProviderRefused
from orchestrator.sandbox.file_rollback import FileRollback
from tests.engine.engine_kit import (
    Echo,
    Scopes,
    account,
    created,
    make_runtime,
    open_memory_journal,
    spec,
)
from tests.scripted_model import ScriptedModel

NOBODY = ScriptedModel({})
WIDE = ToolPolicy(max_level=Level.WRITE)
CALL = ToolCall("c1", "echo", {"text": "hello"})


class Hanging(Echo):
    """A writing tool that never ends, and says when it has begun."""

    def __init__(self) -> None:
        super().__init__(level=Level.WRITE)
        self.begun = anyio.Event()

    async def run(self, arguments: Json, context: CallContext) -> Observation:
        self.begun.set()
        await anyio.sleep_forever()
        raise AssertionError


async def test_a_write_that_is_cancelled_in_the_middle_is_undone() -> None:
    tool, scopes = Hanging(), Scopes()
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, NOBODY, tool, policy=WIDE, rollback=scopes)

        async def ask() -> None:
            await runtime.executor.call(spec("worker", "echo"), CALL, "k", account())

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await tool.begun.wait()
            group.cancel_scope.cancel()
    assert scopes.log == [("begin", "k"), ("undo", "k")]


@pytest.mark.attack("a write that fails while its run is stopped")
@pytest.mark.parametrize("ok", [True, False])
async def test_a_write_that_ends_while_its_run_is_stopped_is_kept_or_undone(
    ok: bool, tmp_path: Path
) -> None:
    """Nobody may ever resume that run: a file of a failed call must not stay."""
    work = tmp_path / "work"
    work.mkdir()
    with anyio.CancelScope() as run:

        def write(arguments: Mapping[str, Json], context: CallContext) -> Observation:
            (work / "file").write_text(arguments["text"])
            run.cancel()
            return Observation("", ok=ok)

        tool, files = Echo(level=Level.WRITE, run=write), FileRollback(work, tmp_path / "vault")
        async with open_memory_journal() as journal:
            runtime = make_runtime(journal, NOBODY, tool, policy=WIDE, rollback=files)
            await runtime.executor.call(spec("worker", "echo"), CALL, "k", account())
    assert [path.name for path in work.iterdir()] == ["file"] * ok
    assert [snapshot.state for snapshot in files.snapshots()] == ["committed" if ok else "undone"]


async def _outcome(tool: Echo, scopes: Scopes, events: list[Event]) -> ToolResult:
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, NOBODY, tool, events=events, policy=WIDE, rollback=scopes)
        return await runtime.executor.call(spec("worker", "echo"), CALL, "k", account())


async def test_a_declined_write_is_not_ok_and_is_undone() -> None:
    def decline(arguments: object, context: object) -> Observation:
        raise InputError("there is no such file")

    scopes, events = Scopes(), list[Event]()
    result = await _outcome(Echo(level=Level.WRITE, run=decline), scopes, events)
    assert (result.ok, result.code) == (False, "declined")
    assert scopes.log == [("begin", "k"), ("undo", "k")]
    assert [(e.kind, e.detail) for e in events if e.tool] == [
        ("tool_started", ""),
        ("tool_finished", "declined"),
    ]


async def test_a_successful_call_is_shown_as_ok() -> None:
    events = list[Event]()
    assert (await _outcome(Echo(), Scopes(), events)).ok
    assert [(e.kind, e.detail) for e in events if e.tool] == [
        ("tool_started", ""),
        ("tool_finished", "ok"),
    ]


async def test_a_tool_whose_data_is_not_json_fails_and_the_run_goes_on() -> None:
    tool = Echo(run=lambda arguments, context: Observation("text", object()))
    result = await _outcome(tool, Scopes(), [])
    assert (result.ok, result.code) == (False, "failed")
    assert "its data is not JSON" in result.content


async def test_calls_of_an_earlier_session_do_not_count_for_the_present_minute() -> None:
    store = await created()

    async def ask(key: str) -> ToolResult:
        async with open_memory_journal(store) as journal:
            guard = RateGuard({}, {"echo": 1}, lambda: 0.0)
            runtime = make_runtime(journal, NOBODY, Echo(), guards=[guard])
            return await runtime.executor.call(spec("worker", "echo"), CALL, key, account())

    assert (await ask("a")).ok
    assert (await ask("b")).ok


async def test_a_turn_that_the_provider_refused_is_counted_once_after_a_resumption() -> None:
    store = await created()

    async def turn(*, refused: bool) -> None:
        async def perform(_: None) -> EffectResult:
            if refused:
                raise ProviderRefused("the key is wrong")
            return EffectResult("reply", Cost(turns=1))

        async with open_memory_journal(store) as journal:
            budget = Account("the run", account(turns=2).bounds, used=journal.spent())

            async def admit() -> tuple[None, Reservation]:
                return None, budget.reserve(Cost(turns=1))

            await journal.effect("1/plan/turn1/model", {}, perform, admit=admit)

    with pytest.raises(ProviderRefused):
        await turn(refused=True)
    await turn(refused=False)
    async with open_memory_journal(store) as journal:
        assert journal.spent().turns == 1
        assert journal.unseen().turns == 0
