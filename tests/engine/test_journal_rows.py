"""Rows of a journal are decoded as they were written; foreign values are read as nothing."""

import anyio
import msgspec
import pytest
from msgspec import UNSET

from orchestrator.engine.budget import Cost
from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.journal import EffectResult, open_journal
from orchestrator.engine.journal_rows import (
    Data,
    Effect,
    HeadSignature,
    Intent,
    Note,
    Outcome,
    RefusedEffect,
    read_row,
)
from orchestrator.engine.ports import Row, SystemClock
from orchestrator.errors import GuardRefused
from orchestrator.stores.sqlite_journal import MemoryStore


def row(kind: str, body: object) -> Row:
    return Row(1, kind, "key", 0.0, body if isinstance(body, bytes) else canonical(body), "")


def test_what_the_journal_writes_is_what_readers_decode() -> None:
    async def run() -> list[Row]:
        store, clock = MemoryStore(SystemClock()), SystemClock()
        await store.create("run", 1.0, {})

        async def perform() -> EffectResult:
            return EffectResult({"ok": True, "content": "x"}, Cost(turns=1, usd=0.5))

        async def refuse() -> EffectResult:
            raise GuardRefused("limits", "too many")

        async with open_journal("run", store, clock, holder="test") as journal:
            request = {"agent": "qa", "tool": "search", "arguments": {"a": 1}}
            await journal.effect("1/act/qa/turn1/tool1/search", request, perform)
            with pytest.raises(GuardRefused):
                await journal.effect("1/act/qa/turn1/tool2/search", request, refuse)
            journal.note("state/1", {"state": "Plan"})
        return await store.rows("run")

    found = [read_row(one) for one in anyio.run(run)]
    begun, ended, _, refused, noted = found[1:]
    assert isinstance(begun, Intent)
    assert (begun.request.kind, begun.request.name, begun.level) == ("tool", "search", "READ")
    assert msgspec.json.decode(begun.request.arguments) == {"a": 1}
    assert isinstance(ended, Outcome)
    assert (ended.result.content, ended.cost) == ("x", Cost(turns=1, usd=0.5))
    assert type(ended.cost.turns) is int
    assert isinstance(refused, Outcome)
    assert (refused.code, refused.guard) == ("guard_refused", "limits")
    assert repr(refused.exception()) == repr(GuardRefused("limits", "too many"))
    assert isinstance(noted, Note)
    assert noted.subject == "Plan"


@pytest.mark.parametrize("value", [None, 5, "text", [1], {"status": 200}, {"usage": "none"}])
def test_a_value_of_another_form_is_read_as_an_empty_one(value: object) -> None:
    ended = read_row(row("outcome", {"cost": {}, "value": value}))
    begun = read_row(row("intent", {"asked": value, "level": "READ", "worst": {}}))
    assert isinstance(ended, Outcome)
    assert isinstance(begun, Intent)
    assert (ended.result.status, ended.result.answer, ended.result.has_failed) == ("", UNSET, False)
    assert begun.request.kind == "other"
    if value is not None and value != {"status": 200}:
        with pytest.raises(msgspec.DecodeError):
            ended.read_result()


@pytest.mark.parametrize("kind", ["intent", "outcome", "refusal", "note", "signed_head"])
@pytest.mark.parametrize("body", [b'{"a": \xff', b"{", b"[]"])
def test_a_damaged_row_is_a_value_error(kind: str, body: bytes) -> None:
    with pytest.raises(ValueError):
        read_row(row(kind, body))


def test_each_kind_has_its_type_and_an_unknown_one_is_an_effect() -> None:
    kinds = {"refusal": RefusedEffect, "data": Data, "signed_head": HeadSignature, "other": Effect}
    assert {kind: type(read_row(row(kind, {}))) for kind in kinds} == kinds
