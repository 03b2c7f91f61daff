"""Reassembles what models were sent from the rows of a journal.

The row of a model call names what code added since the last answer (``agent_context``). Answers and
results of tools have rows of their own, and what compaction left out is a note.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

from msgspec import UNSET, Struct, field
from msgspec.json import decode
from msgspec.structs import replace

from orchestrator.engine.agent_context import compose_blocks
from orchestrator.engine.context_compaction import OMISSION_NOTICE, Omission, apply_omission
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.journal_rows import (
    Data,
    Effect,
    Intent,
    Note,
    Outcome,
    RefusedEffect,
    RowBody,
    read_row,
)
from orchestrator.engine.ports import Row
from orchestrator.engine.types import Message, Response, ToolCall, ToolResult
from orchestrator.engine.untrusted_text import NONCE, frame

BodyT = TypeVar("BodyT", Data, Intent, Outcome, RefusedEffect, Note)


class Conversation(Struct):
    """The messages of a model call.

    Attributes:
        messages: as they were sent, except for changes by input guards.
        kinds: text that code added → what it is.
        left_out: turn → what compaction left out before it.
    """

    messages: list[Message] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    left_out: dict[int, Omission] = field(default_factory=dict)


class RecordedConversations:
    """Reads rows and returns what a model call was sent."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Row | RowBody] = {}

    def read(self, row: Row) -> None:
        """Read a row."""
        self._rows[row.kind, row.key] = row

    def data(self, name: object) -> Any:
        """The value that is kept under a digest; None if there is none."""
        return self._newest(Data, "data", str(name)).value

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
            note = self._newest(Note, "note", str(turn.at("left_out")))
            if note.exchanges is not UNSET:
                omission = Omission(note.observations, note.exchanges)
                self._leave_out(found, number, omission)
            ended = self._newest(Outcome, "outcome", str(turn.at("model")))
            if number < call.turn and ended.value:
                answer = decode(ended.value, type=Response)
                found.messages.append(Message("assistant", answer.blocks))
                found.turns.append(number)
                results = list(self._results(turn, answer))
        return found

    def _add_texts(self, found: Conversation, turn: Key, results: list[ToolResult]) -> None:
        """Append what was added between the last answer and a call."""
        named = self._begun(str(turn.at("model"))).request.texts
        texts = [(kind, self.data(name)) for kind, name in named]
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
            refused = self._newest(RefusedEffect, "refusal", key)
            ended: Effect = self._newest(Outcome, "outcome", key)
            ended = ended if ended.error or ended.value else refused
            if ended.error:
                text = frame(f"refused: {ended.exception()}", self._nonce())
                yield ToolResult(call.id, text, ok=False, ref=key)
            elif ended.value:
                result = ended.read_result()
                yield ToolResult(call.id, result.content, ok=result.ok, ref=key)

    def _leave_out(self, found: Conversation, turn: int, omission: Omission) -> None:
        found.messages = apply_omission(found.messages, omission, self._nonce())
        dropped = len(found.turns) - len(found.messages)  # those after the first
        del found.turns[1 : 1 + dropped]
        found.left_out[turn] = omission
        found.kinds[OMISSION_NOTICE] = "notice"

    def _nonce(self) -> str:
        ended = self._newest(Outcome, "outcome", NONCE)
        return str(decode(ended.value)) if ended.value else ""

    def _begun(self, key: str) -> Effect:
        if ("intent", key) in self._rows:
            return self._newest(Intent, "intent", key)
        return self._newest(RefusedEffect, "refusal", key)

    def _newest(self, body: type[BodyT], kind: str, key: str) -> BodyT:
        """The newest row of a kind under a key; an empty one where there is none."""
        found = self._rows.get((kind, key)) or body()
        if isinstance(found, Row):
            found = self._rows[kind, key] = read_row(found)
        assert isinstance(found, body)
        return found
