"""Routines that execute statements built from their parameters.

A parameter of a text type is followed through assignments to the executed variable or expression.
Quoting as an identifier or a literal makes it safe.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from diffchecks.data_files import read_names, read_patterns
from diffchecks.sql.tokens import Token

_PATTERNS = read_patterns("dynamic_statements")
_QUOTING = read_names("sql_quoting")
_TEXT_TYPES = read_names("sql_text_types")
_JOINING = frozenset(["CONCAT", "CONCAT_WS", "REPLACE", "FORMAT", "FORMATMESSAGE"])
_NO_STATEMENT = frozenset(["PROCEDURE", "FUNCTION", "ON", "TO", "AS", "PERMISSION"])
_MAX_TOKENS = 500  # maximum tokens per expression, so that a file takes linear time
_ENDS = frozenset([";", "USING", "INTO", "LOOP", "GO", "END"])
_BEFORE_PARAMETER = frozenset(["(", ",", "IN", "OUT", "INOUT", "VARIADIC"])
_HEADER_ENDS = frozenset(["AS", "IS", "BEGIN", "RETURNS", "RETURN", "LANGUAGE", ";"])


def find_dynamic_statements(tokens: Sequence[Token]) -> Iterator[Token]:
    """Find keywords that execute a statement built from a parameter of the routine."""
    starts = [at for at, token in enumerate(tokens) if _begins_routine(tokens, at)]
    for start, end in pairwise([*starts, len(tokens)]):
        yield from _in_routine(tokens[start:end])


def _begins_routine(tokens: Sequence[Token], at: int) -> bool:
    if tokens[at].value not in {"FUNCTION", "PROCEDURE", "PROC"}:
        return False
    before = {token.value for token in tokens[max(0, at - 5) : at]}
    return not before.isdisjoint({"CREATE", "ALTER", "REPLACE"}) and "EXECUTE" not in before


def _in_routine(tokens: Sequence[Token]) -> Iterator[Token]:
    one_of_some = _PATTERNS["listed"].findall(" ".join(token.value for token in tokens))
    tainted, built = set(_text_parameters(tokens)).difference(one_of_some), set[str]()
    for at, token in enumerate(tokens):
        target, first = _assignment(tokens, at)
        if target:
            value = _expression(tokens, first)
            if _carries(value, tainted | built):
                (built if _is_joined(value) or _carries(value, built) else tainted).add(target)
            elif target in built and not any(part.value == target for part in value):
                built.discard(target)
        elif token.value in {"EXECUTE", "EXEC", "PREPARE"} and token.kind == "word":
            value = _executed(tokens, at)
            if _carries(value, built) or (_is_joined(value) and _carries(value, tainted)):
                yield token


def _text_parameters(tokens: Sequence[Token]) -> Iterator[str]:
    """Parameters that the header declares with a text type; SQL Server needs no parentheses."""
    depth = 0
    for at, token in enumerate(tokens[:-1]):
        if token.value in {"(", ")"}:
            depth += 1 if token.value == "(" else -1
            if depth == 0 and token.value == ")" and at > 2 and tokens[1].value[:1] != "@":
                closing = tokens[at + 1].value
                if closing in _HEADER_ENDS or closing[:1] != "@":
                    return
        if depth == 0 and token.value in _HEADER_ENDS and at > 1:
            return
        kind = at + 2 if tokens[at + 1].value in {"IN", "INOUT", "AS"} else at + 1
        declared = tokens[kind].value if kind < len(tokens) else ""
        first = tokens[at - 1].value in _BEFORE_PARAMETER or token.value.startswith("@")
        if first and declared in _TEXT_TYPES and token.is_identifier:
            yield token.value


def _assignment(tokens: Sequence[Token], at: int) -> tuple[str, int]:
    """The variable assigned at a place, and the start of its value."""
    token = tokens[at]
    if not token.is_identifier or at + 2 >= len(tokens):
        return "", 0
    following = tokens[at + 1].value
    if following == ":=" or (following == "+" and tokens[at + 2].value == "="):
        return token.value, at + 2
    before = tokens[at - 1].value if at else ""
    if following == "=" and (before == "SET" or token.value.startswith("@")):
        return token.value, at + 2
    if (token.value.startswith("@") and before == "DECLARE") or following in _TEXT_TYPES:
        for place in range(at + 1, min(at + 8, len(tokens) - 1)):
            if tokens[place].value in {";", ","}:
                break
            if tokens[place].value in {"=", ":=", "DEFAULT"}:
                return token.value, place + 1
    return "", 0


def _executed(tokens: Sequence[Token], at: int) -> Sequence[Token]:
    """The expression or variable that is executed at a place; empty: none."""
    first = at + 1
    if tokens[at].value == "PREPARE":
        names = [token.value for token in tokens[at : at + 4]]
        return tokens[at + 3 : at + 4] if "FROM" in names[:3] else ()
    while first < len(tokens) and tokens[first].value in {"IMMEDIATE", "(", "SYS", "DBO", "."}:
        first += 1
    if first < len(tokens) and tokens[first].value == "SP_EXECUTESQL":
        first += 1
        if tokens[first + 1 : first + 2] and tokens[first + 1].value == "=":
            first += 2
        value = _expression(tokens, first)
        comma = next((n for n, part in enumerate(value) if part.value == ","), len(value))
        return value[:comma]
    if first >= len(tokens) or tokens[first].value in _NO_STATEMENT:
        return ()
    if tokens[at].value == "EXEC" and tokens[at + 1].value != "(":
        return ()  # a procedure of SQL Server, whose arguments are values
    return _expression(tokens, first)


def _expression(tokens: Sequence[Token], first: int) -> Sequence[Token]:
    """The tokens up to the end of the statement, or up to the enclosing closing parenthesis."""
    depth, last = 0, min(len(tokens), first + _MAX_TOKENS)
    for at in range(first, last):
        value = tokens[at].value
        depth += (value == "(") - (value == ")")
        if depth < 0 or (depth == 0 and tokens[at].kind != "text" and value in _ENDS):
            return tokens[first:at]
        if depth == 0 and tokens[at].kind == "word" and value in {"EXEC", "EXECUTE", "SET", "IF"}:
            return tokens[first:at]  # SQL Server needs no semicolon
    return tokens[first:last]


def _is_joined(value: Sequence[Token]) -> bool:
    """Whether an expression concatenates text."""
    if not any(token.kind == "text" for token in value):
        return False
    return any(token.value in {"||", "+"} or token.value in _JOINING for token in value)


def _carries(value: Sequence[Token], names: set[str]) -> bool:
    """Whether an expression contains one of these variables unquoted."""
    depth, quoted, placed = 0, -1, _placed(value)
    for at, token in enumerate(value):
        if token.value == "(":
            depth += 1
            if quoted < 0 and at and value[at - 1].value in _QUOTING:
                quoted = depth
        elif token.value == ")":
            quoted = -1 if quoted == depth else quoted
            depth -= 1
        elif token.is_identifier and token.value in names and quoted < 0 and at not in placed:
            after = [part.value for part in value[at + 1 : at + 3]]
            if after[:1] != ["::"] or (after[1:] and after[1] in _TEXT_TYPES):
                return True
    return False


def _placed(value: Sequence[Token]) -> set[int]:
    """The places of what ``format`` puts in as an identifier or a literal."""
    first = next((at for at, token in enumerate(value) if token.value == "FORMAT"), len(value))
    kinds, number, depth, placed = dict[int, str](), -1, 0, set[int]()
    for at, token in enumerate(value[first + 1 :], first + 1):
        depth += (token.value == "(") - (token.value == ")")
        if depth <= 0:
            break
        number += depth == 1 and token.value == ","
        for which, kind in _PATTERNS["placeholder"].findall(token.value) if number < 0 else ():
            kinds[int(which or len(kinds) + 1) - 1] = kind
        if kinds.get(number, "s") != "s":
            placed.add(at)
    return placed
