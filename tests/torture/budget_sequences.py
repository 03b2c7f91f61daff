"""Budgets under every order of events: conserved, and never overdrawn.

A sequence is what a team does with one budget: calls that reserve, settle for less, are refunded, are
cancelled, succeed late, or are cut off with the whole process and gone on with from the journal. It
passes through the real executor, journal and accounts; only the tool is scripted.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import anyio
import anyio.lowlevel

from orchestrator.engine.budget import Account, Cost, Reservation
from orchestrator.engine.executor import Executor
from orchestrator.engine.journal import EffectResult, Journal, open_journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.model_call_events import reserve_retry
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.ports import CallContext, SystemClock
from orchestrator.engine.tool_registry import Registry, ToolPolicy
from orchestrator.engine.types import (
    AgentSpec,
    Bounds,
    Json,
    Level,
    Observation,
    ToolCall,
    ToolSpec,
)
from orchestrator.errors import BudgetExhausted, ModelError
from orchestrator.stores.sqlite_journal import MemoryStore

FULL = 10_000
SAMPLE = 30
RUN = "run"
AGENTS, CALLS = 4, 5


class CutOff(BaseException):
    """The process dies here."""


@dataclass
class Deed:
    """What one call will do: ``ok``, ``fails``, ``hangs`` until it is cancelled, or ``dies``."""

    ends: str
    delay: float
    usd: float


class Scripted:
    """A tool that does what the sequence says, and counts what really happened."""

    def __init__(self, spec: ToolSpec, deeds: Mapping[str, Deed]) -> None:
        self.spec, self._deeds = spec, deeds
        self.started: list[str] = []

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        deed = self._deeds[context.ref]
        self.started.append(context.ref)
        await anyio.sleep(deed.delay)
        if deed.ends == "hangs":
            await anyio.sleep(60)
        if deed.ends == "dies":
            deed.ends = "ok"  # the next session gets through
            raise CutOff
        if deed.ends == "fails":
            raise ValueError("it failed")
        return Observation("ok")


class Sequence:
    """One team's calls on one budget, in an order drawn from a seed."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.limit = Bounds(
            tool_calls=draw.randint(1, AGENTS * CALLS), usd=round(draw.uniform(0.1, 2.0), 2)
        )
        self.own = Bounds(tool_calls=draw.randint(1, CALLS), usd=draw.uniform(0.1, 1.0))
        ends = draw.choices(["ok", "fails", "hangs", "dies"], [6, 2, 1, 1], k=AGENTS * CALLS)
        keys = [f"a{agent}/{call}" for agent in range(AGENTS) for call in range(CALLS)]
        self.deeds = {
            key: Deed(end, draw.choice([0, 0, 0.0005]), round(draw.uniform(0, 0.2), 3))
            for key, end in zip(keys, ends, strict=True)
        }
        self.cancelled_after = draw.choice([None, None, 0.001, 0.003])
        self.tool = Scripted(
            ToolSpec("act", "", {"type": "object"}, Level.READ, timeout=0.002, usd=0.1), self.deeds
        )

    async def sit(self, journal: Journal) -> Account:
        """One session of the whole team.

        Raises:
            AssertionError: an account was overdrawn, or something is held that nobody holds.
        """
        budget = Account("the run", self.limit, used=journal.spent())
        executor = Executor(
            Registry([self.tool]), ToolPolicy(), journal, nonce="n", observer=ignore_event
        )

        async def agent(number: int) -> None:
            name = f"a{number}"
            own = Account(name, self.own, parent=budget, used=journal.spent(f"{name}"))
            for call in range(CALLS):
                key = f"{name}/{call}"
                await executor.call(
                    AgentSpec(name, "", "", ("act",)), ToolCall("c", "act", {}), key, own
                )
                await self._model(journal, f"{key}/model", own, self.deeds[key].usd)
                self.check(budget, own)

        try:
            with anyio.move_on_after(self.cancelled_after):
                async with anyio.create_task_group() as group:
                    for number in range(AGENTS):
                        group.start_soon(agent, number)
        finally:
            self.check(budget)
            held = budget.held  # sums of floats leave dust
            assert held.tool_calls == 0, held
            assert abs(held.usd) < 1e-9, held
        return budget

    async def _model(self, journal: Journal, key: str, own: Account, usd: float) -> None:
        """A call that is reserved at its worst, and settled for what it came to."""

        async def admit() -> tuple[None, Reservation]:
            return None, own.reserve(Cost(usd=0.2))

        async def perform(given: None) -> EffectResult:
            await anyio.lowlevel.checkpoint()
            if usd > 0.15 and not reserve_retry(
                journal, Key.parse(key), own, Cost(turns=1, usd=0.2)
            ):
                raise ModelError("a reply was lost, and another try cannot be paid for")
            await anyio.lowlevel.checkpoint()
            if usd < 0.02:
                raise ModelError("no answer, and billed all the same")
            return EffectResult("said", Cost(usd=usd))

        try:
            await journal.effect(key, None, perform, admit=admit)
        except (BudgetExhausted, ModelError):
            return

    @staticmethod
    def check(*accounts: Account) -> None:
        """Nothing may ever be used and held beyond a limit."""
        for account in accounts:
            both = account.used + account.held
            assert both.tool_calls <= account.bounds.tool_calls + 1e-9, account.name
            assert both.usd <= account.bounds.usd + 1e-9, account.name
            assert account.held.usd >= -1e-9, account.name


async def conserved(seed: int) -> None:
    """Run a sequence over as many sessions as it takes; raises where the books do not balance."""
    sequence, store = Sequence(seed), MemoryStore(SystemClock())
    await store.create(RUN, 0.0, {})
    for _ in range(AGENTS * CALLS + 2):
        try:
            async with open_journal(RUN, store, SystemClock(), holder="a test") as journal:
                budget = await sequence.sit(journal)
                spent = journal.spent()
        except BaseExceptionGroup as group:
            if not group.subgroup(CutOff):
                raise
            sequence.cancelled_after = None
            continue
        except CutOff:
            sequence.cancelled_after = None
            continue
        assert abs(spent.usd - budget.used.usd) < 1e-6, (spent, budget.used)
        assert spent.tool_calls == budget.used.tool_calls, (spent, budget.used)
        if sequence.cancelled_after is None:
            return
        sequence.cancelled_after = None
    raise AssertionError("it never came to an end")


def run(count: int, say: Callable[[str], None] = print) -> tuple[int, int]:
    """So many sequences; returns how many passed and failed."""
    failed = 0
    for seed in range(count):
        try:
            anyio.run(conserved, seed, backend=("asyncio", "trio")[seed % 2])
        except Exception as fault:
            failed += 1
            say(f"budget sequence {seed}: {type(fault).__name__}: {fault}")
    return count - failed, failed
