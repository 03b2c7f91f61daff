"""What protects a journal's rows: a hash chain, and signed heads of it.

The chain shows that rows belong together, but anyone who can write the store can recompute it. A
signed head is a row that signs the chain so far with a key that the store's owner does not have, so
a rewritten journal has no valid signature.
"""

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring_ascii as _quote
from math import isfinite
from typing import Protocol

from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import Row
from orchestrator.engine.types import Json
from orchestrator.errors import RunDamaged

GENESIS = "0" * 64
"""The previous hash of a journal's first row."""

SIGNED_HEAD = "signed_head"
"""The kind of a row that signs; its key is ``signed_head/<its row number>``."""

DOMAIN = "diffcourt-signed-head-1"


def row_hash(previous: str, seq: int, kind: str, key: str, at: float, body: bytes) -> str:
    """SHA-256 of a row, in hex; it covers the hash of the row before it."""
    if not isfinite(at):
        raise ValueError(f"{at} is no time")
    head = f"[{_quote(previous)},{seq},{_quote(kind)},{_quote(key)},{at!r}]\n"  # canonical
    return hashlib.sha256(head.encode() + body).hexdigest()


def find_chain_errors(rows: Sequence[Row]) -> Iterator[tuple[int, str]]:
    """Find rows that are missing, out of order or altered: (row number, what is wrong).

    Each row is compared with the hash that the row before it states, so an edit is reported once,
    where it is, and not for every later row.
    """
    previous, expected = GENESIS, 1
    for row in rows:
        if row.seq != expected:
            yield expected, f"the journal has row {row.seq} where row {expected} belongs"
        elif not _follows(row, previous):
            yield row.seq, f"journal row {row.seq} ({row.key}) was altered after it was written"
        previous, expected = row.hash, row.seq + 1


def _follows(row: Row, previous: str) -> bool:
    try:
        return row_hash(previous, row.seq, row.kind, row.key, row.at, row.body) == row.hash
    except ValueError:
        return False  # its time is not a number, so it is not one of our rows


def verify_chain(rows: Sequence[Row]) -> None:
    """Check that rows are whole, in order and unaltered.

    Raises:
        RunDamaged: names the first row that is not.
    """
    for _, what in find_chain_errors(rows):
        raise RunDamaged(what)


class SigningKey(Protocol):
    """A key that signs or checks signed heads.

    Attributes:
        algorithm: ``hmac-sha256`` or ``ed25519``.
        key_id: identifies the key without revealing it; equal for both halves of a key pair.
        can_sign: False for the public half.
    """

    algorithm: str
    key_id: str
    can_sign: bool

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's, of exactly this message."""


class HmacKey:
    """A secret that both signs and checks, with nothing but the standard library."""

    algorithm = "hmac-sha256"
    can_sign = True

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.key_id = hmac.digest(secret, b"diffcourt-key-id", "sha256").hex()[:16]

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""
        return hmac.digest(self._secret, message, "sha256")

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's, of exactly this message."""
        return hmac.compare_digest(self.sign(message), signature)


def signed_head_key(seq: int) -> str:
    """The journal key of a signed head that is row ``seq``."""
    return str(Key(SIGNED_HEAD, number=seq))


def signed_head_body(
    key: SigningKey, run_id: str, seq: int, at: float, head: str
) -> dict[str, Json]:
    """The body of a signed head.

    Args:
        seq: its own row number; it signs all rows before it.
        at: its own time, which no later row would sign.
    """
    signature = key.sign(_message(key, run_id, seq, at, head))
    return {"algorithm": key.algorithm, "key": key.key_id, "signature": signature.hex()}


def read_key_id(row: Row) -> str:
    """The id of the key that a signed head names, empty for a row of another form."""
    try:
        body = json.loads(row.body)
        return str(body["key"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


def is_valid_signed_head(row: Row, key: SigningKey, run_id: str, head: str) -> bool:
    """Whether a row is a valid signed head of this key, for this run and row number."""
    try:
        signature = bytes.fromhex(json.loads(row.body)["signature"])
        message = _message(key, run_id, row.seq, row.at, head)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
    body = {"algorithm": key.algorithm, "key": key.key_id, "signature": signature.hex()}
    return (
        row.kind == SIGNED_HEAD
        and row.key == signed_head_key(row.seq)
        and row.body == canonical(body)
        and key.verify(message, signature)
    )


def find_signature_errors(
    run_id: str, rows: Sequence[Row], keys: Mapping[str, SigningKey]
) -> Iterator[tuple[int, str]]:
    """Signed heads that name a known key and were not made with it: (row number, what is wrong).

    Args:
        rows: of one run, in order; errors of the chain itself are not reported here.
    """
    head = GENESIS
    for row in rows:
        key = keys.get(read_key_id(row)) if row.kind == SIGNED_HEAD else None
        if key is not None and not is_valid_signed_head(row, key, run_id, head):
            yield row.seq, f"the signature in row {row.seq} is not one of key {key.key_id}"
        head = row.hash


def _message(key: SigningKey, run_id: str, seq: int, at: float, head: str) -> bytes:
    return canonical([DOMAIN, key.algorithm, key.key_id, run_id, seq, at, head])
