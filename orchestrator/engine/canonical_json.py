"""One byte form for one value, so that equal things have equal digests."""

import hashlib
import json

from orchestrator.engine.types import Json

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False
)


def canonical(value: Json) -> bytes:
    """The value as canonical JSON: sorted keys, no spaces, ASCII only.

    ASCII, because file names that are not UTF-8 travel as lone surrogates, which UTF-8 cannot hold.

    Raises:
        ValueError: NaN or an infinity, which JSON has no word for.
        TypeError: something that is not of the JSON data model.
        RecursionError: it is nested without end.
    """
    return _ENCODER.encode(value).encode("ascii")


def is_json(value: Json) -> bool:
    """Whether a value from outside is of the JSON data model, and not nested without end."""
    try:
        _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def digest(value: Json) -> str:
    """SHA-256 of the canonical form, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()
