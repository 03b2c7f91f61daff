"""One byte form for one value, so that equal things have equal digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from orchestrator.engine.types import Json


def _refuse(value: object) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is not of the JSON data model")


# ``JSONEncoder.encode`` makes one of these for each value; a small one takes twice as long to
# encode for it. No indent, sorted keys, no keys passed over, no NaN.
_standard: Any = json.encoder
_chunks: Callable[[Json, int], Iterable[str]] = _standard.c_make_encoder(
    None, _refuse, json.encoder.encode_basestring_ascii, None, ":", ",", True, False, False
)


def canonical(value: Json) -> bytes:
    """The value as canonical JSON: sorted keys, no spaces, ASCII only.

    ASCII, because file names that are not UTF-8 travel as lone surrogates, which UTF-8 cannot hold.

    Raises:
        ValueError: NaN or an infinity, which JSON has no word for.
        TypeError: something that is not of the JSON data model.
        RecursionError: it is nested without end.
    """
    return "".join(_chunks(value, 0)).encode("ascii")


def is_json(value: Json) -> bool:
    """Whether a value from outside is of the JSON data model, and not nested without end."""
    try:
        _chunks(value, 0)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def digest(value: Json) -> str:
    """SHA-256 of the canonical form, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()
