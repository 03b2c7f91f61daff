"""Answers under the output schema that agents with different contracts share.

Scripts and people write an agent's report under its own contract. The server sends it as the schema
of the request demands, as a service does that enforces it.
"""

import json
import re
from collections.abc import Mapping

from msgspec.structs import replace

from orchestrator.engine.common_contract import ANSWER, describe_answer
from orchestrator.engine.types import Json, Response, Text

_KIND = re.compile(re.escape(describe_answer("KIND").partition(":")[0]).replace("KIND", r"(\w+)"))


def own_contract(
    schema: Mapping[str, Json] | None, body: Mapping[str, Json]
) -> Mapping[str, Json] | None:
    """The contract of the agent that asks, where the schema of its request offers several."""
    options = _options(schema)
    return options[_kind(body)] if options else schema


def enforce_answer(
    response: Response, schema: Mapping[str, Json] | None, body: Mapping[str, Json]
) -> Response:
    """A reply whose report, where it is a JSON object, is wrapped as the schema demands."""
    texts = [block for block in response.blocks if isinstance(block, Text)]
    if not _options(schema) or len(texts) != 1:
        return response
    try:
        report = json.loads(texts[0].text)
    except ValueError:
        return response
    if not isinstance(report, dict) or ANSWER in report:
        return response
    wrapped = Text(json.dumps({ANSWER: {_kind(body): report}}))
    blocks = tuple(wrapped if block is texts[0] else block for block in response.blocks)
    return replace(response, blocks=blocks)


def _options(schema: Mapping[str, Json] | None) -> dict[str, Mapping[str, Json]]:
    """The contracts that a schema offers, by name."""
    answer = (schema or {}).get("properties", {}).get(ANSWER, {})
    return {
        name: contract
        for option in answer.get("anyOf", ())
        for name, contract in option["properties"].items()
    }


def _kind(body: Mapping[str, Json]) -> str:
    """The kind of answer that the agent is told to give; the last such line counts."""
    said = json.dumps(body.get("messages") or body.get("input"))
    return str(_KIND.findall(said)[-1])
