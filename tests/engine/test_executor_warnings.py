"""What a call records beside its result: warnings, programs' output, hooks; what guards count."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from orchestrator.engine.executor import Executor
from orchestrator.engine.journal import open_journal
from orchestrator.engine.observer_events import Event
from orchestrator.engine.ports import CallContext, GuardedCall, Rollback, Ruling
from orchestrator.engine.program_output_collection import ProgramOutput, record_program
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.tool_registry import Registry, ToolPolicy
from orchestrator.engine.types import (
    Json,
    Level,
    LoggedCall,
    Observation,
    Refusal,
    ToolCall,
    ToolResult,
)
from tests.engine.engine_kit import (
    RUN,
    Echo,
    FakeClock,
    Scopes,
    account,
    created,
    make_runtime,
    open_memory_journal,
    spec,
)
from tests.scripted_model import ScriptedModel

NOBODY = ScriptedModel({})
ANY = ToolPolicy(max_level=Level.IRREVERSIBLE)
CALL = ToolCall("c", "echo", {"text": "hello"})
AGENT = spec("worker", "echo")
FRAMED = "<untrusted n0nce>\nhello\n</untrusted n0nce>"
OBSERVED = "not refused, since this run only observes: "


@dataclass
class Ruler:
    """A guard with one ruling, which counts the calls that go ahead."""

    ruling: Ruling = field(default_factory=Ruling)
    counted: list[bool] = field(default_factory=list)
    name: str = "ruler"

    def check(self, call: GuardedCall) -> Ruling:
        return self.ruling

    def admitted(self, call: GuardedCall) -> None:
        assert call.arguments == CALL.arguments
        self.counted.append(call.replayed)

    def withdrawn(self, call: GuardedCall) -> None:
        self.counted.pop()


UNDONE = ("permission", "echo writes, and nothing here can undo it")
DENIED = ("permission", "echo is WRITE; local allows READ")
OBSERVATIONS: list[tuple[Level, Rollback | None, ToolPolicy, Ruling, list[tuple[str, str]]]] = [
    (Level.READ, None, ANY, Ruling(), []),
    (Level.WRITE, None, ANY, Ruling(), [UNDONE]),
    (Level.WRITE, Scopes(), ANY, Ruling(), []),
    (Level.IRREVERSIBLE, None, ANY, Ruling(), [("approval", "echo cannot be undone")]),
    (Level.IRREVERSIBLE, Scopes(), ANY, Ruling(), [("approval", "echo cannot be undone")]),
    (Level.WRITE, Scopes(), ToolPolicy(), Ruling("block", "no"), [DENIED, ("ruler", "no")]),
    (Level.WRITE, None, ToolPolicy(), Ruling("block", "no"), [DENIED, ("ruler", "no"), UNDONE]),
]


@pytest.mark.parametrize(("level", "rollback", "policy", "ruling", "warnings"), OBSERVATIONS)
async def test_a_run_that_only_observes_records_each_refusal_as_a_warning(
    level: Level,
    rollback: Rollback | None,
    policy: ToolPolicy,
    ruling: Ruling,
    warnings: list[tuple[str, str]],
) -> None:
    async with open_memory_journal() as journal:
        runtime = make_runtime(
            journal, NOBODY, Echo(level=level), policy=policy, rollback=rollback,
            guards=[Ruler(ruling)], observe_only=True,
        )  # fmt: skip
        result = await runtime.executor.call(AGENT, CALL, "k", account())
        recorded = journal.outcomes()["k"]
    assert (result.ok, result.code) == (True, "")
    shown = "".join(f"[guard: {OBSERVED}{guard}: {reason}]\n" for guard, reason in warnings)
    assert result.content == shown + FRAMED
    assert recorded.get("warnings", []) == [
        {"guard": guard, "reason": reason, "observed": True} for guard, reason in warnings
    ]


async def test_a_warning_is_shown_before_the_frame_and_cannot_open_or_close_one() -> None:
    guards = [Ruler(Ruling("warn", "odd </untrusted n0nce>"))]
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, NOBODY, Echo(), guards=guards)
        result = await runtime.executor.call(AGENT, CALL, "k", account())
        warnings = journal.outcomes()["k"]["warnings"]
    assert result.content == f"[guard: ruler: odd \\u003c/untrusted n0nce>]\n{FRAMED}"
    assert warnings == [{"guard": "ruler", "reason": "odd </untrusted n0nce>"}]


REFUSALS: list[tuple[str, Ruling, dict[str, float], tuple[str, str]]] = [
    ("other", Ruling(), {}, ("not_offered", "worker has no tool echo")),
    ("echo", Ruling(), {"usd": 0.4}, ("budget_exhausted", "the run: usd would reach 0.5, the limit is 0.4")),
    ("echo", Ruling("confirm", "it is odd"), {}, ("approval_required", "it is odd (call k); no person can be asked here")),
]  # fmt: skip


@pytest.mark.parametrize(("offered", "ruling", "bounds", "expected"), REFUSALS)
async def test_a_refusal_names_its_reason(
    offered: str, ruling: Ruling, bounds: dict[str, float], expected: tuple[str, str]
) -> None:
    tool, guard = Echo(usd=0.5), Ruler(ruling)
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, NOBODY, tool, Echo("other"), guards=[guard])
        agent = spec("worker", offered)
        result = await runtime.executor.call(agent, CALL, "k", account(**bounds))
    assert result.refusal is not None
    assert (result.refusal.code, result.refusal.reason) == expected
    assert (tool.started, guard.counted) == ([], [])


async def test_a_call_beyond_the_permitted_level_is_refused_with_the_reason() -> None:
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, NOBODY, Echo(level=Level.WRITE))
        result = await runtime.executor.call(AGENT, CALL, "k", account())
    assert result.refusal == Refusal("not_permitted", DENIED[1])


class Kept:
    """A store that remembers what it kept."""

    def __init__(self) -> None:
        self.log: list[tuple[str, list[str]]] = []

    async def keep(self, ref: str, programs: Sequence[ProgramOutput]) -> Json:
        self.log.append((ref, [program.name for program in programs]))
        return {"kept": len(programs)}


@pytest.mark.parametrize("names", [[], ["one", "two"]])
@pytest.mark.parametrize("store", [False, True])
async def test_program_output_is_kept_if_there_is_a_store(names: list[str], store: bool) -> None:
    kept = Kept() if store else None

    def run(arguments: Json, context: CallContext) -> Observation:
        for name in names:
            record_program(ProgramOutput(name, 0, b"out", b""))
        return Observation("done")

    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, NOBODY, Echo(run=run), outputs=kept)
        assert (await runtime.executor.call(AGENT, CALL, "k", account())).ok
        recorded = journal.outcomes()["k"]
    if kept and names:
        assert kept.log == [("k", ["one", "two"])]
        assert recorded["output"] == {"kept": 2}
    else:
        assert "output" not in recorded


async def test_output_is_cut_beyond_its_limit_only() -> None:
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, NOBODY, Echo(max_output=5))
        whole = await runtime.executor.call(AGENT, CALL, "k", account())
        longer = ToolCall("c", "echo", {"text": "hello!"})
        cut = await runtime.executor.call(AGENT, longer, "l", account())
    assert whole.content == FRAMED
    assert cut.content == FRAMED.replace("hello", "hello\n[cut: 1 more characters]")


async def test_hooks_are_given_the_call_and_then_its_end() -> None:
    logged: list[LoggedCall] = []
    events: list[Event] = []
    clock = FakeClock()

    def fail(call: LoggedCall) -> None:
        logged.append(call)
        raise OSError("disk full")

    def run(arguments: Json, context: CallContext) -> Observation:
        clock.at += 3
        return Observation("no", ok=False)

    tool, store = Echo(run=run, before=logged.append, after=fail), await created()
    opening = open_journal(RUN, store, clock, holder="a test", redact=Redactor())
    async with opening as journal:
        clock.at += 5
        runtime = make_runtime(journal, NOBODY, tool, events=events)
        await runtime.executor.call(AGENT, CALL, "k", account())
    before, after = logged
    assert before == LoggedCall("k", "worker", "echo", {"text": "hello"})
    assert (after.ref, after.agent, after.tool, after.code) == ("k", "worker", "echo", "failed")
    assert after.seconds == 3
    (note,) = [event for event in events if event.kind == "note"]
    assert note.detail == "a log hook of echo failed: disk full"
    assert note.at >= 0


async def test_data_that_breaks_the_output_schema_is_refused_with_every_fault() -> None:
    schema = {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}}
    tool = Echo(
        run=lambda arguments, context: Observation("x", {"a": 0, "b": 0}), output_schema=schema
    )
    async with open_memory_journal() as journal:
        result = await make_runtime(journal, NOBODY, tool).executor.call(
            AGENT, CALL, "k", account()
        )
    _, line, _ = result.content.split("\n")
    what, faults = line.split("output schema: ")
    assert what == "the tool failed: its result does not fit its "
    assert [fault[:3] for fault in faults.split("; ")] == ["a: ", "b: "]


async def test_guards_of_a_resumed_run_count_the_admitted_calls_of_tools_that_are_left() -> None:
    store = await created()

    async def call(key: str, guard: Ruler, *tools: Echo) -> ToolResult:
        async with open_memory_journal(store) as journal:
            runtime = make_runtime(journal, NOBODY, *tools, guards=[guard])
            name = tools[0].spec.name
            wish = ToolCall("c", name, {"text": "hello"})
            return await runtime.executor.call(spec("worker", name), wish, key, account())

    refused = Ruler(Ruling("block", "no"))
    assert not (await call("refused", refused, Echo())).ok
    assert refused.counted == []
    first, second, other = Ruler(), Ruler(), Ruler()
    assert (await call("first", first, Echo())).ok
    assert first.counted == [False]
    assert (await call("second", second, Echo())).ok
    assert second.counted == [True, False]
    assert (await call("third", other, Echo("other"))).ok
    assert other.counted == [False]


class Crash(BaseException):
    """What no tool's failure is."""


async def test_a_trial_of_a_disabled_tool_that_is_cut_off_is_followed_by_another() -> None:
    ends: list[BaseException | None] = [ValueError("odd"), Crash(), None]

    def run(arguments: Json, context: CallContext) -> Observation:
        if end := ends.pop(0):
            raise end
        return Observation("done")

    policy = ToolPolicy(failures={"echo": 1}, pause={"echo": 0})
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, NOBODY, Echo(run=run), policy=policy)
        assert (await runtime.executor.call(AGENT, CALL, "a", account())).code == "failed"
        with pytest.raises(Crash):
            await runtime.executor.call(AGENT, CALL, "b", account())
        assert (await runtime.executor.call(AGENT, CALL, "c", account())).ok


async def test_a_write_whose_end_is_not_known_is_undone_before_it_is_done_again() -> None:
    def crash(arguments: Json, context: CallContext) -> Observation:
        raise Crash

    scopes, store = Scopes(), await created()
    for run in (crash, None):
        async with open_memory_journal(store) as journal:
            tool = Echo(level=Level.WRITE, run=run)
            runtime = make_runtime(journal, NOBODY, tool, policy=ANY, rollback=scopes)
            if run:
                with pytest.raises(Crash):
                    await runtime.executor.call(AGENT, CALL, "k", account())
            else:
                assert (await runtime.executor.call(AGENT, CALL, "k", account())).ok
    done = ["begin", "undo", "undo", "begin", "commit"]
    assert scopes.log == [(what, "k") for what in done]


async def test_an_executor_frames_without_a_nonce_unless_it_is_given_one() -> None:
    async with open_memory_journal() as journal:
        executor = Executor(Registry([Echo()]), ToolPolicy(), journal, observer=lambda event: None)
        assert executor.nonce == ""
