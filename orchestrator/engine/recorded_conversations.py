"""Reassembles what models were sent from the rows of a journal.

The row of a model call names what code added since the last answer (``agent_context``). Answers and
results of tools have rows of their own, and what compaction left out is a note.
"""

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, convert, field
from msgspec.structs import replace

from orchestrator.engine.agent_context import compose_blocks
from orchestrator.engine.context_compaction import OMISSION_NOTICE, Omission, apply_omission
from orchestrator.engine.journal import error_from_json
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import Row
from orchestrator.engine.types import Message, Response, ToolCall, ToolResult
from orchestrator.engine.untrusted_text import NONCE, frame


class Conversation(Struct):
    """The messages of a model call.

    Attributes:
        messages: as they were sent, except for changes by input guards.
        turns: the turn of each message.
        kinds: text that code added → what it is.
        left_out: turn → what compaction left out before it.
        whole: False for a run of a version that did not record all texts.
    """

    messages: list[Message] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    left_out: dict[int, Omission] = field(default_factory=dict)
    whole: bool = True


class RecordedConversations:
    """Reads rows and returns what a model call was sent."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Row | dict[str, Any]] = {}

    def read(self, row: Row) -> None:
        """Read a row."""
        self._rows[row.kind, row.key] = row

    def data(self, name: object) -> Any:
        """The value that is kept under a digest; None if there is none."""
        return self._body("data", str(name)).get("value")

    def sent(self, call: Key) -> Conversation:
        """What a model call was sent, according to the rows read so far.

        Raises:
            ValueError, LookupError, TypeError, AttributeError: a row was not written by Diffcourt.
        """
        found, attempt = Conversation(), replace(call, turn=0, step="")
        results: list[ToolResult] = []
        for number in range(1, call.turn + 1):
            turn = attempt.in_turn(number)
            self._add_texts(found, turn, results)
            if note := self._body("note", str(turn.left_out)):
                self._leave_out(found, number, Omission.from_json(note))
            value = self._body("outcome", str(turn.model_call)).get("value")
            if number < call.turn and value is not None:
                answer = convert(value, Response)
                found.messages.append(Message("assistant", answer.blocks))
                found.turns.append(number)
                results = list(self._results(turn, answer))
        return found

    def _add_texts(self, found: Conversation, turn: Key, results: list[ToolResult]) -> None:
        """Append what was added between the last answer and a call."""
        call = str(turn.model_call)
        asked = (self._body("intent", call) or self._body("refusal", call)).get("asked") or {}
        texts = [(kind, self.data(name)) for kind, name in asked.get("texts", ())]
        if "texts" not in asked:
            found.whole = False
            task = self._body("intent", str(turn.task)).get("asked") or {}
            brief = self.data(task.get("brief")) if turn.turn == 1 else None
            texts = [("brief", brief)] if brief is not None else []
        blocks = compose_blocks(texts)
        if results or blocks:
            found.messages.append(Message("user", (*results, *blocks)))
            found.turns.append(turn.turn)
        kinds = [kind for kind, _ in texts if kind != "brief" or "role" not in dict(texts)]
        found.kinds |= {block.text: kind for block, kind in zip(blocks, kinds, strict=True)}

    def _results(self, turn: Key, answer: Response) -> Iterator[ToolResult]:
        """The results of an answer's calls, as the executor returned them."""
        calls = [block for block in answer.blocks if isinstance(block, ToolCall)]
        for position, call in enumerate(calls, 1):
            key = str(turn.tool_call(position, call.name))
            ended = self._body("outcome", key) or self._body("refusal", key)
            if "error" in ended:
                refused = frame(f"refused: {error_from_json(ended)}", self._nonce())
                yield ToolResult(call.id, refused, ok=False, ref=key)
            elif value := ended.get("value"):
                yield ToolResult(call.id, value["content"], ok=value["ok"], ref=key)

    def _leave_out(self, found: Conversation, turn: int, omission: Omission) -> None:
        found.messages = apply_omission(found.messages, omission, self._nonce())
        dropped = len(found.turns) - len(found.messages)  # those after the first
        del found.turns[1 : 1 + dropped]
        found.left_out[turn] = omission
        found.kinds[OMISSION_NOTICE] = "notice"

    def _nonce(self) -> str:
        return str(self._body("outcome", NONCE).get("value") or "")

    def _body(self, kind: str, key: str) -> dict[str, Any]:
        """The newest row of a kind under a key; empty where there is none."""
        found = self._rows.get((kind, key), {})
        if isinstance(found, Row):
            found = self._rows[kind, key] = json.loads(found.body)
        return found
