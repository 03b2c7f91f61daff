"""One output schema for agents with different contracts."""

import json

import pytest
from msgspec.structs import replace

from orchestrator.engine.agent_loop import run_agent
from orchestrator.engine.common_contract import common_contract, unwrap
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.tool_registry import validator
from orchestrator.engine.types import Json
from orchestrator.providers.request_normalization import to_strict_schema
from tests.engine.engine_kit import Echo, account, make_runtime, open_memory_journal, spec
from tests.scripted_model import ScriptedModel, text_reply


def form(name: str) -> Json:
    return {
        "type": "object",
        "properties": {name: {"type": "integer"}},
        "required": [name],
        "additionalProperties": False,
    }


CONTRACTS = {"plan": form("tasks"), "report": form("findings")}


def test_the_common_schema_takes_each_report_under_its_own_name_only() -> None:
    errors_of = validator(common_contract(CONTRACTS))
    assert not errors_of({"answer": {"plan": {"tasks": 1}}})
    assert not errors_of({"answer": {"report": {"findings": 1}}})
    assert errors_of({"answer": {"report": {"tasks": 1}}})
    assert errors_of({"answer": {"plan": {"tasks": 1}, "report": {"findings": 1}}})
    assert errors_of({"tasks": 1})
    assert to_strict_schema(common_contract(CONTRACTS)) == common_contract(CONTRACTS)


@pytest.mark.parametrize(
    ("answer", "report"),
    [
        ({"answer": {"plan": {"tasks": 1}}}, {"tasks": 1}),
        ({"plan": {"tasks": 1}}, {"tasks": 1}),
        ({"answer": {"tasks": 1}}, {"tasks": 1}),
        ({"tasks": 1}, {"tasks": 1}),
        ({"answer": {"report": {"findings": 1}}}, {"report": {"findings": 1}}),
        ({"answer": 3}, 3),
        (["answer"], ["answer"]),
    ],
)
def test_a_report_is_found_in_its_answer(answer: Json, report: Json) -> None:
    assert unwrap(answer, "plan") == report
    assert unwrap(answer, "") == answer


async def test_agents_with_different_contracts_send_the_same_schema() -> None:
    lines = {
        "lead": [text_reply('{"answer": {"plan": {"tasks": 1}}}')],
        "worker": [
            text_reply('{"answer": {"plan": {"tasks": 1}}}'),
            text_reply('{"answer": {"report": {"findings": 2}}}'),
        ],
        "other": [text_reply('{"score": 3}')],
    }
    model = ScriptedModel(lines)
    async with open_memory_journal() as journal:
        runtime = replace(
            make_runtime(journal, model, Echo("t")), opening="What all read.", contracts=CONTRACTS
        )
        reported = {}
        for name, contract in (
            ("lead", CONTRACTS["plan"]),
            ("worker", CONTRACTS["report"]),
            ("other", form("score")),
        ):
            agent = spec(name, "t", contract=contract)
            result = await run_agent(agent, "go", runtime, Key(name), account())
            reported[name] = (result.status, result.report)
    assert reported == {
        "lead": ("ok", {"tasks": 1}),
        "worker": ("ok", {"findings": 2}),
        "other": ("ok", {"score": 3}),
    }
    schemas = {request.agent: request.output_schema for request in model.requests}
    assert schemas["lead"] == schemas["worker"] == common_contract(CONTRACTS)
    assert schemas["other"] == form("score")
    told = json.dumps([str(request.messages[0]) for request in model.requests])
    assert told.count("an answer of the kind plan") == 1
    assert told.count("an answer of the kind report") == 2
