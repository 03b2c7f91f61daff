"""The offline provider: a model that needs no key because it follows the playbooks to the letter.

It reads the same request as any model: the skills' text, the brief, the tools it is shown. In its
first turn it proposes the calls that the playbooks' steps name, all side by side: what it passes on
comes from the brief, so no call waits for another's result. In its second it reports what the
observations say under the names that its output contract asks for. It knows nothing of reviews,
sees nothing that a model would not see, and its calls pass the same executor.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct

from orchestrator.engine.playbook_steps import named
from orchestrator.engine.ports import Again, always
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
from orchestrator.engine.untrusted_text import as_json, unframe
from orchestrator.errors import ModelError


class OfflineModel:
    """Follows playbooks; free, fast and the same every time."""

    name = "offline"

    async def respond(self, request: Request, again: Again = always) -> Response:
        """Propose what the playbooks name, or report.

        Raises:
            ModelError: the request has no playbook with steps.
        """
        tools = _named(request)
        if not tools:
            raise ModelError(f"{request.agent} has no playbook step that it could take offline")
        if any(message.role == "assistant" for message in request.messages):
            return Response((Text(_report(request)),), "end", Usage(), self.name)
        brief = _brief(request)
        calls = tuple(
            ToolCall(f"call{number}", tool.name, _arguments(tool, brief))
            for number, tool in enumerate(tools, 1)
        )
        return Response(calls, "tool_use", Usage(), self.name)

    def worst_case(self, request: Request) -> Usage:
        """Nothing: it is code."""
        return Usage()


def _named(request: Request) -> list[ToolSpec]:
    """The tools that the playbooks' steps name and the agent has, each once, in their order."""
    shown = {tool.name: tool for tool in request.tools}
    skills = (section for section in request.system if section.kind == "skill")
    names = (name for skill in skills for name in named(skill.text))
    return [shown[name] for name in dict.fromkeys(names) if name in shown]


def _brief(request: Request) -> Mapping[str, Json]:
    """The task, as the JSON in the first message."""
    for block in request.messages[0].blocks:
        if isinstance(block, Text):
            found = as_json(block.text, request.nonce)
            if isinstance(found, dict):
                return found
    return {}


def _arguments(tool: ToolSpec, brief: Mapping[str, Json]) -> dict[str, Json]:
    """What the brief says under the names of the tool's parameters."""
    return {name: brief[name] for name in tool.schema.get("properties", {}) if name in brief}


class _Seen(Struct, frozen=True):
    tool: str
    result: ToolResult
    data: Mapping[str, Json] | None


def _observations(request: Request) -> list[_Seen]:
    names: dict[str, str] = {}
    seen: list[_Seen] = []
    for message in request.messages:
        for block in message.blocks:
            if isinstance(block, ToolCall):
                names[block.id] = block.name
            elif isinstance(block, ToolResult):
                data = as_json(block.content, request.nonce)
                usable = data if isinstance(data, dict) and block.ok else None
                seen.append(_Seen(names.get(block.call_id, "?"), block, usable))
    return seen


def _report(request: Request) -> str:
    """What the observations say under each name of the output contract."""
    seen = _observations(request)
    properties: Mapping[str, Json] = (request.output_schema or {}).get("properties", {})
    report = {name: _gather(name, kind, seen) for name, kind in properties.items()}
    if "gaps" in report:
        # Mark, don't drop: what could not be observed is part of the report.
        report["gaps"] += [
            {"tool": entry.tool, "why": unframe(entry.result.content, request.nonce)[:500]}
            for entry in seen
            if entry.data is None
        ]
    return json.dumps({name: value for name, value in report.items() if value is not None})


def _gather(name: str, kind: Mapping[str, Json], seen: Sequence[_Seen]) -> Json:
    said = [entry.data[name] for entry in seen if entry.data and name in entry.data]
    if kind.get("type") == "array":
        flat = [item for value in said if isinstance(value, list) for item in value]
        once = {json.dumps(item, sort_keys=True): item for item in flat}
        return list(once.values())
    if kind.get("type") == "string":
        return "\n".join(str(value) for value in said)
    return said[-1] if said else None
