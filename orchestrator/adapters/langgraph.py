"""LangGraph: nodes whose tools and model calls run behind the harness (extra ``langgraph``).

    graph.add_node("tools", GuardedTools(harness))
    graph.add_node("model", GuardedChat(harness, chat_model, name="model-x", max_tokens=1000))

An irreversible call interrupts the graph, which continues with
``Command(resume={"approved": True, "who": "a name"})``. An interrupted node runs again from its
start; each call is named by its tool call id, so completed calls are not repeated.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import convert_to_messages
from langgraph.types import interrupt

from orchestrator.adapters import map_texts
from orchestrator.errors import ApprovalPending
from orchestrator.library.external_model_calls import ModelCall, ModelContext, TextPlace
from orchestrator.library.harness import Harness

AGENT = "langgraph"
_PLACES: Mapping[str, TextPlace] = {"system": "system", "tool": "observation", "ai": "assistant"}
"""A message's type → where its text stands; else a person wrote it."""


class GuardedTools:
    """A node for a graph whose state has ``messages``, the last of which calls tools.

    A message's content is for the model: marked as untrusted. Its ``artifact`` is the plain value.

    Args:
        harness: knows the actions; open for as long as the graph runs.
    """

    def __init__(self, harness: Harness, agent: str = AGENT) -> None:
        self._harness, self._agent = harness, agent

    async def __call__(self, state: Any) -> dict[str, list[ToolMessage]]:
        """Run the calls of the last message in order, and answer each."""
        requested = state["messages"][-1].tool_calls
        return {"messages": [await self._answer(call) for call in requested]}

    async def _answer(self, call: Mapping[str, Any]) -> ToolMessage:
        name, arguments = call["name"], call["args"]
        by = {"call": call["id"], "agent": self._agent}
        try:
            seen = await self._harness.observe(name, arguments, **by)
        except ApprovalPending as pending:
            answer = interrupt({"tool": name, "arguments": arguments, "why": str(pending)})
            approved, who = bool(answer.get("approved")), str(answer.get("who") or "somebody")
            seen = await self._harness.observe(name, arguments, approved=approved, who=who, **by)
        return ToolMessage(
            seen.content,
            name=name,
            tool_call_id=call["id"],
            status="success" if seen.ok else "error",
            artifact=seen.data,
        )


class GuardedChat:
    """A node that lets a chat model answer the messages of the state.

    What is sent passes the text guards, and is booked. The model is offered registered tools.

    Args:
        name: of the model, for its price.
        max_tokens: limit of an answer; your chat model must have the same.
        tools: names; by default all that the agent may call.
        skills, usd: as for ``ModelContext`` and ``Harness.model_call``.

    Raises:
        Refused: of a call, if it does not pass; nothing was sent.
    """

    def __init__(
        self,
        harness: Harness,
        model: BaseChatModel,
        *,
        name: str,
        max_tokens: int,
        usd: float | None = None,
        tools: Sequence[str] | None = None,
        skills: Sequence[str | Path] = (),
        agent: str = AGENT,
    ) -> None:
        self._harness, self._model, self._tools = harness, model, tools
        self._limits = {"model": name, "max_tokens": max_tokens, "usd": usd}
        self._skills, self._agent = skills, agent

    async def __call__(self, state: Any) -> dict[str, list[AIMessage]]:
        """Ask the model for the next message."""
        harness, messages = self._harness, convert_to_messages(state["messages"])
        texts: list[tuple[TextPlace, str]] = []
        for message in messages:
            place = _PLACES.get(message.type, "brief")
            map_texts(message.content, lambda text, at=place: texts.append((at, text)) or text)  # type: ignore[misc]
        tools = self._tools
        if tools is None:
            known = (spec.name for spec in harness.actions())
            tools = [name for name in known if harness.is_allowed(name, self._agent)]
        forms = harness.describe_tools("openai-chat", map(harness.get, tools))

        async def ask(call: ModelCall) -> Any:
            passed = iter(call.texts)
            sent: list[AnyMessage] = [
                message.model_copy(
                    update={"content": map_texts(message.content, lambda _: next(passed))}
                )
                for message in messages
            ]
            if call.skills:
                sent.insert(0, SystemMessage(call.skills))
            reply = await (self._model.bind_tools(forms) if forms else self._model).ainvoke(sent)
            if used := reply.usage_metadata:
                call.record(input_tokens=used["input_tokens"], output_tokens=used["output_tokens"])
            return reply.model_dump(mode="json")

        context = ModelContext(texts, tools, self._skills, self._agent)
        said = await harness.model_call(ask, context=context, **self._limits)
        return {"messages": [AIMessage.model_validate(said)]}
