"""Canonical JSON: one byte form for each value, so that equal values have equal digests."""

import hashlib
import json

from orchestrator.engine.types import Json

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False
)


def canonical(value: Json) -> bytes:
    """The value as canonical JSON: sorted keys, no spaces, ASCII only.

    ASCII, because file names that are not UTF-8 are held as lone surrogates, which UTF-8 cannot
    encode.

    Raises:
        ValueError: NaN or an infinity, which JSON does not have.
        TypeError: a value outside the JSON data model.
        RecursionError: it is nested too deeply.
    """
    return _ENCODER.encode(value).encode("ascii")


def is_json(value: Json) -> bool:
    """Whether a value from outside fits the JSON data model and is not nested too deeply."""
    try:
        _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def digest(value: Json) -> str:
    """SHA-256 of the canonical form, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()
