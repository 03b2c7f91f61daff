"""An effect happens once; afterwards its record stands for it."""

import json
from typing import NoReturn

import anyio
import pytest

from orchestrator.engine.budget import Cost, Reservation
from orchestrator.engine.journal import EffectResult, Journal, open_journal
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.trace_context import TRACEPARENT, current_traceparent, trace_of
from orchestrator.engine.types import Refusal
from orchestrator.errors import (
    BudgetExhausted,
    ModelError,
    ReplayMismatch,
    SandboxError,
    StoreError,
)
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.engine.engine_kit import RUN, created, open_memory_journal


class Counted:
    """Something to perform that knows how often it was."""

    def __init__(self, value: object = "v", fault: Exception | None = None) -> None:
        self.times, self._value, self._fault = 0, value, fault

    async def __call__(self) -> EffectResult:
        self.times += 1
        if self._fault:
            raise self._fault
        return EffectResult(self._value, Cost(turns=1, tokens=5))


async def refuse() -> NoReturn:
    raise BudgetExhausted("nothing left")


async def kinds(store: MemoryStore) -> list[tuple[str, str]]:
    return [(row.kind, row.key) for row in await store.rows(RUN) if row.kind != "note"]


async def test_an_effect_is_performed_once_and_its_record_stands_for_it() -> None:
    store, perform = await created(), Counted({"a": [1, None]})
    async with open_memory_journal(store) as journal:
        assert await journal.effect("k", {"q": 1}, perform) == {"a": [1, None]}
        assert await journal.effect("k", {"q": 1}, perform) == {"a": [1, None]}
        assert journal.recorded("k")
    async with open_memory_journal(store) as journal:
        assert await journal.effect("k", {"q": 1}, perform) == {"a": [1, None]}
        assert journal.spent() == Cost(turns=1, tokens=5)
        assert journal.outcomes() == {"k": {"a": [1, None]}}
    assert perform.times == 1
    assert await kinds(store) == [("intent", "k"), ("outcome", "k")]


async def test_an_effect_is_a_span_of_the_run_s_trace() -> None:
    async def perform() -> EffectResult:
        return EffectResult(current_traceparent())

    async with open_memory_journal(await created()) as journal:
        own = trace_of(RUN, None)
        assert await journal.effect("k", {}, perform) == own.header("k")
        named = {"trace": "ab" * 16, "span": "cd" * 8}
        journal.note(TRACEPARENT, named)
        assert await journal.effect("l", {}, perform) == trace_of(RUN, named).header("l")
    assert current_traceparent() == ""


async def test_another_request_under_a_recorded_key_is_a_mismatch_that_names_both() -> None:
    store, perform = await created(), Counted()
    async with open_memory_journal(store) as journal:
        await journal.effect("2/act", {"file": "old.py"}, perform)
    async with open_memory_journal(store) as journal:
        with pytest.raises(ReplayMismatch, match=r"2/act.*old\.py.*new\.py") as caught:
            await journal.effect("2/act", {"file": "new.py"}, perform)
    assert caught.value.recorded == {"file": "old.py"}
    assert caught.value.present == {"file": "new.py"}
    assert perform.times == 1


async def test_a_note_is_recorded_once_and_compared_with_the_record() -> None:
    store = await created()
    for _ in range(2):
        async with open_memory_journal(store) as journal:
            journal.note("state/1", {"state": "Plan", "tuple": (1, 2)})
    async with open_memory_journal(store) as journal:
        with pytest.raises(ReplayMismatch, match="Plan.*Done"):
            journal.note("state/1", {"state": "Done"})
    assert [row.key for row in await store.rows(RUN)].count("state/1") == 1


async def test_a_value_is_kept_once_however_often_it_is_put() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        assert journal.put({"b": 1, "a": 2}) == journal.put({"a": 2, "b": 1})
    async with open_memory_journal(store) as journal:
        journal.put({"a": 2, "b": 1})
        journal.put({"a": 3})
    assert [kind for kind, _ in await kinds(store)] == ["data", "data"]


async def test_a_refusal_is_recorded_raised_again_and_never_performed() -> None:
    store, perform = await created(), Counted()

    async def perform_admitted(given: None) -> EffectResult:
        return await perform()

    async def admitting_now() -> tuple[None, Reservation]:
        raise AssertionError("a recorded refusal is not asked again")

    async with open_memory_journal(store) as journal:
        with pytest.raises(BudgetExhausted, match="nothing left"):
            await journal.effect("k", 1, perform_admitted, admit=refuse)
    async with open_memory_journal(store) as journal:
        with pytest.raises(BudgetExhausted, match="nothing left"):
            await journal.effect("k", 1, perform_admitted, admit=admitting_now)
        assert journal.refusals() == {"k": Refusal("budget_exhausted", "nothing left")}
        assert journal.outcomes() == {}
    assert perform.times == 0


@pytest.mark.parametrize("fault", [ModelError("no answer"), SandboxError("killed")])
async def test_how_a_model_or_a_program_failed_is_recorded_and_raised_again(
    fault: Exception,
) -> None:
    store, perform = await created(), Counted(fault=fault)
    for _ in range(2):
        async with open_memory_journal(store) as journal:
            with pytest.raises(type(fault), match=str(fault)):
                await journal.effect("k", 1, perform)
    assert perform.times == 1


async def test_an_internal_error_is_not_recorded_and_is_retried() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        with pytest.raises(KeyError):
            await journal.effect("k", 1, Counted(fault=KeyError("bug")))
        assert not journal.recorded("k")
    async with open_memory_journal(store) as journal:
        assert await journal.effect("k", 1, Counted("mended")) == "mended"
        assert journal.repeated == ["k"]


async def test_a_model_s_answer_is_on_disk_before_it_is_used() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        await journal.effect("k", 1, Counted("answer"))
        last = (await store.rows(RUN))[-1]
        assert (last.kind, json.loads(last.body)["value"]) == ("outcome", "answer")


async def test_a_row_that_no_caller_waits_for_is_durable_soon() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        await journal.effect("k", 1, Counted("seen"), durable=False)
        with anyio.fail_after(30):
            while ("outcome", "k") not in await kinds(store):
                await anyio.sleep(0.005)


async def test_an_error_inside_loses_nothing_that_was_recorded() -> None:
    store = await created()
    with pytest.raises(ZeroDivisionError):
        async with open_memory_journal(store) as journal:
            journal.note("seen", {"n": 1})
            raise ZeroDivisionError
    assert ("seen") in [row.key for row in await store.rows(RUN)]


async def test_a_swallowed_store_error_does_not_end_as_success() -> None:
    class Full(MemoryStore):
        async def append(self, *_: object) -> None:
            raise StoreError("disk full")

    store = Full(SystemClock())
    await store.create(RUN, 0.0, {})

    async def run() -> Journal:
        async with open_journal(RUN, store, SystemClock(), holder="a") as journal:
            try:
                await journal.flush()
            except StoreError:
                return journal
        raise AssertionError("unreachable")

    with pytest.raises(StoreError, match="disk full"):
        await run()


async def test_a_secret_that_is_registered_later_is_redacted_too() -> None:
    store, redact = await created(), Redactor()
    async with open_journal(RUN, store, SystemClock(), holder="a test", redact=redact) as journal:
        redact.add(["hunter2-hunter2"])
        await journal.effect("k", {}, Counted("it is hunter2-hunter2"))
    assert not any(b"hunter2" in row.body for row in await store.rows(RUN))
