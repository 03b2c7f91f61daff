"""The offline provider: a deterministic model without network that executes the skills' steps.

It reads the same request as any model: the skills' text, the brief and the offered tools. It
proposes the calls that the steps name, in parallel, since their arguments come from the brief; of
more tools than a request offers, the rest in its next turn. Then it reports what the observations
hold under the property names of its output schema. It knows nothing of reviews, sees nothing that
a model would not see, and its calls pass the same executor.
"""

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct

from orchestrator.catalog.playbook_steps import iter_tool_names
from orchestrator.engine.ports import MayRetry, always_retry
from orchestrator.engine.types import (
    Json,
    Request,
    Response,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from orchestrator.engine.untrusted_text import parse_framed, unframe
from orchestrator.errors import ModelError


class OfflineModel:
    """Executes the steps of skills; free, fast and deterministic."""

    name = "offline"

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        """Propose the calls that the skills name, or report.

        Raises:
            ModelError: no skill of the request has a step that names a tool.
        """
        called = {
            block.name
            for m in request.messages
            for block in m.blocks
            if isinstance(block, ToolCall)
        }
        tools = [tool for tool in _playbook_tools(request) if tool.name not in called]
        if called and not tools:
            return Response((Text(_write_report(request)),), "end", Usage(), self.name)
        if not tools:
            raise ModelError(
                f"{request.agent} has no skill with a step that the offline provider can execute; "
                "name its tools in the steps of one of its skills, or choose another provider"
            )
        brief = _read_brief(request)
        calls = tuple(
            ToolCall(f"call{number}", tool.name, {key: brief[key] for key in asked if key in brief})
            for number, tool in enumerate(tools, len(called) + 1)
            for asked in [tool.schema.get("properties", {})]
        )
        return Response(calls, "tool_use", Usage(), self.name)

    def worst_case(self, request: Request) -> Usage:
        """Zero: the offline provider costs nothing."""
        return Usage()


def _playbook_tools(request: Request) -> list[ToolSpec]:
    """The offered tools that the skills' steps name, each once, in order."""
    shown = {tool.name: tool for tool in request.tools}
    skills = (section for section in request.system if section.kind == "skill")
    names = (name for skill in skills for name in iter_tool_names(skill.text))
    return [shown[name] for name in dict.fromkeys(names) if name in shown]


def _read_brief(request: Request) -> Mapping[str, Json]:
    """The task: the JSON object in the first message."""
    for block in request.messages[0].blocks:
        if isinstance(block, Text):
            brief = parse_framed(block.text, request.nonce)
            if isinstance(brief, dict):
                return brief
    return {}


class _ToolObservation(Struct, frozen=True):
    tool: str
    result: ToolResult
    data: Mapping[str, Json] | None


def _collect_observations(request: Request) -> list[_ToolObservation]:
    names: dict[str, str] = {}
    seen: list[_ToolObservation] = []
    for message in request.messages:
        for block in message.blocks:
            if isinstance(block, ToolCall):
                names[block.id] = block.name
            elif isinstance(block, ToolResult):
                data = parse_framed(block.content, request.nonce)
                usable = data if isinstance(data, dict) and block.ok else None
                seen.append(_ToolObservation(names.get(block.call_id, "?"), block, usable))
    return seen


def _write_report(request: Request) -> str:
    """Collect each property of the output schema from the observations."""
    seen = _collect_observations(request)
    properties: Mapping[str, Json] = (request.output_schema or {}).get("properties", {})
    report = {name: _collect_field(name, kind, seen) for name, kind in properties.items()}
    if "gaps" in report:
        # A tool that gave no data is reported, not dropped.
        report["gaps"] += [
            {"tool": entry.tool, "why": _describe_failure(entry.result, request.nonce)}
            for entry in seen
            if entry.data is None
        ]
    return json.dumps({name: value for name, value in report.items() if value is not None})


def _describe_failure(result: ToolResult, nonce: str) -> str:
    """What a failed tool says; of one that did not fail, data that cannot be read say nothing."""
    if result.ok:
        return "its output was cut, or is not a JSON object"
    result_data = parse_framed(result.content, nonce)
    error = result_data.get("error") if isinstance(result_data, dict) else None
    return str(error or unframe(result.content, nonce))[:500]


def _collect_field(name: str, kind: Mapping[str, Json], seen: Sequence[_ToolObservation]) -> Json:
    values = [entry.data[name] for entry in seen if entry.data and name in entry.data]
    if kind.get("type") == "array":
        flat = [item for value in values if isinstance(value, list) for item in value]
        unique = {json.dumps(item, sort_keys=True): item for item in flat}
        return list(unique.values())
    if kind.get("type") == "string":
        return "\n".join(str(value) for value in values)
    return values[-1] if values else None
