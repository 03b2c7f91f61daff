"""Seals: signed heads of a journal's chain.

The chain alone shows that rows fit each other; whoever can write the store can compute it anew. A
seal is a row that signs the chain so far with a key that the store's owner does not have, so that
a rewritten journal has no valid seal.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.ports import Row
from orchestrator.engine.types import Json

SEAL = "seal"
"""The kind of a seal's row; its key is ``seal/<its number>``."""

DOMAIN = "diffcourt-seal-1"


class SealKey(Protocol):
    """What signs and checks seals.

    Attributes:
        algorithm: ``hmac-sha256`` or ``ed25519``.
        key_id: names the key without telling it; equal for both halves of a key pair.
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


def place(seq: int) -> str:
    """The key of a seal that is row ``seq``."""
    return f"{SEAL}/{seq}"


def seal_body(key: SealKey, run_id: str, seq: int, at: float, head: str) -> dict[str, Json]:
    """The body of a seal.

    Args:
        seq: the seal's own number; it signs all rows before it.
        at: the seal's own time, which it signs as well: nothing after it would.
        head: hash of the row before it.
    """
    signature = key.sign(_message(key, run_id, seq, at, head))
    return {"algorithm": key.algorithm, "key": key.key_id, "signature": signature.hex()}


def signed_by(row: Row) -> str:
    """The id of the key that a seal names, empty for a row that has no seal's form."""
    try:
        body = json.loads(row.body)
        return str(body["key"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


def is_valid(row: Row, key: SealKey, run_id: str, head: str) -> bool:
    """Whether a row is a seal of this key, for this run, at this place, byte for byte."""
    try:
        signature = bytes.fromhex(json.loads(row.body)["signature"])
        message = _message(key, run_id, row.seq, row.at, head)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
    body = {"algorithm": key.algorithm, "key": key.key_id, "signature": signature.hex()}
    return (
        row.kind == SEAL
        and row.key == place(row.seq)
        and row.body == canonical(body)
        and key.verify(message, signature)
    )


def seal_breaks(
    run_id: str, rows: Sequence[Row], keys: Mapping[str, SealKey]
) -> Iterator[tuple[int, str]]:
    """Seals that bear the name of a known key and are not its: (the row's number, what is wrong).

    Args:
        rows: as the chain has them; what is wrong with the chain itself is not told here.
        keys: the known keys by their ids.
    """
    head = ""
    for row in rows:
        key = keys.get(signed_by(row)) if row.kind == SEAL else None
        if key is not None and not is_valid(row, key, run_id, head):
            yield row.seq, f"the signature in row {row.seq} is not one of key {key.key_id}"
        head = row.hash


def _message(key: SealKey, run_id: str, seq: int, at: float, head: str) -> bytes:
    return canonical([DOMAIN, key.algorithm, key.key_id, run_id, seq, at, head])
