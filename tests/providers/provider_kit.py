"""Fixtures of the provider tests: a model of each API against the strict server, and an agent."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from msgspec.structs import replace

from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.catalog.model_config import CallPolicy, Capabilities, ModelsConfig, load_models
from orchestrator.catalog.prices import Prices, load_prices
from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.agent_loop import LoopResult, run_agent
from orchestrator.engine.budget import Account
from orchestrator.engine.executor import Executor
from orchestrator.engine.journal import Journal, open_journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.model_call_events import CallEvent
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.ports import CallContext, SystemClock, Tool
from orchestrator.engine.tool_registry import Registry, ToolPolicy
from orchestrator.engine.types import (
    AgentSpec,
    Block,
    Bounds,
    Json,
    Message,
    Observation,
    PromptSection,
    Request,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from orchestrator.providers.api_model import ApiModel
from orchestrator.providers.factory import make_model
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.limited_chat import LimitedChatApi
from tests.model_server.server import KEY, ModelServer, start_server
from tests.model_server.server_script import ServerReply
from tests.prompt_cache import PromptCache

PROVIDERS = ("anthropic", "openai", "openai-compatible")
MODELS = {
    "anthropic": "claude-haiku-5-5",
    "openai": "gpt-6-luna",
    "openai-compatible": "local-model",
}
NONCE = "n0nce"
QUICK = CallPolicy(attempts=3, timeout=20.0, deadline=40.0, first_wait=0.01, longest_wait=0.02)
"""Retries quickly; on a busy machine an attempt itself may take seconds."""
FULL = Capabilities("strict", True, "native", True, True)

SEARCH = ToolSpec(
    "search",
    "finds lines that hold a text",
    {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
)
REPORT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string", "default": ""},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "places": {"type": "array", "items": {"type": "string"}, "default": []},
    },
    "required": ["score"],
    "additionalProperties": False,
}


@cache
def shipped_models() -> tuple[ModelsConfig, Prices]:
    return load_models([read_shipped_layer()]), load_prices([read_shipped_layer()])


def override_config(can: Capabilities | None, policy: CallPolicy) -> ModelsConfig:
    """The shipped configuration with another call policy and other capabilities of every server."""
    config, _ = shipped_models()
    providers = {
        name: provider if can is None else replace(provider, can=can)
        for name, provider in config.providers.items()
    }
    return replace(config, providers=providers, calls=policy)


@dataclass
class ProviderSession:
    """A model, its server, and the events of its calls."""

    model: ApiModel
    server: ModelServer
    events: list[CallEvent]
    name: str

    @property
    def bodies(self) -> list[dict[str, Json]]:
        return [seen.body for seen in self.server.requests]


@asynccontextmanager
async def open_session(
    name: str,
    lines: Sequence[ServerReply] | Mapping[str, Sequence[ServerReply]],
    *,
    can: Capabilities | None = None,
    policy: CallPolicy = QUICK,
    lacks: frozenset[str] = frozenset(),
    key: str = KEY,
) -> AsyncIterator[ProviderSession]:
    """Open a provider's model against a server with these lines (of the agent ``qa``)."""
    script = lines if isinstance(lines, Mapping) else {"qa": lines}
    config, (_, prices) = override_config(can, policy), shipped_models()
    events: list[CallEvent] = []
    chat = partial(LimitedChatApi, lacks=lacks)
    async with start_server(ModelServer(script, chat=chat, count=PromptCache())) as server:
        url = server.url if name == "anthropic" else f"{server.url}/v1"
        provider = config.provider(name)
        env = {provider.key_env: key, provider.base_url_env: url}
        opened = make_model(name, config, prices, env=env, on_event=events.append)
        async with opened as model:
            yield ProviderSession(model, server, events, name)


def request(name: str, *messages: Message, **other: Json) -> Request:
    """A request of the agent ``qa``: by default its first, with a tool and an output schema."""
    settings = {
        "agent": "qa",
        "model": MODELS[name],
        "system": (
            PromptSection("role", "qa", "You look for bugs."),
            PromptSection("skill", "search-well", "Search before you judge."),
        ),
        "messages": messages or (Message("user", (Text("Look at a.py."),)),),
        "tools": (SEARCH,),
        "output_schema": REPORT,
        "max_tokens": 2000,
        "nonce": NONCE,
        **other,
    }
    return Request(**settings)


def append_answer(before: Request, blocks: Sequence[Block], *more: Block) -> Request:
    """Append an answer, and a result for each of its tool calls."""
    results = [ToolResult(b.id, f"found by {b.id}") for b in blocks if isinstance(b, ToolCall)]
    turn = (Message("assistant", tuple(blocks)), Message("user", (*results, *more)))
    return replace(before, messages=(*before.messages, *turn))


class Search:
    """A tool that records its arguments."""

    spec = SEARCH

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Json]] = []

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        self.asked.append(arguments)
        return Observation(f"line 3: {arguments['text']}")


@asynccontextmanager
async def open_memory_run() -> AsyncIterator[Journal]:
    store = MemoryStore(SystemClock())
    await store.create("run1", 0.0, {})
    async with open_journal("run1", store, SystemClock(), holder="a test") as journal:
        yield journal


async def run_test_agent(
    used: ProviderSession,
    journal: Journal,
    tool: Search,
    *,
    agent: str = "qa",
    turns: int = 6,
    usd: float = 1,
    others: Sequence[Tool] = (),
) -> LoopResult:
    """Run an agent on the engine; ``others`` are registered tools that it is not allowed."""
    spec = AgentSpec(
        agent,
        "looks for bugs",
        "You look for bugs.",
        ("search",),
        model=MODELS[used.name],
        bounds=Bounds(turns=turns),
        contract=REPORT,
    )
    executor = Executor(
        Registry([tool, *others]), ToolPolicy(), journal, nonce=NONCE, observer=ignore_event
    )
    account = Account(agent, Bounds(usd=usd))
    runtime = AgentRuntime(used.model, executor, journal, ignore_event)
    return await run_agent(spec, "Look at a.py.", runtime, Key(agent), account)


def unmarked(value):
    """A request without the marks of what a provider caches."""
    if isinstance(value, dict):
        return {key: unmarked(below) for key, below in value.items() if key != "cache_control"}
    return [unmarked(below) for below in value] if isinstance(value, list) else value
