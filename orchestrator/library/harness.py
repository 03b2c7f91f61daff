"""Tools and agents of a program behind one guarded executor and one journal.

async with Harness.open("runs.db", "run-1", tools=[deploy]) as harness:
    await harness.execute("deploy", {"to": "production"})       # raises ApprovalPending
    await harness.approve_and_execute("deploy", {"to": "production"}, who="release manager")
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

import anyio
from msgspec.structs import replace

from orchestrator.app.runs.rollback import restore_calls
from orchestrator.engine import state_machine
from orchestrator.engine.approvals import (
    RecordedApprovals,
    pending_approvals,
    record_decision,
    request_digest,
)
from orchestrator.engine.budget import Account
from orchestrator.engine.executor import Executor
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.journal_verification import VerificationResult, verify_journal
from orchestrator.engine.model_call_events import note_once
from orchestrator.engine.observer_events import Event, Observer, ignore_event
from orchestrator.engine.ports import Clock, Guard, Model, SystemClock, Tool
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.state_machine import Flow
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.text_guards import Action
from orchestrator.engine.tool_call_guards import SensitiveGuard
from orchestrator.engine.tool_registry import Registry, ToolPolicy
from orchestrator.engine.types import Bounds, Json, Level, ToolCall, ToolResult
from orchestrator.engine.untrusted_text import run_nonce, unframe
from orchestrator.errors import ActionFailed, ApprovalPending, GuardRefused, InputError, refused
from orchestrator.guards.prompt_injection import ArgumentAction, ArgumentGuard
from orchestrator.library.agent_execution import (
    Models,
    RunLocation,
    RunParts,
    open_text_guards,
    run_agent_task,
)
from orchestrator.library.agents import Agent, AgentResult
from orchestrator.library.external_model_calls import ModelCalls
from orchestrator.library.tools import Handler, HandlerTool, ToolOptions, make_spec
from orchestrator.sandbox.file_rollback import Restored

Context = TypeVar("Context")
ANYTHING: Mapping[str, Json] = {"type": "object"}
SHIPPED: Mapping[str, Action] = {}
APPROVED_SECONDS = 60.0
UNBOUNDED, CLOCK = Bounds(), SystemClock()
OBSERVE_ONLY = "OBSERVE ONLY: permissions, guards and approvals refuse nothing in this run"
EVERY_LEVEL = ToolPolicy(max_level=Level.IRREVERSIBLE)


async def _same(world: str) -> str:
    return world


def _announcing(observer: Observer, journal: Journal) -> Observer:
    """The observer, told first that rulings only are recorded."""
    note_once(journal, OBSERVE_ONLY)
    observer(Event("note", journal.elapsed(), detail=OBSERVE_ONLY))
    return observer


class Harness(ModelCalls):
    """Tools and agents behind one executor and one journal. Use ``Harness.open``.

    Calls and agents are numbered in the order in which they are requested. A program that is
    started again with the same journal makes the same requests in the same order, gets the recorded
    results, and nothing is done or paid for twice.

    >>> @tool
    ... async def double(number: int) -> int:
    ...     "Twice a number."
    ...     return 2 * number
    >>> async def main():
    ...     async with Harness.open(None, "run-1", tools=[double]) as harness:
    ...         print(await harness.execute("double", {"number": 21}))
    ...         print((await harness.verify()).errors)
    >>> anyio.run(main)
    42
    ()
    """

    def __init__(self, parts: RunParts) -> None:
        super().__init__(parts)
        self._clock, self._world = parts.clock, parts.world
        self._asked = 0
        self._numbers: defaultdict[str, set[int]] = defaultdict(set)  # taken, by agent
        self._latest: dict[str, str] = {}

    @classmethod
    @asynccontextmanager
    async def open(  # noqa: PLR0913 - options, all by keyword
        cls,
        path: str | Path | None,
        run_id: str,
        *,
        tools: Iterable[Tool] = (),
        model: str | Model | None = None,
        bounds: Bounds = UNBOUNDED,
        policy: ToolPolicy = EVERY_LEVEL,
        guards: Sequence[Guard] = (),
        text_guards: Mapping[str, Action] = SHIPPED,
        root: str | Path | None = None,
        world: str = "",
        secrets: Iterable[str] = (),
        suspicious: ArgumentAction = "warn",
        observe_only: bool = False,
        clock: Clock = CLOCK,
        observer: Observer = ignore_event,
    ) -> AsyncIterator[Self]:
        """Open a new or existing run as its only writer, until the context ends.

        Args:
            path: the SQLite journal, created if necessary; None keeps the run in memory.
            tools: registered immediately.
            model: for agents that name none, see ``Agent.model``.
            bounds: limits of all tools and agents of the run together.
            policy: the highest level of tools, what is denied to whom, which tags are sensitive.
            text_guards: actions of input guards in place of the shipped ones, see docs/guards.md.
            root: where tools of level WRITE may change files; None refuses such tools.
            world: a state to which approvals are bound besides the call, such as a commit's id.
            secrets: values that are removed from all that is recorded, in any encoding, and from
                what tools return. Values under 8 characters are ignored.
            suspicious: what a call gets whose arguments hold instructions.
            observe_only: permissions, guards and missing approvals are recorded and refuse nothing:
                all tools run, even irreversible ones. See ``observed``.
            observer: called with every event.

        Raises:
            StoreError: another process writes this run, or the journal cannot be used.
            InputError: a text guard may not do this, or its libraries are missing.
        """
        async with AsyncExitStack() as closing:
            run = RunLocation.of(path, root, run_id)
            opened = run.open_journal(run_id, clock, Redactor(secrets))
            store, journal = await closing.enter_async_context(opened)
            executor = Executor(
                Registry(tools), policy, journal,
                guards=(ArgumentGuard(suspicious), SensitiveGuard(policy.sensitive), *guards),
                approver=RecordedApprovals(journal, clock, partial(_same, world), run.used),
                rollback=run.files, nonce=await run_nonce(journal), observe_only=observe_only,
                observer=_announcing(observer, journal) if observe_only else observer,
            )  # fmt: skip
            account = Account("the run", bounds, used=journal.spent(), elapsed=journal.elapsed)
            harness = cls(RunParts(
                journal=journal, executor=executor, account=account, clock=clock, world=world,
                models=Models(journal, observer, closing, default=model), observer=observer,
                store=store, files=run.files, texts=open_text_guards(journal, text_guards),
            ))  # fmt: skip
            yield harness
            harness._require_awaited()

    def register(
        self,
        name: str,
        handler: Handler,
        *,
        schema: Mapping[str, Json] = ANYTHING,
        output_schema: Mapping[str, Json] | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        """Register an action.

        Args:
            handler: performs it; takes the arguments, returns a JSON value.
            schema: JSON Schema of the arguments.
            output_schema: JSON Schema of the result; one that does not fit is a failure.
            options: see ``ToolOptions``.

        Raises:
            ValueError: the name is taken, or a schema is invalid.
        """
        spec = make_spec(name, schema, output_schema, **options)
        self._executor.registry.add(HandlerTool(spec, handler))

    async def execute(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        call: str = "",
        agent: str = "agent",
    ) -> Json:
        """Execute a call without a person: an irreversible one is not performed.

        Args:
            call: a name of this call, such as the id of a model's tool call; a request with the
                same name is the same call. Calls without a name are numbered.

        Returns:
            The handler's result, or the recorded one.

        Raises:
            NotRegistered, NotPermitted, InvalidArguments, GuardRefused, BudgetExhausted: refused;
                it was not performed and cost nothing.
            ApprovalPending: it waits for a person; it cost nothing.
            Denied: a person has denied it.
            ActionFailed: the handler failed; what it wrote is restored.
        """
        given = arguments or {}
        return self._value(name, await self._call(self._key(name, call, given), name, given, agent))

    async def approve_and_execute(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        who: str,
        call: str = "",
        agent: str = "agent",
    ) -> Json:
        """Execute a call once that a person has approved with exactly these arguments.

        Args:
            who: the person who approved, for the record.
            call: as for ``execute``. Without it, the pending call of the same tool and arguments,
                or the latest one of ``execute``.

        Raises:
            InputError: there is no such call and it is irreversible, so it needs a name.
            Others as ``execute``, except ApprovalPending.
        """
        made = await self._decide_and_call(name, arguments or {}, who, call, agent, approved=True)
        return self._value(name, made)

    async def deny(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        who: str,
        call: str = "",
        agent: str = "agent",
    ) -> None:
        """Record that a person denies a call; a later request of the call raises the same.

        Raises:
            Denied: always, unless the call was performed before.
        """
        made = await self._decide_and_call(name, arguments or {}, who, call, agent, approved=False)
        self._value(name, made)

    async def observe(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        call: str,
        agent: str = "agent",
        approved: bool | None = None,
        who: str = "",
    ) -> ToolResult:
        """Execute a call of another framework's agent, as ``execute``, for its model.

        Args:
            approved: a person's decision of the call; None: nobody has decided yet.
            who: the person who decided, for the record.

        Returns:
            The result, or refusal. ``content`` is as agents of the harness see it: marked as
            untrusted, after guards' warnings and an error's name.

        Raises:
            ApprovalPending: it waits for a person; call again with the decision.
        """
        given = arguments or {}
        if approved is None:
            made = await self._call(self._key(name, call, given), name, given, agent)
        else:
            made = await self._decide_and_call(name, given, who, call, agent, approved=approved)
        content, refusal = made.content, made.refusal
        if not made.ok:
            error = type(refused(refusal.code, refusal.reason)) if refusal else ActionFailed
            content = f"{error.__name__}: {content}"
        try:
            content = self._pass_guards(content, "observation", agent)
        except GuardRefused as why:
            return replace(made, ok=False, data=None, content=f"GuardRefused: {why}", code=why.code)
        return replace(made, content=content)

    async def run(self, agent: Agent, prompt: str, *, call: str = "") -> AgentResult:
        """Let an agent work on a prompt until it answers, fails, or reaches a bound.

        If its work is recorded, the result comes from the journal. Interrupted work continues after
        the last recorded reply.

        Args:
            prompt: its task, the first user message.
            call: a name of this work. Without it the runs of an agent are numbered, so concurrent
                runs of one agent need names.

        Raises:
            ApprovalPending: a tool waits for a person. Once the decision is recorded (``approve``,
                ``reject``), the same call of ``run`` continues.
            InputError, ConfigError: the agent's name, its model or a key is missing or wrong.
            ReplayMismatch: another prompt or agent is recorded under this name.
        """
        # An agent's name has no dot.
        if call:
            work = Key("works", name=f"{agent.name}.{call}")
            return await run_agent_task(self._parts, agent, prompt, work)
        taken = self._numbers[agent.name]
        number = next(number for number in count(1) if number not in taken)
        taken.add(number)
        try:
            work = Key("agents", name=f"{agent.name}.{number}")
            return await run_agent_task(self._parts, agent, prompt, work)
        except BaseException:
            taken.discard(number)  # the agent's next run continues this one
            raise

    async def run_team(
        self, tasks: Sequence[tuple[Agent, str]], *, concurrency: int = 4, call: str = "team"
    ) -> list[AgentResult]:
        """Run several agents concurrently.

        Args:
            tasks: agents and their prompts.
            concurrency: maximum number at a time.
            call: a name of this team in the run.

        Returns:
            Results in the order of the tasks; one that failed says so, the others continue.

        Raises:
            ApprovalPending: one of them waits for a person; the others have finished.
        """
        results: dict[int, AgentResult] = {}
        pending: list[ApprovalPending] = []
        limiter = anyio.CapacityLimiter(concurrency)

        async def work(position: int, agent: Agent, prompt: str) -> None:
            async with limiter:
                try:
                    work = Key("teams", name=f"{agent.name}.{call}.{position}")
                    results[position] = await run_agent_task(self._parts, agent, prompt, work)
                except ApprovalPending as waits:
                    pending.append(waits)

        async with task_group() as group:
            for position, (agent, prompt) in enumerate(tasks, 1):
                group.start_soon(work, position, agent, prompt)
        if pending:
            raise pending[0]
        return [results[position] for position in sorted(results)]

    async def run_flow(self, flow: Flow[Context], context: Context) -> str:
        """Run a flow of states to a final state, and return its name.

        Each step is journaled before it runs. When the program is started again, ``run`` and
        ``execute`` in handlers return what is recorded.

        Raises:
            FlowError: a handler returned a state that the table does not allow.
        """
        state_machine.check(flow)
        return await state_machine.run(flow, context, self.journal, self._parts.observer)

    def approve(self, call: str, *, who: str, seconds: float = APPROVED_SECONDS) -> None:
        """Record that a person has approved a pending call: ``ApprovalPending.call``.

        Args:
            who: the person who approved, for the record.
            seconds: how long the approval is valid.

        Raises:
            InputError: no such call is pending.
        """
        self._decide(call, True, who, seconds)

    def reject(self, call: str, *, who: str) -> None:
        """Record that a person has rejected a pending call.

        Raises:
            InputError: no such call is pending.
        """
        self._decide(call, False, who, APPROVED_SECONDS)

    def rollback(
        self, call: str | None = None, *, who: str = "", force: Collection[str] = ()
    ) -> Coroutine[Any, Any, dict[str, Restored]]:
        """Restore the files that a call changed, or all calls of the run, the newest first.

        Args:
            call: a call's key; None: all that have not been restored.
            who: the person who asked for it, for the record.
            force: paths to restore even if they were changed since.

        Returns:
            Call → the restored paths, and those kept because they were changed since.

        Raises:
            InputError: nothing was changed, or ``force`` comes without a call. Without ``await``,
                ``verify`` and the end of the context raise it, since nothing was restored.
        """
        if self._parts.files is None:
            raise InputError("this run was opened without root=, so no call changed files")
        files, journal = self._parts.files, self.journal
        self._rollbacks.append(restore_calls(files, journal, call, who=who, force=force))
        return self._rollbacks[-1]

    async def verify(self) -> VerificationResult:
        """Check the journal's hash chain, from the first row to the last."""
        self._require_awaited()
        await self.journal.flush()
        rows = await self._parts.store.rows(self.journal.run_id)
        return verify_journal(self.journal.run_id, rows, None, {})

    def _decide(self, call: str, approved: bool, who: str, seconds: float) -> None:
        now = self._clock.now()
        record_decision(self.journal, call, approved=approved, who=who, now=now, seconds=seconds)

    async def _decide_and_call(
        self,
        name: str,
        arguments: Mapping[str, Json],
        who: str,
        call: str,
        agent: str,
        *,
        approved: bool,
    ) -> ToolResult:
        key = self._key_to_decide(name, arguments, call)
        try:
            return await self._call(key, name, arguments, agent)
        except ApprovalPending:
            self._decide(key, approved, who, APPROVED_SECONDS)
        return await self._call(key, name, arguments, agent)

    def _key(self, name: str, call: str, arguments: Mapping[str, Json]) -> str:
        if call:
            return str(Key("execute", subject=f"named/{call}/{name}"))
        self._asked += 1
        key = str(Key("execute", number=self._asked, subject=name))
        self._latest[self._digest(name, arguments)] = key
        return key

    def _key_to_decide(self, name: str, arguments: Mapping[str, Json], call: str) -> str:
        """The key of the call that a person decides: the named one, or an equal requested one.

        That is a pending one, or the latest of this program.

        Raises:
            InputError: none was requested, and an irreversible call must be recognized when the
                program is started again.
        """
        if call:
            return self._key(name, call, arguments)
        request = self._digest(name, arguments)
        latest = self._latest.pop(request, "")
        for key, pending in pending_approvals(self.journal).items():
            if pending["request"] == request:
                return key
        if latest:
            return latest
        if self.get(name).level > Level.WRITE:
            raise InputError(
                f"no call of {name} with these arguments waits; ask for it with execute first, or "
                "name it with call=, so that it is not repeated when the program restarts"
            )
        return self._key(name, call, arguments)

    def _digest(self, name: str, arguments: Mapping[str, Json]) -> str:
        return request_digest(name, arguments, self._world)

    async def _call(
        self, key: str, name: str, arguments: Mapping[str, Json], agent: str
    ) -> ToolResult:
        call = ToolCall(key, name, arguments)
        return await self._executor.call(self._spec(agent), call, key, self._account)

    def _value(self, name: str, result: ToolResult) -> Json:
        """The value of a call that was performed.

        Raises:
            Refused, ActionFailed: it was not.
        """
        if result.ok:
            return result.data
        if result.refusal:
            raise refused(result.refusal.code, result.refusal.reason, result.refusal.guard)
        raise ActionFailed(f"{name}: {unframe(result.content, self._executor.nonce)}")
