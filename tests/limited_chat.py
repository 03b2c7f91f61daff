"""A server of Chat Completions without some of its features."""

import json
import re
from collections.abc import Mapping

from orchestrator.engine.types import Json, Response, Usage
from tests.model_server.api_validation import Rejected
from tests.model_server.chat_api import ChatApi

_MARK = re.compile(r"<(tool_call[^>]*)>")


class LimitedChatApi(ChatApi):
    """Rejects what such a server lacks.

    Args:
        lacks: names of request fields that the server rejects, and ``parallel`` (one call per
            message), ``schemas_with_tools``, ``text`` (tool calls are delimited text).
    """

    def __init__(self, key: str, lacks: frozenset[str]) -> None:
        super().__init__(key)
        self._lacks = lacks

    def check(self, headers: Mapping[str, str], body: dict[str, Json]) -> None:
        """Validate a request as such servers do."""
        super().check(headers, body)
        for name in sorted(self._lacks & body.keys()):
            raise Rejected(f"Unsupported parameter: '{name}'")
        if {"tools", "response_format"} <= body.keys() and "schemas_with_tools" in self._lacks:
            raise Rejected("Cannot use custom grammar constraints with tools.")
        most = max(len(message.get("tool_calls", ())) for message in body["messages"])
        if most > 1 and "parallel" in self._lacks:
            raise Rejected("This model only supports single tool-calls at once!")

    def document(
        self, line: Response, usage: Usage, number: int, body: dict[str, Json], written: int = 0
    ) -> dict[str, Json]:
        """The reply, with calls as text between the marks that the system prompt asks for."""
        reply = super().document(line, usage, number, body, written)
        choice = reply["choices"][0]
        if "text" in self._lacks and (calls := choice["message"].pop("tool_calls", ())):
            mark = ["tool_call", *_MARK.findall(str(body["messages"][0]["content"]))][-1]
            for call in calls:
                function = call["function"]
                arguments = json.loads(function["arguments"])
                written_call = json.dumps({"name": function["name"], "arguments": arguments})
                text = choice["message"]["content"] or ""
                choice["message"]["content"] = f"{text}\n<{mark}>\n{written_call}\n</{mark}>"
            if choice["finish_reason"] == "tool_calls":
                choice["finish_reason"] = "stop"
        return reply
