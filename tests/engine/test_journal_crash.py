"""An effect that was under way when the run was cut off."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from orchestrator.engine.budget import Account, Cost, Reservation
from orchestrator.engine.journal import EffectResult
from orchestrator.engine.types import Bounds, Level
from orchestrator.errors import ApprovalRequired
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.engine.engine_kit import RUN, created, open_memory_journal

WORST = Cost(turns=1, tool_calls=1, tokens=100, usd=0.5)


async def cut_off(store: MemoryStore, level: Level, worst: Cost = WORST) -> None:
    """Leave an intent without an outcome, as a crash does."""
    started = anyio.Event()

    async def for_ever(given: str) -> EffectResult:
        assert given == "admitted"
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def admit() -> tuple[str, Reservation]:
        return "admitted", Account("a", Bounds()).reserve(worst)

    async with open_memory_journal(store) as journal, anyio.create_task_group() as group:

        async def begin() -> None:
            await journal.effect("k", 1, for_ever, admit=admit, level=level)

        group.start_soon(begin)
        await started.wait()
        group.cancel_scope.cancel()


def recorder(
    log: list[str], name: str, value: object = None
) -> Callable[[], Awaitable[EffectResult]]:
    async def run() -> EffectResult:
        log.append(name)
        return EffectResult(value)

    return run


async def test_reading_is_done_again_and_listed() -> None:
    store = await created()
    log: list[str] = []
    await cut_off(store, Level.READ)
    async with open_memory_journal(store) as journal:
        assert not journal.recorded("k")
        assert await journal.effect("k", 1, recorder(log, "read", 7)) == 7
        assert journal.repeated == ["k"]
    async with open_memory_journal(store) as journal:
        assert await journal.effect("k", 1, recorder(log, "read", 8)) == 7
        assert journal.repeated == []
    assert log == ["read"]


async def test_a_half_done_write_is_undone_before_it_is_done_again() -> None:
    store = await created()
    log: list[str] = []

    async def undo() -> None:
        log.append("undo")

    await cut_off(store, Level.WRITE)
    async with open_memory_journal(store) as journal:
        await journal.effect("k", 1, recorder(log, "write"), level=Level.WRITE, undo=undo)
    assert log == ["undo", "write"]


@pytest.mark.parametrize("level", [Level.WRITE, Level.ADMIN, Level.IRREVERSIBLE])
async def test_an_irreversible_call_is_left_to_a_person(level: Level) -> None:
    store = await created()
    log: list[str] = []
    await cut_off(store, level)
    for _ in range(2):
        async with open_memory_journal(store) as journal:
            with pytest.raises(ApprovalRequired) as caught:
                await journal.effect("k", 1, recorder(log, "again"), level=level)
            assert str(caught.value).endswith(
                "k was under way when the run was cut off and may have happened; "
                "see what it did, then start a new run"
            )
            assert journal.repeated == []
    assert log == []


@pytest.mark.parametrize("level", [Level.READ, Level.WRITE])
async def test_an_intent_to_write_is_on_disk_before_it_is_tried(level: Level) -> None:
    store = await created()
    on_disk: list[str] = []

    async def look() -> EffectResult:
        on_disk.extend(row.kind for row in await store.rows(RUN) if row.key == "k")
        return EffectResult(None)

    async with open_memory_journal(store) as journal:
        await journal.effect("k", 1, look, level=level)
    assert on_disk == (["intent"] if level is Level.WRITE else [])


async def test_a_call_whose_end_nobody_saw_counts_at_its_worst_however_often_it_is_resumed() -> (
    None
):
    store = await created()

    async def perform() -> EffectResult:
        return EffectResult("v", Cost(turns=1, tool_calls=1, tokens=30, usd=0.1))

    await cut_off(store, Level.READ)
    await cut_off(store, Level.READ)
    async with open_memory_journal(store) as journal:
        assert journal.spent() == Cost(0, 2, 200, 1.0)
        await journal.effect("k", 1, perform)
    async with open_memory_journal(store) as journal:
        assert journal.spent() == Cost(1, 3, 230, 1.1)
        assert journal.spent("k") == journal.spent()
        assert journal.spent("other") == Cost()
