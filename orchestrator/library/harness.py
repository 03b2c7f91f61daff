"""The executor as a library: other people's agents get the same guarantees for their actions.

    async with Harness.open(Path("journal.db"), "run-1") as harness:
        harness.register("deploy", deploy, schema=SCHEMA, level=Level.IRREVERSIBLE)
        await harness.execute("deploy", {"to": "production"})       # raises ApprovalPending
        await harness.approve_and_execute("deploy", {"to": "production"}, who="someone")

Actions are numbered in the order in which they are asked for. A program that is started again over
the same journal gets what is recorded, and nothing is done twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from msgspec import Struct

from orchestrator.engine.approvals import (
    RecordedApprovals,
    pending_approvals,
    record_decision,
    request_digest,
)
from orchestrator.engine.budget import Account
from orchestrator.engine.events import ignore_event
from orchestrator.engine.executor import Executor
from orchestrator.engine.journal import Journal, open_journal
from orchestrator.engine.ports import CallContext, Clock, Guard, SystemClock, Tool
from orchestrator.engine.redaction import Redactor
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
from orchestrator.engine.untrusted_text import run_nonce, unframe
from orchestrator.errors import ActionFailed, ApprovalPending, Refused
from orchestrator.sandbox.file_rollback import FileRollback
from orchestrator.stores.lease_holder import this_process
from orchestrator.stores.memory import MemoryStore
from orchestrator.stores.sqlite import SqliteStore

Handler = Callable[[Mapping[str, Json]], Awaitable[Json]]
ANYTHING: Mapping[str, Json] = {"type": "object"}
APPROVED_SECONDS = 60.0
UNBOUNDED, CLOCK = Bounds(), SystemClock()
EVERY_LEVEL = ToolPolicy(max_level=Level.IRREVERSIBLE)
_REFUSALS: dict[str, type[Refused]] = {kind.code: kind for kind in Refused.__subclasses__()}


class _Action(Struct):
    """A handler as a tool of the engine."""

    spec: ToolSpec
    handler: Handler

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Run the handler; what it returns is the action's result."""
        return Observation("", await self.handler(arguments))


class Harness:
    """Registered actions behind one executor and one journal. Use ``Harness.open``."""

    def __init__(
        self, journal: Journal, executor: Executor, account: Account, clock: Clock, world: str
    ) -> None:
        self.journal = journal
        self._executor, self._account, self._clock, self._world = executor, account, clock, world
        self._asked = 0

    @classmethod
    @asynccontextmanager
    async def open(  # noqa: PLR0913 - options, all by keyword
        cls,
        path: str | Path | None,
        run_id: str,
        *,
        tools: Iterable[Tool] = (),
        bounds: Bounds = UNBOUNDED,
        policy: ToolPolicy = EVERY_LEVEL,
        guards: Sequence[Guard] = (),
        root: Path | None = None,
        world: str = "",
        secrets: Iterable[str] = (),
        clock: Clock = CLOCK,
    ) -> AsyncIterator[Self]:
        """Open a run, new or begun before, and be its one writer until the end.

        Args:
            path: the SQLite journal, made with its directory where there is none; None keeps the
                run in memory.
            tools: registered at once, as by ``register``.
            bounds: the most that all actions together may use.
            policy: the most that an action may do, and who is denied what.
            root: files below it may be changed by actions of level WRITE, and are put back when one
                fails; None refuses such actions.
            world: what an approval is bound to besides the action, such as a commit's id.
            secrets: values that are never recorded, however they are written; what an action
                returns is free of them too. One under 8 characters is passed over.

        Raises:
            StoreError: another process writes this run, or the journal cannot be used.
        """
        file = None if path is None else Path(path)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        store = SqliteStore(file) if file else MemoryStore(clock)
        try:
            if run_id not in {run.run_id for run in await store.runs()}:
                await store.create(run_id, clock.now(), {"options": {}})
            async with open_journal(
                run_id, store, clock, holder=this_process(), redact=Redactor(secrets)
            ) as journal:
                vault = (file.parent if file else root or Path()) / "rollback" / run_id

                async def where() -> str:
                    return world

                executor = Executor(
                    Registry(tools),
                    policy,
                    journal,
                    guards=guards,
                    approver=RecordedApprovals(journal, clock, where),
                    rollback=FileRollback(root, vault) if root else None,
                    nonce=await run_nonce(journal),
                    observer=ignore_event,
                )
                account = Account("the run", bounds, used=journal.spent(), elapsed=journal.elapsed)
                yield cls(journal, executor, account, clock, world)
        finally:
            store.close()

    def register(
        self,
        name: str,
        handler: Handler,
        *,
        schema: Mapping[str, Json] = ANYTHING,
        level: Level = Level.READ,
        usd: float = 0.0,
        timeout: float = 60.0,
        description: str = "",
    ) -> None:
        """Make an action known.

        Args:
            handler: does it; takes the arguments, returns a JSON value.
            schema: JSON Schema of the arguments.
            level: what it can do to the world: READ, WRITE, ADMIN or IRREVERSIBLE.
            usd: the most that it can cost, in US dollars.
            timeout: seconds.

        Raises:
            ValueError: the name is taken, or the schema is none.
        """
        spec = ToolSpec(name, description, schema, level, timeout=timeout, usd=usd)
        self._executor.registry.add(_Action(spec, handler))

    async def execute(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        call: str = "",
        agent: str = "agent",
    ) -> Json:
        """The automated path: what cannot be undone is not done here.

        Args:
            call: names this one call, such as by the id of a model's tool call: asked for again, it
                is the same call. Calls without a name are numbered.

        Returns:
            What the handler returned, or the record of it.

        Raises:
            NotRegistered, NotPermitted, InvalidArguments, GuardRefused, BudgetExhausted: refused;
                nothing happened, and it cost nothing.
            ApprovalPending: it waits for a person; it cost nothing.
            Denied: a person has said no.
            ActionFailed: the handler failed; what it wrote is put back.
        """
        return await self._run(self._key(name, call), name, arguments or {}, agent)

    async def approve_and_execute(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        who: str,
        call: str = "",
        agent: str = "agent",
    ) -> Json:
        """The human path: a person has said yes to exactly this, and it is done, once.

        Args:
            who: recorded as the one who approved.
            call: as for ``execute``; without it an equal action that waits is the one approved.

        Raises:
            as ``execute``, but for ApprovalPending.
        """
        return await self._answered(name, arguments or {}, who, call, agent, approved=True)

    async def deny(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        who: str,
        call: str = "",
        agent: str = "agent",
    ) -> None:
        """A person has said no: recorded, and raised as it is when the call is asked for again.

        Raises:
            Denied: always, unless it had happened before.
        """
        await self._answered(name, arguments or {}, who, call, agent, approved=False)

    async def _answered(
        self,
        name: str,
        arguments: Mapping[str, Json],
        who: str,
        call: str,
        agent: str,
        *,
        approved: bool,
    ) -> Json:
        key = "" if call else self._waiting(name, arguments)
        key = key or self._key(name, call)
        try:
            return await self._run(key, name, arguments, agent)
        except ApprovalPending:
            now = self._clock.now()
            record_decision(
                self.journal, key, approved=approved, who=who, now=now, seconds=APPROVED_SECONDS
            )
        return await self._run(key, name, arguments, agent)

    def level(self, name: str) -> Level:
        """What an action can do to the world.

        Raises:
            NotRegistered: there is none of that name.
        """
        return self._executor.registry.get(name).spec.level

    def actions(self) -> list[ToolSpec]:
        """What is registered, in order."""
        return list(self._executor.registry.specs().values())

    def _key(self, name: str, call: str) -> str:
        if call:
            return f"execute/{call}/{name}"
        self._asked += 1
        return f"execute/{self._asked}/{name}"

    def _waiting(self, name: str, arguments: Mapping[str, Json]) -> str:
        request = request_digest(name, arguments, self._world)
        for call, asked in pending_approvals(self.journal).items():
            if asked["request"] == request:
                return call
        return ""

    async def _run(self, key: str, name: str, arguments: Mapping[str, Json], agent: str) -> Json:
        known = tuple(self._executor.registry.specs())
        spec = AgentSpec(agent, "", "", known)
        call = ToolCall(key, name, arguments)
        result = await self._executor.call(spec, call, key, self._account)
        if result.ok:
            return result.data
        said = unframe(result.content, self._executor.nonce)
        kind = _REFUSALS.get(result.code)
        if kind is None:
            raise ActionFailed(f"{name}: {said}")
        raise kind(said.removeprefix("refused: "))
