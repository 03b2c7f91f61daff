"""Tool calls as the journal records them: agent, arguments and result."""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Self

from msgspec import Struct

from orchestrator.engine.journal import Journal, Record
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.journal_rows import GuardWarning
from orchestrator.engine.types import Json, Refusal

DECLINED = "declined"
"""The code of a call whose tool works, but cannot do what was asked; its content says why."""


class ToolCallRecord(Struct, frozen=True):
    """A tool call that has ended.

    Attributes:
        key: its journal key, which a report cites.
        arguments: with which it was performed: guards may have changed the agent's own.
        admitted: it passed every check and was started.
        code: why it is not ok; empty if it is.
        content: what the model saw; ``data``: the same for the application's code.
        refusal: why it was not performed; None if it was.
        completed: the tool was run, with or without success.
        output: what an ``OutputStore`` recorded of its programs; None if there were none.
    """

    key: str
    agent: str
    tool: str
    arguments: Mapping[str, Json]
    admitted: bool
    completed: bool
    ok: bool = False
    code: str = ""
    content: str = ""
    data: Json = None
    warnings: tuple[GuardWarning, ...] = ()
    refusal: Refusal | None = None
    output: Json = None

    @classmethod
    def read(cls, key: str, record: Record) -> Self | None:
        """The record of a tool call; None for any other effect."""
        request, value = record.body.get("asked"), record.body.get("value")
        if not (record.ended and isinstance(request, dict) and "tool" in request):
            return None
        refusal = record.refusal()
        done = value if isinstance(value, dict) else {}
        return cls(
            key,
            request["agent"],
            request["tool"],
            record.body.get("effective", request["arguments"]),
            admitted=record.kind == "outcome",
            completed=bool(done),
            ok=done.get("ok", bool(done)),
            code=refusal.code if refusal else done.get("code", ""),
            content=done.get("content", ""),
            data=done.get("data"),
            warnings=tuple(GuardWarning(**warning) for warning in done.get("warnings", ())),
            refusal=refusal,
            output=done.get("output"),
        )


def ended_calls(journal: Journal) -> Iterator[ToolCallRecord]:
    """All tool calls of a run that have ended, in that order."""
    for key, record in journal.ended:
        if call := ToolCallRecord.read(key, record):
            yield call


def calls_under(journal: Journal, under: Key | str) -> list[ToolCallRecord]:
    """The ended tool calls under a key, by task, attempt, turn and position in the turn."""
    found = [ToolCallRecord.read(key, record) for key, record in journal.records(under)]
    order = attrgetter("iteration", "part", "name", "attempt", "turn", "position")
    return sorted((call for call in found if call), key=lambda call: order(Key.parse(call.key)))
