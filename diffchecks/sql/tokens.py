"""A lexer for SQL of any dialect; tokens know their line and their quoted routine bodies.

One lexer reads PostgreSQL, MySQL, SQL Server, Oracle and SQLite, because a file rarely names its
dialect. The delimiter of a quoted body (``$$``) is a token, and the body is tokenized like the
rest.
"""

from msgspec import Struct

from diffchecks.check_io import Gap
from diffchecks.data_files import read_patterns

_PATTERNS = read_patterns("sql_tokens")


class Token(Struct, frozen=True):
    """A word, symbol or literal.

    Attributes:
        kind: ``word``, ``name`` (quoted), ``text``, ``number``, ``sign`` or ``dollar``.
        value: a word in upper case; a quoted name without its quotes, in upper case too.
        line: 1-based.
        body: number of enclosing quoted bodies.
    """

    kind: str
    value: str
    line: int
    body: int = 0

    @property
    def is_identifier(self) -> bool:
        """Whether it is or may be an identifier."""
        return self.kind in {"word", "name"}


def read_tokens(text: str) -> list[Token]:
    """Tokenize a file.

    Raises:
        Gap: a text, a comment or a quoted body is not closed.
    """
    tokens: list[Token] = []
    bodies: list[str] = []
    at, line, escapes = 0, 1, _PATTERNS["mysql"].search(text) is not None
    while at < len(text):
        found = _PATTERNS["token"].match(text, at)
        assert found is not None  # the last alternative takes any character
        kind, end = str(found.lastgroup), found.end()
        if kind == "comment":
            end = _after_comment(text, at, line)
        elif kind == "text":
            end = _after_text(text, end - 1, line, escapes or found[0] in {"e'", "E'"})
        elif kind == "dollar":
            bodies = bodies[:-1] if bodies[-1:] == [found[0]] else [*bodies, found[0]]
        if kind not in {"space", "comment"}:
            value = text[at:end]
            value = value.strip('"`[]') if kind == "name" else value
            tokens.append(
                Token(kind, value if kind == "text" else value.upper(), line, len(bodies))
            )
        line += text.count("\n", at, end)
        at = end
    if bodies:
        raise Gap(f"the quoted body {bodies[-1]} is not closed")
    return tokens


def _after_comment(text: str, at: int, line: int) -> int:
    end = text.find("*/", at + 2)
    if end < 0:
        raise Gap(f"the comment that begins in line {line} is not closed")
    return end + 2


def _after_text(text: str, at: int, line: int, escapes: bool) -> int:
    found = (_PATTERNS["escaped_text_end"] if escapes else _PATTERNS["text_end"]).match(text, at)
    if found is None:
        raise Gap(f"the text that begins in line {line} is not closed")
    return found.end()
