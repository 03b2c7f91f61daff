"""One output schema for agents with different contracts.

A provider puts the output schema before everything else, so agents share a cached prefix only if
they have the same one. It offers each contract under its name: ``{"answer": {"plan": {...}}}``.
"""

from collections.abc import Mapping

from orchestrator.engine.types import Json

ANSWER = "answer"


def common_contract(contracts: Mapping[str, Json]) -> Json:
    """The schema of an answer under one of these contracts: name → JSON Schema."""
    options = [_single_property(name, contract) for name, contract in contracts.items()]
    return _single_property(ANSWER, {"anyOf": options})


def contract_name(contract: Json, contracts: Mapping[str, Json]) -> str:
    """The name of a contract among these; empty when it is none of them."""
    return next((name for name, one in contracts.items() if one == contract), "")


def describe_answer(name: str) -> str:
    """Tell a model under which name it answers."""
    return f'Your final report is an answer of the kind {name}: {{"{ANSWER}": {{"{name}": ...}}}}.'


def wrap(report: Json, name: str) -> Json:
    """A report as the answer to give; as it is without a common contract."""
    return {ANSWER: {name: report}} if name else report


def unwrap(report: Json, name: str) -> Json:
    """The report in an answer; one that is not wrapped, or has another name, is returned as it is.

    Args:
        name: of the contract; empty without a common contract.
    """
    for key in (ANSWER, name) if name else ():
        if isinstance(report, Mapping) and report.keys() == {key}:
            report = report[key]
    return report


def _single_property(name: str, schema: Json) -> Json:
    return {
        "type": "object",
        "properties": {name: schema},
        "required": [name],
        "additionalProperties": False,
    }
