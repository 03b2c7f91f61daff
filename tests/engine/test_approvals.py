"""What cannot be undone waits for a person: who decides once, about exactly one request, in time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import ClassVar

import anyio
import pytest

from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.agent_tasks import Task, run_team
from orchestrator.engine.approvals import (
    Decision,
    RecordedApprovals,
    pending_approvals,
    record_decision,
)
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import GuardedCall
from orchestrator.engine.tool_call_guards import RepetitionGuard
from orchestrator.engine.tool_registry import ToolPolicy
from orchestrator.engine.types import Bounds, Level, Request, Response, ToolCall, ToolResult
from orchestrator.errors import ApprovalPending, Denied, InputError
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.engine.engine_kit import (
    REPORT,
    Echo,
    FakeClock,
    TurnModel,
    account,
    created,
    make_runtime,
    open_memory_journal,
    spec,
)
from tests.scripted_model import ScriptedModel, text_reply, tool_call_reply

ANY = ToolPolicy(max_level=Level.IRREVERSIBLE)
NOBODY = ScriptedModel({})


@dataclass
class Desk:
    """A run with one tool that cannot be undone, sat at several times."""

    store: MemoryStore
    tool: Echo = field(default_factory=lambda: Echo("deploy", level=Level.IRREVERSIBLE))
    clock: FakeClock = field(default_factory=FakeClock)
    world: str = "head-1"

    async def where(self) -> str:
        return self.world

    @asynccontextmanager
    async def sit(self) -> AsyncIterator[tuple[Journal, AgentRuntime]]:
        async with open_memory_journal(self.store) as journal:
            approver = RecordedApprovals(journal, self.clock, self.where)
            yield journal, make_runtime(journal, NOBODY, self.tool, policy=ANY, approver=approver)

    async def ask(self, text: str = "v1", key: str = "1/act/a/turn1/tool1/deploy") -> ToolResult:
        async with self.sit() as (_, runtime):
            wish = ToolCall("c", "deploy", {"text": text})
            budget = account(tool_calls=3)
            try:
                return await runtime.executor.call(spec("a", "deploy"), wish, key, budget)
            finally:
                assert budget.held.tool_calls == 0

    async def say(self, *, approved: bool, seconds: float = 60, reason: str = "") -> None:
        async with self.sit() as (journal, _):
            (call,) = pending_approvals(journal)
            now = self.clock.now()
            given = {"reason": reason} if reason else {}
            decision = record_decision(
                journal, call, approved=approved, who="a person", now=now, seconds=seconds, **given
            )
            assert decision.reason == reason


@pytest.fixture
async def desk() -> Desk:
    return Desk(await created())


async def test_a_pending_call_says_how_to_continue_and_costs_nothing(desk: Desk) -> None:
    for _ in range(2):
        with pytest.raises(ApprovalPending, match=r"diffcourt approve run1 [0-9a-f]{12} "):
            await desk.ask()
    assert desk.tool.started == []
    async with desk.sit() as (journal, _):
        assert list(pending_approvals(journal)) == ["1/act/a/turn1/tool1/deploy"]
        assert journal.spent().tool_calls == 0


async def test_a_pending_call_is_recorded_and_named_completely(desk: Desk) -> None:
    call = "1/act/a/turn1/tool1/deploy"
    request = sha256(b'["deploy",{"text":"v1"},"head-1"]').hexdigest()
    for _ in range(2):
        with pytest.raises(ApprovalPending) as waits:
            await desk.ask()
    async with desk.sit() as (journal, _):
        assert pending_approvals(journal) == {
            call: {
                "agent": "a",
                "tool": "deploy",
                "arguments": {"text": "v1"},
                "level": "IRREVERSIBLE",
                "world": "head-1",
                "request": request,
            }
        }
        assert list(journal.notes("asked")) == [f"asked/1/{call}"]
    short = sha256(f'["run1","{call}","{request}"]'.encode()).hexdigest()[:12]
    assert (waits.value.run_id, waits.value.approval) == ("run1", short)
    assert (waits.value.tool, waits.value.call) == ("deploy", call)
    assert waits.value.arguments == {"text": "v1"}
    assert "deploy needs a person's approval, and nobody has decided yet; " in str(waits.value)


async def test_a_decision_is_recorded_for_calls_that_wait_only(desk: Desk) -> None:
    with pytest.raises(InputError, match=r"^no call x waits for a person here; waiting: none$"):
        await _decide_again(desk, "x")
    for key in ("k1", "k2"):
        with pytest.raises(ApprovalPending):
            await desk.ask(key=key)
    with pytest.raises(InputError, match=r"^no call x waits for a person here; waiting: k1, k2$"):
        await _decide_again(desk, "x")
    first, second = await _decide_again(desk, "k1"), await _decide_again(desk, "k1")
    assert (first.who, first.at, first.until, first.approved) == ("x", 1.0, 3.0, True)
    assert len(first.id) == len(second.id) == 32
    assert first.id != second.id


async def test_an_approval_that_is_claimed_elsewhere_is_used_up(desk: Desk) -> None:
    claimed: list[str] = []

    class Used:
        async def claim(self, approval: str) -> bool:
            claimed.append(approval)
            return len(claimed) == 1

    async def ask(key: str) -> ToolResult:
        async with open_memory_journal(desk.store) as journal:
            approver = RecordedApprovals(journal, desk.clock, desk.where, Used())
            runtime = make_runtime(journal, NOBODY, desk.tool, policy=ANY, approver=approver)
            wish = ToolCall("c", "deploy", {"text": "v1"})
            return await runtime.executor.call(spec("a", "deploy"), wish, key, account())

    for key in ("k1", "k2"):
        with pytest.raises(ApprovalPending):
            await ask(key)
    ids = [(await _decide_again(desk, key, desk.clock.now())).id for key in ("k1", "k2")]
    assert (await ask("k1")).ok
    why = (
        "and the approval was already used, so the call may have happened: check, and "
        "approve it again only if it did not; "
    )
    with pytest.raises(ApprovalPending, match=why):
        await ask("k2")
    assert claimed == ids
    assert desk.tool.started == ["v1"]


async def test_an_approved_call_is_performed_once(desk: Desk) -> None:
    with pytest.raises(ApprovalPending):
        await desk.ask()
    await desk.say(approved=True)
    assert (await desk.ask()).ok
    assert (await desk.ask()).ok
    assert desk.tool.started == ["v1"]
    with pytest.raises(InputError, match="no call .* waits"):
        await _decide_again(desk)


async def _decide_again(
    desk: Desk, call: str = "1/act/a/turn1/tool1/deploy", now: float = 1.0
) -> Decision:
    async with desk.sit() as (journal, _):
        return record_decision(journal, call, approved=True, who="x", now=now, seconds=2.0)


@pytest.mark.parametrize(
    ("reason", "told"),
    [("", "a person has denied deploy"), ("not today", "a person has denied deploy: not today")],
)
async def test_a_denied_call_is_a_refusal_that_the_model_sees(
    desk: Desk, reason: str, told: str
) -> None:
    with pytest.raises(ApprovalPending):
        await desk.ask()
    await desk.say(approved=False, reason=reason)
    refused = await desk.ask()
    assert (refused.code, refused.ok) == ("denied", False)
    assert refused.refusal is not None
    assert refused.refusal.reason == told
    assert told in refused.content
    assert desk.tool.started == []


async def test_an_approval_ends_with_its_time(desk: Desk) -> None:
    with pytest.raises(ApprovalPending):
        await desk.ask()
    await desk.say(approved=True, seconds=60)
    desk.clock.at += 61
    with pytest.raises(ApprovalPending, match="the approval is no longer valid: it has expired;"):
        await desk.ask()
    async with desk.sit() as (journal, _):
        assert list(journal.notes("expired")) == ["expired/1/1/act/a/turn1/tool1/deploy"]
    await desk.say(approved=True, seconds=60)
    assert (await desk.ask()).ok


@pytest.mark.attack("an expired approval, after the clock was put back")
@pytest.mark.parametrize("back", [1.0, 61.0, 119.0, 30 * 86400.0])
async def test_an_expired_approval_never_lives_again(desk: Desk, back: float) -> None:
    with pytest.raises(ApprovalPending):
        await desk.ask()
    await desk.say(approved=True, seconds=60)
    desk.clock.at += 120
    for moved in (0.0, -back, 0.0):
        desk.clock.at += moved
        with pytest.raises(ApprovalPending, match="has expired|given in the future"):
            await desk.ask()
    assert desk.tool.started == []
    await desk.say(approved=True, seconds=60)
    assert (await desk.ask()).ok


@pytest.mark.attack("a copy of the journal from before an approval was found to have expired")
async def test_the_log_of_used_approvals_remembers_an_expired_one(desk: Desk) -> None:
    class Used:
        claimed: ClassVar[list[str]] = []

        async def claim(self, approval: str) -> bool:
            self.claimed.append(approval)
            return self.claimed.count(approval) == 1

    async def ask(store: MemoryStore) -> ToolResult:
        async with open_memory_journal(store) as journal:
            approver = RecordedApprovals(journal, desk.clock, desk.where, Used())
            runtime = make_runtime(journal, NOBODY, desk.tool, policy=ANY, approver=approver)
            wish = ToolCall("c", "deploy", {"text": "v1"})
            return await runtime.executor.call(spec("a", "deploy"), wish, "k", account())

    with pytest.raises(ApprovalPending):
        await ask(desk.store)
    await _decide_again(desk, "k", desk.clock.now())
    older = MemoryStore(desk.clock)
    desk.store._db.backup(older._db)
    desk.clock.at += 120
    with pytest.raises(ApprovalPending, match="has expired"):
        await ask(desk.store)
    desk.clock.at -= 119
    with pytest.raises(ApprovalPending, match="already used"):
        await ask(older)
    assert desk.tool.started == []


@pytest.mark.attack("an approval that is dated in the future")
@pytest.mark.parametrize(
    ("ahead", "valid"), [(0.0, True), (60.0, True), (61.0, False), (86400.0, False)]
)
async def test_an_approval_from_the_future_is_refused_beyond_the_skew(
    desk: Desk, ahead: float, valid: bool
) -> None:
    with pytest.raises(ApprovalPending):
        await desk.ask()
    desk.clock.at += ahead
    await desk.say(approved=True, seconds=3600)
    desk.clock.at -= ahead
    if valid:
        assert (await desk.ask()).ok
        return
    why = "and the approval is not valid: by this machine's clock it was given in the future; "
    with pytest.raises(ApprovalPending, match=why):
        await desk.ask()
    assert desk.tool.started == []


async def test_an_approval_is_valid_at_its_last_instant(desk: Desk) -> None:
    with pytest.raises(ApprovalPending):
        await desk.ask()
    await desk.say(approved=True, seconds=60)
    desk.clock.at += 60
    assert (await desk.ask()).ok


async def test_another_head_needs_another_approval(desk: Desk) -> None:
    with pytest.raises(ApprovalPending):
        await desk.ask()
    await desk.say(approved=True)
    desk.world = "head-2"
    about = "and the decision is no longer valid: it was for another request;"
    with pytest.raises(ApprovalPending, match=about):
        await desk.ask()
    assert desk.tool.started == []


async def test_an_approval_does_not_apply_to_another_call(desk: Desk) -> None:
    with pytest.raises(ApprovalPending):
        await desk.ask()
    await desk.say(approved=True)
    with pytest.raises(ApprovalPending):
        await desk.ask(key="1/act/a/turn2/tool1/deploy")
    assert desk.tool.started == []


async def test_other_arguments_under_the_same_key_are_refused(desk: Desk) -> None:
    with pytest.raises(ApprovalPending):
        await desk.ask("v1")
    await desk.say(approved=True)
    with pytest.raises(ApprovalPending, match="no longer valid"):
        await desk.ask("v2")
    assert desk.tool.started == []


async def test_arguments_that_differ_only_in_redacted_text_are_different_arguments(
    desk: Desk,
) -> None:
    async def ask(text: str) -> ToolResult:
        async with open_memory_journal(desk.store, secrets=["secret-1", "secret-2"]) as journal:
            approver = RecordedApprovals(journal, desk.clock, desk.where)
            runtime = make_runtime(journal, NOBODY, desk.tool, policy=ANY, approver=approver)
            wish = ToolCall("c", "deploy", {"text": text})
            return await runtime.executor.call(spec("a", "deploy"), wish, "k", account())

    with pytest.raises(ApprovalPending):
        await ask("secret-1")
    await desk.say(approved=True)
    with pytest.raises(ApprovalPending, match="no longer valid"):
        await ask("secret-2")
    assert desk.tool.started == []
    assert not any(b"secret-" in row.body for row in await desk.store.rows("run1"))


async def test_a_crash_after_the_approval_uses_it_up(desk: Desk) -> None:
    """Whether it happened is not known: a person decides anew, and the old word does not count."""

    class Crash(BaseException):
        pass

    def crash(arguments, context):
        raise Crash

    with pytest.raises(ApprovalPending):
        await desk.ask()
    await desk.say(approved=True)
    desk.tool = Echo("deploy", level=Level.IRREVERSIBLE, run=crash)
    with pytest.raises(Crash):
        await desk.ask()
    desk.tool = Echo("deploy", level=Level.IRREVERSIBLE)
    result = await desk.ask()
    assert result.code == "approval_required"
    assert "may have happened" in result.content
    assert desk.tool.started == []


async def test_of_two_equal_parallel_calls_only_one_passes_the_guards(desk: Desk) -> None:
    class Slow:
        async def approve(self, call: GuardedCall, ref: str) -> None:
            await anyio.sleep(0.05)

    results: list[ToolResult] = []
    async with open_memory_journal(desk.store) as journal:
        runtime = make_runtime(
            journal, NOBODY, desk.tool, policy=ANY, approver=Slow(), guards=[RepetitionGuard(1)]
        )

        async def one(n: int) -> None:
            wish = ToolCall(f"c{n}", "deploy", {"text": "v1"})
            results.append(
                await runtime.executor.call(spec("a", "deploy"), wish, f"k{n}", account())
            )

        async with anyio.create_task_group() as group:
            group.start_soon(one, 1)
            group.start_soon(one, 2)
    assert sorted(result.code for result in results) == ["", "guard_refused"]
    assert desk.tool.started == ["v1"]


async def test_a_call_that_a_person_refused_does_not_count_for_the_guards(desk: Desk) -> None:
    class Moody:
        answers = [False, True]  # noqa: RUF012

        async def approve(self, call: GuardedCall, ref: str) -> None:
            if not self.answers.pop(0):
                raise Denied("not today")

    async with open_memory_journal(desk.store) as journal:
        runtime = make_runtime(
            journal, NOBODY, desk.tool, policy=ANY, approver=Moody(), guards=[RepetitionGuard(1)]
        )
        codes = [
            (
                await runtime.executor.call(
                    spec("a", "deploy"), ToolCall("c", "deploy", {"text": "v"}), f"k{n}", account()
                )
            ).code
            for n in range(3)
        ]
    assert codes == ["denied", "", "guard_refused"]


async def test_other_agents_finish_before_the_run_waits(desk: Desk) -> None:
    def answer(request: Request, turn: int) -> Response:
        if request.agent == "a1" and turn == 1:
            return tool_call_reply(("deploy", {"text": "v1"}))
        return text_reply('{"answer": 1}')

    model = TurnModel(answer, latency=0.02)

    async def sit() -> list[str]:
        async with open_memory_journal(desk.store) as journal:
            approver = RecordedApprovals(journal, desk.clock, desk.where)
            runtime = make_runtime(journal, model, desk.tool, policy=ANY, approver=approver)
            work = [
                Task(
                    spec(f"a{n}", "deploy", contract=REPORT, bounds=Bounds(turns=4)),
                    "go",
                    Key("act", 1, f"a{n}"),
                )
                for n in range(4)
            ]
            done = await run_team(work, runtime, account(), concurrency=4)
            return [result.status for result in done]

    with pytest.raises(ApprovalPending):
        await sit()
    asked = len(model.answered)
    assert asked == 4
    await desk.say(approved=True)
    assert await sit() == ["ok"] * 4
    assert desk.tool.started == ["v1"]
    assert len(model.answered) == asked + 1  # nothing recorded was asked again


async def test_a_person_is_asked_only_about_what_the_agent_may_do_and_cannot_undo() -> None:
    deploy, echo = ToolCall("", "deploy", {"text": "v1"}), ToolCall("", "echo", {"text": "v1"})
    async with open_memory_journal() as journal:
        tools = Echo("deploy", level=Level.IRREVERSIBLE), Echo()
        executor = make_runtime(journal, NOBODY, *tools, policy=ANY).executor
        assert executor.asks_person(spec("worker", "deploy"), deploy) == {"text": "v1"}
        assert executor.asks_person(spec("worker", "echo"), deploy) is None
        assert executor.asks_person(spec("worker", "echo"), echo) is None
