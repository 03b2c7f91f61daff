"""The chain: whatever is done to a stored journal, opening it says so."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.engine.journal_hash_chain import GENESIS, row_hash, verify_chain
from orchestrator.engine.journal_log import seconds_worked
from orchestrator.engine.ports import Row
from orchestrator.errors import StoreError
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.engine.engine_kit import RUN, FakeClock, created, open_memory_journal


def chain(count: int = 6) -> list[Row]:
    rows: list[Row] = []
    for seq in range(1, count + 1):
        body, key = b'{"n":%d}' % seq, f"key/{seq}"
        previous = rows[-1].hash if rows else GENESIS
        rows.append(
            Row(
                seq,
                "note",
                key,
                seq + 0.5,
                body,
                row_hash(previous, seq, "note", key, seq + 0.5, body),
            )
        )
    return rows


FIELDS = {"seq": 9, "kind": "intent", "key": "key/x", "at": 2.25, "hash": "f" * 64}


def test_a_row_is_hashed_as_its_head_in_json_a_line_break_and_its_body() -> None:
    text = json.dumps(["ab" * 32, 7, "note", "é", 1.5], separators=(",", ":")) + '\n{"n":1}'
    hashed = row_hash("ab" * 32, 7, "note", "é", 1.5, b'{"n":1}')
    assert hashed == hashlib.sha256(text.encode()).hexdigest()


@given(place=st.integers(0, 5), at=st.integers(0, 6), flip=st.integers(1, 255))
def test_any_byte_edited_is_detected(place: int, at: int, flip: int) -> None:
    rows = chain()
    body = bytearray(rows[place].body)
    body[at] ^= flip
    rows[place] = replace(rows[place], body=bytes(body))
    with pytest.raises(StoreError, match=f"row {place + 1} .*altered"):
        verify_chain(rows)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("place", [0, 3, 5])
def test_any_field_edited_is_detected(field: str, place: int) -> None:
    rows = chain()
    old = {name: getattr(rows[place], name) for name in Row.__struct_fields__}
    rows[place] = Row(**{**old, field: FIELDS[field]})
    with pytest.raises(StoreError, match=f"row {place + 1}"):
        verify_chain(rows)


@pytest.mark.parametrize("place", range(5))
def test_a_deleted_row_is_detected_with_and_without_new_numbers(place: int) -> None:
    rows = chain()
    del rows[place]
    with pytest.raises(StoreError, match=f"row {place + 2} where row {place + 1} belongs"):
        verify_chain(rows)
    renumbered = [Row(n, r.kind, r.key, r.at, r.body, r.hash) for n, r in enumerate(rows, 1)]
    with pytest.raises(StoreError, match="altered"):
        verify_chain(renumbered)


def test_rows_in_another_order_or_inserted_are_detected() -> None:
    rows = chain()
    rows[2], rows[3] = rows[3], rows[2]
    with pytest.raises(StoreError, match="row 4 where row 3 belongs"):
        verify_chain(rows)
    rows = chain()
    with pytest.raises(StoreError, match="row 2 where row 3 belongs"):
        verify_chain([*rows[:2], rows[1], *rows[2:]])


async def test_a_journal_that_was_altered_does_not_open_and_lets_go_of_the_lease() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        journal.note("a", {"n": 1})
        journal.note("b", {"n": 2})
    good = await store.rows(RUN)
    store._db.execute("DELETE FROM journal WHERE place & 0xffffffff = 2")
    for _ in range(2):
        with pytest.raises(StoreError, match="row 3 where row 2 belongs"):
            async with open_memory_journal(store):
                pass
    store._insert_rows(1, [good[1]])
    async with open_memory_journal(store) as journal:
        assert journal.log.length == len(good) + 1


async def test_head_and_length_tell_a_truncated_journal_from_the_whole() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        journal.note("a", {})
        before = journal.log.head, journal.log.length
        journal.note("b", {})
        after = journal.log.head, journal.log.length
    rows = await store.rows(RUN)
    assert (rows[-1].hash, rows[-1].seq) == after
    verify_chain(rows[:-1])
    assert (rows[-2].hash, rows[-2].seq) == before != after


async def test_elapsed_counts_the_sessions_and_not_the_time_between() -> None:
    from orchestrator.engine.journal import open_journal

    clock = FakeClock()
    store = MemoryStore(clock)
    await store.create(RUN, clock.now(), {})
    async with open_journal(RUN, store, clock, holder="a") as journal:
        clock.at += 10
        journal.note("a", {})
        assert journal.elapsed() == 10
    clock.at += 5000
    async with open_journal(RUN, store, clock, holder="a") as journal:
        assert journal.elapsed() == 10
        clock.at += 7
        journal.note("b", {})
        assert journal.elapsed() == 17
    clock.at += 5000
    async with open_journal(RUN, store, clock, holder="a") as journal:
        clock.at += 3
        journal.note("c", {})
        assert journal.elapsed() == 20
    rows = await store.rows(RUN)
    assert [row.key for row in rows] == ["session/1", "a", "session/2", "b", "session/3", "c"]
    assert seconds_worked(rows) == 20
    assert seconds_worked(rows[1:2]) == 0
    assert seconds_worked([]) == 0
