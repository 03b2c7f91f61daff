"""The OpenAI Agents SDK: registered actions as its function tools (extra ``openai-agents``).

    agent = Agent(name="ops", tools=guarded_tools(harness), model=GuardedModel(harness, model, ...))

An irreversible call asks for approval in the SDK's way (``result.interruptions``,
``state.approve``). The harness does not depend on that: a tool that is invoked without approval is
refused.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.models.interface import Model, ModelTracing
from agents.tool_context import ToolContext
from pydantic import TypeAdapter

from agents import FunctionTool, ModelResponse, ModelSettings, Tool
from orchestrator.adapters import map_texts
from orchestrator.engine.types import Level, ToolSpec
from orchestrator.errors import ApprovalPending, InputError
from orchestrator.library.external_model_calls import ModelCall, ModelContext, TextPlace
from orchestrator.library.harness import Harness

AGENT = "openai-agents"
APPROVED_BY = "whoever approved it in the OpenAI Agents run"
_RESPONSE = TypeAdapter(ModelResponse)
_PLACES: Mapping[str, TextPlace] = {
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "user": "brief",
}


def guarded_tools(harness: Harness, agent: str = AGENT) -> list[Tool]:
    """A function tool for each action that is registered now."""
    return [_tool(harness, spec, agent) for spec in harness.actions()]


def _tool(harness: Harness, spec: ToolSpec, agent: str) -> FunctionTool:
    async def invoke(context: ToolContext[Any], written: str) -> str:
        try:
            arguments = json.loads(written or "{}")
        except ValueError as error:
            return f"InvalidArguments: not JSON: {error}"
        approved = spec.level > Level.WRITE and context.is_tool_approved(
            spec.name, context.tool_call_id
        )
        try:
            seen = await harness.observe(
                spec.name, arguments, call=context.tool_call_id, agent=agent,
                approved=True if approved else None, who=APPROVED_BY,
            )  # fmt: skip
        except ApprovalPending as error:
            return f"ApprovalPending: {error}"
        return seen.content

    return FunctionTool(
        name=spec.name,
        description=spec.description,
        params_json_schema=dict(spec.schema),
        on_invoke_tool=invoke,
        strict_json_schema=False,  # the harness validates the arguments itself
        needs_approval=spec.level > Level.WRITE,
    )


class GuardedModel(Model):
    """A model of the SDK whose calls pass the harness: text guards, budget, skills, tools.

    Args:
        model: makes the calls.
        name: of the model, for its price.
        max_tokens: limit of an answer; a lower one in the agent's settings counts.
        skills, usd: as for ``ModelContext`` and ``Harness.model_call``.

    Raises:
        Refused: of a call, if it does not pass; nothing was sent.
    """

    def __init__(
        self,
        harness: Harness,
        model: Model,
        *,
        name: str,
        max_tokens: int,
        usd: float | None = None,
        skills: Sequence[str | Path] = (),
        agent: str = AGENT,
    ) -> None:
        self._harness, self._model, self._name, self._usd = harness, model, name, usd
        self._max_tokens, self._skills, self._agent = max_tokens, skills, agent

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
        """Ask the model within the harness."""
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        texts: list[tuple[TextPlace, str]] = [("system", system_instructions or "")]
        for item in items:
            place = _PLACES.get(item.get("role", ""), "observation")
            _map_item(item, lambda text, at=place: texts.append((at, text)) or text)  # type: ignore[misc]
        most = min(model_settings.max_tokens or self._max_tokens, self._max_tokens)

        async def ask(call: ModelCall) -> Any:
            passed = iter(call.texts)
            system = "\n\n".join(filter(None, (next(passed), call.skills))) or None
            sent = [_map_item(item, lambda _: next(passed)) for item in items]
            settings = replace(model_settings, max_tokens=most)
            reply = await self._model.get_response(
                system, sent, settings, tools, output_schema, handoffs, tracing, **more
            )
            if reply.usage.total_tokens:
                call.record(
                    input_tokens=reply.usage.input_tokens, output_tokens=reply.usage.output_tokens
                )
            return _RESPONSE.dump_python(reply, mode="json")

        names = [tool.name for tool in tools]
        said = await self._harness.model_call(
            ask, model=self._name, max_tokens=most, usd=self._usd,
            context=ModelContext(texts, names, self._skills, self._agent),
        )  # fmt: skip
        return _RESPONSE.validate_python(said)

    def stream_response(self, *args: Any, **more: Any) -> Any:
        """Refuse: what was streamed is not recorded.

        Raises:
            InputError: always.
        """
        raise InputError("a guarded model does not stream; use Runner.run")


def _map_item(item: Any, change: Any) -> Any:
    """An item of the input with a function applied to its texts."""
    return {
        key: map_texts(value, change) if key in {"content", "output"} else value
        for key, value in item.items()
    }
