"""Canonical JSON: one byte form for each value, so that equal values have equal digests."""

import hashlib
import json
from collections.abc import Callable
from json import encoder

from orchestrator.engine.types import Json


def _make_encode() -> Callable[[Json], str]:
    """A function that encodes; a turn of an agent calls it a dozen times."""
    whole = json.JSONEncoder(
        sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False
    )
    make = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return whole.encode
    # ``encode`` makes one of these at each call.
    parts = make(
        None, whole.default, encoder.encode_basestring_ascii, None, ":", ",", True, False, False
    )
    return lambda value: "".join(parts(value, 0))


_encode = _make_encode()


def canonical(value: Json) -> bytes:
    """The value as canonical JSON: sorted keys, no spaces, ASCII only.

    ASCII, because file names that are not UTF-8 are held as lone surrogates, which UTF-8 cannot
    encode.

    Raises:
        ValueError: NaN or an infinity, which JSON does not have.
        TypeError: a value outside the JSON data model.
        RecursionError: it is nested too deeply.
    """
    return _encode(value).encode("ascii")


def is_json(value: Json) -> bool:
    """Whether a value from outside fits the JSON data model and is not nested too deeply."""
    try:
        _encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def digest(value: Json) -> str:
    """SHA-256 of the canonical form, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()
