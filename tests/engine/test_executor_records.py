"""What a call leaves behind in full: its events, its result, its cost and what the tool is given."""

import pytest

from orchestrator.engine.budget import Account
from orchestrator.engine.observer_events import Event
from orchestrator.engine.ports import CallContext
from orchestrator.engine.tool_call_guards import RateGuard
from orchestrator.engine.tool_registry import ToolPolicy
from orchestrator.engine.types import (
    AgentSpec,
    Bounds,
    Json,
    Level,
    Observation,
    Refusal,
    ToolCall,
    ToolResult,
)
from orchestrator.errors import InputError
from tests.engine.engine_kit import (
    Echo,
    Scopes,
    account,
    created,
    make_runtime,
    open_memory_journal,
)
from tests.scripted_model import ScriptedModel

NOBODY = ScriptedModel({})
WIDE = ToolPolicy(max_level=Level.WRITE)
AGENT = AgentSpec("a", "works", "You work.", ("echo",))
CALL = ToolCall("c7", "echo", {"text": "hello"})


def parts(events: list[Event]) -> list[tuple[object, ...]]:
    return [(e.kind, e.agent, e.tool, e.key, e.detail, e.data, e.replayed) for e in events]


async def test_a_call_has_events_at_its_start_and_end_and_when_replayed() -> None:
    store = await created()
    for replayed in (False, True):
        events: list[Event] = []
        async with open_memory_journal(store) as journal:
            runtime = make_runtime(journal, NOBODY, Echo(), events=events)
            result = await runtime.executor.call(AGENT, CALL, "1/act/a", account())
        rows = await store.rows("run1")
        assert not any(b'"effective"' in row.body for row in rows)  # nobody changed the arguments
        assert result == ToolResult(
            "c7",
            "<untrusted n0nce>\nhello\n</untrusted n0nce>",
            ok=True,
            ref="1/act/a",
            data={"said": "hello"},
            code="",
        )
        assert parts(events) == [
            ("tool_started", "a", "echo", "1/act/a", "", None, replayed),
            ("tool_finished", "a", "echo", "1/act/a", "ok", {"said": "hello"}, replayed),
        ]
        assert all(event.at >= 0 for event in events)


async def test_a_refusal_has_an_event_and_its_result_names_code_reason_and_guard() -> None:
    store = await created()
    for replayed in (False, True):
        events: list[Event] = []
        async with open_memory_journal(store) as journal:
            guards = (RateGuard({"echo": 0}, {}, lambda: 0.0),)
            runtime = make_runtime(journal, NOBODY, Echo(), events=events, guards=guards)
            result = await runtime.executor.call(AGENT, CALL, "k", account())
        reason = "echo was already called 0 times in this run"
        assert result == ToolResult(
            "c7",
            f"<untrusted n0nce>\nrefused: rate: {reason}\n</untrusted n0nce>",
            ok=False,
            ref="k",
            code="guard_refused",
            refusal=Refusal("guard_refused", reason, "rate"),
        )
        assert parts(events) == [
            ("tool_started", "a", "echo", "k", "", None, replayed),
            ("tool_finished", "a", "echo", "k", "guard_refused", None, replayed),
        ]


@pytest.mark.parametrize(("left", "seconds"), [(60.0, 4.0), (3.0, 3.0), (0.5, 0.5)])
async def test_a_tool_is_given_its_call_its_agent_and_the_time_that_is_left(
    left: float, seconds: float
) -> None:
    tool = Echo(timeout=4.0, usd=0.25)
    budget = Account("the run", Bounds(seconds=left), elapsed=lambda: 0.0)
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, NOBODY, tool)
        await runtime.executor.call(AGENT, CALL, "k", budget)
        assert journal.spent().usd == 0.25
    assert tool.contexts == [CallContext("k", "a", seconds)]
    assert (budget.used.tool_calls, budget.used.usd) == (1, 0.25)


@pytest.mark.parametrize(
    ("seen", "ok", "code", "shown"),
    [
        (Observation("fine"), True, "", "fine"),
        (Observation("not found", ok=False), False, "failed", "not found"),
        (InputError("no such file"), False, "declined", "no such file"),
        (ValueError("odd"), False, "failed", "the tool failed: ValueError: odd"),
        (Observation("x", data=object()), False, "failed", "the tool failed: its data is not JSON"),
    ],
)
async def test_an_outcome_has_a_code_and_only_a_good_one_is_kept(
    seen: Observation | Exception, ok: bool, code: str, shown: str
) -> None:
    def run(arguments: Json, context: CallContext) -> Observation:
        if isinstance(seen, Exception):
            raise seen
        return seen

    scopes, tool = Scopes(), Echo(level=Level.WRITE, run=run)
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, NOBODY, tool, policy=WIDE, rollback=scopes)
        result = await runtime.executor.call(AGENT, CALL, "k", account())
        failed = {} if ok else {"ok": False, "code": code}
        assert journal.outcomes() == {"k": {"content": result.content, **failed}}
    assert (result.ok, result.code) == (ok, code)
    assert result.content == f"<untrusted n0nce>\n{shown}\n</untrusted n0nce>"
    assert scopes.log == [("begin", "k"), ("commit" if ok else "undo", "k")]


async def test_a_tool_without_a_result_in_time_has_timed_out() -> None:
    tool = Echo(delay=60, timeout=0.01)
    async with open_memory_journal() as journal:
        result = await make_runtime(journal, NOBODY, tool).executor.call(
            AGENT, CALL, "k", account()
        )
    assert (result.ok, result.code) == (False, "timeout")
    assert "\nno result within 0.01 s\n" in result.content


async def test_reading_opens_no_scope() -> None:
    scopes = Scopes()
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, NOBODY, Echo(), policy=WIDE, rollback=scopes)
        assert (await runtime.executor.call(AGENT, CALL, "k", account())).ok
    assert scopes.log == []


@pytest.mark.parametrize(
    ("level", "reason"),
    [
        (Level.WRITE, "echo writes, and nothing here can undo it"),
        (Level.IRREVERSIBLE, "echo cannot be undone (call k); no person can be asked here"),
    ],
)
async def test_a_call_that_can_neither_be_undone_nor_approved_is_refused_with_the_reason(
    level: Level, reason: str
) -> None:
    tool, policy = Echo(level=level), ToolPolicy(max_level=Level.IRREVERSIBLE)
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, NOBODY, tool, policy=policy)
        result = await runtime.executor.call(AGENT, CALL, "k", account())
    assert result.refusal is not None
    assert (result.refusal.reason, tool.started) == (reason, [])
