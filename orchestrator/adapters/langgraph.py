"""LangGraph: a tool node whose tools run behind the harness (extra ``langgraph``).

    graph.add_node("tools", GuardedTools(harness))

An irreversible call interrupts the graph, which continues with
``Command(resume={"approved": True, "who": "a name"})``. An interrupted node runs again from its
start; each call is named by its tool call id, so completed calls are not repeated.
"""

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import interrupt

from orchestrator.errors import ActionFailed, ApprovalPending, Refused
from orchestrator.library.harness import Harness


class GuardedTools:
    """A node for a graph whose state has ``messages``, the last of which calls tools.

    Args:
        harness: knows the actions; open for as long as the graph runs.
    """

    def __init__(self, harness: Harness, agent: str = "langgraph") -> None:
        self._harness, self._agent = harness, agent

    async def __call__(self, state: Any) -> dict[str, list[ToolMessage]]:
        """Run the calls of the last message in order, and answer each."""
        requested = state["messages"][-1].tool_calls
        return {"messages": [await self._answer(call) for call in requested]}

    async def _answer(self, call: Mapping[str, Any]) -> ToolMessage:
        try:
            value, ok = await self._run(call), True
        except (Refused, ActionFailed) as error:
            value, ok = f"{type(error).__name__}: {error}", False
        text = value if isinstance(value, str) else json.dumps(value)
        return ToolMessage(
            text, name=call["name"], tool_call_id=call["id"], status="success" if ok else "error"
        )

    async def _run(self, call: Mapping[str, Any]) -> Any:
        name, arguments = call["name"], call["args"]
        by = {"call": call["id"], "agent": self._agent}
        try:
            return await self._harness.execute(name, arguments, **by)
        except ApprovalPending as pending:
            answer = interrupt({"tool": name, "arguments": arguments, "why": str(pending)})
        who = str(answer.get("who") or "somebody")
        decide = self._harness.approve_and_execute if answer.get("approved") else self._harness.deny
        return await decide(name, arguments, who=who, **by)
