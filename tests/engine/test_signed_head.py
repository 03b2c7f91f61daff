"""Signed heads: who rewrites a journal without the key is found out, whatever is rewritten."""

import hashlib
import hmac
import json
import os
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.app.audit.ed25519_signatures import Ed25519Key
from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.journal import EffectResult, open_journal
from orchestrator.engine.journal_hash_chain import (
    GENESIS,
    SIGNED_HEAD,
    HmacKey,
    SigningKey,
    row_hash,
    signed_head_body,
    signed_head_key,
)
from orchestrator.engine.journal_verification import Anchor, verify_journal
from orchestrator.engine.ports import Row, SystemClock
from orchestrator.engine.types import Level
from orchestrator.errors import StoreError
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.engine.engine_kit import RUN, created

pytestmark = pytest.mark.attack("an edited, cut or exchanged journal")

PRIVATE = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
PAIR = Ed25519Key(PRIVATE.public_key(), PRIVATE)
PUBLIC = Ed25519Key(PRIVATE.public_key())
SECRET, OTHER = HmacKey(b"s" * 32), HmacKey(b"o" * 32)


def known(*keys: SigningKey) -> dict[str, SigningKey]:
    return {key.key_id: key for key in keys}


async def session(store: MemoryStore, key: SigningKey | None, *notes: str) -> None:
    async with open_journal(RUN, store, SystemClock(), holder="a test", key=key) as journal:
        for note in notes:
            journal.note(note, {"said": note})


def signed(*sessions: SigningKey | None) -> list[Row]:
    """Rows as ``JournalLog`` writes them: three a session, and a signed head where there is a key."""
    rows: list[Row] = []
    for number, key in enumerate(sessions, 1):
        for name in (f"session/{number}", f"{number}/a", f"{number}/b"):
            rows.append(chained(rows, "note", name, canonical({"n": number})))
        if key:
            seq, at = len(rows) + 1, len(rows) + 1.5
            body = signed_head_body(key, RUN, seq, at, rows[-1].hash)
            rows.append(chained(rows, SIGNED_HEAD, signed_head_key(seq), canonical(body)))
    return rows


def chained(rows: list[Row], kind: str, key: str, body: bytes, at: float | None = None) -> Row:
    seq, previous = len(rows) + 1, rows[-1].hash if rows else GENESIS
    at = seq + 0.5 if at is None else at
    return Row(seq, kind, key, at, body, row_hash(previous, seq, kind, key, at, body))


def rewritten(rows: list[Row], **edits: Row) -> list[Row]:
    """The rows with some replaced, and the chain computed anew, as whoever owns the store can."""
    new: list[Row] = []
    for old in rows:
        row = edits.get(f"row{old.seq}", old)
        new.append(chained(new, row.kind, row.key, row.body, row.at))
    return new


def faults(
    rows: list[Row], *keys: SigningKey, anchor: Anchor | None = None
) -> list[tuple[int, str]]:
    return [
        (error.row, error.what) for error in verify_journal(RUN, rows, anchor, known(*keys)).errors
    ]


@pytest.mark.parametrize("key", [SECRET, PAIR], ids=["hmac", "ed25519"])
async def test_a_session_ends_with_a_signed_head(key: SigningKey) -> None:
    store = await created()
    await session(store, key, "a", "b")
    await session(store, key, "c")
    rows = await store.rows(RUN)
    assert [row.kind for row in rows] == [
        "note",
        "note",
        "note",
        SIGNED_HEAD,
        "note",
        "note",
        SIGNED_HEAD,
    ]
    assert [row.key for row in rows if row.kind == SIGNED_HEAD] == [
        "signed_head/4",
        "signed_head/7",
    ]
    found = verify_journal(RUN, rows, None, known(PUBLIC if key is PAIR else key))
    assert (found.errors, found.signed_to) == ((), 7)
    assert [(head.row, head.checked) for head in found.signed_heads] == [(4, True), (7, True)]
    assert (found.head, found.rows) == (rows[-1].hash, 7)


def test_a_secret_signs_by_hmac_and_its_id_does_not_tell_it() -> None:
    secret = b"s" * 32
    key = HmacKey(secret)
    assert key.key_id == hmac.new(secret, b"diffcourt-key-id", hashlib.sha256).hexdigest()[:16]
    assert key.sign(b"rows") == hmac.new(secret, b"rows", hashlib.sha256).digest()


def test_a_journal_of_nothing_but_a_signed_head_signs_the_beginning() -> None:
    body = canonical(signed_head_body(SECRET, RUN, 1, 1.5, GENESIS))
    assert not faults([chained([], SIGNED_HEAD, "signed_head/1", body)], SECRET)
    other = canonical(signed_head_body(SECRET, RUN, 1, 1.5, "f" * 64))
    assert faults([chained([], SIGNED_HEAD, "signed_head/1", other)], SECRET) == [
        (1, f"the signature in row 1 is not one of key {SECRET.key_id}")
    ]


async def test_without_a_key_nothing_is_added() -> None:
    store = await created()
    await session(store, None, "a")
    assert [row.kind for row in await store.rows(RUN)] == ["note", "note"]


@pytest.mark.parametrize("level", list(Level))
async def test_the_head_is_signed_and_durable_before_what_cannot_be_undone(level: Level) -> None:
    store, seen = await created(), []

    async def perform() -> EffectResult:
        seen.extend(await store.rows(RUN))
        return EffectResult("done")

    async with open_journal(RUN, store, SystemClock(), holder="a test", key=SECRET) as journal:
        await journal.effect("send", {"to": "all"}, perform, level=level)
    if level > Level.WRITE:
        assert [row.kind for row in seen[-2:]] == ["intent", SIGNED_HEAD]
        assert verify_journal(RUN, seen, None, known(SECRET)).signed_to == len(seen)
    else:
        assert SIGNED_HEAD not in [row.kind for row in seen]
    assert not verify_journal(RUN, await store.rows(RUN), None, known(SECRET)).errors


@pytest.mark.parametrize("place_", range(1, 9))
@pytest.mark.parametrize("field", ["kind", "key", "at", "body"])
def test_a_rewritten_journal_is_detected_by_the_key(place_: int, field: str) -> None:
    rows = signed(PAIR, PAIR)
    new = {"kind": "data", "key": "x", "at": 99.25, "body": b'{"n":9}'}[field]
    forged = rewritten(rows, **{f"row{place_}": replace(rows[place_ - 1], **{field: new})})
    assert not faults(forged)
    assert faults(forged, PUBLIC)
    without = [row for row in forged if row.kind != SIGNED_HEAD]
    assert faults(rewritten(without), PUBLIC) == [
        (
            1,
            f"nothing is signed, and key {PUBLIC.key_id} is given: run or rewritten without the key",
        )
    ]


def test_a_journal_signed_again_with_another_key_is_detected() -> None:
    ((row, what),) = faults(signed(OTHER), SECRET)
    assert row == 4
    assert what.startswith(f"it is signed with key {OTHER.key_id} and not with {SECRET.key_id}")


def test_a_signed_head_with_the_id_of_another_key_is_invalid() -> None:
    rows = signed(OTHER)
    body = {**json.loads(rows[3].body), "key": SECRET.key_id}
    forged = rewritten(rows, row4=replace(rows[3], body=canonical(body)))
    assert faults(forged, SECRET) == [
        (4, f"the signature in row 4 is not one of key {SECRET.key_id}")
    ]


@given(at=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_any_changed_byte_of_a_signed_head_is_detected(at: int, flip: int) -> None:
    rows = signed(PAIR)
    body = bytearray(rows[3].body)
    body[at % len(body)] ^= flip
    assert faults(rewritten(rows, row4=replace(rows[3], body=bytes(body))), PUBLIC)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"no json", b"[" * 100_000, b'{"key":""}', b"\xff"])
def test_a_malformed_signed_head_is_ignored(body: bytes) -> None:
    rows = signed(SECRET)
    forged = rewritten(rows, row4=replace(rows[3], body=body))
    assert faults(forged, SECRET)
    found = verify_journal(RUN, forged, None, {})
    assert (found.errors, found.signed_heads) == ((), ())


def test_a_signature_of_another_run_or_place_is_ignored() -> None:
    rows = signed(SECRET)
    assert verify_journal("run2", rows, None, known(SECRET)).errors
    moved = [*rows[:3], chained(rows[:3], "note", "4", b"{}")]
    moved.append(chained(moved, SIGNED_HEAD, signed_head_key(5), rows[3].body))
    assert faults(moved, SECRET)


@pytest.mark.parametrize("length", range(8))
def test_a_cut_end_is_detected_by_the_head_and_mostly_by_the_key(length: int) -> None:
    rows = signed(SECRET, SECRET)
    anchor = Anchor(rows[-1].hash, len(rows))
    assert not faults(rows, anchor=anchor)
    assert faults(rows[:length], anchor=anchor)[0][0] == length + 1
    # What the key alone cannot tell: a copy that was whole at the end of an earlier session.
    assert bool(faults(rows[:length], SECRET)) == (length != 4)


def test_rows_after_the_head_are_named_and_not_an_error() -> None:
    rows = signed(None, None)
    found = verify_journal(RUN, rows, Anchor(rows[2].hash, 3), {})
    assert not found.errors
    assert found.gaps == (
        "rows 4 to 6 came after the head that was given, and no key was given: "
        "a rewrite of these would not be seen",
    )
    forged = rewritten(rows, row2=replace(rows[1], body=b"{}"))
    assert faults(forged, anchor=Anchor(rows[2].hash, 3))[0][0] == 3


NO_ANCHOR = "no head was given: rows cut off at the end, or an older copy, would not be seen"
LATE = (
    "were not signed when their session ended, "
    "and were signed by the next: what was done to them in between would not be seen"
)


@pytest.mark.parametrize(
    ("sessions", "anchored", "keys", "signed_to", "gaps"),
    [
        ([SECRET, SECRET], 0, [SECRET], 8, [NO_ANCHOR]),
        ([SECRET, SECRET], 4, [SECRET], 8, []),
        ([SECRET], 4, [], 0, ["1 signature was not checked: no key was given"]),
        ([SECRET, SECRET], 8, [], 0, ["2 signatures were not checked: no key was given"]),
        (
            [OTHER, SECRET], 8, [SECRET], 8,
            ["1 signature was not checked: made with a key that was not given"],
        ),
        (
            [None], 0, [], 0,
            [
                NO_ANCHOR,
                "no key was given: a journal that was rewritten as a whole would not be seen",
            ],
        ),
        ([None, None, SECRET], 10, [SECRET], 10, [f"rows 1 to 3 {LATE}", f"rows 4 to 6 {LATE}"]),
        ([SECRET, None, SECRET], 11, [SECRET], 11, [f"rows 5 to 7 {LATE}"]),
    ],
)  # fmt: skip
def test_unverified_rows_are_listed(
    sessions: list[SigningKey | None],
    anchored: int,
    keys: list[SigningKey],
    signed_to: int,
    gaps: list[str],
) -> None:
    rows = signed(*sessions)
    anchor = Anchor(rows[anchored - 1].hash, anchored) if anchored else None
    found = verify_journal(RUN, rows, anchor, known(*keys))
    assert (found.errors, found.signed_to, list(found.gaps)) == ((), signed_to, gaps)


def test_one_row_that_was_signed_late_is_listed() -> None:
    rows: list[Row] = []
    for number in (1, 2):
        rows.append(chained(rows, "note", f"session/{number}", b"{}"))
    body = signed_head_body(SECRET, RUN, 3, 3.5, rows[-1].hash)
    rows.append(chained(rows, SIGNED_HEAD, signed_head_key(3), canonical(body)))
    found = verify_journal(RUN, rows, Anchor(rows[-1].hash, 3), known(SECRET))
    assert found.gaps == (f"rows 1 to 1 {LATE}",)


def test_an_edit_a_cut_end_and_a_rewritten_head_are_all_listed() -> None:
    rows = signed(None, None)
    rows[1] = replace(rows[1], body=b"{}")
    edit = (2, "journal row 2 (1/a) was altered after it was written")
    assert faults(rows, anchor=Anchor("f" * 64, 9)) == [
        edit,
        (
            7,
            "the journal ends at row 6, and had 9 rows when the verdict was made: its end was cut "
            "off, or an older copy was put in its place",
        ),
    ]
    assert faults(rows, anchor=Anchor("f" * 64, 6)) == [
        edit,
        (6, "row 6 is not the one that was the head: rewritten"),
    ]


def test_a_forged_signature_and_rows_without_one_are_both_listed_and_nothing_counts_as_signed() -> (
    None
):
    rows = signed(SECRET, None)
    body = {**json.loads(rows[3].body), "signature": "00" * 32}
    forged = rewritten(rows, row4=replace(rows[3], body=canonical(body)))
    found = verify_journal(RUN, forged, None, known(SECRET))
    assert [(error.row, error.what) for error in found.errors] == [
        (4, f"the signature in row 4 is not one of key {SECRET.key_id}"),
        (
            5,
            "rows 5 to 7 are not signed: the run was cut off, or they were written without the key",
        ),
    ]
    assert found.signed_to == 0


def test_the_keys_that_are_given_and_those_that_are_found_are_named_in_order() -> None:
    given = " and not with {}, {}:".format(*sorted([SECRET.key_id, PUBLIC.key_id]))
    third = HmacKey(b"t" * 32)
    found = "it is signed with key {}, {}".format(*sorted([OTHER.key_id, third.key_id]))
    ((row, what),) = faults(signed(OTHER, third), SECRET, PUBLIC)
    assert (row, what.startswith(found + given)) == (8, True)


def test_keys_can_change_between_sessions() -> None:
    rows = signed(OTHER, SECRET)
    assert not faults(rows, SECRET, OTHER)
    found = verify_journal(RUN, rows, None, known(SECRET))
    assert not found.errors
    assert "1 signature was not checked: made with a key that was not given" in found.gaps
    assert faults(rows, OTHER) == [
        (5, "rows 5 to 8 are not signed: the run was cut off, or they were written without the key")
    ]


def test_unsigned_rows_of_a_killed_session_are_named() -> None:
    found = verify_journal(RUN, signed(None, SECRET), None, known(SECRET))
    assert not found.errors
    assert any(gap.startswith("rows 1 to 3 were not signed when") for gap in found.gaps)


async def test_a_run_with_a_forged_signature_is_not_continued() -> None:
    store, rows = MemoryStore(SystemClock()), signed(SECRET)
    body = {**json.loads(rows[3].body), "signature": "00" * 32}
    await store.create(RUN, 0.0, {})
    fence = await store.acquire(RUN, "a forger", 30)
    forged = rewritten(rows, row4=replace(rows[3], body=canonical(body)))
    await store.append(RUN, fence, forged, 30)
    await store.release(RUN, fence)
    with pytest.raises(StoreError, match="signature in row 4"):
        await session(store, SECRET)
    await session(store, OTHER)


def test_an_invalid_time_is_an_edit() -> None:
    rows = signed(None)
    rows[1] = replace(rows[1], at=float("inf"))
    assert [row for row, _ in faults(rows)] == [2]


def test_every_altered_row_is_named_once() -> None:
    rows = signed(None, None)
    for at in (1, 4):
        rows[at] = replace(rows[at], body=b"{}")
    assert [row for row, _ in faults(rows)] == [2, 5]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows a process's environment so")
def test_a_child_process_cannot_read_the_signing_key() -> None:
    script = """
import ctypes, os, subprocess
from orchestrator.app.audit.signing_keys import load_signing_key
if os.getuid() == 0:  # root may read everybody's memory: be somebody else, as a user's process is
    os.setgid(65534); os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
def look():  # not confined
    ours = ["/bin/cat", f"/proc/{os.getpid()}/environ"]
    return subprocess.run(ours, env={}, capture_output=True).stdout
before = look()
load_signing_key(os.environ)
after = look()
print(b"SECRETSECRET" in before, b"SECRETSECRET" in after)
"""
    environment = {**os.environ, "DIFFCOURT_AUDIT_KEY": "SECRETSECRET" * 4}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd="/", capture_output=True, check=False
    )
    assert done.stdout.split() == [b"True", b"False"], done.stderr
