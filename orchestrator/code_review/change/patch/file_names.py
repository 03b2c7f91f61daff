"""File names as patches write them: quoted in C style, with or without a prefix."""

import re
from collections.abc import Sequence

Names = tuple[bytes | None, bytes | None]  # old and new, None for /dev/null

_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = {
    b"a": b"\a",
    b"b": b"\b",
    b"t": b"\t",
    b"n": b"\n",
    b"v": b"\v",
    b"f": b"\f",
    b"r": b"\r",
}
_PLAIN = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\')
_QUOTED = rb'"(?:[^"\\]|\\.)*"'
_PAIR = re.compile(rb"(%s|\S+) (%s|\S+)" % (_QUOTED, _QUOTED))
_PREFIXES = (
    (b"a/", b"b/"),
    (b"i/", b"w/"),
    (b"c/", b"i/"),
    (b"c/", b"w/"),
    (b"o/", b"w/"),
    (b"1/", b"2/"),
)


def unquote(name: bytes) -> bytes:
    """The name itself, of one that git may have quoted."""
    if len(name) < 2 or not (name.startswith(b'"') and name.endswith(b'"')):
        return name

    def plain(escape: re.Match[bytes]) -> bytes:
        code = escape[1]
        return bytes([int(code, 8) & 255]) if len(code) == 3 else _ESCAPES.get(code, code)

    return _ESCAPE.sub(plain, name[1:-1])


def quote(name: bytes) -> bytes:
    """The name in git's C style, always quoted."""
    return b'"%s"' % b"".join(bytes([c]) if c in _PLAIN else b"\\%03o" % c for c in name)


def parse_header_name(text: bytes) -> bytes | None:
    """The name in a ``---`` or ``+++`` line without its time stamp, None for /dev/null."""
    name = text if text.startswith(b'"') else text.split(b"\t", 1)[0]
    return None if name == b"/dev/null" else unquote(name.rstrip(b"\t"))


def parse_opening_names(text: bytes) -> Names | None:
    """The two names of a ``diff --git`` line, None when they cannot be distinguished.

    They are equal but for their prefixes there, unless the file was renamed.
    """
    pair = _PAIR.fullmatch(text)
    if pair:
        return unquote(pair[1]), unquote(pair[2])
    middle = len(text) // 2
    old, new = text[:middle], text[middle + 1 :]
    same = old == new or old.partition(b"/")[2] == new.partition(b"/")[2]
    return (old, new) if same and text[middle : middle + 1] == b" " else None


def _has_prefixes(pair: Names) -> bool:
    old, new = pair
    return any(
        (old is None or old.startswith(before)) and (new is None or new.startswith(after))
        for before, after in _PREFIXES
    )


def strip_level(pairs: Sequence[Names]) -> int:
    """How many leading components are prefixes: 0 or 1, for the whole patch."""
    if all(_has_prefixes(pair) for pair in pairs):
        return 1
    if any(old == new or old is None or new is None for old, new in pairs):
        return 0
    return int(all(b"/" in name for pair in pairs for name in pair if name))


def strip(name: bytes | None, level: int) -> bytes | None:
    """The name without its prefix; as it is when it has none."""
    return None if name is None else name.split(b"/", level)[-1]
