"""The OpenAI Agents SDK: registered actions as its function tools (extra ``openai-agents``).

    agent = Agent(name="ops", tools=guarded_tools(harness), model=GuardedModel(harness, model, ...))

What needs a person asks for approval in the SDK's way (``result.interruptions``,
``state.approve``). The harness does not depend on that: a tool that is invoked without approval is
refused.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agents.models.interface import Model, ModelTracing
from agents.tool_context import ToolContext
from pydantic import TypeAdapter

from agents import FunctionTool, ModelResponse, ModelSettings, Tool
from orchestrator.adapters import GuardedCalls, map_texts, texts_in
from orchestrator.engine.types import Json, ToolSpec
from orchestrator.errors import ApprovalPending, InputError
from orchestrator.library.external_model_calls import ModelCall, TextPlace
from orchestrator.library.harness import Harness

APPROVED_BY = "whoever approved it in the OpenAI Agents run"
_RESPONSE = TypeAdapter(ModelResponse)
_PLACES: Mapping[str, TextPlace] = {
    "system": "system", "developer": "system", "assistant": "assistant", "user": "brief",
}  # fmt: skip


def guarded_tools(harness: Harness, agent: str = "openai-agents") -> list[Tool]:
    """A function tool for each action that is registered now."""
    return [_tool(harness, spec, agent) for spec in harness.actions()]


def _tool(harness: Harness, spec: ToolSpec, agent: str) -> FunctionTool:
    async def invoke(context: ToolContext[Any], written: str) -> str:
        try:
            arguments = json.loads(written or "{}")
        except ValueError as error:
            return f"InvalidArguments: not JSON: {error}"
        if not isinstance(arguments, dict):
            return "InvalidArguments: not a JSON object"
        approved = context.is_tool_approved(spec.name, context.tool_call_id)
        try:
            seen = await harness.observe(
                spec.name, arguments, call=context.tool_call_id, agent=agent,
                approved=approved or None, who=APPROVED_BY,
            )  # fmt: skip
        except ApprovalPending as error:
            return f"ApprovalPending: {error}"
        return seen.content

    async def asks(context: Any, arguments: dict[str, Json], call: str) -> bool:
        return harness.asks_person(spec.name, arguments, agent=agent) is not None

    return FunctionTool(
        name=spec.name,
        description=spec.description,
        params_json_schema=dict(spec.schema),
        on_invoke_tool=invoke,
        strict_json_schema=False,  # the harness validates the arguments itself
        needs_approval=asks,
    )


class GuardedModel(GuardedCalls, Model):
    """A model of the SDK; ``model`` makes its calls, with the tools of the SDK's agent."""

    async def get_response(  # noqa: PLR0917 - the SDK's interface
        self,
        system_instructions: str | None,
        input: str | list[Any],  # noqa: A002
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: Any,
        handoffs: list[Any],
        tracing: ModelTracing,
        **more: Any,
    ) -> ModelResponse:
        """Ask the model.

        Raises:
            InputError: an agent to which this one can hand off has a model without guards.
            Refused: what is sent does not pass; nothing was sent.
        """
        for one in handoffs:
            target = getattr(one, "_agent_ref", lambda: None)()
            if not isinstance(getattr(target, "model", None), GuardedModel):
                raise InputError(
                    f"the hand-off to {one.agent_name} leaves the guards: make that agent's model "
                    "a GuardedModel, and its tools guarded_tools"
                )
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        settings = replace(model_settings, max_tokens=self.max_tokens)

        async def send(call: ModelCall, passed: Iterator[str]) -> Json:
            system = "\n\n".join(filter(None, (next(passed), call.skills))) or None
            sent = self.harness.journal.redact.json(map_texts(items, lambda _: next(passed)))
            reply = await self.model.get_response(
                system, sent, settings, tools, output_schema, handoffs, tracing, **more
            )
            if (used := reply.usage).total_tokens:
                call.record(input_tokens=used.input_tokens, output_tokens=used.output_tokens)
            return _RESPONSE.dump_python(reply, mode="json")

        texts: list[tuple[TextPlace, str]] = [("system", system_instructions or "")]
        for item in items:
            place = _PLACES.get(item.get("role", ""), "observation")
            texts += [(place, text) for text in texts_in(item)]
        response = await self.call(texts, [tool.name for tool in tools], send)
        return _RESPONSE.validate_python(response)

    def stream_response(self, *args: Any, **more: Any) -> Any:
        """Refuse: what was streamed is not recorded."""
        raise InputError("a guarded model does not stream; use Runner.run")
