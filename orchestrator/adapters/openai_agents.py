"""The OpenAI Agents SDK: registered actions as its function tools (extra ``openai-agents``).

    agent = Agent(name="ops", tools=guarded_tools(harness))

An irreversible call asks for approval in the SDK's way (``result.interruptions``,
``state.approve``). The harness does not depend on that: a tool that is invoked without approval is
refused.
"""

import json
from typing import Any

from agents.tool_context import ToolContext

from agents import FunctionTool, Tool
from orchestrator.engine.types import Level, ToolSpec
from orchestrator.errors import ActionFailed, ApprovalPending, Refused
from orchestrator.library.harness import Harness

APPROVED_BY = "whoever approved it in the OpenAI Agents run"


def guarded_tools(harness: Harness, agent: str = "openai-agents") -> list[Tool]:
    """A function tool for each action that is registered now."""
    return [_tool(harness, spec, agent) for spec in harness.actions()]


def _tool(harness: Harness, spec: ToolSpec, agent: str) -> FunctionTool:
    async def invoke(context: ToolContext[Any], written: str) -> str:
        by = {"call": context.tool_call_id, "agent": agent}
        try:
            arguments = json.loads(written or "{}")
            if spec.level > Level.WRITE and context.is_tool_approved(
                spec.name, context.tool_call_id
            ):
                value = await harness.approve_and_execute(
                    spec.name, arguments, who=APPROVED_BY, **by
                )
            else:
                value = await harness.execute(spec.name, arguments, **by)
        except (Refused, ActionFailed, ApprovalPending) as error:
            return f"{type(error).__name__}: {error}"
        except ValueError as error:
            return f"InvalidArguments: not JSON: {error}"
        return value if isinstance(value, str) else json.dumps(value)

    return FunctionTool(
        name=spec.name,
        description=spec.description,
        params_json_schema=dict(spec.schema),
        on_invoke_tool=invoke,
        strict_json_schema=False,  # the harness validates the arguments itself
        needs_approval=spec.level > Level.WRITE,
    )
