"""What the engine's tests share: small real parts around a scripted model."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.budget import Account
from orchestrator.engine.executor import Executor
from orchestrator.engine.journal import Journal, open_journal
from orchestrator.engine.observer_events import Event
from orchestrator.engine.ports import (
    CallContext,
    GuardedCall,
    MayRetry,
    Model,
    SystemClock,
    Tool,
    always_retry,
)
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.tool_registry import Registry, ToolPolicy
from orchestrator.engine.types import (
    AgentSpec,
    Bounds,
    Json,
    Level,
    Observation,
    Request,
    Response,
    ToolSpec,
    Usage,
)
from orchestrator.errors import Denied
from orchestrator.stores.sqlite_journal import MemoryStore, SqliteStore

RUN = "run1"
TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
REPORT = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}

Store = MemoryStore | SqliteStore


class FakeClock:
    """Time that moves when it is told to."""

    def __init__(self, at: float = 1_000_000.0) -> None:
        self.at = at

    def now(self) -> float:
        return self.at


@asynccontextmanager
async def open_memory_journal(
    store: MemoryStore | None = None, *, holder: str = "a test", secrets: Sequence[str] = ()
) -> AsyncIterator[Journal]:
    known, clock, redact = await created(store), SystemClock(), Redactor(secrets)
    async with open_journal(RUN, known, clock, holder=holder, redact=redact) as journal:
        yield journal


async def created(store: MemoryStore | None = None) -> MemoryStore:
    """A store that knows the run."""
    store = store or MemoryStore(SystemClock())
    if not await store.runs():
        await store.create(RUN, 0.0, {})
    return store


class Echo:
    """A tool that says what it is told, and remembers each time it started."""

    def __init__(
        self,
        name: str = "echo",
        *,
        level: Level = Level.READ,
        run: Callable[[Mapping[str, Json], CallContext], Observation] | None = None,
        delay: float = 0.0,
        **more: Json,
    ) -> None:
        self.spec = ToolSpec(name, f"says {name}", TEXT, level, **more)
        self.started: list[str] = []
        self.contexts: list[CallContext] = []
        self._run, self._delay = run, delay

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        self.started.append(arguments["text"])
        self.contexts.append(context)
        if self._delay:
            await anyio.sleep(self._delay)
        if self._run:
            return self._run(arguments, context)
        return Observation(arguments["text"], {"said": arguments["text"]})


@dataclass
class Scopes:
    """A rollback that remembers what was asked of it."""

    log: list[tuple[str, str]] = field(default_factory=list)

    async def begin(self, ref: str) -> None:
        self.log.append(("begin", ref))

    async def commit(self, ref: str) -> None:
        self.log.append(("commit", ref))

    async def undo(self, ref: str) -> None:
        await anyio.lowlevel.checkpoint()
        self.log.append(("undo", ref))


@dataclass
class Person:
    """An approver with one answer."""

    answer: bool
    asked: list[str] = field(default_factory=list)

    async def approve(self, call: GuardedCall, ref: str) -> None:
        self.asked.append(ref)
        if not self.answer:
            raise Denied("a person has said no")


class TurnModel:
    """Answers by agent and turn, however often it is asked, and counts how often it was."""

    name = "by turn"

    def __init__(
        self,
        answer: Callable[[Request, int], Response],
        *,
        latency: float = 0.0,
        worst: Usage = Usage(),
    ) -> None:
        self._answer, self._latency, self._worst = answer, latency, worst
        self.started: list[tuple[str, int]] = []
        self.answered: list[tuple[str, int]] = []

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        turn = 1 + sum(message.role == "assistant" for message in request.messages)
        self.started.append((request.agent, turn))
        if self._latency:
            await anyio.sleep(self._latency)
        self.answered.append((request.agent, turn))
        return self._answer(request, turn)

    def worst_case(self, request: Request) -> Usage:
        return self._worst


def spec(name: str = "worker", *tools: str, **more: Json) -> AgentSpec:
    return AgentSpec(name, "works", "You work.", tools or ("echo",), **more)


def make_runtime(
    journal: Journal,
    model: Model,
    *tools: Tool,
    events: list[Event] | None = None,
    policy: ToolPolicy | None = None,
    **more: Json,
) -> AgentRuntime:
    def observe(event: Event) -> None:
        if events is not None:
            events.append(event)

    registry = Registry(tools or (Echo(),))
    executor = Executor(
        registry, policy or ToolPolicy(), journal, nonce="n0nce", observer=observe, **more
    )
    return AgentRuntime(model, executor, journal, observe)


def account(**bounds: float) -> Account:
    return Account("the run", Bounds(**bounds))
