"""What a model is sent: a prefix that never changes, and a window that holds."""

import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from msgspec.structs import replace

from orchestrator.app.runs.stored_runs import build_timeline
from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.agent_loop import LoopResult, run_agent
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.model_routing import ModelChoice
from orchestrator.engine.ports import MayRetry, Row, always_retry
from orchestrator.engine.recorded_conversations import RecordedConversations
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.text_guards import Detection, InputGuardedModel, Place, TextGuards
from orchestrator.engine.types import (
    Bounds,
    Json,
    Message,
    Observation,
    Opaque,
    Request,
    Response,
    Skill,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from orchestrator.engine.untrusted_text import NONCE
from orchestrator.providers.token_bounds import max_input_tokens
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.engine.engine_kit import (
    REPORT,
    RUN,
    Echo,
    TurnModel,
    account,
    created,
    make_runtime,
    open_memory_journal,
    spec,
)
from tests.scripted_model import ScriptedModel, text_reply, tool_call_reply

GOOD = text_reply('{"answer": 1}')
SKILLS = (
    Skill("reading", "Read closely. Use for prose.", "Read each line twice with `echo`."),
    Skill("counting", "Count things.", "Count with `gone`."),
)
WINDOW = 6_000


def choosing(runtime: AgentRuntime, **choice: Json) -> AgentRuntime:
    return replace(runtime, choose_model=lambda agent: ModelChoice("m", **choice))


def assert_recorded(rows: list[Row], requests: list[Request]) -> None:
    """The journal has what every turn of the agent was sent."""
    recorded = read_back(rows)
    for turn, request in enumerate(requests, 1):
        found = recorded.sent(Key("w").in_turn(turn).at("model"))
        assert found.messages == [as_seen(message) for message in request.messages]
        assert len(found.turns) == len(found.messages)


def read_back(rows: list[Row]) -> RecordedConversations:
    """Conversations from these rows; the runs of these tests draw no nonce."""
    recorded = RecordedConversations()
    nonce = b'{"value": "n0nce"}'
    for row in [Row(0, "outcome", NONCE, 0.0, nonce, ""), *rows]:
        recorded.read(row)
    return recorded


def as_seen(message: Message) -> Message:
    """A message without what is not for the model."""
    blocks = (
        replace(block, data=None, code="", refusal=None) if isinstance(block, ToolResult) else block
        for block in message.blocks
    )
    return replace(message, blocks=tuple(blocks))


def assert_only_added_to(requests: list[Request]) -> None:
    for shorter, longer in pairwise(requests):
        assert longer.messages[: len(shorter.messages)] == shorter.messages
        assert replace(longer, messages=()) == replace(shorter, messages=())


async def test_of_too_many_tools_those_not_called_yet_are_shown() -> None:
    tools = [Echo(f"t{n}") for n in range(25)]
    every = [tool.spec.name for tool in tools]
    calls = [(name, {"text": name}) for name in every[:19]]
    model = ScriptedModel({"worker": [tool_call_reply(*calls), GOOD]})
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, model, *tools)
        agent = spec("worker", *every, contract=REPORT)
        await run_agent(agent, "go", runtime, Key("w"), account())
    first, second = [[tool.name for tool in request.tools] for request in model.requests]
    assert first == every[:19]
    assert second == [*every[:13], *every[19:]]


async def test_skills_are_shown_completely_and_give_no_tool() -> None:
    gone = Echo("gone")
    model = ScriptedModel({"worker": [tool_call_reply(("gone", {"text": "x"})), GOOD]})
    async with open_memory_journal() as journal:
        runtime = make_runtime(journal, model, Echo(), gone)
        agent = spec("worker", "echo", skills=SKILLS, contract=REPORT, bounds=Bounds(turns=3))
        await run_agent(agent, "go", runtime, Key("w"), account())
    first, then = model.requests
    assert [section.kind for section in first.system] == ["role", "skill", "skill"]
    assert first.system[2].shown == "# Skill: counting\n\nCount with `gone`."
    assert [tool.name for tool in first.tools] == ["echo"]
    (refused,) = [block for block in then.messages[-1].blocks if isinstance(block, ToolResult)]
    assert "worker has no tool gone" in refused.content
    assert gone.started == []


class NoTwice:
    """An input guard that bars one word."""

    name = "no-twice"
    places: frozenset[Place] = frozenset({"system"})

    def detect(self, text: str) -> Detection | None:
        return Detection("says twice") if "twice" in text else None


@pytest.mark.parametrize("window", [None, 9_000])
async def test_a_skill_passes_the_input_guards_as_the_prompt_does(window: int | None) -> None:
    scripted = ScriptedModel({"worker": [GOOD]}, worst=Usage(100, 10))
    guards = TextGuards("input", [(NoTwice(), "block")], lambda ruled: None)
    async with open_memory_journal() as journal:
        model = InputGuardedModel(scripted, guards, Redactor())
        agent = spec("worker", "echo", skills=SKILLS, bounds=Bounds(turns=3))
        runtime = choosing(make_runtime(journal, model, Echo()), window=window, max_tokens=500)
        result = await run_agent(agent, "go", runtime, Key("w"), account())
        refused = journal.refusals("w/turn1")
    assert (result.status, scripted.requests) == ("failed", [])
    assert list(refused) == ["w/turn1/model"]


Answer = Callable[[Request, int], Response]


class Counted(TurnModel):
    """Knows how long its requests are, and keeps them."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self.requests: list[Request] = []

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        self.requests.append(request)
        return self._answer(request, len(self.requests))

    def worst_case(self, request: Request) -> Usage:
        return Usage(max_input_tokens(request), request.max_tokens)


def long_work(last: int, words: int = 300) -> Answer:
    def answer(request: Request, turn: int) -> Response:
        if turn == last:
            return GOOD
        call = ToolCall(f"c{turn}", "echo", {"text": f"{turn}:" + "x" * words})
        return Response((Opaque("here", {"thought": turn}), call), "tool_use")

    return answer


def continued_work(first: int, last: int) -> Answer:
    """The answers of a run that goes on with its turn ``first``."""
    turns, answer = iter(range(first, last + 1)), long_work(last)
    return lambda request, _: answer(request, next(turns))


class Crash(BaseException):
    """The process ends."""


def crash_after(turns: int, answer: Answer) -> Answer:
    left = iter(range(turns))

    def until_then(request: Request, turn: int) -> Response:
        if next(left, None) is None:
            raise Crash
        return answer(request, turn)

    return until_then


async def work(
    store: MemoryStore, answer: Answer, *, turns: int, size: int = 0
) -> tuple[Counted, LoopResult, dict[str, Json]]:
    model = Counted(answer)
    tool = Echo(run=lambda arguments, _: Observation(arguments["text"] + "x" * size))
    async with open_memory_journal(store) as journal:
        runtime = choosing(make_runtime(journal, model, tool), window=WINDOW, max_tokens=1000)
        agent = spec("worker", "echo", contract=REPORT, bounds=Bounds(turns=turns))
        result = await run_agent(agent, "the brief", runtime, Key("w"), account())
        notes = {key: note for key, note in journal.notes("w").items() if key.endswith("left_out")}
    return model, result, notes


@pytest.mark.either_loop
async def test_over_a_hundred_turns_never_outgrow_a_small_window() -> None:
    store = await created()
    model, result, notes = await work(store, long_work(120), turns=120)
    assert (result.status, len(model.requests)) == ("ok", 120)
    sizes = [max_input_tokens(request) + request.max_tokens for request in model.requests]
    assert max(sizes) <= WINDOW
    assert len({replace(request, messages=()) for request in map(hashable, model.requests)}) == 1
    for request in model.requests:
        assert request.messages[0].blocks[0] == Text("the brief")
        assert_in_pairs(request)
    # Each time much is left out, so it is done seldom, and is on record.
    assert 5 < len(notes) < 40
    rows = await store.rows(RUN)
    shown = [e.summary for e in build_timeline(rows) if e.key in notes]
    assert len(shown) == len(notes)
    assert_recorded(rows, model.requests)
    assert all("context compaction" in line for line in shown)
    # A recorded run asks the same again, and nothing anew.
    again, same, _ = await work(store, long_work(120), turns=120)
    assert (same, again.requests) == (result, [])


def hashable(request: Request) -> Request:
    return replace(request, tools=tuple(tool.name for tool in request.tools), output_schema=None)


def assert_in_pairs(request: Request) -> None:
    roles = [message.role for message in request.messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    for asked, answered in pairwise(request.messages):
        if asked.role == "assistant":
            wanted = [block.id for block in asked.blocks if isinstance(block, ToolCall)]
            given = [b.call_id for b in answered.blocks if isinstance(b, ToolResult)]
            assert wanted == given


async def test_a_run_that_was_cut_off_asks_what_it_would_have_asked() -> None:
    whole, result, notes = await work(await created(), long_work(45), turns=45)
    for cut in (7, 33):
        store = await created()
        with pytest.raises(Crash):
            await work(store, crash_after(cut, continued_work(1, 45)), turns=45)
        rest, same, seen = await work(store, continued_work(cut + 1, 45), turns=45)
        assert (same, seen) == (result, notes)
        assert rest.requests == whole.requests[cut:]
        assert_recorded(await store.rows(RUN), whole.requests)


async def test_observations_go_first_and_reasoning_behind_a_change_goes_with_it() -> None:
    model, _, notes = await work(await created(), long_work(12, words=210), turns=12, size=1_500)
    (key, note), *_ = notes.items()
    turn = int(key.split("/")[1].removeprefix("turn"))
    before, after = model.requests[turn - 2], model.requests[turn - 1]
    gone = len(note["observations"])
    assert note["observations"] == [f"w/turn{n}/tool1/echo" for n in range(1, gone + 1)]
    assert 1 < gone < turn - 1
    assert note["exchanges"] == 0
    shortened, last = after.messages[2].blocks[0], after.messages[-1].blocks[0]
    assert isinstance(shortened, ToolResult)
    assert isinstance(last, ToolResult)
    line = shortened.content
    assert 'echo {"text": "1:xxx' in line
    assert "as w/turn1/tool1/echo; call it again" in line
    assert "x" * 201 not in line
    assert "x" * 1_500 in last.content
    assert [m.role for m in after.messages[:-2]] == [m.role for m in before.messages]
    kept = [b for m in after.messages for b in m.blocks if isinstance(b, Opaque)]
    assert kept == [Opaque("here", {"thought": 1})]


async def test_a_context_that_cannot_be_reduced_enough_is_a_failed_attempt() -> None:
    model, result, notes = await work(await created(), long_work(9), turns=9, size=9_000)
    assert (result.status, len(model.requests), notes) == ("failed", 1, {})
    assert "window of m (6000 tokens, answer included)" in result.detail


async def test_the_opening_is_on_record_once_for_all_agents_and_without_secrets() -> None:
    asked = ToolCall("c", "echo", {"text": "a"}), ToolCall("d", "gone", {})
    replies = [text_reply("no json"), Response(asked, "tool_use"), GOOD]
    names = ("first", "second")
    opening = "The change: key sk-0123456789abcdef."

    async def team(store: MemoryStore) -> ScriptedModel:
        model = ScriptedModel(dict.fromkeys(names, replies))
        async with open_memory_journal(store, secrets=["sk-0123456789abcdef"]) as journal:
            runtime = replace(make_runtime(journal, model), opening=opening, common_tools=("echo",))
            runtime = replace(runtime, contracts={"report": REPORT})
            for name in names:
                agent = spec(name, "echo", contract=REPORT, bounds=Bounds(turns=3))
                await run_agent(agent, f"Look, {name}.", runtime, Key("act", 1, name), account())
        return model

    store = await created()
    model = await team(store)
    rows = await store.rows(RUN)
    kept = [row for row in rows if row.kind == "data" and b"The change" in row.body]
    assert [json.loads(row.body) for row in kept] == [{"value": "The change: key [redacted]."}]
    recorded = read_back(rows)
    for name in names:
        found = recorded.sent(Key("act", 1, name).in_turn(3).at("model"))
        request = [one for one in model.requests if one.agent == name][-1]
        sent = [as_seen(message) for message in request.messages]
        assert found.messages[1:] == sent[1:]
        first = [
            Text(block.text.replace("sk-0123456789abcdef", "[redacted]"))
            for block in sent[0].blocks
            if isinstance(block, Text)
        ]
        assert found.messages[0].blocks == tuple(first)
        assert first[1].text.endswith(f"\n\nLook, {name}.")
        assert set(found.kinds.values()) == {"opening", "role", "correction", "last_turn"}
        assert found.turns == [1, 1, 2, 2, 3]
    assert (await team(store)).requests == []
    assert [row.kind for row in (await store.rows(RUN))[len(rows) :]] == ["note"]  # its session
