"""Private keys, and text in base64 that a Secret, a variable or a program holds, perhaps with gzip.

Keys are PEM and OpenPGP blocks, keys of PuTTY and OpenVPN, JSON and XML. A marker without a key is
not a finding.
"""

import base64
import hashlib
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from diffchecks.data_files import read_patterns
from diffchecks.secrets.secret_plausibility import Hit

_MAX_ENCODED = 2 << 20  # characters of one value
_MAX_DECODED = 1 << 20  # bytes
_PEEK = 64  # characters that tell what a value is
_GZIP = b"\x1f\x8b\x08"
_PEM = "LS0tLS1CRUdJTi"  # -----BEGIN, in base64
_CONTROL = bytes(range(9)) + bytes(range(14, 32)) + b"\x7f"


class Encoded(NamedTuple):
    """A value in base64, as its place in the text, and what it decodes to."""

    start: int
    end: int
    data: bytes

    @property
    def key(self) -> str:
        """The code of the private key that it is; empty if it is text."""
        return key_code(self.data)

    @property
    def text(self) -> str:
        """Its text, with ``\\n`` for line ends."""
        return self.data.decode("utf-8", "replace").replace("\r\n", "\n")


def key_code(data: bytes) -> str:
    """The code of the private key that begins so; empty if it is none."""
    text = data.decode("latin-1")
    if _PATTERNS["key"].match(text):
        return "private-key"
    return "encrypted-private-key" if _PATTERNS["locked_key"].match(text) else ""


def find_encoded(text: str) -> Iterator[Encoded]:
    """Find the values that decode to text or to a private key; random bytes are neither."""
    for match in _PATTERNS["encoded"].finditer(text):
        start = match.start() + max(0, match[0].find(_PEM, 0, _PEEK))
        data = decode_value(text[start : min(match.end(), start + _MAX_ENCODED)])
        if data and (again := _PATTERNS["encoded"].fullmatch(data.strip().decode("latin-1"))):
            data = decode_value(again[0]) or data  # Helm encodes a release twice
        if data:
            yield Encoded(start, match.end(), data)


def decode_value(value: str) -> bytes:
    """Decode base64 of either alphabet, and expand gzip; empty: neither text nor a key."""
    plain = _PATTERNS["not_encoded"].sub("", value).translate(str.maketrans("-_", "+/"))
    start = _decode(plain[:_PEEK])
    if start.startswith(_GZIP):
        with suppress(zlib.error):
            data = zlib.decompressobj(31).decompress(_decode(plain), _MAX_DECODED)
            return data if _tells(data[:_PEEK]) else b""
    return _decode(plain) if _tells(start) else b""


def _decode(plain: str) -> bytes:
    whole = plain[: len(plain) - (len(plain) % 4 == 1)]
    return base64.b64decode(whole + "=" * (-len(whole) % 4))


def _tells(start: bytes) -> bool:
    """Whether what begins so is text, or a key; a character may be cut at the end."""
    if key_code(start):
        return True
    readable = start.translate(None, _CONTROL).decode("utf-8", "ignore")
    return len(readable.encode()) >= len(start) - 3


_PATTERNS = read_patterns("private_keys")
MAX_LENGTH = 20_000
_EXAMPLE = "Private key in a test, an example, or documentation"


def _pem(text: str, start: int, kind: str) -> tuple[int, int, str, bool] | None:
    """The span, base64 and encryption of a block whose first marker ends at start."""
    other = text.find("-----BEGIN ", start, start + MAX_LENGTH)  # no key contains another
    last = other if other >= 0 else start + MAX_LENGTH
    end = _PATTERNS["pem_end"].search(text, start, last)
    inside = text[start : end.start() if end else last]
    encrypted = "ENCRYPTED" in kind or "Proc-Type: 4,ENCRYPTED" in inside
    packed = _PATTERNS["filler"].sub("", _PATTERNS["header"].sub("", inside))
    body = _PATTERNS["base64"].match(packed)
    if not body or len(set(body[0])) < 16:
        return None
    if "OPENSSH" in kind:
        encrypted = key_code(decode_value(body[0])) == "encrypted-private-key"
    return start, (end.start() if end else start + len(body[0])), body[0], encrypted


def _putty(text: str, start: int) -> tuple[int, int, str, bool] | None:
    body = _PATTERNS["putty_body"].search(text, start, start + MAX_LENGTH)
    if not body:
        return None
    encrypted = not re.search(r"^Encryption: none", text[start : body.start()], re.MULTILINE)
    return *body.span(1), "".join(body[1].split()), encrypted


def private_key(code: str, start: int, end: int, *, example: bool) -> Hit:
    """The hit for a key; example keys and encrypted keys have codes of their own."""
    if example:
        return Hit("example-private-key", _EXAMPLE, start, end)
    return Hit(code, code.capitalize().replace("-", " "), start, end)


def find_private_keys(text: str, *, example: bool) -> Iterator[Hit]:
    """Find all private keys.

    The span is from the first marker to the end of the key, usually over several lines.
    """
    for begin in _PATTERNS["begin"].finditer(text):
        key = _putty(text, begin.end()) if begin[1] is None else _pem(text, begin.end(), begin[1])
        if key is None:
            continue
        start, end, body, encrypted = key
        identity = hashlib.sha256(body.encode("ascii")).hexdigest()[:16]
        code = "encrypted-private-key" if encrypted else "private-key"
        yield private_key(code, start, end, example=example)._replace(key=identity)
    if any(marker in text for marker in ("OpenVPN Static", '"kty"', "<RSAKeyValue>")):
        for whole in _PATTERNS["whole"].finditer(text):
            start, end = whole.span(str(whole.lastgroup))
            yield private_key("private-key", start, end, example=example)
