"""Text in base64: a file that a Secret, a variable or a program holds; also compressed by gzip."""

import base64
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

_MAX_ENCODED = 2 << 20  # characters of one value
_MAX_DECODED = 1 << 20  # bytes
_PEEK = 64  # characters that tell what a value is
_CHARACTERS = r"[A-Za-z0-9+/_-]"
# What separates the lines of one value: in YAML, a string with escapes, or joined strings.
_JOINT = r"(?:\\n|[\"'`]?[ \t]{0,20}[+.&\\]?[ \t]{0,20}\n[ \t]{0,80}[\"'`]?)"
_VALUE = re.compile(
    rf"(?<!{_CHARACTERS}){_CHARACTERS}{{24,}}+"
    rf"(?:{_JOINT}{_CHARACTERS}{{4,}}+(?=[ \t]*(?:=|\\|[\"'`]|\n|\Z)))*+={{0,2}}"
)
_NOT_ENCODED = re.compile(r"\\n|[^A-Za-z0-9+/_-]")
_GZIP = b"\x1f\x8b\x08"
_PEM = "LS0tLS1CRUdJTi"  # -----BEGIN, in base64
_CONTROL = bytes(range(9)) + bytes(range(14, 32)) + b"\x7f"
# DER: PKCS #8 with its algorithm, PKCS #1, and SEC 1; then OpenSSH's own format.
_KEY = re.compile(
    rb"\x30(?:\x82..|\x81.|[\x2a-\x7f])\x02\x01"
    rb"(?:[\0\x01]\x30.\x06|\0\x02(?:[\x81\x82]|[\x40-\x7f])|\x01\x04[\x14-\x48])"
    rb"|openssh-key-v1\0\0\0\0\x04none",
    re.DOTALL,
)
# PKCS #12, version 3; PKCS #8 with encryption; a Java keystore; OpenSSH with a cipher.
_LOCKED_KEY = re.compile(
    rb"\x30(?:\x82..|\x80)\x02\x01\x03\x30|\x30\x82..\x30.\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05"
    rb"|\xfe\xed\xfe\xed\0\0\0[\x01\x02]|\xce\xce\xce\xce\0\0\0\x02|openssh-key-v1\0",
    re.DOTALL,
)


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
    if _KEY.match(data):
        return "private-key"
    return "encrypted-private-key" if _LOCKED_KEY.match(data) else ""


def find_encoded(text: str) -> Iterator[Encoded]:
    """Find the values that decode to text or to a private key; random bytes are neither."""
    for match in _VALUE.finditer(text):
        start = match.start() + max(0, match[0].find(_PEM, 0, _PEEK))
        data = decode_value(text[start : min(match.end(), start + _MAX_ENCODED)])
        if data and (again := _VALUE.fullmatch(data.strip().decode("latin-1"))):
            data = decode_value(again[0]) or data  # Helm encodes a release twice
        if data:
            yield Encoded(start, match.end(), data)


def decode_value(value: str) -> bytes:
    """Decode base64 of either alphabet, and expand gzip; empty: neither text nor a key."""
    plain = _NOT_ENCODED.sub("", value).translate(str.maketrans("-_", "+/"))
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
