"""Escalation: what escalates and what does not, in which order and why, and what a person says."""

from functools import partial

import pytest
from msgspec.structs import replace

from orchestrator.catalog.model_config import Capabilities, ModelsConfig, Provider, Stage
from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.agent_loop import LoopResult
from orchestrator.engine.agent_tasks import StageChange, Task, run_task, run_team
from orchestrator.engine.human_questions import record_answer, recorded_questions
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.model_routing import HUMAN
from orchestrator.engine.types import AgentSpec, Bounds, Request, Response
from orchestrator.errors import AnswerPending, InputError, ModelError
from orchestrator.providers.model_selection import choose_model
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.engine.engine_kit import (
    REPORT,
    account,
    created,
    make_runtime,
    open_memory_journal,
    spec,
)
from tests.scripted_model import ScriptedModel, ScriptedReply, text_reply, tool_call_reply

STAGES = (
    Stage("fast", min_score=0.5),
    Stage("fast-retry", "fast", "Go about it in small steps.", min_score=0.5),
    Stage("strong", min_score=0.4),
    Stage("strongest", effort="high", min_score=0.3),
    Stage(HUMAN),
)
MODELS = {"fast": "small", "strong": "large", "strongest": "largest"}
FULL = Capabilities("strict", True, "native", True, True)
CLOUD = Provider(api="chat", key_env="K", base_url_env="U", models=MODELS, can=FULL)
CONFIG = ModelsConfig(STAGES, {"cloud": CLOUD})
ALL = ("fast", "fast-retry", "strong", "strongest", HUMAN)
DEAD = ModelError("the line went dead")
GOOD, BAD = text_reply('{"answer": 42}'), text_reply('{"answer": "many"}')


def escalating(name: str = "worker", *stages: str, **more: object) -> AgentSpec:
    return spec(name, model="fast", escalation=stages or ALL, contract=REPORT, **more)


def runtime_with(journal: Journal, model: ScriptedModel) -> AgentRuntime:
    choose = partial(choose_model, CONFIG, "cloud", {})
    return replace(make_runtime(journal, model), choose_model=choose)


async def work(journal: Journal, model: ScriptedModel, task: Task) -> LoopResult:
    return await run_task(task, runtime_with(journal, model), account())


def stage_changes(journal: Journal) -> list[tuple[str, str, str]]:
    notes = {key: body for key, body in journal.notes("a").items() if "to_stage" in body}
    return [(body["from_stage"], body["to_stage"], body["why"]) for body in notes.values()]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([DEAD], "the line went dead"),
        ([BAD] * 3, "its report broke the contract"),
        ([Response((), "refused")], "the model's answer was refused"),
        ([Response((), "filtered")], "the model's answer was filtered"),
        ([text_reply("")] * 3, "the answer was empty"),
        ([Response(text_reply('{"ans').blocks, "max_tokens")] * 3, "cut off at its token limit"),
    ],
    ids=["error", "contract", "refused", "filtered", "empty", "truncated"],
)
async def test_a_failure_escalates_one_stage_with_its_reason(
    lines: list[ScriptedReply], why: str
) -> None:
    async with open_memory_journal() as journal:
        model = ScriptedModel({"worker": [*lines, GOOD]})
        result = await work(journal, model, Task(escalating(), "do it", Key("a")))
        model.finish()
        ((below, stage, reason),) = stage_changes(journal)
    assert (below, stage, result.status, result.stage) == ("fast", "fast-retry", "ok", "fast-retry")
    assert why in reason
    assert result.turns == len(lines) + 1
    assert (result.min_score, result.next_stage) == (0.5, "strong")


async def test_the_stages_come_in_order_with_their_models_strategy_and_effort() -> None:
    async with open_memory_journal() as journal:
        model = ScriptedModel({"worker": [DEAD, DEAD, DEAD, GOOD]})
        result = await work(journal, model, Task(escalating(), "do it", Key("a")))
        keys = list(journal.outcomes("a"))
    seen = [(request.model, request.effort) for request in model.requests]
    assert seen == [("small", None), ("small", None), ("large", None), ("largest", "high")]
    sections = [[part.kind for part in request.system] for request in model.requests]
    assert sections == [["role"], ["role", "strategy"], ["role"], ["role"]]
    assert model.requests[1].system[-1].text == "Go about it in small steps."
    assert keys == ["a", "a/attempt4/turn1/model"]
    assert result.stage == "strongest"


async def test_without_stages_a_failure_is_a_failure_under_the_same_keys() -> None:
    async with open_memory_journal() as journal:
        model = ScriptedModel({"worker": [DEAD]})
        result = await run_task(
            Task(escalating(), "do it", Key("a")), make_runtime(journal, model), account()
        )
        model.finish()
        assert not journal.notes("a")
    assert (result.status, result.stage, result.next_stage) == ("failed", "", "")


@pytest.mark.parametrize(
    ("bounds", "status"), [({"turns": 1}, "budget"), ({"tokens": 10}, "budget")]
)
async def test_a_spent_budget_does_not_escalate(bounds: dict[str, float], status: str) -> None:
    async with open_memory_journal() as journal:
        model = ScriptedModel({"worker": [tool_call_reply(("echo", {"text": "x"}))]})
        task = Task(escalating(bounds=Bounds(**bounds)), "do it", Key("a"))
        if "tokens" in bounds:
            model = ScriptedModel({}, worst=replace(GOOD.usage, output_tokens=99))
        assert (await work(journal, model, task)).status == status
        assert not stage_changes(journal)


async def test_the_attempts_share_the_tasks_one_budget() -> None:
    async with open_memory_journal() as journal:
        model = ScriptedModel({"worker": [DEAD, DEAD]})
        task = Task(escalating(bounds=Bounds(turns=2)), "do it", Key("a"))
        result = await work(journal, model, task)
        model.finish()
    assert (result.status, result.turns) == ("budget", 3)
    assert "turns would reach 3" in result.detail


async def test_a_person_is_asked_last_and_the_run_continues_with_the_answer() -> None:
    store = await created()
    dead = [DEAD] * 4
    for lines in (dead, []):  # the second session repeats nothing
        async with open_memory_journal(store) as journal:
            model = ScriptedModel({"worker": lines})
            with pytest.raises(AnswerPending, match="resume run1 --answer TEXT") as pending:
                await work(journal, model, Task(escalating(), "do it", Key("a")))
            assert "went dead" in pending.value.questions["a"]
            model.finish()
    async with open_memory_journal(store) as journal:
        await record_answer(journal, "", "Look at line 3.", who="someone", now=5.0)
    async with open_memory_journal(store) as journal:
        model = ScriptedModel({"worker": [GOOD]})
        result = await work(journal, model, Task(escalating(), "do it", Key("a")))
        (known,) = recorded_questions(journal)
        spent = journal.spent()
    assert (result.status, result.stage, result.next_stage) == ("ok", "strongest", "")
    assert model.requests[0].model == "largest"
    assert "Look at line 3." in str(model.requests[0].messages[0])
    assert (known.answer, known.who, known.at) == ("Look at line 3.", "someone", 5.0)
    assert spent.turns == 5


async def test_a_persons_answer_is_not_requested_again_when_it_does_not_help() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        with pytest.raises(AnswerPending):
            await work(journal, _dead(4), Task(escalating(), "do it", Key("a")))
        await record_answer(journal, "a", "Try.", who="someone", now=5.0)
        result = await work(journal, _dead(1), Task(escalating(), "do it", Key("a")))
    assert (result.status, result.turns) == ("failed", 5)


def _dead(times: int) -> ScriptedModel:
    return ScriptedModel({"worker": [DEAD] * times})


async def test_other_agents_finish_and_every_question_is_named() -> None:
    store = await created()
    tasks = [Task(escalating(name, HUMAN), "do it", Key(name)) for name in ("a", "b", "c")]
    async with open_memory_journal(store) as journal:
        model = ScriptedModel({"a": [DEAD], "b": [GOOD], "c": [DEAD]})
        with pytest.raises(AnswerPending) as pending:
            await run_team(tasks, runtime_with(journal, model), account(), concurrency=3)
        model.finish()
        assert set(pending.value.questions) == {"a", "c"}
        with pytest.raises(InputError, match="--to: a, c"):
            await record_answer(journal, "", "Yes.", who="someone", now=5.0)
        with pytest.raises(InputError, match="no question b waits"):
            await record_answer(journal, "b", "Yes.", who="someone", now=5.0)
        with pytest.raises(InputError, match="empty"):
            await record_answer(journal, "a", " ", who="someone", now=5.0)
        await record_answer(journal, "a", "Yes.", who="someone", now=5.0)
        model = ScriptedModel({"a": [GOOD]})
        with pytest.raises(AnswerPending) as pending:
            await run_team(tasks, runtime_with(journal, model), account(), concurrency=3)
        model.finish()
    assert set(pending.value.questions) == {"c"}


async def test_a_task_may_begin_at_a_higher_stage_and_the_reason_is_recorded() -> None:
    step = StageChange("fast", "strong", "the judge scored 0.20")
    async with open_memory_journal() as journal:
        model = ScriptedModel({"worker": [GOOD]})
        task = Task(replace(escalating(), model="strong"), "do it", Key("a"), step)
        result = await work(journal, model, task)
        assert stage_changes(journal) == [("fast", "strong", "the judge scored 0.20")]
    assert [request.model for request in model.requests] == ["large"]
    assert (result.stage, result.next_stage) == ("strong", "strongest")


async def test_a_task_may_begin_with_the_person() -> None:
    step = StageChange("strongest", HUMAN, "the judge scored 0.20")
    task = Task(replace(escalating(), model="strongest"), "do it", Key("a"), step)
    async with open_memory_journal() as journal:
        with pytest.raises(AnswerPending, match="the judge scored 0.20"):
            await work(journal, ScriptedModel({}), task)
        await record_answer(journal, "a", "Mind the callers.", who="someone", now=5.0)
        model = ScriptedModel({"worker": [GOOD]})
        assert (await work(journal, model, task)).status == "ok"
    assert model.requests[0].model == "largest"


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("at", [1, 2, 3, 4])
async def test_a_kill_between_stages_repeats_nothing_that_was_recorded(at: int) -> None:
    store: MemoryStore = await created()

    def dies(request: Request) -> Response:
        raise Killed

    lines: list[ScriptedReply] = [DEAD, BAD, BAD, BAD, GOOD]
    with pytest.raises(Killed):
        async with open_memory_journal(store) as journal:
            model = ScriptedModel({"worker": [*lines[:at], dies]})
            await work(journal, model, Task(escalating(), "do it", Key("a")))
    async with open_memory_journal(store) as journal:
        model = ScriptedModel({"worker": lines[at:]})
        result = await work(journal, model, Task(escalating(), "do it", Key("a")))
        model.finish()
        changes = stage_changes(journal)
    assert result.status == "ok"
    assert [stage for _, stage, _ in changes] == ["fast-retry", "strong"]


@pytest.mark.parametrize(
    ("models", "current", "next_stages"),
    [
        (MODELS, "fast", ("fast-retry", "strong", "strongest", HUMAN)),
        (MODELS, "strong", ("strongest", HUMAN)),
        (MODELS, "strongest", (HUMAN,)),
        (MODELS, "claude-next", ALL),
        ({"fast": "one", "strong": "one"}, "fast", ("fast-retry", HUMAN)),
        ({"fast": "one"}, "fast", ("fast-retry", HUMAN)),
        ({"fast": "one", "strong": "one", "strongest": "one"}, "fast-retry", ("strongest", HUMAN)),
    ],
)
def test_a_stage_that_is_not_served_or_asks_for_the_same_is_skipped(
    models: dict[str, str], current: str, next_stages: tuple[str, ...]
) -> None:
    served = replace(CONFIG, providers={"cloud": replace(CONFIG.provider("cloud"), models=models)})
    assert (
        choose_model(served, "cloud", {}, replace(escalating(), model=current)).next_stages
        == next_stages
    )


def test_one_stage_is_no_escalation() -> None:
    alone = replace(escalating(), escalation=())
    choice = choose_model(CONFIG, "cloud", {}, alone)
    assert choice == replace(choice, stage="fast", min_score=0.5, next_stages=())
