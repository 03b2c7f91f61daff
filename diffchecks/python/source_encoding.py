"""Decodes a Python file by its declared encoding, unless that hides text.

Python obeys a comment such as ``coding: utf-7``, with which ``# +AAo-import os`` is two lines, the
second of which is executed. Other readers of the file see a comment.
"""

import codecs
import io
from importlib.util import decode_source
from tokenize import detect_encoding

from diffchecks.data_files import read_patterns

# By Python's own names. Punycode, for example, is also ASCII, and takes hours for a megabyte.
_USUAL = read_patterns("source_encoding")["usual"]
_ASCII = bytes(range(128))


class HiddenTextError(ValueError):
    """The file declares an encoding with which its text differs from what readers see."""

    def __init__(self, encoding: str) -> None:
        super().__init__(
            f"its encoding, {encoding}, decodes it to text other than what readers see"
        )


def decode_python(data: bytes) -> str:
    """The text as Python reads it, with line feeds as line ends.

    Raises:
        HiddenTextError: it changes the meaning of ASCII characters.
        SyntaxError, ValueError: it is not valid in its encoding, or the encoding is unknown.
    """
    name, _ = detect_encoding(io.BytesIO(data).readline)
    usual = _USUAL.fullmatch(codecs.lookup(name).name)
    if not usual or _ASCII.decode(name, "replace") != _ASCII.decode("ascii"):
        raise HiddenTextError(name)
    return decode_source(data)
