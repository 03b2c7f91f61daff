"""The bytes of a Python file as text: by the encoding it declares, where that one hides nothing.

Python obeys a comment such as ``coding: utf-7``, under which ``# +AAo-import os`` is two lines and
the second one is run. Whoever else looks at the file sees a comment.
"""

import codecs
import io
import re
from importlib.util import decode_source
from tokenize import detect_encoding

# By Python's own names. Punycode, for one, is ASCII as well, and takes hours for a megabyte.
_USUAL = re.compile(
    r"utf-8(?:-sig)?|ascii|(?:big5|cp|euc_|gb|iso8859-|koi8-|mac-)[\w-]*|johab|shift_jis|tis-620"
)
_ASCII = bytes(range(128))


class HiddenTextError(ValueError):
    """The file declares an encoding under which it is another text than it looks."""

    def __init__(self, encoding: str) -> None:
        super().__init__(
            f"its encoding, {encoding}, decodes it to text other than what readers see"
        )


def decode_python(data: bytes) -> str:
    """The text that Python reads, lines ended by a line feed.

    Raises:
        HiddenTextError: ASCII characters are not what they look like in it.
        SyntaxError, ValueError: it is not text of its encoding, or there is no such encoding.
    """
    name, _ = detect_encoding(io.BytesIO(data).readline)
    usual = _USUAL.fullmatch(codecs.lookup(name).name)
    if not usual or _ASCII.decode(name, "replace") != _ASCII.decode("ascii"):
        raise HiddenTextError(name)
    return decode_source(data)
