"""Two tests that any framework's adapter must pass at each seam, each with the real library.

The refusal test: the effect of a refused action provably never happened. The trace test: every step
left its typed event in the journal. The seams: calls of tools, what they return, what a model is
sent.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import Bounds, GuardedCall, Harness, Level, Ruling, ToolPolicy
from orchestrator.engine.tool_call_guards import ALLOW
from orchestrator.stores.sqlite_journal import SqliteStore

pytestmark = [
    # Both libraries are written for asyncio, and warn of themselves while they are imported.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
Wish = tuple[str, dict[str, str]]
Drive = Callable[[Harness, list[Wish], bool | None], Awaitable[list[str]]]
"""Lets the framework's agent wish for actions one after the other, answers what needs a person
(None: leaves it unanswered), and returns what the agent was told."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def with_langgraph(harness: Harness, wishes: list[Wish], answer: bool | None) -> list[str]:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.types import Command

    from orchestrator.adapters.langgraph import GuardedTools

    def model(state: MessagesState) -> dict[str, Any]:
        turn = sum(isinstance(message, AIMessage) for message in state["messages"])
        if turn == len(wishes):
            return {"messages": [AIMessage("done")]}
        name, arguments = wishes[turn]
        call = {"name": name, "args": arguments, "id": f"call{turn}", "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", GuardedTools(harness))
    graph.add_edge(START, "model")
    graph.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else END
    )
    graph.add_edge("tools", "model")
    app = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    state = await app.ainvoke({"messages": [HumanMessage("go")]}, config)
    while state.get("__interrupt__") and answer is not None:
        resume: Command[Any] = Command(resume={"approved": answer, "who": "a person"})
        state = await app.ainvoke(resume, config)
    told = [m.content for m in state["messages"] if isinstance(m, ToolMessage)]
    return [str(text) for text in told]


def scripted(wishes: list[Wish]) -> Any:
    """A model of the OpenAI Agents SDK that wishes for actions one after the other."""
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    from agents import Model, ModelResponse, Usage

    class Scripted(Model):
        turn = 0

        async def get_response(self, *args: Any, **more: Any) -> ModelResponse:
            self.turn += 1
            if self.turn > len(wishes):
                text = ResponseOutputText(annotations=[], text="done", type="output_text")
                said: Any = ResponseOutputMessage(
                    id="m", content=[text], role="assistant", status="completed", type="message"
                )
            else:
                name, arguments = wishes[self.turn - 1]
                said = ResponseFunctionToolCall(
                    arguments=json.dumps(arguments),
                    call_id=f"call{self.turn - 1}",
                    name=name,
                    type="function_call",
                )
            return ModelResponse(output=[said], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **more: Any) -> Any:
            raise NotImplementedError

    return Scripted()


async def with_openai_agents(
    harness: Harness, wishes: list[Wish], answer: bool | None
) -> list[str]:
    from agents import Agent, RunConfig, Runner
    from orchestrator.adapters.openai_agents import guarded_tools

    agent = Agent(name="ops", model=scripted(wishes), tools=guarded_tools(harness))
    config = RunConfig(tracing_disabled=True)
    result = await Runner.run(agent, "go", run_config=config)
    while result.interruptions and answer is not None:
        state = result.to_state()
        for item in result.interruptions:
            (state.approve if answer else state.reject)(item)
        result = await Runner.run(agent, state, run_config=config)
    items = [item for item in result.new_items if item.type == "tool_call_output_item"]
    return [str(item.output) for item in items]


DRIVES = [
    pytest.param(with_langgraph, id="langgraph"),
    pytest.param(with_openai_agents, id="openai-agents"),
]


class World:
    """The effects, as the world saw them."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def act(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.seen.append(arguments["text"])
        return {"did": arguments["text"]}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def harness(world: World, tmp_path: Path) -> AsyncIterator[Harness]:
    bounds, guards = Bounds(tool_calls=3), [Asking(Ruling("block", "guarded"))]
    async with Harness.open(tmp_path / "j.db", "r", bounds=bounds, guards=guards) as it:
        it.register("read", world.act, schema=TEXT, description="Reads.")
        it.register("deploy", world.act, schema=TEXT, level=Level.IRREVERSIBLE)
        yield it


@pytest.mark.parametrize("drive", DRIVES)
async def test_a_refused_action_is_not_performed(
    drive: Drive, harness: Harness, world: World
) -> None:
    told = await drive(
        harness,
        [
            ("read", {"words": "not in the schema"}),
            ("read", {"text": "guarded"}),
            ("deploy", {"text": "v1"}),
            ("read", {"text": "a"}),
            ("read", {"text": "b"}),
            ("read", {"text": "c"}),
            ("read", {"text": "over the budget"}),
        ],
        False,
    )
    assert world.seen == ["a", "b", "c"]
    assert len(told) == 7
    assert "InvalidArguments" in told[0]
    assert "GuardRefused" in told[1]
    assert "BudgetExhausted" in told[6]


@pytest.mark.parametrize("drive", DRIVES)
async def test_an_unanswered_call_is_not_performed(
    drive: Drive, harness: Harness, world: World
) -> None:
    await drive(harness, [("deploy", {"text": "v1"})], None)
    assert world.seen == []


class Asking:
    """Gives the ruling whose reason is the text of the call."""

    name = "asking"

    def __init__(self, *rulings: Ruling) -> None:
        self._rulings = rulings

    def check(self, call: GuardedCall) -> Ruling:
        return next(
            (one for one in self._rulings if call.arguments.get("text") == one.reason), ALLOW
        )


@pytest.mark.attack("a sensitive tool that another framework's agent calls without a person")
@pytest.mark.parametrize(
    "given",
    [
        {"policy": ToolPolicy(sensitive=frozenset({"network"}))},
        {"guards": [Asking(Ruling("confirm", "a"))]},
    ],
    ids=["tag", "guard"],
)
@pytest.mark.parametrize(("answer", "seen"), [(None, []), (False, ["b"]), (True, ["a", "b"])])
@pytest.mark.parametrize("drive", DRIVES)
async def test_what_a_guard_has_a_person_asked_waits_in_the_frameworks_way(
    drive: Drive, answer: bool | None, seen: list[str], given: Any, world: World
) -> None:
    async with Harness.open(None, "r", **given) as harness:
        harness.register("read", world.act, schema=TEXT)
        harness.register("fetch", world.act, schema=TEXT, tags=frozenset({"network"}))
        await drive(harness, [("fetch", {"text": "a"}), ("read", {"text": "b"})], answer)
    assert world.seen == seen


async def test_a_run_that_only_observes_asks_nobody(world: World) -> None:
    async with Harness.open(None, "r", observe_only=True) as harness:
        harness.register("deploy", world.act, schema=TEXT, level=Level.IRREVERSIBLE)
        await with_openai_agents(harness, [("deploy", {"text": "v1"})], None)
    assert world.seen == ["v1"]


async def test_an_interrupt_shows_the_arguments_that_are_performed(world: World) -> None:
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph

    from orchestrator.adapters.langgraph import GuardedTools

    guards = [Asking(Ruling("modify", "stage", {"text": "prod"}))]
    async with Harness.open(None, "r", guards=guards) as harness:
        harness.register("deploy", world.act, schema=TEXT, level=Level.IRREVERSIBLE)
        graph = StateGraph(MessagesState)
        graph.add_node("tools", GuardedTools(harness))
        graph.add_edge(START, "tools")
        graph.add_edge("tools", END)
        app = graph.compile(checkpointer=InMemorySaver())
        call = {"name": "deploy", "args": {"text": "stage"}, "id": "c", "type": "tool_call"}
        config: Any = {"configurable": {"thread_id": "1"}}
        asked: Any = {"messages": [AIMessage("", tool_calls=[call])]}
        (waits,) = (await app.ainvoke(asked, config))["__interrupt__"]
    assert waits.value["arguments"] == {"text": "prod"}


async def test_a_program_can_show_what_an_approval_in_the_sdk_would_run(world: World) -> None:
    from agents import Agent, RunConfig, Runner
    from orchestrator.adapters.openai_agents import guarded_tools

    guards = [Asking(Ruling("modify", "stage", {"text": "prod"}))]
    async with Harness.open(None, "r", guards=guards) as harness:
        harness.register("read", world.act, schema=TEXT)
        harness.register("deploy", world.act, schema=TEXT, level=Level.IRREVERSIBLE)
        wishes: list[Wish] = [("deploy", {"text": "stage"})]
        agent = Agent(name="ops", model=scripted(wishes), tools=guarded_tools(harness))
        result = await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))
        (waits,) = result.interruptions
        assert harness.asks_person("deploy", json.loads(waits.arguments or "")) == {"text": "prod"}
        assert harness.asks_person("read", {"text": "a"}) is None
    assert world.seen == []


@pytest.mark.parametrize("drive", DRIVES)
async def test_every_step_is_recorded_in_the_journal(
    drive: Drive, world: World, tmp_path: Path
) -> None:
    path = tmp_path / "j.db"
    async with Harness.open(path, "r") as harness:
        harness.register("read", world.act, schema=TEXT, description="Reads.")
        harness.register("deploy", world.act, schema=TEXT, level=Level.IRREVERSIBLE)
        wishes: list[Wish] = [
            ("read", {"text": "a"}),
            ("deploy", {"text": "v1"}),
            ("read", {"words": "wrong"}),
        ]
        told = await drive(harness, wishes, True)
    assert world.seen == ["a", "v1"]
    mark, value, _ = told[1].split("\n")
    assert mark.startswith("<untrusted ")
    assert json.loads(value) == {"did": "v1"}
    rows = await rows_of(path)
    kinds = [(kind, key.rsplit("/", 1)[-1]) for kind, key in rows if not key.startswith("session")]
    assert kinds == [
        ("intent", "nonce"),  # what frames untrusted text in this run
        ("outcome", "nonce"),
        ("intent", "read"),
        ("outcome", "read"),
        ("note", "deploy"),  # it is asked for
        ("note", "deploy"),  # a person answers
        ("intent", "deploy"),
        ("outcome", "deploy"),
        ("refusal", "read"),
    ]


async def test_the_harness_enforces_approval_even_if_the_sdk_does_not_ask(
    harness: Harness, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agents import FunctionTool
    from orchestrator.adapters import openai_agents

    offered = openai_agents.guarded_tools

    def careless(harness: Harness) -> list[Any]:
        tools = offered(harness)
        for tool in tools:
            assert isinstance(tool, FunctionTool)
            tool.needs_approval = False
        return tools

    monkeypatch.setattr(openai_agents, "guarded_tools", careless)
    (told,) = await with_openai_agents(harness, [("deploy", {"text": "v1"})], None)
    assert told.startswith("ApprovalPending")
    assert world.seen == []


async def rows_of(path: Path) -> list[tuple[str, str]]:
    store = await anyio.to_thread.run_sync(SqliteStore, path)
    try:
        return [(row.kind, row.key) for row in await store.rows("r")]
    finally:
        store.close()


async def test_a_node_that_is_interrupted_does_nothing_twice(
    harness: Harness, world: World
) -> None:
    """LangGraph runs an interrupted node again from its start."""
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.types import Command

    from orchestrator.adapters.langgraph import GuardedTools

    calls = [
        {"name": name, "args": {"text": text}, "id": f"c{n}", "type": "tool_call"}
        for n, (name, text) in enumerate([("read", "a"), ("deploy", "v1")])
    ]
    graph = StateGraph(MessagesState)
    graph.add_node("tools", GuardedTools(harness))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    app = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    await app.ainvoke({"messages": [AIMessage("", tool_calls=calls)]}, config)
    await app.ainvoke(Command(resume={"approved": True, "who": "a person"}), config)
    assert world.seen == ["a", "v1"]


def page_example(name: str) -> Callable[..., Awaitable[None]]:
    """The function ``main`` of an example on the page of frameworks."""
    page = (Path(__file__).parents[2] / "docs/frameworks.md").read_text(encoding="utf-8")
    code = page.split(f"```python run={name}\n")[1].split("```")[0]
    space: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "frameworks.md", "exec"), space)
    main: Callable[..., Awaitable[None]] = space["main"]
    return main


async def test_the_graph_on_the_page_answers(capsys: pytest.CaptureFixture[str]) -> None:
    await page_example("langgraph")()
    assert capsys.readouterr().out == "There are 7\n"


async def test_the_agent_on_the_page_answers(capsys: pytest.CaptureFixture[str]) -> None:
    await page_example("openai_agents")(model=scripted([("stock", {"item": "pens"})]))
    assert capsys.readouterr().out == "done\n"
