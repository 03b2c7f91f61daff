"""LangGraph: nodes whose tools and model calls run behind the harness (extra ``langgraph``).

    graph.add_node("tools", GuardedTools(harness))
    graph.add_node("model", GuardedChat(harness, chat_model, name="m", max_tokens=1000))

An irreversible call interrupts the graph, which continues with
``Command(resume={"approved": True, "who": "a name"})``. An interrupted node runs again from its
start; each call is named by its tool call id, so completed calls are not repeated.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import convert_to_messages
from langgraph.types import interrupt

from orchestrator.adapters import GuardedCalls, map_texts, texts_in
from orchestrator.engine.types import Json
from orchestrator.errors import ApprovalPending
from orchestrator.library.external_model_calls import ModelCall, TextPlace
from orchestrator.library.harness import Harness

_PLACES: Mapping[str, TextPlace] = {"system": "system", "tool": "observation", "ai": "assistant"}
"""A message's type → where its text stands; else a person wrote it."""


class GuardedTools:
    """A node for a graph whose state has ``messages``, the last of which calls tools.

    A message's content is for the model: marked as untrusted. Its ``artifact`` is the plain value.

    Args:
        harness: knows the actions; open for as long as the graph runs.
    """

    def __init__(self, harness: Harness, agent: str = "langgraph") -> None:
        self._harness, self._agent = harness, agent

    async def __call__(self, state: Any) -> dict[str, list[ToolMessage]]:
        """Run the calls of the last message in order, and answer each."""
        return {"messages": [await self._answer(call) for call in state["messages"][-1].tool_calls]}

    async def _answer(self, call: Mapping[str, Any]) -> ToolMessage:
        name, arguments = call["name"], call["args"]
        by = {"call": call["id"], "agent": self._agent}
        try:
            seen = await self._harness.observe(name, arguments, **by)
        except ApprovalPending as pending:
            made = dict(pending.arguments)
            answer = interrupt({"tool": name, "arguments": made, "why": str(pending)})
            approved, who = bool(answer.get("approved")), str(answer.get("who") or "somebody")
            seen = await self._harness.observe(name, arguments, approved=approved, who=who, **by)
        return ToolMessage(
            seen.content,
            name=name,
            tool_call_id=call["id"],
            status="success" if seen.ok else "error",
            artifact=seen.data,
        )


class GuardedChat(GuardedCalls):
    """A node that lets a chat model, which has the same ``max_tokens``, answer the messages."""

    async def __call__(self, state: Any) -> dict[str, list[AIMessage]]:
        """Ask the model for the next message.

        Raises:
            Refused: what is sent does not pass; nothing was sent.
        """
        messages, known = convert_to_messages(state["messages"]), self.harness.actions()
        may = [spec.name for spec in known if self.harness.is_allowed(spec.name, self.agent)]
        tools = may if self.tools is None else self.tools
        specs = [spec for spec in known if spec.name in tools]

        async def send(call: ModelCall, passed: Iterator[str]) -> Json:
            sent: list[Any] = [SystemMessage(call.skills)] if call.skills else []
            redact = self.harness.journal.redact.json
            for message in messages:
                rest = redact(message.model_dump(exclude={"content", "artifact"}))  # such as calls
                content = map_texts(message.content, lambda _: next(passed))
                sent.append(message.model_copy(update={**rest, "content": content}))
            forms = self.harness.describe_tools("openai-chat", specs)
            reply = await (self.model.bind_tools(forms) if forms else self.model).ainvoke(sent)
            if used := reply.usage_metadata:
                call.record(input_tokens=used["input_tokens"], output_tokens=used["output_tokens"])
            return reply.model_dump(mode="json")

        texts = [
            (_PLACES.get(message.type, "brief"), text)
            for message in messages
            for text in texts_in(message.content)
        ]
        return {"messages": [AIMessage.model_validate(await self.call(texts, tools, send))]}
